"""Pods grouped by what selectors can tell apart.

A deployment's pods are one class, so a selector is evaluated once for all of them. A class lives as
long as it has pods.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kscheduler.api.labels import Selector
from kscheduler.api.meta import EMPTY
from kscheduler.state.columns import SMALLEST_CAPACITY, Rows
from kscheduler.state.label_columns import ABSENT, LabelColumn, LabelColumns
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.row_counts import RowCounts
from kscheduler.state.selector_lookup import Namespaces
from kscheduler.state.selector_masks import mask_of_selector

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


class PodClasses:
    def __init__(self) -> None:
        self._by_key: dict[_Key, PodClass] = {}
        # Entries of numbers not in use mean nothing.
        self._by_number: list[PodClass] = []
        self._numbers = Rows()
        self._labels = LabelColumns()
        self._namespaces = LabelColumn()

    def __len__(self) -> int:
        return len(self._by_key)

    def enter(self, pod: PodInfo, row: int) -> PodClass:
        """Counts the pod on the row; answers with its class."""
        found = self._by_key.get((pod.namespace, pod.label_set, pod.terminating))
        if found is None:
            found = self._new(pod)
        else:
            # One tuple for all of them, instead of one for each.
            pod.label_set = found.key[1]
        found.pods[row] = found.pods.get(row, 0) + 1
        return found

    def leave(self, pod: PodInfo, row: int) -> PodClass:
        found = self._by_key[pod.namespace, pod.label_set, pod.terminating]
        pods = found.pods
        pods[row] -= 1
        if not pods[row]:
            del pods[row]
            if not pods:
                self._drop(found)
        return found

    def selected(self, conditions: Iterable[tuple[Namespaces, Selector]]) -> list[PodClass]:
        """The classes that meet all of the conditions."""
        mask = self._namespaces.codes != ABSENT
        for namespaces, selector in conditions:
            mask &= mask_of_selector(self._labels, selector)
            if namespaces is not None:
                mask &= self._namespaces.one_of(namespaces)
        return [self._by_number[number] for number in np.flatnonzero(mask)]

    def _new(self, pod: PodInfo) -> PodClass:
        number = self._numbers.take()
        made = PodClass(number, pod)
        if number == len(self._by_number):
            # Room for many at once: columns are not resized for every new class.
            length = max(SMALLEST_CAPACITY, 2 * number)
            self._labels.resize(length)
            self._namespaces.resize(length)
            self._by_number.extend([made] * (length - number))
        self._by_key[made.key] = self._by_number[number] = made
        self._labels.put(number, pod.labels)
        self._namespaces.put(number, pod.namespace)
        return made

    def _drop(self, gone: PodClass) -> None:
        del self._by_key[gone.key]
        self._labels.put(gone.number, EMPTY)
        self._namespaces.put(gone.number, None)
        self._numbers.give_back(gone.number)
