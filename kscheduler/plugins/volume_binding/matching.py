"""Volumes that exist already, for claims that wait for a node: per claim and node the smallest one
that does.

What a claim asks of a volume is the same on every node; only where a volume can be used differs.
So the volumes that would do are found once, in order of size, and then each node gets the first of
them that it can use and no earlier claim of the pod has taken there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kscheduler.api import quantity
from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.labels import EVERYTHING, SelectorError, compile_selector
from kscheduler.api.volume_claims import class_of_claim, requested_storage
from kscheduler.errors import KschedulerError
from kscheduler.framework.verdict import Mask, Rows
from kscheduler.plugins.volume_binding.reach import Reach
from kscheduler.plugins.volume_binding.volumes import FILESYSTEM, Offer, Volumes
from kscheduler.state.nodes_view import Nodes

NONE = -1
Numbers = NDArray[np.int32]  # [rows]


class MatchingError(KschedulerError):
    """Raised for a claim that cannot be understood."""


class Match(NamedTuple):
    """What one claim gets, node by node."""

    claim: PersistentVolumeClaim
    volumes: Sequence[PersistentVolume]
    offers: Sequence[Offer]
    # Which of the volumes each row of the table gets, or NONE.
    choice: Numbers

    @property
    def found(self) -> Mask:
        return self.choice != NONE

    def on(self, row: int) -> PersistentVolume | None:
        number = int(self.choice[row])
        return None if number == NONE else self.volumes[number]


def match_all(
    claims: Sequence[PersistentVolumeClaim], volumes: Volumes, nodes: Nodes
) -> list[Match]:
    """The smaller claims choose first, lest they take what only fits the larger ones."""
    matches: list[Match] = []
    for claim in sorted(claims, key=lambda claim: quantity.nano_value(requested_storage(claim))):
        matches.append(_match(claim, volumes, nodes, matches))
    return matches


def _match(
    claim: PersistentVolumeClaim, volumes: Volumes, nodes: Nodes, earlier: Sequence[Match]
) -> Match:
    kept, fitting = _fitting(claim, volumes)
    if kept is not None:
        # Whoever kept a volume for the claim wants this one, or none.
        offer = volumes.offer(kept)
        return Match(claim, [kept], [offer], _first_come([kept], [offer], nodes, ()))
    offers = [volumes.offer(volume) for volume in fitting]
    order = sorted(range(len(fitting)), key=lambda number: offers[number].size_nanos)
    fitting, offers = _distinct([fitting[n] for n in order], [offers[n] for n in order], earlier)
    return Match(claim, fitting, offers, _first_come(fitting, offers, nodes, earlier))


def _fitting(
    claim: PersistentVolumeClaim, volumes: Volumes
) -> tuple[PersistentVolume | None, list[PersistentVolume]]:
    """A volume that is kept for the claim, or else all that would do."""
    spec = claim.spec
    try:
        selector = EVERYTHING if spec.selector is None else compile_selector(spec.selector)
    except SelectorError as error:
        raise MatchingError(
            f"error creating internal label selector for claim: {claim.key}: {error}"
        ) from error
    wanted_nanos = quantity.nano_value(requested_storage(claim))
    mode = spec.volume_mode or FILESYSTEM
    attributes_class = spec.volume_attributes_class_name or ""
    access_modes = frozenset(spec.access_modes)
    fitting = []
    for volume in volumes.candidates(claim, class_of_claim(claim)):
        offer = volumes.offer(volume)
        if (
            offer.size_nanos < wanted_nanos
            or offer.mode != mode
            or offer.attributes_class != attributes_class
        ):
            continue
        if volume.spec.claim_ref is not None:
            return volume, []
        if access_modes <= offer.access_modes and selector.matches(volume.metadata.labels):
            fitting.append(volume)
    return None, fitting


def _distinct(
    volumes: Sequence[PersistentVolume], offers: Sequence[Offer], earlier: Sequence[Match]
) -> tuple[list[PersistentVolume], list[Offer]]:
    """Of volumes with the same reach as many as could be needed: one more than earlier claims can
    have taken of them on any one node.
    """
    counted: dict[Reach | None, int] = {}
    kept: list[PersistentVolume] = []
    kept_offers: list[Offer] = []
    for volume, offer in zip(volumes, offers, strict=True):
        before = counted.get(offer.reach, 0)
        if before <= len(earlier):
            counted[offer.reach] = before + 1
            kept.append(volume)
            kept_offers.append(offer)
    return kept, kept_offers


def _first_come(
    volumes: Sequence[PersistentVolume],
    offers: Sequence[Offer],
    nodes: Nodes,
    earlier: Sequence[Match],
) -> Numbers:
    """Per row the first volume that reaches it and is not taken there."""
    whole = nodes.whole
    choice = np.full(len(whole), NONE, np.int32)
    if not volumes:
        return choice
    everywhere = whole.rows
    reached: list[Rows] = [
        everywhere if offer.reach is None else offer.reach.rows(whole) for offer in offers
    ]
    rows = np.concatenate(reached)
    numbers = np.repeat(np.arange(len(volumes), dtype=np.int32), list(map(len, reached)))
    for match in earlier:
        free = _as_numbered(match, volumes)[rows] != numbers
        rows, numbers = rows[free], numbers[free]
    # Of several values for a row the last one stays.
    choice[rows[::-1]] = numbers[::-1]
    return choice


def _as_numbered(match: Match, volumes: Sequence[PersistentVolume]) -> Numbers:
    """What an earlier claim gets, by the numbers that the volumes have here."""
    number_of = {volume.name: number for number, volume in enumerate(volumes)}
    renumbered = [number_of.get(volume.name, NONE - 1) for volume in match.volumes]
    # One entry more: NONE picks the last.
    return np.array([*renumbered, NONE - 1], np.int32)[match.choice]
