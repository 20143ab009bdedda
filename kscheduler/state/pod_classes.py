"""Pods grouped by what selectors can tell apart.

A deployment's pods are one class, so a selector is evaluated once for all of them. A class lives as
long as it has pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

import numpy as np

from kscheduler.api.labels import Selector
from kscheduler.api.meta import EMPTY
from kscheduler.state.columns import SMALLEST_CAPACITY, Rows
from kscheduler.state.label_columns import ABSENT, LabelColumn, LabelColumns, Mask
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.row_counts import RowCounts
from kscheduler.state.selector_lookup import Namespaces
from kscheduler.state.selector_masks import selected_by_labels

# Up to so many classes, and up to this share of all, are gone through one by one.
FEW_CLASSES = 32

_Key = tuple[str, tuple[str, ...], bool]


class PodClass:
    """Pods that no selector can tell apart, counted by row."""

    __slots__ = (
        "key",
        "labels",
        "namespace",
        "number",
        "pods",
        "terminating",
        "watched_at",
        "watchers",
    )

    def __init__(self, number: int, pod: PodInfo) -> None:
        self.number = number
        self.key: _Key = (pod.namespace, pod.label_set, pod.terminating)
        self.namespace = pod.namespace
        self.labels = pod.labels
        self.terminating = pod.terminating
        self.pods: dict[int, int] = {}
        # Whose counts change with a pod of this class; good while the index's version is
        # `watched_at`.
        self.watchers: tuple[RowCounts, ...] = ()
        self.watched_at = -1


class _Layout:
    """All classes laid out in arrays: number of the class, row, and its pods on that row."""

    __slots__ = ("numbers", "pods", "rows", "terminating")

    def __init__(self, classes: Collection[PodClass]) -> None:
        sizes = np.fromiter([len(one.pods) for one in classes], np.intp, len(classes))
        total = int(sizes.sum())
        numbers = np.fromiter([one.number for one in classes], np.intp, len(classes))
        terminating = np.fromiter([one.terminating for one in classes], np.bool_, len(classes))
        self.numbers = np.repeat(numbers, sizes)
        self.terminating = np.repeat(terminating, sizes)
        pods = [one.pods for one in classes]
        self.rows = np.fromiter(chain.from_iterable(pods), np.intp, total)
        self.pods = np.fromiter(
            chain.from_iterable([each.values() for each in pods]), np.int32, total
        )


class PodClasses:
    def __init__(self) -> None:
        self._by_key: dict[_Key, PodClass] = {}
        # Entries of numbers not in use mean nothing.
        self._by_number: list[PodClass] = []
        self._numbers = Rows()
        self.label_columns = LabelColumns("pod_label_columns")
        self._namespaces = LabelColumn()
        # Made when a selector selects many classes, which takes a while; good until a pod comes or
        # goes.
        self._layout: _Layout | None = None

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, pod: PodInfo, row: int) -> PodClass:
        """Counts the pod on the row; answers with its class."""
        self._layout = None
        found = self._by_key.get((pod.namespace, pod.label_set, pod.terminating))
        if found is None:
            found = self._new(pod)
        else:
            # One tuple for all of them, instead of one for each.
            pod.label_set = found.key[1]
        found.pods[row] = found.pods.get(row, 0) + 1
        return found

    def remove(self, pod: PodInfo, row: int) -> PodClass:
        self._layout = None
        found = self._by_key[pod.namespace, pod.label_set, pod.terminating]
        pods = found.pods
        pods[row] -= 1
        if not pods[row]:
            del pods[row]
            if not pods:
                # The last pod of its class: the number is free for another one.
                del self._by_key[found.key]
                self.label_columns.put(found.number, EMPTY)
                self._namespaces.put(found.number, None)
                self._numbers.give_back(found.number)
        return found

    def count(
        self,
        conditions: Iterable[tuple[Namespaces, Selector]],
        counts: RowCounts,
        *,
        terminating: bool,
    ) -> None:
        """Adds the pods that meet all of the conditions; those being deleted if `terminating`."""
        mask = self._selected(conditions)
        if mask is None:
            return
        numbers = np.flatnonzero(mask)
        if len(numbers) <= max(FEW_CLASSES, len(self) // FEW_CLASSES):
            for number in numbers.tolist():
                found = self._by_number[number]
                if terminating or not found.terminating:
                    counts.add_rows(found.pods)
            return
        if self._layout is None:
            self._layout = _Layout(self._by_key.values())
        layout = self._layout
        chosen = mask[layout.numbers]
        if not terminating:
            chosen &= ~layout.terminating
        counts.add_up(layout.rows[chosen], layout.pods[chosen])

    def _selected(self, conditions: Iterable[tuple[Namespaces, Selector]]) -> Mask | None:
        """The classes that meet all of the conditions, by number; None if there are none."""
        mask = self._namespaces.codes != ABSENT
        for namespaces, selector in conditions:
            selected = selected_by_labels(self.label_columns, selector)
            if selected is False:
                return None
            if selected is not True:
                mask &= selected
            if namespaces is not None:
                inside = self._namespaces.one_of(namespaces)
                if inside is None:
                    return None
                mask &= inside
        return mask

    def _new(self, pod: PodInfo) -> PodClass:
        number = self._numbers.take()
        added = PodClass(number, pod)
        if number == len(self._by_number):
            # Room for many at once: columns are not resized for every new class.
            length = max(SMALLEST_CAPACITY, 2 * number)
            self.label_columns.resize(length)
            self._namespaces.resize(length)
            self._by_number.extend([added] * (length - number))
        self._by_key[added.key] = self._by_number[number] = added
        self.label_columns.put(number, pod.labels)
        self._namespaces.put(number, pod.namespace)
        return added
