"""PartialAllocation: the devices that a search has taken so far, and what they leave.

Mirrors allocateDevice and rollbackDevice of structured/internal/*.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kscheduler.dra.candidates import Candidates
from kscheduler.dra.capacity import Consumption
from kscheduler.dra.constraints import AttributeValue, Constraint
from kscheduler.dra.counters import Counters, Groups
from kscheduler.dra.errors import AllocationError
from kscheduler.dra.features import AllocatorFeatures
from kscheduler.dra.kinds import AttributeFailed
from kscheduler.dra.selectors import Failed
from kscheduler.dra.shape import Alternative

SlotSet = int  # bit i is slot i; -1 is all of them


class Taken(NamedTuple):
    """A device that was taken, with what `release` needs."""

    slot: int
    alternative: Alternative
    number: int
    # Groups before counters were drawn on; None if none were.
    drawn: Mapping[str, Groups | None] | None


class _Supply(NamedTuple):
    """Devices by value that a constraint's requests could take, and how many they want."""

    demand: int
    devices: Mapping[object, set[int]]
    # Values of devices that can be taken more than once.
    unlimited: set[object]


class PartialAllocation:
    """Devices taken for some slots. What is released was taken last.

    A refusal is a set of slots: those whose devices are the reason. With `foresight`, a device is
    refused, too, with which a constraint could not be met by all of its requests.
    """

    def __init__(
        self, candidates: Candidates, features: AllocatorFeatures, *, foresight: bool
    ) -> None:
        self._devices = candidates.devices
        self._slots = candidates.slots
        self._node = candidates.node
        self._claims = candidates.claims
        self._shapes = candidates.shape.claims
        self._features = features
        self._foresight = foresight and not features.list_type_attributes
        # Number of devices by claim.
        self.taken = [0] * len(self._shapes)
        # By number of the candidate: slots and claims that have it to themselves.
        self._holders = [0] * len(self._devices)
        self._claims_of = [0] * len(self._devices)
        # Of shared devices: slots that have a share, and the capacity that these consume.
        self._sharers: dict[int, list[int]] = {}
        self._consumed: dict[int, dict[str, int]] = {}
        # By pool: its counters, and slots that draw on them.
        self._counters: dict[int, Counters] = {}
        self._drawers: dict[int, list[int]] = {}
        # By claim and constraint, and the slots whose devices it has seen.
        lists = features.list_type_attributes
        self._constraints: list[list[Constraint]] = [
            [one.begin(lists=lists) for one in shape.constraints] for shape in self._shapes
        ]
        self._constrained: list[list[list[int]]] = [
            [[] for _ in shape.constraints] for shape in self._shapes
        ]
        self._supplies: dict[tuple[int, int], _Supply] = {}

    def like(self, number: int) -> tuple[Hashable, SlotSet]:
        """A value that is equal for devices that are interchangeable now, and who made it so."""
        sharers = self._sharers.get(number)
        if sharers is not None:
            consumed = tuple(sorted(self._consumed[number].items()))
            return (self._devices[number].like, consumed), mask(sharers)
        if self._holders[number]:
            return number, self._holders[number]
        return self._devices[number].like, 0

    def short_of_counters(self, devices: Sequence[int], wanted: int) -> SlotSet | None:
        """The slots because of which pools cannot give that many of the devices; None if they can.

        A bound: each pool gives as many as its counters allow for the smallest of its devices.
        """
        by_pool: dict[int, list[int]] = {}
        for number in devices:
            by_pool.setdefault(self._devices[number].pool, []).append(number)
        blame = given = 0
        for pool, numbers in by_pool.items():
            kinds = [self._devices[number].kind for number in numbers]
            most = len(numbers)
            if all(kind.consumes and not kind.shared for kind in kinds):
                most = self._counters_of(pool).most([kind.consumes for kind in kinds])
                blame |= mask(self._drawers.get(pool, ()))
            given += most
        return blame if given < wanted else None

    def holders(self, number: int, claim: int, alternative: Alternative) -> SlotSet | None:
        """The slots because of which the device is in use; None if it is not.

        With admin access a device can be had unless the same claim has it already.
        """
        if alternative.admin_access:
            return self._holders[number] if self._claims_of[number] >> claim & 1 else None
        use = self._devices[number].use
        if self._holders[number] or (use is not None and use.dedicated):
            return self._holders[number]
        return None

    def short_of_capacity(self, number: int, alternative: Alternative) -> SlotSet | None:
        """The slots whose shares leave too little of the device; None if there is enough."""
        candidate = self._devices[number]
        allocated = candidate.use.consumed if candidate.use is not None else {}
        allocating = self._consumed.get(number, {})
        if allocated or allocating:
            for name, amount, value in self._consumption(number, alternative):
                if allocated.get(name, 0) + allocating.get(name, 0) + amount.nanos > value:
                    return mask(self._sharers.get(number, ()))
        return None

    def take(
        self, slot: int, alternative: Alternative, number: int, *, must: bool = False
    ) -> Taken | SlotSet:
        """Takes a device that is not in use, if counters, constraints and capacity allow.

        `must`: a constraint that is not met is an AllocationError.
        """
        candidate, claim = self._devices[number], self._slots[slot].claim
        kind = candidate.kind
        if not kind.choices[alternative.number].allowed:
            return 0
        drawn = None
        shared = number in self._sharers or (candidate.use is not None and candidate.use.shares)
        # Further shares of a device do not draw on its counters again.
        if kind.consumes and not (kind.shared and shared):
            drawn = self._counters_of(candidate.pool).add(kind.consumes)
            if drawn is None:
                return mask(self._drawers.get(candidate.pool, ()))
        taken = Taken(slot, alternative, number, drawn)
        refused = self._constrain(taken)
        if refused is not None and must:
            raise AllocationError(
                f"claim {self._claims[claim].key}, request {alternative.name}: cannot add device "
                f"{candidate.name} because a claim constraint would not be satisfied"
            )
        if refused is None:
            refused = self.short_of_capacity(number, alternative)
            if refused is not None:
                self._unconstrain(claim, alternative.constraints)
        if refused is not None:
            self._undraw(taken)
            return refused
        if drawn is not None:
            self._drawers.setdefault(candidate.pool, []).append(slot)
        if kind.shared:
            self._sharers.setdefault(number, []).append(slot)
            consumed = self._consumed.setdefault(number, {})
            for name, amount, _ in self._consumption(number, alternative):
                consumed[name] = consumed.get(name, 0) + amount.nanos
        else:
            self._holders[number] |= 1 << slot
            self._claims_of[number] |= 1 << claim
        self.taken[claim] += 1
        return taken

    def release(self, taken: Taken) -> None:
        """Undoes `take`."""
        slot, alternative, number, drawn = taken
        candidate, claim = self._devices[number], self._slots[slot].claim
        self.taken[claim] -= 1
        if candidate.kind.shared:
            sharers, consumed = self._sharers[number], self._consumed[number]
            sharers.pop()
            for name, amount, _ in self._consumption(number, alternative):
                consumed[name] -= amount.nanos
            if not sharers:
                del self._sharers[number], self._consumed[number]
        else:
            self._holders[number] &= ~(1 << slot)
            self._claims_of[number] &= ~(1 << claim)
        self._unconstrain(claim, alternative.constraints)
        if drawn is not None:
            self._drawers[candidate.pool].pop()
        self._undraw(taken)

    def _consumption(self, number: int, alternative: Alternative) -> tuple[Consumption, ...]:
        capacity = self._devices[number].kind.choices[alternative.number].capacity
        assert capacity is not None
        assert not isinstance(capacity, Failed)
        return capacity

    def _counters_of(self, pool: int) -> Counters:
        known = self._counters.get(pool)
        if known is None:
            of_node = self._node.pools[pool]
            known = self._counters[pool] = Counters(
                of_node.generation,
                self._node.uses_of(of_node.id),
                groups=self._features.compatibility_groups,
            )
        return known

    def _undraw(self, taken: Taken) -> None:
        if taken.drawn is not None:
            candidate = self._devices[taken.number]
            self._counters[candidate.pool].remove(candidate.kind.consumes, taken.drawn)

    def _constrain(self, taken: Taken) -> SlotSet | None:
        """Adds the device to all constraints of its request, or to none: the reason then."""
        slot, alternative, number, _ = taken
        claim, candidate = self._slots[slot].claim, self._devices[number]
        values = candidate.kind.choices[alternative.number].values
        for index, constraint in enumerate(alternative.constraints):
            value = values[index]
            refused: SlotSet | None = 0
            if isinstance(value, AttributeFailed):
                raise AllocationError(value.text(candidate.device.id))
            if value is not None and self._has_supply(claim, constraint, value):
                refused = None
                if not self._constraints[claim][constraint].add(value):
                    refused = mask(self._constrained[claim][constraint])
            if refused is not None:
                self._unconstrain(claim, alternative.constraints[:index])
                return refused
            self._constrained[claim][constraint].append(slot)
        return None

    def _unconstrain(self, claim: int, numbers: Sequence[int]) -> None:
        for number in reversed(numbers):
            self._constraints[claim][number].remove()
            self._constrained[claim][number].pop()

    def _has_supply(self, claim: int, number: int, value: AttributeValue) -> bool:
        """Whether a constraint that begins with this value can be met by all of its requests."""
        if not self._foresight or self._constraints[claim][number].values:
            return True
        supply = self._supplies.get((claim, number))
        if supply is None:
            supply = self._supplies[claim, number] = self._supply(claim, number)
        if self._shapes[claim].constraints[number].distinct:
            return len(supply.devices) >= supply.demand
        return value in supply.unlimited or len(supply.devices[value]) >= supply.demand

    def _supply(self, claim: int, number: int) -> _Supply:
        demand = 0
        devices: dict[object, set[int]] = {}
        unlimited: set[object] = set()
        for slot in self._slots:
            if slot.claim != claim:
                continue
            wanted = []
            for option in slot.options:
                alternative = option.alternative
                concerned = number in alternative.constraints
                wanted.append(option.wanted if concerned else 0)
                for one in option.devices if concerned else ():
                    kind = self._devices[one].kind
                    index = alternative.constraints.index(number)
                    value = kind.choices[alternative.number].values[index]
                    devices.setdefault(value, set()).add(one)
                    if kind.shared or alternative.admin_access:
                        unlimited.add(value)
            demand += min(wanted)
        return _Supply(demand, devices, unlimited)


def mask(numbers: Iterable[int]) -> int:
    """The numbers as bits."""
    found = 0
    for number in numbers:
        found |= 1 << number
    return found
