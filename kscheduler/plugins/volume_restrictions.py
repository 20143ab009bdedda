"""VolumeRestrictions: a volume for one pod only is not given to a second.

Mirrors pkg/scheduler/framework/plugins/volumerestrictions. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import PersistentVolumeClaim
from kscheduler.api.requests import is_resize_deferred
from kscheduler.api.resources import PERSISTENT_VOLUME_CLAIMS
from kscheduler.framework.cluster_event import (
    ASSIGNED_POD,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.handle import Handle
from kscheduler.framework.in_tree import UpdatePods
from kscheduler.framework.status import (
    SKIP,
    Code,
    Mask,
    Rejection,
    Rows,
    Status,
    failed,
    rejected_for_good,
    unschedulable,
)
from kscheduler.gotext.strconv import quote
from kscheduler.plugins.helper import signers
from kscheduler.state.disks import any_disks_conflict
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

DISK_REASON = "node(s) had no available disk"
CLAIM_REASON = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)
NOT_PREPARED = 'cannot read "PreFilterVolumeRestrictions" from cycleState'
READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class ExclusiveClaims(msgspec.Struct):
    """The pod's ReadWriteOncePod claims, and how many uses by other pods there are."""

    names: frozenset[str]
    in_use: int
    # By row, uses more or less because of pods tracked on that row; None unless they are.
    own: NDArray[np.intp] | None = None

    def clone(self) -> ExclusiveClaims:
        own = None if self.own is None else self.own.copy()
        return ExclusiveClaims(self.names, self.in_use, own)

    def count(self, other: PodInfo, by: int) -> None:
        self.in_use += by * self._uses(other)

    def _uses(self, other: PodInfo) -> int:
        # Upstream does not ask which namespace the other pod is in.
        return sum(_name(claim) in self.names for claim in other.claims)

    def track_pods(self, pods: Sequence[PodInfo], row_of_pod: Rows, length: int) -> UpdatePods:
        uses = np.array([self._uses(pod) for pod in pods], np.intp)
        own = self.own = np.zeros(length, np.intp) if self.own is None else self.own

        def update(which: Rows, by: int) -> None:
            np.add.at(own, row_of_pod[which], by * uses[which])

        return update

    def are_used(self, nodes: Nodes) -> Mask:
        if self.own is None:
            return nodes.valid if self.in_use > 0 else np.zeros(len(nodes), np.bool_)
        return self.in_use + self.own.take(nodes.rows) > 0


@plugin(reads=(PERSISTENT_VOLUME_CLAIMS,))
class VolumeRestrictions:
    name = "VolumeRestrictions"

    def __init__(self, args: None, handle: Handle) -> None:
        self._claims = handle.listers.lister(PersistentVolumeClaim)
        self._passes_resizes = handle.gates.enabled("InPlacePodVerticalScalingSchedulerPreemption")

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if not (pod.claims or pod.disks):
            return SKIP
        if self._passes_resizes and is_resize_deferred(pod.pod):
            return SKIP
        exclusive = set()
        for key in pod.claims:
            claim = self._claims.get(key)
            if claim is None:
                return rejected_for_good(f"persistentvolumeclaim {quote(_name(key))} not found")
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                exclusive.add(key)
        in_use = sum(map(nodes.pvc_in_use, exclusive))
        if not (pod.disks or in_use):
            return SKIP
        cycle.put(ExclusiveClaims(frozenset(map(_name, exclusive)), in_use))
        return None

    def add_pod(
        self, cycle: CycleState, pod: PodInfo, added: PodInfo, row: int, nodes: Nodes
    ) -> Status | None:
        return _count(cycle, added, 1)

    def remove_pod(
        self, cycle: CycleState, pod: PodInfo, removed: PodInfo, row: int, nodes: Nodes
    ) -> Status | None:
        return _count(cycle, removed, -1)

    def track_pods_by_row(
        self, cycle: CycleState, pods: Sequence[PodInfo], row_of_pod: Rows, nodes: Nodes
    ) -> UpdatePods:
        return cycle[ExclusiveClaims].track_pods(pods, row_of_pod, len(nodes.whole))

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        in_use = np.zeros(len(nodes), np.bool_)
        # Each once: a pod may mount one disk under thousands of names.
        for use in set(pod.disks):
            in_use |= nodes.disk_in_use(use)
        yield unschedulable(in_use, DISK_REASON)
        claims = cycle.get(ExclusiveClaims)
        if claims is None:
            yield Rejection(nodes.valid & ~in_use, Code.ERROR, NOT_PREPARED)
        else:
            yield unschedulable(claims.are_used(nodes) & ~in_use, CLAIM_REASON)

    def events_to_register(self) -> Sequence[EventWithHint]:
        return [
            EventWithHint(ClusterEvent(ASSIGNED_POD, Action.DELETE), _pod_deleted),
            EventWithHint(ClusterEvent(NODE, Action.ADD)),
            EventWithHint(ClusterEvent(PERSISTENT_VOLUME_CLAIM, Action.ADD), _claim_added),
        ]

    def sign(self, pod: PodInfo) -> Mapping[str, object] | Status:
        return signers.volumes(pod)


def _name(claim: str) -> str:
    return claim.partition("/")[2]


def _count(cycle: CycleState, other: PodInfo, by: int) -> Status | None:
    exclusive = cycle.get(ExclusiveClaims)
    if exclusive is None:
        return failed(NOT_PREPARED)
    exclusive.count(other, by)
    return None


def _pod_deleted(pod: PodInfo, old: PodInfo, new: None) -> Hint:
    if old.namespace != pod.namespace:
        return Hint.SKIP
    frees_disk = any_disks_conflict(pod.disks, old.disks)
    frees_claim = not set(pod.claims).isdisjoint(old.claims)
    return Hint.QUEUE if frees_disk or frees_claim else Hint.SKIP


def _claim_added(pod: PodInfo, old: None, new: PersistentVolumeClaim) -> Hint:
    return Hint.QUEUE if new.key in pod.claims else Hint.SKIP
