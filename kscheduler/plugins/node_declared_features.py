"""NodeDeclaredFeatures: a pod that needs a kubelet feature goes where the kubelet declares it.

Mirrors pkg/scheduler/framework/plugins/nodedeclaredfeatures. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kscheduler.api.core import Container, Node, Pod
from kscheduler.extension_points import Point
from kscheduler.framework.cluster_event import (
    NODE,
    TARGET_POD,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.status import SKIP, Code, Rejection, Status, unresolvable
from kscheduler.state.nodes import KNOWN_FEATURES, feature_bits
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

REASON = "node(s) didn't match Pod's required features"
NOT_PREPARED = 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found'


class RequiredFeatures(NamedTuple):
    bits: int


@plugin(gate="NodeDeclaredFeatures", also_at=(Point.PRE_FILTER,))
class NodeDeclaredFeatures:
    name = "NodeDeclaredFeatures"
    local = True

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        bits = required_features(pod.pod)
        if not bits:
            return SKIP
        cycle.put(RequiredFeatures(bits))
        return None

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        required = cycle.get(RequiredFeatures)
        if required is None:
            yield Rejection(nodes.valid, Code.ERROR, NOT_PREPARED)
            return
        bits = np.uint64(required.bits)
        yield unresolvable((nodes.declared_features & bits) != bits, REASON)

    def events_to_register(self) -> Sequence[EventWithHint]:
        declared = Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE
        return [
            EventWithHint(ClusterEvent(NODE, declared), self._node_changed),
            EventWithHint(ClusterEvent(TARGET_POD, Action.UPDATE), self._pod_changed),
        ]

    def sign(self, pod: PodInfo) -> Mapping[str, object]:
        required = required_features(pod.pod)
        bits = "".join(str(required >> bit & 1) for bit in range(len(KNOWN_FEATURES)))
        return {"v1.Pod.Spec.RequiredFeatures()": bits}

    def _node_changed(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        unchanged = old is not None and old.status.declared_features == new.status.declared_features
        return Hint.SKIP if unchanged else Hint.QUEUE

    def _pod_changed(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
        unchanged = required_features(old.pod) == required_features(new.pod)
        return Hint.SKIP if unchanged else Hint.QUEUE


RESTART_ALL = feature_bits(["RestartAllContainersOnContainerExits"])
USER_NAMESPACES = feature_bits(["UserNamespacesHostNetworkSupport"])
MOUNT_OPTIONS = feature_bits(["VolumeBindMountOptions"])


def required_features(pod: Pod) -> int:
    """Bits of the features that the pod's spec cannot do without."""
    spec = pod.spec
    bits = _needed_by(spec.containers) | _needed_by(spec.init_containers)
    if spec.ephemeral_containers:
        bits |= _needed_by(spec.ephemeral_containers) & MOUNT_OPTIONS
    if spec.host_network and spec.host_users is False:
        bits |= USER_NAMESPACES
    return bits


def _needed_by(containers: Iterable[Container]) -> int:
    bits = 0
    for container in containers:
        for rule in container.restart_policy_rules:
            if rule.action == "RestartAllContainers":
                bits |= RESTART_ALL
        for mount in container.volume_mounts:
            if mount.bind_mount_options:
                bits |= MOUNT_OPTIONS
    return bits
