"""What the volumes of a pod mean for every node: why it cannot be there, or what it would use.

Mirrors FindPodVolumes of upstream's binder for all nodes at once. A node may be refused for several
reasons; where something could not be judged, the error stands for all of them.
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
    requested_storage,
)
from kscheduler.caches import BoundedCache, size_of
from kscheduler.framework.listers import Lister
from kscheduler.framework.status import Code, Mask, Rejection, unresolvable
from kscheduler.plugins.volume_binding.capacity import Bytes, Capacities
from kscheduler.plugins.volume_binding.claims import Delayed, PodClaims
from kscheduler.plugins.volume_binding.matching import Match, match_all
from kscheduler.plugins.volume_binding.migration import Migrated
from kscheduler.plugins.volume_binding.offer import ClaimError
from kscheduler.plugins.volume_binding.volumes import Volumes
from kscheduler.state.nodes_view import Nodes

REASON_AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
REASON_NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
REASON_NO_SPACE = "node(s) did not have enough free storage"
REASON_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

MAX_TOPOLOGY_BYTES = 1 << 20


class Provision(NamedTuple):
    """A claim for which a volume is to be made."""

    claim: PersistentVolumeClaim
    # Rows of the table where no volume that exists would do.
    needed: Mask
    # How much the driver has there; None if it does not tell.
    capacity: Bytes | None


class Choice(NamedTuple):
    """What a pod uses on one node."""

    bindings: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...]
    provisions: tuple[PersistentVolumeClaim, ...]


class Findings(NamedTuple):
    """Masks cover the whole table; reasons come in the order in which they are told."""

    as_of: int
    errors: tuple[tuple[Mask, str], ...] = ()
    refusals: tuple[tuple[Mask, str], ...] = ()
    matches: tuple[Match, ...] = ()
    provisions: tuple[Provision, ...] = ()

    def rejections(self, nodes: Nodes) -> Iterator[Rejection]:
        for mask, error in self.errors:
            yield Rejection(_of(nodes, mask), Code.ERROR, error)
        for mask, reason in self.refusals:
            yield unresolvable(_of(nodes, mask), reason)

    def on(self, row: int) -> Choice:
        chosen = ((match.claim, match.on(row)) for match in self.matches)
        return Choice(
            tuple((claim, volume) for claim, volume in chosen if volume is not None),
            tuple(one.claim for one in self.provisions if one.needed[row]),
        )


class Finder:
    def __init__(
        self,
        volumes: Volumes,
        drivers: Lister[CSIDriver],
        capacities: Capacities,
        migrated: Migrated,
    ) -> None:
        self._volumes = volumes
        self._drivers = drivers
        self._capacities = capacities
        self._migrated = migrated
        self._topologies: BoundedCache[tuple[TopologySelectorTerm, ...], NodeSelectorMatcher] = (
            BoundedCache("volume_topologies", MAX_TOPOLOGY_BYTES)
        )
        self.caches = (self._topologies,)

    def find(self, claims: PodClaims, nodes: Nodes) -> Findings:
        whole = nodes.whole
        bound = _Bound(whole)
        for claim in claims.bound:
            self._judge_bound(claim, bound)
        if not claims.delayed:
            return bound.findings()
        return self._with_delayed(claims.delayed, bound, whole)

    def _judge_bound(self, claim: PersistentVolumeClaim, bound: _Bound) -> None:
        volume = self._volumes.get(claim.spec.volume_name)
        if volume is None:
            bound.miss()
            return
        offer = self._volumes.offer(volume)
        if offer.migrated_from and (
            offer.migration_problem or offer.migrated_reach is not offer.reach
        ):
            moved = self._migrated.mask(offer.migrated_from, bound.nodes)
            if offer.migration_problem:
                bound.fail(moved, f"could not translate pv: {offer.migration_problem}")
            elif offer.migrated_reach is not None:
                bound.refuse(moved & ~offer.migrated_reach.mask(bound.nodes))
            if offer.reach is not None:
                bound.refuse(~moved & ~offer.reach.mask(bound.nodes))
        elif offer.reach is not None:
            bound.refuse(~offer.reach.mask(bound.nodes))

    def _with_delayed(self, delayed: Sequence[Delayed], bound: _Bound, nodes: Nodes) -> Findings:
        here = np.ones(len(nodes), np.bool_)
        provided, open_claims = [], []
        for one in delayed:
            selected = one.claim.metadata.annotations.get(SELECTED_NODE)
            if selected is None:
                open_claims.append(one)
            else:
                here &= _only(selected, nodes)
                provided.append(one)
        try:
            matches = match_all([one.claim for one in open_claims], self._volumes, nodes)
        except ClaimError as error:
            return bound.findings(no_volume=~here, failed=(here, str(error)))
        class_of = {one.claim.key: one.of_class for one in delayed}
        wanted = [(one.claim, one.of_class, here) for one in provided]
        wanted += [(one.claim, class_of[one.claim.key], here & ~one.found) for one in matches]
        provisions, no_volume, no_space = self._provided(wanted, nodes)
        return bound.findings(
            no_volume=~here | no_volume,
            no_space=no_space,
            matches=tuple(matches),
            provisions=tuple(provisions),
        )

    def _provided(
        self, wanted: Sequence[tuple[PersistentVolumeClaim, StorageClass, Mask]], nodes: Nodes
    ) -> tuple[list[Provision], Mask, Mask]:
        """What can be made where; the first claim that gets nothing decides why not."""
        provisions = []
        no_volume, no_space = np.zeros((2, len(nodes)), np.bool_)
        for claim, of_class, needed in wanted:
            if not needed.any():
                continue
            asked = needed & ~no_volume & ~no_space
            if of_class.provisioner in ("", NO_PROVISIONER):
                no_volume |= asked
                continue
            allowed = self._allowed(of_class, nodes)
            if allowed is not None:
                no_volume |= asked & ~allowed
                asked &= allowed
            capacity = self._capacity(claim, of_class, asked, no_space, nodes)
            provisions.append(Provision(claim, needed, capacity))
        return provisions, no_volume, no_space

    def _allowed(self, of_class: StorageClass, nodes: Nodes) -> Mask | None:
        """The nodes that the class allows; None is all of them."""
        terms = of_class.allowed_topologies
        if not terms:
            return None
        matcher = self._topologies.get(terms)
        if matcher is None:
            matcher = _compiled(terms)
            self._topologies.put(terms, matcher, 2 * size_of(terms, self._topologies.largest))
        return nodes.selector_mask(matcher)

    def _capacity(
        self,
        claim: PersistentVolumeClaim,
        of_class: StorageClass,
        asked: Mask,
        no_space: Mask,
        nodes: Nodes,
    ) -> Bytes | None:
        """What the driver has per row; where that is not enough is added to `no_space`."""
        driver = self._drivers.get(of_class.provisioner)
        if (
            STORAGE not in claim.spec.resources.requests
            or driver is None
            or not driver.spec.storage_capacity
        ):
            return None
        size_bytes = quantity.value(requested_storage(claim))
        room = self._capacities.room_for(size_bytes, of_class.name, nodes)
        no_space |= asked & ~room.enough
        return room.capacity


class _Bound:
    """The verdict on claims that have their volume; on each node the first failure counts."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self._alive: Mask = nodes.valid
        self._affinity: Mask | None = None
        self._missing: Mask | None = None
        self._errors: list[tuple[Mask, str]] = []

    def miss(self) -> None:
        if self._missing is None:
            self._missing = self._alive
            self._alive = np.zeros_like(self._alive)

    def refuse(self, mask: Mask) -> None:
        hit = mask & self._alive
        self._affinity = hit if self._affinity is None else self._affinity | hit
        self._alive = self._alive & ~hit

    def fail(self, mask: Mask, error: str) -> None:
        hit = mask & self._alive
        self._errors.append((hit, error))
        self._alive = self._alive & ~hit

    def findings(
        self,
        no_volume: Mask | None = None,
        no_space: Mask | None = None,
        failed: tuple[Mask, str] | None = None,
        matches: tuple[Match, ...] = (),
        provisions: tuple[Provision, ...] = (),
    ) -> Findings:
        """Together with what was found out about the other claims."""
        told = (
            (self._affinity, REASON_AFFINITY),
            (no_volume, REASON_NO_VOLUME),
            (no_space, REASON_NO_SPACE),
            (self._missing, REASON_MISSING),
        )
        refusals = tuple([(mask, reason) for mask, reason in told if mask is not None])
        errors = list(self._errors)
        if errors or failed is not None:
            broken = np.zeros_like(self._alive)
            for mask, _ in errors:
                broken |= mask
            if failed is not None:
                errors.append((failed[0] & ~broken, failed[1]))
                broken |= failed[0]
            refusals = tuple([(mask & ~broken, reason) for mask, reason in refusals])
        return Findings(self.nodes.label_generation, tuple(errors), refusals, matches, provisions)


def _of(nodes: Nodes, mask: Mask) -> Mask:
    return mask if nodes.whole is nodes else mask.take(nodes.rows)


def _only(name: str, nodes: Nodes) -> Mask:
    mask = np.zeros(len(nodes), np.bool_)
    row = nodes.row_of(name)
    if row is not None:
        mask[row] = True
    return mask


def _compiled(terms: Sequence[TopologySelectorTerm]) -> NodeSelectorMatcher:
    """One of the terms must hold; a term without expressions never does."""
    return NodeSelectorMatcher(
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
