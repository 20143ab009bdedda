"""How well the volumes a pod would use fit what is there, class by class.

Volumes that exist count by their size; where only new ones would be made, what the driver has left
counts. By default more room to spare is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kscheduler.api import quantity
from kscheduler.api.volume_claims import class_of_claim, requested_storage
from kscheduler.framework.shape_score import broken_linear_function
from kscheduler.framework.status import Mask, Scores
from kscheduler.plugins.volume_binding.capacity import UNKNOWN
from kscheduler.plugins.volume_binding.findings import Findings
from kscheduler.plugins.volume_binding.matching import Match, Pick
from kscheduler.plugins.volume_binding.shelf import NONE

Bytes = NDArray[np.int64]  # [rows]


class _Usage:
    """Of one class, per row: how much is asked for and how much is there, where any is used."""

    def __init__(self, length: int) -> None:
        self.requested: Bytes = np.zeros(length, np.int64)
        self.capacity: Bytes = np.zeros(length, np.int64)
        self.present: Mask = np.zeros(length, np.bool_)


class CapacityScorer:
    def __init__(self, shape: Sequence[tuple[int, int]]) -> None:
        """`shape`: utilisation in percent → score 0..100."""
        self._curve = broken_linear_function(shape)

    def score(self, findings: Findings, length: int) -> Scores:
        """For every row of the table."""
        if not findings.matches and not findings.provisions:
            # All claims are bound, as those of most pods with volumes are.
            return np.zeros(length, np.int64)
        static = _static_usage(findings.matches, length)
        usages = [*static.values()]
        used = np.zeros(length, np.bool_)
        for usage in usages:
            used |= usage.present
        usages += _dynamic_usage(findings, ~used, length).values()
        total, classes = np.zeros((2, length), np.int64)
        for usage in usages:
            total += np.where(usage.present, self._points(usage), 0)
            classes += usage.present
        # Rounded half up; without any class there is nothing to divide.
        return (2 * total + classes) // np.maximum(2 * classes, 1)

    def _points(self, usage: _Usage) -> Scores:
        requested, capacity = usage.requested, usage.capacity
        full = (capacity == 0) | (requested > capacity)
        percent = np.where(full, 100, requested * 100 // np.where(full, 1, capacity))
        return self._curve[np.clip(percent, 0, 100)]


def _static_usage(matches: Sequence[Match], length: int) -> dict[str, _Usage]:
    usages: dict[str, _Usage] = {}
    for match in matches:
        requested = quantity.value(requested_storage(match.claim))
        for pick in match.picks:
            for name, present in _by_class(pick):
                usage = usages.setdefault(name, _Usage(length))
                usage.requested += present * requested
                usage.capacity += np.where(present, pick.shelf.sizes[pick.choice], 0)
                usage.present |= present
    return usages


def _by_class(pick: Pick) -> Iterator[tuple[str, Mask]]:
    """Rows by class of the volume used there, going by its spec alone, as upstream does here."""
    classes = pick.shelf.classes
    if len(classes) == 1:
        yield classes[0], pick.choice != NONE
        return
    codes = pick.shelf.class_codes[pick.choice]
    for code, name in enumerate(classes):
        yield name, codes == code


def _dynamic_usage(findings: Findings, where: Mask, length: int) -> dict[str, _Usage]:
    """The capacity of a class is shared by all claims of it, so it counts once."""
    usages: dict[str, _Usage] = {}
    for claim, needed, capacity in findings.provisions:
        if capacity is None:
            continue
        present = needed & where & (capacity != UNKNOWN)
        name = claim.spec.storage_class_name or class_of_claim(claim)
        usage = usages.setdefault(name, _Usage(length))
        usage.requested += present * quantity.value(requested_storage(claim))
        usage.capacity = np.where(present, capacity, usage.capacity)
        usage.present |= present
    return usages
