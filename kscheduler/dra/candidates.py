"""Candidates: the devices of one node that the requests of a shape could take.

Mirrors validateDeviceRequest and isSelectable of structured/internal/*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kscheduler.api.resource import ResourceClaim
from kscheduler.dra.allocated import DeviceUse, PoolId
from kscheduler.dra.devices import SliceDevice, id_text
from kscheduler.dra.errors import AllocationError
from kscheduler.dra.kinds import Kind, SelectorFailed, Usable
from kscheduler.dra.pools import Pool, PoolState
from kscheduler.dra.selectors import Failed
from kscheduler.dra.shape import AllocationShape, Alternative, check_limit

KindOf = Callable[[SliceDevice], Kind]


class NodeDevices(NamedTuple):
    """All that a search reads of a node."""

    pools: Sequence[Pool]
    uses_of: Callable[[PoolId], Mapping[str, DeviceUse]]
    # Whether the node can do without some operations of a driver.
    skips_operations: bool


class Candidate:
    """A device in a search. `like` is equal for devices that are interchangeable at the start.

    `unreachable` is empty if the node cannot reach it, or the text of the error that came of
    asking; None if the node can.
    """

    __slots__ = ("device", "kind", "like", "pool", "unreachable", "use")

    def __init__(
        self,
        device: SliceDevice,
        kind: Kind,
        pool: int,
        use: DeviceUse | None,
        unreachable: str | None,
    ) -> None:
        self.device = device
        self.kind = kind
        # Its number among the pools of the node.
        self.pool = pool
        self.use = use
        self.unreachable = unreachable
        drawn = pool if kind.consumes else -1
        self.like = (kind.number, drawn, use and use.state, unreachable)

    @property
    def name(self) -> str:
        """`driver/pool/device`"""
        return id_text(self.device.id)


class Option(NamedTuple):
    """An alternative on this node; `devices` are numbers of its candidates, in order.

    `draws` is whether some of them draw on counters.
    """

    alternative: Alternative
    wanted: int
    devices: list[int]
    draws: bool = False


class Slot(NamedTuple):
    """A request, of whichever claim."""

    claim: int
    options: list[Option]


class Candidates:
    """The candidates of a node in order, and the requests of all claims with those they can take.

    Raises AllocationError for the first thing that is wrong with a request, or with a device that
    a request for all devices has to look at.
    """

    def __init__(
        self,
        shape: AllocationShape,
        claims: Sequence[ResourceClaim],
        node: NodeDevices,
        kind_of: KindOf,
    ) -> None:
        self.shape = shape
        self.claims = claims
        self.node = node
        self.devices = self._relevant(kind_of)
        # Whether a device that is tried can end the search with an error.
        self.may_fail = False
        self.slots: list[Slot] = []
        for number, (claim, asked) in enumerate(zip(claims, shape.claims, strict=True)):
            least = 0
            for request in asked.requests:
                if request.failure:
                    raise AllocationError(f"claim {claim.key}{request.failure}")
                options = [self._option(claim, one) for one in request.alternatives]
                self.slots.append(Slot(number, options))
                fewest = min(option.wanted for option in options)
                check_limit(claim, request, fewest, least)
                least += fewest
            if asked.failure:
                raise AllocationError(f"claim {claim.key}{asked.failure}")

    def require_selectable(
        self, claim: ResourceClaim, alternative: Alternative, number: int
    ) -> bool:
        """Whether selectors and node accept a device; raises AllocationError if one fails.

        Selectors are asked before the node is.
        """
        candidate = self.devices[number]
        selectable = candidate.kind.choices[alternative.number].selectable
        if isinstance(selectable, SelectorFailed):
            raise AllocationError(selectable.text(claim.key, candidate.device.id))
        if not selectable or candidate.unreachable is None:
            return selectable
        if candidate.unreachable:
            raise AllocationError(candidate.unreachable)
        return False

    def _relevant(self, kind_of: KindOf) -> list[Candidate]:
        see_used, found = self.shape.see_used, []
        for number, pool in enumerate(self.node.pools):
            uses, unreachable = self.node.uses_of(pool.id), pool.unreachable
            for position, device in enumerate(pool.devices):
                kind = kind_of(device)
                if not kind.relevant:
                    continue
                use = uses.get(device.device.name) if uses else None
                if use is not None and use.dedicated and not see_used:
                    continue
                problem = (unreachable[position] or "") if position in unreachable else None
                if problem != "" or kind.may_fail:
                    found.append(Candidate(device, kind, number, use, problem))
        return found

    def _option(self, claim: ResourceClaim, alternative: Alternative) -> Option:
        if alternative.failure:
            raise AllocationError(f"claim {claim.key}{alternative.failure}")
        if alternative.all_devices:
            devices = self._all_devices(claim, alternative)
            return Option(alternative, len(devices), devices)
        usable = self._usable(alternative)
        draws = any(self.devices[number].kind.consumes for number in usable)
        return Option(alternative, alternative.request.count, usable, draws)

    def _usable(self, alternative: Alternative) -> list[int]:
        """Devices that an exact count can be made of, and those that fail when they are tried."""
        found, admin, asked = [], alternative.admin_access, alternative.number
        skips = self.node.skips_operations
        for number, candidate in enumerate(self.devices):
            kind = candidate.kind
            usable = kind.usable[asked]
            if candidate.unreachable and kind.choices[asked].selectable is True:
                usable = Usable.FAILS
            # Whether it is in use is looked at before selectors are.
            if usable is Usable.NEVER or (
                candidate.use is not None and candidate.use.dedicated and not admin
            ):
                continue
            if usable is Usable.FAILS:
                self.may_fail = True
            elif candidate.unreachable == "" or (kind.needs_skipping and not skips):
                continue
            found.append(number)
        return found

    def _all_devices(self, claim: ResourceClaim, alternative: Alternative) -> list[int]:
        """Devices of all pools that selectors accept, whether they can be had or not."""
        where = f"claim {claim.key}, request {alternative.name}"
        by_pool: dict[int, list[int]] = {}
        for number, candidate in enumerate(self.devices):
            by_pool.setdefault(candidate.pool, []).append(number)
        found = []
        for pool_number, pool in enumerate(self.node.pools):
            if pool.state is not PoolState.READY:
                what = "being updated" if pool.state is PoolState.INCOMPLETE else "invalid"
                raise AllocationError(
                    f"{where}: asks for all devices, but resource pool {'/'.join(pool.id)} "
                    f"is currently {what}"
                )
            for number in by_pool.get(pool_number, ()):
                candidate = self.devices[number]
                capacity = candidate.kind.choices[alternative.number].capacity
                if not self.require_selectable(claim, alternative, number):
                    continue
                if isinstance(capacity, Failed):
                    name = candidate.device.device.name
                    raise AllocationError(
                        f"{where}: checking capacity for device {name}: {capacity}"
                    )
                if capacity is not None:
                    found.append(number)
        # A constraint that is not met by one of them is an error.
        self.may_fail = self.may_fail or bool(alternative.constraints)
        return found
