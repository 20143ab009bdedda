"""FindPodVolumes for all nodes at once: the volumes a pod would use on each, or why it cannot.

    bound claims             the volume's node affinity must allow the node
    unbound, delay binding   with a selected node: only there, and a volume is provisioned
                             else the smallest existing volume that does (static binding)
                             else a new one, if class and capacity allow (dynamic provisioning)

A node may be rejected for several reasons; where something could not be judged, the error stands
for all of them. Masks are [rows of the whole table] throughout, whatever nodes are asked about: one
search serves Filter, Score and Reserve of an attempt.

Mirrors FindPodVolumes, findMatchingVolumes and checkVolumeProvisions of upstream's binder, and
FindMatchingVolume of component-helpers. Differs: of several volumes that are prebound to one claim
the first that is known is taken; upstream's order is chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kscheduler.api import quantity
from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.labels import Operator, Requirement, Selector
from kscheduler.api.node_selector import NodeSelectorMatcher, Term
from kscheduler.api.storage import CSIDriver, StorageClass, TopologySelectorTerm
from kscheduler.api.volume_claims import (
    NO_PROVISIONER,
    SELECTED_NODE,
    STORAGE,
    class_of_claim,
    requested_storage,
)
from kscheduler.caches import BoundedCache, size_of
from kscheduler.framework.listers import Lister
from kscheduler.framework.status import Code, Mask, Rejection, unresolvable
from kscheduler.plugins.volume_binding.assume_cache import PVAssumeCache
from kscheduler.plugins.volume_binding.capacity import Bytes, Capacities
from kscheduler.plugins.volume_binding.volume_traits import (
    ClaimDemand,
    ClaimError,
    MigratedNodes,
    demand_of,
)
from kscheduler.plugins.volume_binding.volumes_by_size import (
    NONE,
    Numbers,
    SmallestVolumes,
    VolumesBySize,
)
from kscheduler.state.nodes_view import Nodes

REASON_AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
REASON_NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
REASON_NO_SPACE = "node(s) did not have enough free storage"
REASON_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

MAX_TOPOLOGY_BYTES = 1 << 20


class DelayedClaim(NamedTuple):
    """An unbound claim whose binding is delayed until its pod has a node, with its class."""

    claim: PersistentVolumeClaim
    of_class: StorageClass


class PodVolumeClaims(NamedTuple):
    bound: tuple[PersistentVolumeClaim, ...]
    unbound_delay_binding: tuple[DelayedClaim, ...]


class PodVolumes(NamedTuple):
    """Volumes for a pod on one node: existing ones for some claims, new ones for others."""

    static_bindings: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...]
    dynamic_provisions: tuple[PersistentVolumeClaim, ...]


class VolumeByRow(NamedTuple):
    """Of some volumes, by row the number of one, or NONE."""

    volumes: VolumesBySize
    numbers: Numbers


class Match(NamedTuple):
    """Existing volumes for one claim, by row; on each row at most one of `by_row` has one."""

    claim: PersistentVolumeClaim
    by_row: tuple[VolumeByRow, ...]
    # Rows on which there is a volume.
    found: Mask

    def on(self, row: int) -> PersistentVolume | None:
        numbers = ((volumes, int(numbers[row])) for volumes, numbers in self.by_row)
        found = (volumes.volumes[number] for volumes, number in numbers if number != NONE)
        return next(found, None)


class Provision(NamedTuple):
    """A new volume for one claim."""

    claim: PersistentVolumeClaim
    # Rows on which no existing volume does.
    needed: Mask
    # Bytes that the driver has left, by row; None if it does not publish them.
    capacity: Bytes | None


class PodVolumesByRow(NamedTuple):
    """Volumes for a pod on every node, and why not; reasons in the order they are reported."""

    # A label generation.
    as_of: int
    errors: tuple[tuple[Mask, str], ...] = ()
    reasons: tuple[tuple[Mask, str], ...] = ()
    matches: tuple[Match, ...] = ()
    provisions: tuple[Provision, ...] = ()

    def rejections(self, nodes: Nodes) -> Iterator[Rejection]:
        is_whole = nodes.whole is nodes
        for mask, error in self.errors:
            yield Rejection(mask if is_whole else mask.take(nodes.rows), Code.ERROR, error)
        for mask, reason in self.reasons:
            yield unresolvable(mask if is_whole else mask.take(nodes.rows), reason)

    def on(self, row: int) -> PodVolumes:
        matched = ((match.claim, match.on(row)) for match in self.matches)
        return PodVolumes(
            tuple((claim, volume) for claim, volume in matched if volume is not None),
            tuple(one.claim for one in self.provisions if one.needed[row]),
        )


class VolumeFinder:
    def __init__(
        self,
        volumes: PVAssumeCache,
        drivers: Lister[CSIDriver],
        capacities: Capacities,
        migrated: MigratedNodes,
    ) -> None:
        self._volumes = volumes
        self._drivers = drivers
        self._capacities = capacities
        self._migrated = migrated
        self._topologies: BoundedCache[tuple[TopologySelectorTerm, ...], NodeSelectorMatcher] = (
            BoundedCache("volume_topologies", MAX_TOPOLOGY_BYTES)
        )
        self.caches = (self._topologies,)

    def find_pod_volumes(self, claims: PodVolumeClaims, nodes: Nodes) -> PodVolumesByRow:
        whole = nodes.whole
        verdicts = _Verdicts(whole)
        for claim in claims.bound:
            self._check_bound_claim(claim, verdicts)
        if not claims.unbound_delay_binding:
            return verdicts.result()
        # Where a claim has its node selected already, no other node will do for the pod.
        allowed = np.ones(len(whole), np.bool_)
        to_provision, to_match = [], []
        for claim, of_class in claims.unbound_delay_binding:
            selected = claim.metadata.annotations.get(SELECTED_NODE)
            if selected is None:
                to_match.append(claim)
                continue
            row = whole.row_of(selected)
            only = np.zeros(len(whole), np.bool_)
            if row is not None:
                only[row] = allowed[row]
            allowed = only
            to_provision.append((claim, of_class))
        try:
            matches = find_matching_volumes(to_match, self._volumes, whole)
        except ClaimError as error:
            return verdicts.result(no_volume=~allowed, failed=(allowed, str(error)))
        class_of = {claim.key: of_class for claim, of_class in claims.unbound_delay_binding}
        needed = [(claim, of_class, allowed) for claim, of_class in to_provision]
        needed += [(one.claim, class_of[one.claim.key], allowed & ~one.found) for one in matches]
        provisions, no_volume, no_space = self._check_volume_provisions(needed, whole)
        return verdicts.result(
            no_volume=~allowed | no_volume,
            no_space=no_space,
            matches=tuple(matches),
            provisions=tuple(provisions),
        )

    def _check_bound_claim(self, claim: PersistentVolumeClaim, verdicts: _Verdicts) -> None:
        volume = self._volumes.get(claim.spec.volume_name)
        if volume is None:
            verdicts.add_missing()
            return
        traits, nodes = self._volumes.traits(volume), verdicts.nodes
        affinity, migrated_affinity = traits.node_affinity, traits.migrated_node_affinity
        if traits.migrated_from and (traits.migration_problem or migrated_affinity is not affinity):
            migrated = self._migrated.mask(traits.migrated_from, nodes)
            if traits.migration_problem:
                verdicts.add_error(migrated, f"could not translate pv: {traits.migration_problem}")
            elif migrated_affinity is not None:
                verdicts.add_conflict(migrated & ~migrated_affinity.mask(nodes))
            if affinity is not None:
                verdicts.add_conflict(~migrated & ~affinity.mask(nodes))
        elif affinity is not None:
            verdicts.add_conflict(~affinity.mask(nodes))

    def _check_volume_provisions(
        self, wanted: Sequence[tuple[PersistentVolumeClaim, StorageClass, Mask]], nodes: Nodes
    ) -> tuple[list[Provision], Mask, Mask]:
        """New volumes that can be provisioned, and rows without a volume or without space.

        On each row the first claim that gets nothing decides which.
        """
        provisions = []
        no_volume, no_space = np.zeros((2, len(nodes)), np.bool_)
        for claim, of_class, needed in wanted:
            if not needed.any():
                continue
            undecided = needed & ~no_volume & ~no_space
            if of_class.provisioner in ("", NO_PROVISIONER):
                no_volume |= undecided
                continue
            if of_class.allowed_topologies:
                matcher = self._allowed_topologies(of_class.allowed_topologies)
                allowed = nodes.selector_mask(matcher)
                no_volume |= undecided & ~allowed
                undecided &= allowed
            capacity = None
            driver = self._drivers.get(of_class.provisioner)
            if (
                STORAGE in claim.spec.resources.requests
                and driver is not None
                and driver.spec.storage_capacity
            ):
                size_bytes = quantity.value(requested_storage(claim))
                room = self._capacities.room_for(size_bytes, of_class.name, nodes)
                no_space |= undecided & ~room.enough
                capacity = room.capacity
            provisions.append(Provision(claim, needed, capacity))
        return provisions, no_volume, no_space

    def _allowed_topologies(self, terms: tuple[TopologySelectorTerm, ...]) -> NodeSelectorMatcher:
        """One of the terms must hold; a term without expressions never does."""
        known = self._topologies.get(terms)
        if known is None:
            known = NodeSelectorMatcher(
                tuple(
                    Term(
                        Selector(
                            Requirement(one.key, Operator.IN, frozenset(one.values))
                            for one in term.match_label_expressions
                        )
                    )
                    for term in terms
                    if term.match_label_expressions
                )
            )
            self._topologies.put(terms, known, 2 * size_of(terms, self._topologies.largest))
        return known


class _Verdicts:
    """Verdicts on bound claims; on each node the first failure counts."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        # Rows without a failure so far.
        self._passed: Mask = nodes.valid
        self._conflicts: Mask | None = None
        self._missing: Mask | None = None
        self._errors: list[tuple[Mask, str]] = []

    def add_missing(self) -> None:
        """A volume does not exist."""
        if self._missing is None:
            self._missing = self._passed
            self._passed = np.zeros_like(self._passed)

    def add_conflict(self, mask: Mask) -> None:
        """A volume cannot be used from these rows."""
        hit = mask & self._passed
        self._conflicts = hit if self._conflicts is None else self._conflicts | hit
        self._passed = self._passed & ~hit

    def add_error(self, mask: Mask, error: str) -> None:
        hit = mask & self._passed
        self._errors.append((hit, error))
        self._passed = self._passed & ~hit

    def result(
        self,
        no_volume: Mask | None = None,
        no_space: Mask | None = None,
        failed: tuple[Mask, str] | None = None,
        matches: tuple[Match, ...] = (),
        provisions: tuple[Provision, ...] = (),
    ) -> PodVolumesByRow:
        """Together with the verdicts on unbound claims, given here."""
        by_reason = (
            (self._conflicts, REASON_AFFINITY),
            (no_volume, REASON_NO_VOLUME),
            (no_space, REASON_NO_SPACE),
            (self._missing, REASON_MISSING),
        )
        reasons = tuple([(mask, reason) for mask, reason in by_reason if mask is not None])
        errors = list(self._errors)
        # A node where something went wrong is rejected for that and for nothing else.
        if errors or failed is not None:
            broken = np.zeros_like(self._passed)
            for mask, _ in errors:
                broken |= mask
            if failed is not None:
                errors.append((failed[0] & ~broken, failed[1]))
                broken |= failed[0]
            reasons = tuple([(mask & ~broken, reason) for mask, reason in reasons])
        as_of = self.nodes.label_generation
        return PodVolumesByRow(as_of, tuple(errors), reasons, matches, provisions)


