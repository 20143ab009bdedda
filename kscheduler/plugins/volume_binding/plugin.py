"""VolumeBinding: a pod goes where its volumes are, can be bound, or can be made.

Mirrors pkg/scheduler/framework/plugins/volumebinding. Differs: a capacity that is not told, where
upstream crashes, does not count in the score; volumes and claims that were written stay assumed
until the server tells of them, even when the attempt fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
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
from kscheduler.config.field_errors import FieldError, Path, invalid
from kscheduler.config.internal_json import internal_json
from kscheduler.config.plugin_args import Gates, PluginArgs, UtilizationShapePoint, shape_errors
from kscheduler.config.wire import OMIT_EMPTY, Int64
from kscheduler.errors import KschedulerError
from kscheduler.framework import sign_fragments as fragments
from kscheduler.framework.cluster_event import EventWithHint
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.plugin import PreFlight
from kscheduler.framework.status import SKIP, Code, Rejection, Scores, Status, failed
from kscheduler.logs import quote
from kscheduler.plugins.volume_binding import hints
from kscheduler.plugins.volume_binding.capacity import Capacities
from kscheduler.plugins.volume_binding.claims import Claims, PodClaims
from kscheduler.plugins.volume_binding.findings import Finder, Findings
from kscheduler.plugins.volume_binding.migration import Migrated
from kscheduler.plugins.volume_binding.reservation import Reservation, Reservations
from kscheduler.plugins.volume_binding.scoring import CapacityScorer
from kscheduler.plugins.volume_binding.volumes import Volumes
from kscheduler.plugins.volume_binding.waiting import Progress
from kscheduler.runtime.handle import Handle
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

NOT_PREPARED = "not found"
NO_CLAIMS = PodClaims((), ())


@dataclass(slots=True)
class PodVolumes:
    """What one attempt knows of its pod's volumes; what-ifs share it, as pods change nothing."""

    claims: PodClaims
    findings: Findings | None = None
    reservation: Reservation | None = None


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
        self._volumes = Volumes(listers.lister(PersistentVolume))
        self._claims = Claims(listers.lister(PersistentVolumeClaim), listers.lister(StorageClass))
        self._finder = Finder(
            self._volumes,
            listers.lister(CSIDriver),
            Capacities(listers.lister(CSIStorageCapacity)),
            Migrated(listers.lister(CSINode)),
        )
        self.caches = self._finder.caches
        self._reservations = Reservations(
            self._volumes,
            self._claims,
            handle.client,
            Progress(listers, self._volumes, self._claims),
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
            claims = self._claims.of_pod(pod.pod)
        if isinstance(claims, Status):
            return claims
        cycle.put(PodVolumes(claims or NO_CLAIMS))
        return SKIP if claims is None else None

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterable[Rejection]:
        volumes = cycle.get(PodVolumes)
        if volumes is None:
            return [Rejection(nodes.valid, Code.ERROR, NOT_PREPARED)]
        findings = self._findings(volumes, nodes)
        for mask, _ in findings.errors:
            self._errors.labels("predicate").inc(int(np.count_nonzero(mask)))
        return findings.rejections(nodes)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if self._scorer is None:
            return SKIP
        return failed(NOT_PREPARED) if cycle.get(PodVolumes) is None else None

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        volumes = cycle.get(PodVolumes)
        if self._scorer is None or volumes is None or volumes.findings is None:
            return np.zeros(len(nodes), np.int64)
        findings = self._findings(volumes, nodes)
        return self._scorer.score(findings, len(nodes.whole)).take(nodes.rows)

    def reserve(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None:
        volumes = cycle.get(PodVolumes)
        if volumes is None:
            return failed(NOT_PREPARED)
        # Where Filter is switched off nothing was found, and nothing is reserved.
        if volumes.findings is None or self._claims.all_bound(pod.pod):
            return None
        nodes = self._handle.snapshot()
        row = nodes.row_of(node)
        if row is None:
            return failed(f"no pod volume found for node {quote(node)}")
        try:
            choice = self._findings(volumes, nodes).on(row)
            volumes.reservation = self._reservations.assume(choice, node)
        except KschedulerError as error:
            self._errors.labels("assume").inc()
            return failed(error)
        return None

    def unreserve(self, cycle: CycleState, pod: PodInfo, node: str) -> None:
        volumes = cycle.get(PodVolumes)
        if volumes is not None and volumes.reservation is not None:
            self._reservations.revert(volumes.reservation)

    def pre_bind_pre_flight(
        self, cycle: CycleState, pod: PodInfo, node: str
    ) -> PreFlight | Status | None:
        volumes = cycle.get(PodVolumes)
        has_work = volumes is not None and volumes.reservation is not None
        return PreFlight(allow_parallel=True, has_work=has_work)

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None:
        volumes = cycle.get(PodVolumes)
        if volumes is None or volumes.reservation is None:
            return None
        try:
            await self._reservations.bind(pod, node, volumes.reservation)
        except KschedulerError as error:
            self._errors.labels("bind").inc()
            return failed(error)
        return None

    def events_to_register(self) -> Sequence[EventWithHint]:
        return hints.events()

    def sign(self, pod: PodInfo) -> Mapping[str, object] | Status:
        return fragments.volumes(pod)

    def _findings(self, volumes: PodVolumes, nodes: Nodes) -> Findings:
        """Worked out once per attempt, unless nodes come, go or change their labels under it."""
        findings = volumes.findings
        if findings is None or findings.as_of != nodes.label_generation:
            findings = volumes.findings = self._finder.find(volumes.claims, nodes)
        return findings
