"""Scores by how much of the storage a pod would use, class by class.

Existing volumes count by their size; where only new ones would be provisioned, what the driver has
left counts. By default more room to spare is better.

Mirrors scorer.go of the plugin.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kscheduler.api import quantity
from kscheduler.api.volume_claims import class_of_claim, requested_storage
from kscheduler.framework.status import Mask, Scores
from kscheduler.plugins.helper.shape_score import broken_linear_function
from kscheduler.plugins.volume_binding.capacity import UNKNOWN
from kscheduler.plugins.volume_binding.find_volumes import Match, PodVolumesByRow

Bytes = NDArray[np.int64]  # [rows]


class _Usage:
    """Storage of one class, by row: bytes requested and bytes there, on rows where any is used."""

    def __init__(self, length: int) -> None:
        self.requested: Bytes = np.zeros(length, np.int64)
        self.capacity: Bytes = np.zeros(length, np.int64)
        self.present: Mask = np.zeros(length, np.bool_)


class CapacityScorer:
    def __init__(self, shape: Sequence[tuple[int, int]]) -> None:
        """`shape`: utilisation in percent → score 0..100."""
        self._curve = broken_linear_function(shape)

    def score(self, found: PodVolumesByRow, length: int) -> Scores:
        """Scores for all rows of the table."""
        if not found.matches and not found.provisions:
            # All claims are bound, as those of most pods with volumes are.
            return np.zeros(length, np.int64)
        usages = [*_static_usage(found.matches, length).values()]
        used = np.zeros(length, np.bool_)
        for usage in usages:
            used |= usage.present
        usages += _dynamic_usage(found, ~used, length).values()
        total, classes = np.zeros((2, length), np.int64)
        for usage in usages:
            requested, capacity = usage.requested, usage.capacity
            full = (capacity == 0) | (requested > capacity)
            percent = np.where(full, 100, requested * 100 // np.where(full, 1, capacity))
            total += np.where(usage.present, self._curve[np.clip(percent, 0, 100)], 0)
            classes += usage.present
        # Rounded half up; without any class there is nothing to divide.
        return (2 * total + classes) // np.maximum(2 * classes, 1)


def _static_usage(matches: Sequence[Match], length: int) -> dict[str, _Usage]:
    """By class of the volume used, going by its spec alone, as upstream does here."""
    usages: dict[str, _Usage] = {}
    for match in matches:
        requested = quantity.value(requested_storage(match.claim))
        for volumes, numbers in match.by_row:
            # NONE has a code of its own.
            codes = volumes.class_codes[numbers]
            for code, name in enumerate(volumes.classes):
                present = codes == code
                usage = usages.setdefault(name, _Usage(length))
                usage.requested += present * requested
                usage.capacity += np.where(present, volumes.sizes[numbers], 0)
                usage.present |= present
    return usages


def _dynamic_usage(found: PodVolumesByRow, where: Mask, length: int) -> dict[str, _Usage]:
    """By class; the capacity of a class is shared by all claims of it, so it counts once."""
    usages: dict[str, _Usage] = {}
    for claim, needed, capacity in found.provisions:
        if capacity is None:
            continue
        present = needed & where & (capacity != UNKNOWN)
        name = claim.spec.storage_class_name or class_of_claim(claim)
        usage = usages.setdefault(name, _Usage(length))
        usage.requested += present * quantity.value(requested_storage(claim))
        usage.capacity = np.where(present, capacity, usage.capacity)
        usage.present |= present
    return usages
