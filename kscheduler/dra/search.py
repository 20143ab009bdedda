"""The search for devices on one node: depth first, the first solution wins.

Claims are served in order, requests in order, devices in order of their pools and slices; for
several devices of one request, combinations and not permutations. Whatever is pruned has no
solution: the answer is that of upstream's exhaustive search.

- A device that failed is not followed by its like: such devices are interchangeable.
- Too few candidates end a request before they are combined.
- A failure names the earlier requests it depends on; those in between are not tried again.

Mirrors allocateOne of structured/internal/*. Differs: prunes; upstream tries every subset, and runs
into its time limit where this says at once that devices are missing. Where a device may raise an
error nothing but the first rule is used, so that the error is the same that upstream finds first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kscheduler.dra.candidates import Candidate, Candidates, Option, Slot
from kscheduler.dra.errors import AllocationError, SearchTimeout
from kscheduler.dra.features import AllocatorFeatures
from kscheduler.dra.partial import PartialAllocation, SlotSet, Taken, mask
from kscheduler.dra.selectors import Failed
from kscheduler.dra.shape import MAX_RESULTS, Alternative

# Steps between two looks at the clock; a step takes a few µs.
STEPS_PER_LOOK = 256
TIMED_OUT = "timed out trying to allocate devices"

Step = Callable[[], Any]  # gives the next step, or None at the end


class Pick(NamedTuple):
    """A device chosen for a request or subrequest."""

    alternative: Alternative
    candidate: Candidate


class Solution(NamedTuple):
    """Devices by claim, and by claim and request the index of the alternative."""

    picks: list[list[Pick]]
    chosen: list[list[int]]


class _Frame:
    """The choice of one device: the `index`-th of its request."""

    __slots__ = ("blame", "index", "like", "position", "slot", "taken", "tried")

    def __init__(self, slot: int, index: int, position: int, blame: SlotSet) -> None:
        self.slot = slot
        self.index = index
        # Of the candidate that is tried next.
        self.position = position
        # Slots whose devices are the reason that some candidates failed.
        self.blame = blame
        # What failed in this place: the like of it need not be tried.
        self.tried: set[object] = set()
        self.taken: Taken | None = None
        self.like: object = None


class Search:
    """One search; `find` is called once."""

    def __init__(
        self,
        candidates: Candidates,
        features: AllocatorFeatures,
        out_of_time: Callable[[], bool],
        *,
        prune: bool = True,
    ) -> None:
        self._devices = candidates.devices
        self._slots = candidates.slots
        self._candidates = candidates
        self._prune = prune and not candidates.may_fail
        # Without pruning, every failure depends on everything before.
        self._unpruned: SlotSet = 0 if self._prune else -1
        self._partial = PartialAllocation(candidates, features, foresight=self._prune)
        self._out_of_time = out_of_time
        # By slot: devices that the slots of the same claim behind it want at least.
        self._least_later = _least_later(self._slots)
        # Where the search is: the slot, the devices taken, by slot the index of its alternative.
        self._slot = 0
        self._frames: list[_Frame] = []
        self._chosen = [0] * len(self._slots)
        # By slot: the slots whose devices, or whose numbers of devices, made it fail.
        self._blame: list[SlotSet] = [0] * len(self._slots)
        self._blamed_counts: list[SlotSet] = [0] * len(self._slots)

    def find(self) -> Solution | None:
        """The first solution; raises AllocationError or SearchTimeout."""
        if self._prune and self._is_hopeless():
            return None
        # Each step tells the next one: no recursion, however many devices are wanted.
        steps = 0
        step: Step | None = self._begin
        while step is not None:
            steps += 1
            if steps % STEPS_PER_LOOK == 0 and self._out_of_time():
                raise SearchTimeout(TIMED_OUT)
            step = step()
        if self._slot < len(self._slots):
            return None
        claims = self._candidates.claims
        picks: list[list[Pick]] = [[] for _ in claims]
        for frame in self._frames:
            assert frame.taken is not None
            pick = Pick(frame.taken.alternative, self._devices[frame.taken.number])
            picks[self._slots[frame.slot].claim].append(pick)
        chosen: list[list[int]] = [[] for _ in claims]
        for slot, index in zip(self._slots, self._chosen, strict=True):
            chosen[slot.claim].append(index)
        return Solution(picks, chosen)

    def _begin(self) -> Step | None:
        """Begins the chosen alternative of the current slot."""
        slot = self._slot
        if slot == len(self._slots):
            return None
        claim, options = self._slots[slot]
        option = options[self._chosen[slot]]
        if option.alternative.all_devices and not option.devices:
            self._blame[slot] |= self._unpruned
            return self._next_alternative
        later = self._least_later[slot] if self._prune else 0
        if option.wanted > MAX_RESULTS - self._partial.taken[claim] - later:
            # Other devices do not help, only fewer of them: blame alternatives of the same claim.
            same_claim = mask(one for one in range(slot) if self._slots[one].claim == claim)
            self._blamed_counts[slot] |= same_claim
            self._blame[slot] |= self._unpruned & ((1 << slot) - 1) & ~same_claim
            return self._next_alternative
        if not option.wanted:
            return self._next_slot()
        self._frames.append(_Frame(slot, 0, 0, self._unpruned))
        return self._next_device

    def _next_slot(self) -> Step:
        self._slot += 1
        if self._slot < len(self._slots):
            self._chosen[self._slot] = 0
            self._blame[self._slot] = self._blamed_counts[self._slot] = 0
        return self._begin

    def _next_device(self) -> Step:
        """Takes the next device of the last frame that can be had, or gives the frame up."""
        frame = self._frames[-1]
        option = self._slots[frame.slot].options[self._chosen[frame.slot]]
        if option.alternative.all_devices:
            self._take_next_of_all(frame, option)
        else:
            self._take_next(frame, option)
        if frame.taken is not None:
            if frame.index + 1 == option.wanted:
                return self._next_slot()
            # The next one follows in order, so it depends on this one.
            blame = self._unpruned | (1 << frame.slot)
            self._frames.append(_Frame(frame.slot, frame.index + 1, frame.position, blame))
            return self._next_device
        self._frames.pop()
        if frame.index == 0:
            self._blame[frame.slot] |= frame.blame
            return self._next_alternative
        before = self._frames[-1]
        before.blame |= frame.blame
        self._release(before)
        return self._next_device

    def _next_alternative(self) -> Step:
        slot = self._slot
        self._chosen[slot] += 1
        if self._chosen[slot] < len(self._slots[slot].options):
            return self._begin
        return self._go_back

    def _go_back(self) -> Step | None:
        """The current slot failed: returns to the last slot that it failed because of."""
        earlier = (1 << self._slot) - 1
        devices = self._blame[self._slot] & earlier
        counts = self._blamed_counts[self._slot] & earlier
        if not (devices or counts):
            return None
        slot = self._slot = (devices | counts).bit_length() - 1
        while self._frames and self._frames[-1].slot > slot:
            self._release(self._frames.pop())
        self._blamed_counts[slot] |= counts
        if devices >> slot:
            frame = self._frames[-1]
            frame.blame |= devices
            self._release(frame)
            return self._next_device
        # Whichever devices this slot takes, it takes as many of them.
        while self._frames and self._frames[-1].slot == slot:
            self._release(self._frames.pop())
        self._blame[slot] |= devices
        return self._next_alternative

    def _take_next(self, frame: _Frame, option: Option) -> None:
        """The next of an exact number of devices, in order."""
        alternative, devices, partial = option.alternative, option.devices, self._partial
        claim = self._slots[frame.slot].claim
        end = len(devices)
        if self._prune:
            # Later ones are too few for the rest.
            wanted = option.wanted - frame.index
            end -= wanted - 1
            if wanted > 1 and not frame.tried and option.draws:
                short = partial.short_of_counters(devices[frame.position :], wanted)
                if short is not None:
                    frame.blame |= short
                    return
        while frame.position < end:
            number = devices[frame.position]
            frame.position += 1
            holders = partial.holders(number, claim, alternative)
            if holders is not None:
                frame.blame |= holders
                continue
            like, made_so_by = partial.like(number)
            if like in frame.tried:
                frame.blame |= made_so_by
                continue
            if self._candidates.may_fail and not self._can_be_tried(claim, alternative, number):
                continue
            taken: Taken | SlotSet | None = partial.short_of_capacity(number, alternative)
            if taken is None:
                taken = partial.take(frame.slot, alternative, number)
            if isinstance(taken, Taken):
                frame.taken, frame.like = taken, like
                return
            frame.blame |= taken
            frame.tried.add(like)

    def _can_be_tried(self, claim: int, alternative: Alternative, number: int) -> bool:
        """Whether selectors accept a device that may fail; raises AllocationError if it does."""
        whole = self._candidates.claims[claim]
        if not self._candidates.require_selectable(whole, alternative, number):
            return False
        candidate = self._devices[number]
        capacity = candidate.kind.choices[alternative.number].capacity
        if isinstance(capacity, Failed):
            raise AllocationError(
                f"claim {whole.key}, request {alternative.name}: checking capacity for device "
                f"{candidate.name}: {capacity}"
            )
        skips = self._candidates.node.skips_operations
        return capacity is not None and (skips or not candidate.kind.needs_skipping)

    def _take_next_of_all(self, frame: _Frame, option: Option) -> None:
        """The next of all devices: that one or none."""
        alternative, number = option.alternative, option.devices[frame.index]
        if number in frame.tried:
            return
        frame.tried.add(number)
        frame.like = number
        holders = self._partial.holders(number, self._slots[frame.slot].claim, alternative)
        if holders is not None:
            frame.blame |= holders
            return
        kind = self._devices[number].kind
        if kind.needs_skipping and not self._candidates.node.skips_operations:
            return
        taken = self._partial.take(frame.slot, alternative, number, must=True)
        if isinstance(taken, Taken):
            frame.taken = taken
        else:
            frame.blame |= taken

    def _release(self, frame: _Frame) -> None:
        """Gives the device of a frame back; its like is not tried again in this place."""
        assert frame.taken is not None
        self._partial.release(frame.taken)
        frame.taken = None
        frame.tried.add(frame.like)

    def _is_hopeless(self) -> bool:
        """Whether some requests together want more devices than there are for them."""
        if len(self._slots) == 1:
            return False
        wanted: dict[int, int] = {}
        for _, options in self._slots:
            alternative, count, devices, _ = options[0]
            if len(options) > 1 or alternative.admin_access or alternative.all_devices:
                continue
            if any(self._devices[number].kind.shared for number in devices):
                continue
            among = mask(devices)
            wanted[among] = wanted.get(among, 0) + count
        return any(
            sum(count for some, count in wanted.items() if some & ~among == 0) > among.bit_count()
            for among in wanted
        )


def _least_later(slots: Sequence[Slot]) -> list[int]:
    least = [0] * len(slots)
    for number in range(len(slots) - 2, -1, -1):
        after = slots[number + 1]
        if after.claim == slots[number].claim:
            fewest = min(option.wanted for option in after.options)
            least[number] = least[number + 1] + fewest
    return least