def find_matching_volumes(
    claims: Sequence[PersistentVolumeClaim], volumes: PVAssumeCache, nodes: Nodes
) -> list[Match]:
    """Existing volumes for claims, the smallest that does for each.

    The smaller claims choose first, lest they take what only fits the larger ones; raises
    ClaimError. A claim that the pod mounts twice is matched twice.
    """
    matcher = _Matcher(volumes, nodes)
    ordered = sorted(claims, key=lambda claim: quantity.nano_value(requested_storage(claim)))
    return [matcher.match(claim) for claim in ordered]


class _Matcher:
    """Volumes given to the claims of one pod so far: none is given twice on a row.

    A claim asks the same on every node; only where a volume can be used from differs.
    """

    def __init__(self, volumes: PVAssumeCache, nodes: Nodes) -> None:
        self._volumes = volumes
        self._nodes = nodes
        self._assumed = volumes.assumed_by_claim()
        # By class.
        self._free: dict[str, SmallestVolumes] = {}
        # By name of a prebound volume, the rows where it was given to its claim.
        self._given: dict[str, Mask] = {}

    def match(self, claim: PersistentVolumeClaim) -> Match:
        demand, of_class = demand_of(claim), class_of_claim(claim)
        undecided = np.ones(len(self._nodes.whole), np.bool_)
        by_row = list(self._match_prebound(claim, demand, of_class, undecided))
        if undecided.any():
            free = self._free.get(of_class)
            if free is None:
                free = self._free[of_class] = SmallestVolumes(
                    self._volumes.free(of_class), self._nodes, self._volumes.assumed
                )
            by_row.append(VolumeByRow(free.volumes, free.choose(demand, undecided)))
        found = np.zeros(len(undecided), np.bool_)
        for _, numbers in by_row:
            found |= numbers != NONE
        return Match(claim, tuple(by_row), found)

    def _match_prebound(
        self, claim: PersistentVolumeClaim, demand: ClaimDemand, of_class: str, undecided: Mask
    ) -> Iterator[VolumeByRow]:
        """Volumes that name the claim. The first that was not given to it on a row already decides
        there: the claim gets this one or, where that cannot be used, none. Such rows are taken out
        of `undecided`.
        """
        for volume in self._volumes.prebound_to(claim, of_class, self._assumed):
            traits = self._volumes.traits(volume)
            if not demand.is_met_by_prebound(traits):
                continue
            given, affinity = self._given.get(volume.name), traits.node_affinity
            here = undecided if given is None else undecided & ~given
            usable = here if affinity is None else here & affinity.mask(self._nodes.whole)
            self._given[volume.name] = usable.copy() if given is None else given | usable
            yield VolumeByRow(VolumesBySize([volume], [traits]), np.where(usable, 0, NONE))
            undecided &= ~here
            if not undecided.any():
                return
