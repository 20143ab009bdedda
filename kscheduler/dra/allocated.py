"""AllocatedDevices: the devices that claims hold, by pool.

Mirrors pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go. Differs: nothing; a
device that two claims have to themselves, by mistake of a driver or of another scheduler, is free
as soon as one of them lets it go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kscheduler.api.quantity import nano_value
from kscheduler.api.resource import AllocationResult
from kscheduler.dra.features import AllocatorFeatures
from kscheduler.state.change_log import ChangeLog

PoolId = tuple[str, str]  # driver, pool
Amounts = dict[str, int]  # capacity name -> nano-units

NO_USES: Mapping[str, DeviceUse] = {}


class DeviceUse:
    """Use of one device: claims that have it to themselves, shares of it, capacity these consume.

    Invariant: `dedicated + shares > 0`; a device that is not in use has no DeviceUse.
    """

    __slots__ = ("consumed", "dedicated", "shares")

    def __init__(self) -> None:
        self.dedicated = 0
        self.shares = 0
        # Summed over the shares; a name stays when its amount returns to zero.
        self.consumed: Amounts = {}

    @property
    def state(self) -> tuple[object, ...]:
        """A hashable value, equal for devices that are in use in the same way."""
        if not self.shares:
            return (True,)
        return (self.dedicated > 0, True, *sorted(self.consumed.items()))


class _Held(NamedTuple):
    """One result of a claim's allocation."""

    pool: PoolId
    device: str
    shared: bool
    consumed: tuple[tuple[str, int], ...]


class AllocatedDevices:
    """Devices in use by allocated claims, those in flight included.

    One entry per claim UID: adding again replaces. A change costs what the allocation's size is,
    and is told in `changes` by pool.
    """

    def __init__(self, features: AllocatorFeatures) -> None:
        self._shares = features.consumable_capacity
        self._by_claim: dict[str, tuple[_Held, ...]] = {}
        self._by_pool: dict[PoolId, dict[str, DeviceUse]] = {}
        self.changes: ChangeLog[PoolId] = ChangeLog()

    def uses(self, pool: PoolId) -> Mapping[str, DeviceUse]:
        """Devices of the pool that are in use, by name."""
        return self._by_pool.get(pool, NO_USES)

    def add(self, claim_uid: str, allocation: AllocationResult) -> None:
        held = self._held(allocation)
        known = self._by_claim.get(claim_uid)
        if held == known:
            return
        if known is not None:
            self.remove(claim_uid)
        self._by_claim[claim_uid] = held
        for pool, device, shared, consumed in held:
            uses = self._by_pool.setdefault(pool, {})
            use = uses.get(device)
            if use is None:
                use = uses[device] = DeviceUse()
            if shared:
                use.shares += 1
                for name, amount in consumed:
                    use.consumed[name] = use.consumed.get(name, 0) + amount
            else:
                use.dedicated += 1
            self.changes.add(pool)

    def remove(self, claim_uid: str, *, gave_up: bool = False) -> None:
        """Frees what the claim holds; nothing happens for a claim that is not known.

        A device that it had to itself is free then, whoever else has it. Not so if the claim
        `gave_up` what it had in flight: another one may have got it written.
        """
        for pool, device, shared, consumed in self._by_claim.pop(claim_uid, ()):
            uses = self._by_pool.get(pool, {})
            use = uses.get(device)
            if use is None:
                # Another claim had it, too, and has let it go.
                continue
            if shared:
                use.shares -= 1
                for name, amount in consumed:
                    use.consumed[name] -= amount
            else:
                use.dedicated = use.dedicated - 1 if gave_up else 0
            if not (use.shares or use.dedicated):
                del uses[device]
                if not uses:
                    del self._by_pool[pool]
            self.changes.add(pool)

    def _held(self, allocation: AllocationResult) -> tuple[_Held, ...]:
        held = []
        for result in allocation.devices.results:
            # A device used with admin access is free for others.
            if result.admin_access:
                continue
            shared = self._shares and result.share_id is not None
            consumed: tuple[tuple[str, int], ...] = ()
            if shared and result.consumed_capacity:
                amounts = result.consumed_capacity.items()
                consumed = tuple([(name, nano_value(amount)) for name, amount in amounts])
            held.append(_Held((result.driver, result.pool), result.device, shared, consumed))
        return tuple(held)
