"""VolumeBinding: a pod goes where its volumes are, can be bound, or can be made.

Mirrors pkg/scheduler/framework/plugins/volumebinding. Differs: a capacity that is not published,
where upstream crashes, does not count in the score; volumes and claims that were written stay
assumed until the API server reports them, even when the attempt fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Self

import msgspec
import numpy as np

from kscheduler import logs
from kscheduler.api import quantity
from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.field_errors import FieldError, Path, invalid
from kscheduler.api.requests import is_resize_deferred
from kscheduler.api.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from kscheduler.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from kscheduler.api.volume_claims import MIGRATED_PLUGINS
from kscheduler.config.dump import internal_json
from kscheduler.config.plugin_args import Gates, PluginArgs, UtilizationShapePoint, shape_errors
from kscheduler.config.wire import OMIT_EMPTY, Int64
from kscheduler.errors import KschedulerError
from kscheduler.framework.cluster_event import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.handle import Handle
from kscheduler.framework.plugin import PreFlight
from kscheduler.framework.status import SKIP, Code, Rejection, Scores, Status, failed
from kscheduler.gotext.strconv import quote
from kscheduler.plugins.helper import signers
from kscheduler.plugins.volume_binding.assume_cache import PVAssumeCache, PVCAssumeCache
from kscheduler.plugins.volume_binding.binder import AssumedPodVolumes, VolumeBinder, claims_of
from kscheduler.plugins.volume_binding.capacity import Capacities, limit_of
from kscheduler.plugins.volume_binding.find_volumes import (
    PodVolumeClaims,
    PodVolumes,
    PodVolumesByRow,
    VolumeFinder,
)
from kscheduler.plugins.volume_binding.scorer import CapacityScorer
from kscheduler.plugins.volume_binding.volume_traits import MigratedNodes
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

reserve_log = logs.logger(__name__, "Reserve.VolumeBinding")
pre_bind_log = logs.logger(__name__, "PreBind.VolumeBinding")

NOT_PREPARED = "not found"
NO_CLAIMS = PodVolumeClaims((), ())


class VolumeBindingState(msgspec.Struct):
    """State of one attempt. What-ifs share it: pods that are added or removed change nothing."""

    claims: PodVolumeClaims
    # From Filter on.
    found: PodVolumesByRow | None = None
    # From Reserve on.
    assumed: AssumedPodVolumes | None = None


LEAST_UTILIZED_FIRST = (
    UtilizationShapePoint(utilization=0, score=10),
    UtilizationShapePoint(utilization=100, score=0),
)


class VolumeBindingArgs(PluginArgs):
    """`shape` scores nodes by how much of their storage is used; it needs a feature gate."""

    bind_timeout_seconds: Int64 = 600
    shape: Annotated[tuple[UtilizationShapePoint, ...] | None, OMIT_EMPTY] = None

    def with_defaults(self, gates: Gates) -> Self:
        if self.shape or not gates.enabled("StorageCapacityScoring"):
            return self
        return self.model_copy(update={"shape": LEAST_UTILIZED_FIRST})

    def errors(self, path: Path, gates: Gates) -> Iterator[FieldError]:
        timeout = self.bind_timeout_seconds
        if timeout < 0:
            detail = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid(path / "bindTimeoutSeconds", timeout, detail)
        if gates.enabled("StorageCapacityScoring"):
            yield from shape_errors(self.shape or (), path / "shape")
        elif self.shape is not None:
            detail = (
                "unexpected field `shape`, remove it or turn on the feature gate "
                "StorageCapacityScoring"
            )
            yield invalid(path / "shape", internal_json(self.shape), detail)


@plugin(
    args=VolumeBindingArgs,
    reads=(
        PERSISTENT_VOLUMES,
        PERSISTENT_VOLUME_CLAIMS,
        STORAGE_CLASSES,
        CSI_NODES,
        CSI_DRIVERS,
        CSI_STORAGE_CAPACITIES,
    ),
)
class VolumeBinding:
    name = "VolumeBinding"

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        listers = handle.listers
        self._handle = handle
        self._passes_resizes = handle.gates.enabled("InPlacePodVerticalScalingSchedulerPreemption")
        self._errors = handle.metrics.volume_scheduling_stage_error_total
        self._volumes = PVAssumeCache(listers.lister(PersistentVolume))
        self._claims = PVCAssumeCache(
            listers.lister(PersistentVolumeClaim), "persistentvolumeclaims", "pvc-cache"
        )
        self._finder = VolumeFinder(
            self._volumes,
            listers.lister(CSIDriver),
            Capacities(listers.lister(CSIStorageCapacity)),
            MigratedNodes(listers.lister(CSINode)),
        )
        self.caches = self._finder.caches
        self._binder = VolumeBinder(
            self._volumes,
            self._claims,
            listers,
            handle.client,
            handle.clock,
            args.bind_timeout_seconds,
        )
        self._scorer: CapacityScorer | None = None
        if handle.gates.enabled("StorageCapacityScoring"):
            shape = [(point.utilization, point.score * 10) for point in args.shape or ()]
            self._scorer = CapacityScorer(shape)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if not pod.pod.spec.volumes or (self._passes_resizes and is_resize_deferred(pod.pod)):
            claims = None
        else:
            claims = self._binder.get_pod_volume_claims(pod.pod)
        if isinstance(claims, Status):
            return claims
        cycle.put(VolumeBindingState(claims or NO_CLAIMS))
        return SKIP if claims is None else None

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterable[Rejection]:
        state = cycle.get(VolumeBindingState)
        if state is None:
            return [Rejection(nodes.valid, Code.ERROR, NOT_PREPARED)]
        found = self._found(state, nodes)
        for mask, _ in found.errors:
            self._errors.labels("predicate").inc(int(np.count_nonzero(mask)))
        return found.rejections(nodes)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if self._scorer is None:
            return SKIP
        return failed(NOT_PREPARED) if cycle.get(VolumeBindingState) is None else None

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        state = cycle.get(VolumeBindingState)
        if self._scorer is None or state is None or state.found is None:
            return np.zeros(len(nodes), np.int64)
        found = self._found(state, nodes)
        return self._scorer.score(found, len(nodes.whole)).take(nodes.rows)

    def reserve(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None:
        state = cycle.get(VolumeBindingState)
        if state is None:
            return failed(NOT_PREPARED)
        # Where Filter is switched off nothing was found, and nothing is reserved.
        if state.found is None:
            return None
        refs = {"pod": logs.ref(pod.pod), "node": logs.ObjectRef("", node)}
        reserve_log.v(4).info("AssumePodVolumes", **refs)
        if self._binder.is_all_bound(pod.pod):
            what = "AssumePodVolumes: all PVCs bound and nothing to do"
            reserve_log.v(4).info(what, **refs)
            return None
        nodes = self._handle.snapshot()
        row = nodes.row_of(node)
        if row is None:
            return failed(f"no pod volume found for node {quote(node)}")
        try:
            volumes = self._found(state, nodes).on(row)
            state.assumed = self._binder.assume_pod_volumes(volumes, node)
            if v := reserve_log.v(5):
                _log_assumed(v, pod, node, volumes, state.assumed)
        except KschedulerError as error:
            self._errors.labels("assume").inc()
            return failed(error)
        return None

    def unreserve(self, cycle: CycleState, pod: PodInfo, node: str) -> None:
        state = cycle.get(VolumeBindingState)
        if state is not None and state.assumed is not None:
            self._binder.revert_assumed_pod_volumes(state.assumed)

    def pre_bind_pre_flight(
        self, cycle: CycleState, pod: PodInfo, node: str
    ) -> PreFlight | Status | None:
        state = cycle.get(VolumeBindingState)
        has_work = state is not None and state.assumed is not None
        return PreFlight(allow_parallel=True, has_work=has_work)

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None:
        state = cycle.get(VolumeBindingState)
        if state is None or state.assumed is None:
            return None
        refs = {"node": logs.ObjectRef("", node), "pod": logs.ref(pod.pod)}
        pre_bind_log.v(5).info("Trying to bind volumes for pod", **refs)
        try:
            await self._binder.bind_pod_volumes(pod, node, state.assumed)
        except KschedulerError as error:
            self._errors.labels("bind").inc()
            pre_bind_log.v(5).info("Failed to bind volumes for pod", **refs, err=str(error))
            return failed(error)
        pre_bind_log.v(5).info("Success binding volumes for pod", **refs)
        return None

    def events_to_register(self) -> Sequence[EventWithHint]:
        changed = Action.ADD | Action.UPDATE
        labelled = Action.ADD | Action.UPDATE_NODE_LABEL
        return [
            EventWithHint(ClusterEvent(STORAGE_CLASS, changed), class_changed),
            EventWithHint(ClusterEvent(PERSISTENT_VOLUME_CLAIM, changed), claim_changed),
            EventWithHint(ClusterEvent(PERSISTENT_VOLUME, changed)),
            EventWithHint(ClusterEvent(NODE, labelled)),
            EventWithHint(ClusterEvent(CSI_NODE, changed), csi_node_changed),
            EventWithHint(ClusterEvent(CSI_DRIVER, Action.UPDATE), driver_changed),
            EventWithHint(ClusterEvent(CSI_STORAGE_CAPACITY, changed), capacity_changed),
        ]

    def sign(self, pod: PodInfo) -> Mapping[str, object] | Status:
        return signers.volumes(pod)

    def _found(self, state: VolumeBindingState, nodes: Nodes) -> PodVolumesByRow:
        """Worked out once per attempt, unless nodes come, go or change their labels under it."""
        found = state.found
        if found is None or found.as_of != nodes.label_generation:
            found = state.found = self._finder.find_pod_volumes(state.claims, nodes)
        return found


def _log_assumed(
    v: logs.Verbose, pod: PodInfo, node: str, volumes: PodVolumes, assumed: AssumedPodVolumes
) -> None:
    for (claim, volume), binding in zip(
        volumes.static_bindings, assumed.static_bindings, strict=True
    ):
        v.info(
            "AssumePodVolumes: GetBindVolumeToClaim",
            node=logs.ObjectRef("", node),
            pod=logs.ref(pod.pod),
            PV=logs.ref(volume),
            PVC=logs.ref(claim),
            newPV=logs.ref(binding.volume),
            dirty=binding.volume is not volume,
        )


def class_changed(pod: PodInfo, old: StorageClass | None, new: StorageClass) -> Hint:
    helps = old is None or old.allowed_topologies != new.allowed_topologies
    return Hint.QUEUE if helps else Hint.SKIP


def claim_changed(
    pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> Hint:
    same_namespace = pod.namespace == new.namespace
    is_of_pod = same_namespace and any(name == new.name for name, _ in claims_of(pod.pod))
    return Hint.QUEUE if is_of_pod else Hint.SKIP


def csi_node_changed(pod: PodInfo, old: CSINode | None, new: CSINode) -> Hint:
    migrated = new.metadata.annotations.get(MIGRATED_PLUGINS, "")
    helps = old is None or old.metadata.annotations.get(MIGRATED_PLUGINS, "") != migrated
    return Hint.QUEUE if helps else Hint.SKIP


def driver_changed(pod: PodInfo, old: CSIDriver, new: CSIDriver) -> Hint:
    """Upstream looks at volumes without a claim only, whose capacity is never checked."""
    checks_no_more = bool(old.spec.storage_capacity) and not new.spec.storage_capacity
    volumes = pod.pod.spec.volumes
    used = any(volume.csi is not None and volume.csi.driver == new.name for volume in volumes)
    return Hint.QUEUE if used and checks_no_more else Hint.SKIP


def capacity_changed(pod: PodInfo, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> Hint:
    if old is None:
        return Hint.QUEUE
    before, after = limit_of(old), limit_of(new)
    if after is None:
        return Hint.SKIP
    grew = before is None or quantity.value(after) > quantity.value(before)
    return Hint.QUEUE if grew else Hint.SKIP
