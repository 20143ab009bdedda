"""Pods that a selector selects, of a few that are looked at together and are in no index.

Labels are laid out by key and value, and a selector starts from the rarest of the labels that it
asks for. To lay them out costs as much as there are labels; a question then costs about as many
array elements as it has answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.labels import Operator, Requirement, Selector
from kscheduler.state.pod_info import PodInfo

Mask = NDArray[np.bool_]
Numbers = NDArray[np.intp]  # of pods, or of label sets

NONE: Numbers = np.empty(0, np.intp)


class LabelledPods:
    """Some of the pods of a list, by their numbers in it.

    `keys`: all that selectors will ask about. Pods with equal labels are many: what is found are
    label sets, by number, and then their pods.
    """

    def __init__(
        self, pods: Sequence[PodInfo], numbers: Sequence[int], keys: frozenset[str]
    ) -> None:
        self._pods = pods
        self._numbers = np.array(numbers, np.intp)
        self._by_name: dict[str, list[int]] | None = None
        # By the identity of a label set, which the pods keep alive.
        set_of: dict[int, int] = {}
        values: dict[str, tuple[list[int], list[str]]] = {}
        label_sets = []
        for number in numbers:
            pod = pods[number]
            label_set = set_of.get(id(pod.label_set))
            if label_set is None:
                label_set = set_of[id(pod.label_set)] = len(set_of)
                labels = pod.labels
                for key in keys.intersection(labels):
                    where, what = values.setdefault(key, ([], []))
                    where.append(label_set)
                    what.append(labels[key])
            label_sets.append(label_set)
        self._all_sets = np.arange(len(set_of))
        self._values = {key: _Values(*found) for key, found in values.items()}
        # Places in `numbers`, by label set and then in their order.
        self._by_set = np.argsort(label_sets, kind="stable")
        self._set_sizes = np.bincount(label_sets, minlength=len(set_of))
        self._set_ends = np.cumsum(self._set_sizes)

    def selected(self, selector: Selector) -> Numbers:
        """The pods that a selector selects, in their order."""
        sets = self._sets(selector)
        sizes = self._set_sizes[sets]
        first, ends = self._set_ends[sets] - sizes, np.cumsum(sizes)
        steps = np.arange(ends[-1] if len(ends) else 0)
        places = self._by_set[np.repeat(first - (ends - sizes), sizes) + steps]
        places.sort()
        return self._numbers[places]

    def without(self, numbers: Numbers, names: Iterable[str]) -> Numbers:
        """The pods of these numbers whose names are not among `names`."""
        if not names or not len(numbers):
            return numbers
        if self._by_name is None:
            self._by_name = {}
            for number in self._numbers.tolist():
                self._by_name.setdefault(self._pods[number].name, []).append(number)
        named = [number for name in names for number in self._by_name.get(name, ())]
        return np.setdiff1d(numbers, np.array(named, np.intp), assume_unique=True)

    def _sets(self, selector: Selector) -> Numbers:
        """The label sets that it selects, from those with the rarest label that it wants."""
        if selector.matches_nothing:
            return NONE
        wanted = [one for one in selector if one.needs_key]
        if any(one.key not in self._values for one in wanted):
            return NONE
        rarest = min(wanted, key=lambda one: self._values[one.key].count(one), default=None)
        found = self._all_sets
        if rarest is not None:
            found = self._values[rarest.key].having(rarest)
        for requirement in selector:
            if not len(found):
                break
            if requirement is not rarest and requirement.key in self._values:
                found = found[self._values[requirement.key].met_by(found, requirement)]
        return found


class _Values:
    """Values of one label key, by label set; label sets without the key are left out."""

    def __init__(self, label_sets: Sequence[int], values: Sequence[str]) -> None:
        """Label sets are in ascending order."""
        self._code_of = {value: code for code, value in enumerate(dict.fromkeys(values))}
        self._sets = np.array(label_sets, np.intp)
        self._codes = np.array([self._code_of[value] for value in values], np.intp)
        # The label sets by code, each code's in ascending order.
        self._by_code = self._sets[np.argsort(self._codes, kind="stable")]
        self._sizes = np.bincount(self._codes)
        self._ends = np.cumsum(self._sizes)

    def count(self, requirement: Requirement) -> int:
        """Number of label sets that have what is wanted; it wants the key."""
        if requirement.operator is Operator.EXISTS:
            return len(self._sets)
        return int(self._sizes[self._wanted(requirement)].sum())

    def having(self, requirement: Requirement) -> Numbers:
        """The label sets, in ascending order, that have what is wanted; it wants the key."""
        if requirement.operator is Operator.EXISTS:
            return self._sets
        spans = [
            self._by_code[self._ends[code] - self._sizes[code] : self._ends[code]]
            for code in self._wanted(requirement).tolist()
        ]
        return np.sort(np.concatenate(spans)) if spans else NONE

    def met_by(self, label_sets: Numbers, requirement: Requirement) -> Mask:
        """Label sets among these that meet a requirement about the key."""
        at = np.searchsorted(self._sets, label_sets)
        at[at == len(self._sets)] = 0
        has_key = self._sets[at] == label_sets
        match requirement.operator:
            case Operator.EXISTS:
                return has_key
            case Operator.DOES_NOT_EXIST:
                return ~has_key
        among = np.isin(self._codes[at], self._wanted(requirement)) & has_key
        return among if requirement.operator is Operator.IN else ~among

    def _wanted(self, requirement: Requirement) -> Numbers:
        """The codes of the values that it names; it may name more than there are."""
        known, named = self._code_of, requirement.values
        if len(named) > len(known):
            return np.array([code for value, code in known.items() if value in named], np.intp)
        return np.array([known[value] for value in named if value in known], np.intp)
