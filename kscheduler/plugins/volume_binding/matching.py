"""Volumes that exist already, for claims that wait for a node: per claim and node the smallest one
that does.

The demand of a claim is the same on every node; only where a volume can be used differs. Mirrors
findMatchingVolumes of upstream's binder, and FindMatchingVolume of component-helpers. Differs: of
several volumes that were kept for one claim the first that is known is taken; upstream's order is
chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kscheduler.api import quantity
from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.volume_claims import class_of_claim, requested_storage
from kscheduler.framework.status import Mask
from kscheduler.plugins.volume_binding.offer import Demand, demand_of
from kscheduler.plugins.volume_binding.shelf import NONE, Numbers, Picks, Shelf
from kscheduler.plugins.volume_binding.volumes import Volumes
from kscheduler.state.nodes_view import Nodes


class Pick(NamedTuple):
    """Volumes of one shelf by row of the table: their numbers, or NONE."""

    shelf: Shelf
    choice: Numbers


class Match(NamedTuple):
    """The volumes that one claim gets, node by node; on each row at most one pick has one."""

    claim: PersistentVolumeClaim
    picks: tuple[Pick, ...]
    # Rows on which there is a volume.
    found: Mask

    def on(self, row: int) -> PersistentVolume | None:
        numbers = ((shelf, int(choice[row])) for shelf, choice in self.picks)
        return next((shelf.volumes[number] for shelf, number in numbers if number != NONE), None)


def match_all(
    claims: Sequence[PersistentVolumeClaim], volumes: Volumes, nodes: Nodes
) -> list[Match]:
    """The smaller claims choose first, lest they take what only fits the larger ones; raises
    ClaimError. A claim that the pod mounts twice is matched twice.
    """
    matcher = _Matcher(volumes, nodes)
    ordered = sorted(claims, key=lambda claim: quantity.nano_value(requested_storage(claim)))
    return [matcher.match(claim) for claim in ordered]


class _Matcher:
    """Volumes given to the claims of one pod so far: none is given twice on a row."""

    def __init__(self, volumes: Volumes, nodes: Nodes) -> None:
        self._volumes = volumes
        self._nodes = nodes
        self._assumed = volumes.assumed_by_claim()
        # By class.
        self._free: dict[str, Picks] = {}
        # Volumes kept for a claim, by name: the rows where it was given to it.
        self._given: dict[str, Mask] = {}

    def match(self, claim: PersistentVolumeClaim) -> Match:
        demand, of_class = demand_of(claim), class_of_claim(claim)
        undecided = np.ones(len(self._nodes.whole), np.bool_)
        picks = list(self._kept(claim, demand, of_class, undecided))
        if undecided.any():
            free = self._free.get(of_class)
            if free is None:
                free = Picks(self._volumes.free(of_class), self._nodes, self._volumes.assumed)
                self._free[of_class] = free
            picks.append(Pick(free.shelf, free.choose(demand, undecided)))
        found = np.zeros(len(undecided), np.bool_)
        for _, choice in picks:
            found |= choice != NONE
        return Match(claim, tuple(picks), found)

    def _kept(
        self, claim: PersistentVolumeClaim, demand: Demand, of_class: str, undecided: Mask
    ) -> Iterator[Pick]:
        """Volumes kept for the claim. The first that was not given to it on a row already decides
        there: the claim gets this one or, where that cannot be used, none. Such rows are taken out
        of `undecided`.
        """
        for kept in self._volumes.kept_for(claim, of_class, self._assumed):
            offer = self._volumes.offer(kept)
            if not demand.is_kept_by(offer):
                continue
            given = self._given.get(kept.name)
            here = undecided if given is None else undecided & ~given
            reached = here if offer.reach is None else here & offer.reach.mask(self._nodes.whole)
            self._given[kept.name] = reached.copy() if given is None else given | reached
            yield Pick(Shelf([kept], [offer]), np.where(reached, 0, NONE))
            undecided &= ~here
            if not undecided.any():
                return
