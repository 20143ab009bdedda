"""Volumes that exist already, for claims that wait for a node: per claim and node the smallest one
that does.

What a claim asks of a volume is the same on every node; only where a volume can be used differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kscheduler.api import quantity
from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.volume_claims import class_of_claim, requested_storage
from kscheduler.framework.verdict import Mask
from kscheduler.plugins.volume_binding.offer import demand_of
from kscheduler.plugins.volume_binding.shelf import NONE, Numbers, Shelf
from kscheduler.plugins.volume_binding.volumes import Volumes
from kscheduler.state.nodes_view import Nodes


class Match(NamedTuple):
    """What one claim gets, node by node."""

    claim: PersistentVolumeClaim
    shelf: Shelf
    # Which of the shelf's volumes each row of the table gets, or NONE.
    choice: Numbers

    @property
    def found(self) -> Mask:
        return self.choice != NONE

    def on(self, row: int) -> PersistentVolume | None:
        number = int(self.choice[row])
        return None if number == NONE else self.shelf.volumes[number]


def match_all(
    claims: Sequence[PersistentVolumeClaim], volumes: Volumes, nodes: Nodes
) -> list[Match]:
    """The smaller claims choose first, lest they take what only fits the larger ones; raises
    ClaimError.
    """
    matches: list[Match] = []
    for claim in sorted(claims, key=lambda claim: quantity.nano_value(requested_storage(claim))):
        matches.append(_match(claim, volumes, nodes, matches))
    return matches


def _match(
    claim: PersistentVolumeClaim, volumes: Volumes, nodes: Nodes, earlier: Sequence[Match]
) -> Match:
    demand, of_class = demand_of(claim), class_of_claim(claim)
    for kept in volumes.kept_for(claim, of_class):
        offer = volumes.offer(kept)
        if demand.is_kept_by(offer):
            # Whoever kept a volume for the claim wants this one, or none.
            alone = Shelf([kept], [offer])
            return Match(claim, alone, alone.choose(np.ones(1, np.bool_), nodes, ()))
    shelf = volumes.free(of_class)
    fitting = shelf.fitting(demand, volumes.assumed)
    given = [match.choice for match in earlier if match.shelf is shelf]
    return Match(claim, shelf, shelf.choose(fitting, nodes, given))
