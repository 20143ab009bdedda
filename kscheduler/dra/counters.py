"""Counters of partitionable devices: how much of each a pool has left.

Mirrors checkAvailableCounters and the compatibility groups of structured/internal/*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kscheduler.dra.allocated import DeviceUse
from kscheduler.dra.devices import CounterConsumption
from kscheduler.dra.pools import PoolGeneration

CounterName = tuple[str, str]  # counter set, counter


class Groups(NamedTuple):
    """Compatibility groups that the devices on one counter set have in common.

    `common` is None while all of them have none; such devices combine with their like only.
    """

    common: frozenset[str] | None

    def admits(self, groups: frozenset[str]) -> bool:
        if self.common is None:
            return not groups
        return bool(self.common & groups)

    def with_device(self, groups: frozenset[str]) -> Groups:
        if self.common is None or not groups:
            return self
        return Groups(self.common & groups)


class Counters:
    """Counters of one pool during a search: what is left of each, and groups by counter set.

    What allocated devices consume is taken off at the beginning, which may leave less than nothing;
    then no device of the pool that consumes counters can be had. A device that allocated claims
    share is counted once.
    """

    __slots__ = ("_groups", "_uses_groups", "left", "overdrawn")

    def __init__(
        self,
        generation: PoolGeneration,
        uses: Mapping[str, DeviceUse],
        *,
        groups: bool,
    ) -> None:
        self._uses_groups = groups
        self.left: dict[CounterName, int] = {
            (name, counter): amount
            for name, counters in generation.counter_sets.items()
            for counter, amount in counters.items()
        }
        self._groups: dict[str, Groups] = {}
        consumers = generation.consumers
        # Whichever is smaller; results do not depend on the order.
        for device in uses if len(uses) < len(consumers) else consumers:
            if device in uses:
                for type_ in consumers.get(device, ()):
                    self._consume(type_.consumes)
        self.overdrawn = sum(amount < 0 for amount in self.left.values())

    @property
    def state(self) -> tuple[object, ...]:
        """A hashable value that decides about all devices that could be added."""
        groups = sorted((name, one.common) for name, one in self._groups.items())
        return (*sorted(self.left.items()), *groups)

    def add(self, consumes: tuple[CounterConsumption, ...]) -> dict[str, Groups | None] | None:
        """Takes a device's counters, or gives None if there is not enough or groups differ.

        The answer is for `remove`.
        """
        before: dict[str, Groups | None] = {}
        if self._uses_groups:
            for one in consumes:
                current = self._groups.get(one.counter_set)
                if current is not None and not current.admits(one.groups):
                    self._groups_back(before)
                    return None
                before.setdefault(one.counter_set, current)
                self._fold(one)
        self._change(consumes, -1)
        if self.overdrawn:
            self._change(consumes, 1)
            self._groups_back(before)
            return None
        return before

    def remove(
        self, consumes: tuple[CounterConsumption, ...], before: Mapping[str, Groups | None]
    ) -> None:
        """Undoes `add`."""
        self._change(consumes, 1)
        self._groups_back(before)

    def most(self, devices: Sequence[tuple[CounterConsumption, ...]]) -> int:
        """At most so many of the devices can be added; perhaps fewer."""
        if self.overdrawn:
            return 0
        amounts: dict[CounterName, list[int]] = {}
        for consumes in devices:
            for one in consumes:
                for counter, amount in one.amounts:
                    amounts.setdefault((one.counter_set, counter), []).append(amount)
        most = len(devices)
        for key, drawn in amounts.items():
            left = self.left[key]
            # Devices that do not draw on this counter come first.
            fitting = len(devices) - len(drawn)
            for amount in sorted(drawn):
                left -= amount
                if left < 0:
                    break
                fitting += 1
            most = min(most, fitting)
        return most

    def _consume(self, consumes: Iterable[CounterConsumption]) -> None:
        for one in consumes:
            for counter, amount in one.amounts:
                key = (one.counter_set, counter)
                if key in self.left:
                    self.left[key] -= amount
            if self._uses_groups:
                self._fold(one)

    def _fold(self, one: CounterConsumption) -> None:
        """Counts a device's groups among those of the counter set."""
        current = self._groups.get(one.counter_set)
        if current is None:
            self._groups[one.counter_set] = Groups(one.groups or None)
        else:
            self._groups[one.counter_set] = current.with_device(one.groups)

    def _change(self, consumes: tuple[CounterConsumption, ...], sign: int) -> None:
        left = self.left
        for one in consumes:
            for counter, amount in one.amounts:
                key = (one.counter_set, counter)
                was = left[key]
                now = left[key] = was + sign * amount
                self.overdrawn += (now < 0) - (was < 0)

    def _groups_back(self, before: Mapping[str, Groups | None]) -> None:
        for name, groups in before.items():
            if groups is None:
                del self._groups[name]
            else:
                self._groups[name] = groups
