"""NodeDeclaredFeatures: a pod that needs a kubelet feature goes where the kubelet declares it.

Mirrors pkg/scheduler/framework/plugins/nodedeclaredfeatures. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kscheduler.api.core import Container, Node, Pod
from kscheduler.framework.cluster_event import (
    NODE,
    TARGET_POD,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.verdict import SKIP, Rejection, Status, unresolvable
from kscheduler.state.declared_features import KNOWN_FEATURES, feature_bits
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

REASON = "node(s) didn't match Pod's required features"


class NodeDeclaredFeatures:
    name = "NodeDeclaredFeatures"

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return None if required_features(pod.pod) else SKIP

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        required = np.uint64(required_features(pod.pod))
        yield unresolvable((nodes.declared_features & required) != required, REASON)

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


def required_features(pod: Pod) -> int:
    """Bits of the features that the pod's spec cannot do without."""
    spec = pod.spec
    containers = (*spec.init_containers, *spec.containers)
    needed = []
    if any(_restarts_all(container) for container in containers):
        needed.append("RestartAllContainersOnContainerExits")
    if spec.host_network and spec.host_users is False:
        needed.append("UserNamespacesHostNetworkSupport")
    if any(_has_mount_options(one) for one in (*containers, *spec.ephemeral_containers)):
        needed.append("VolumeBindMountOptions")
    return feature_bits(needed)


def _restarts_all(container: Container) -> bool:
    return any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules)


def _has_mount_options(container: Container) -> bool:
    return any(mount.bind_mount_options for mount in container.volume_mounts)
