"""Distinct lists of taints under small numbers: thousands of nodes share a handful of them."""

from __future__ import annotations

from collections.abc import Iterable

from kscheduler.api.core import Taint

_Key = tuple[tuple[str, str, str], ...]


class TaintSets:
    """Numbers keep their meaning; number 0 is no taint at all."""

    def __init__(self) -> None:
        self.lists: list[tuple[Taint, ...]] = [()]
        self._numbers: dict[_Key, int] = {(): 0}

    def number_of(self, taints: Iterable[Taint]) -> int:
        # When a taint was added would make every list a distinct one, and decides nothing.
        key = tuple((taint.key, taint.value, taint.effect) for taint in taints)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.lists)
            self.lists.append(tuple(Taint(*parts) for parts in key))
        return number
