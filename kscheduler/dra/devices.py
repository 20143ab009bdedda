"""Devices of slices, and their types: all that allocation reads of a device except its name.

A cluster has few types and many devices, unless drivers publish serial numbers: then there is a
type per device, and what an expression reads decides (see `selectors`).
"""

from __future__ import annotations

from enum import IntEnum, auto
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from kscheduler import cel
from kscheduler.api.quantity import nano_value
from kscheduler.api.resource import Device, DeviceAttribute, ResourceSliceSpec
from kscheduler.dra.features import AllocatorFeatures, Implementation

if TYPE_CHECKING:
    from kscheduler.dra.slices import TrackedSlice

DeviceId = tuple[str, str, str]  # driver, pool, device

# By name in the API the fields of an attribute, in the order in which a set one is taken.
_ATTRIBUTE_FIELDS = {
    "ints": "int_values",
    "bools": "bool_values",
    "strings": "string_values",
    "versions": "version_values",
    "int": "int_value",
    "bool": "bool_value",
    "string": "string_value",
    "version": "version_value",
}
# Numbers of types that are gone are used again when there are this many more than of others.
SPARE_NUMBERS = 4096

_encode = msgspec.msgpack.Encoder().encode


def attribute_value(attribute: DeviceAttribute) -> tuple[str, Any]:
    """The field that is set, by its name in the API, and its value; ("", None) without any."""
    for name, field in _ATTRIBUTE_FIELDS.items():
        value = getattr(attribute, field)
        if value is not None:
            return name, value
    return "", None


class Reach(IntEnum):
    """The nodes that an allocation of the device is good for."""

    ONE_NODE = auto()
    # Those of a selector, or all of them.
    NODES = auto()
    # Those of a selector that no allocation can have.
    UNSUPPORTED = auto()


class CounterConsumption(msgspec.Struct, frozen=True):
    """Amounts that a device takes of one counter set, in nano-units."""

    counter_set: str
    amounts: tuple[tuple[str, int], ...]
    groups: frozenset[str]


class DeviceType:
    """A device without its name: equal content is the same object, as long as any device has it.

    `device` is one of the devices of this type; `number` is a small one of its own.
    """

    __slots__ = (
        "__weakref__",
        "consumes",
        "device",
        "driver",
        "in_cel",
        "number",
        "reach",
        "shared",
        "skips_node_operations",
    )

    def __init__(
        self,
        number: int,
        within: ResourceSliceSpec,
        device: Device,
        reach: Reach,
        features: AllocatorFeatures,
    ) -> None:
        self.number = number
        self.driver = within.driver
        self.device = device
        self.reach = reach
        self.skips_node_operations = bool(within.skip_node_operations)
        # Whether claims may share the device.
        self.shared = features.consumable_capacity and bool(device.allow_multiple_allocations)
        self.consumes = tuple(
            CounterConsumption(
                one.counter_set,
                tuple((name, nano_value(counter.value)) for name, counter in one.counters.items()),
                frozenset(one.compatibility_groups),
            )
            for one in device.consumes_counters
        )
        # The stable allocator does not tell expressions about sharing.
        told = features.implementation is not Implementation.STABLE
        # The device as expressions see it.
        self.in_cel = cel.Device(
            within.driver,
            device.attributes,
            device.capacity,
            allow_multiple_allocations=told and bool(device.allow_multiple_allocations),
        )


class DeviceTypes:
    """Types of the devices there are, recognised by a digest of their content.

    All numbers of types are below `numbers`. They change when `renumbered` does.
    """

    def __init__(self, features: AllocatorFeatures) -> None:
        self._features = features
        self.numbers = 0
        self.renumbered = 0
        self._by_digest: WeakValueDictionary[bytes, DeviceType] = WeakValueDictionary()

    def of(self, within: ResourceSliceSpec, device: Device) -> DeviceType:
        """The type of a device of a slice; some 5 µs, and so remembered with the device."""
        reach = self._reach(within, device)
        content = replace(device, name="", node_name=None, node_selector=None, all_nodes=None)
        encoded = _encode((within.driver, content, reach, bool(within.skip_node_operations)))
        digest = blake2b(encoded, digest_size=16).digest()
        known = self._by_digest.get(digest)
        if known is None:
            known = DeviceType(self.numbers, within, device, reach, self._features)
            self._by_digest[digest] = known
            self.numbers += 1
        return known

    def tidy(self) -> None:
        """Gives out numbers anew if most of them are of types that are gone."""
        if self.numbers > 2 * len(self._by_digest) + SPARE_NUMBERS:
            self.numbers = 0
            self.renumbered += 1
            for one in list(self._by_digest.values()):
                one.number = self.numbers
                self.numbers += 1

    def _reach(self, within: ResourceSliceSpec, device: Device) -> Reach:
        where = device if within.per_device_node_selection else within
        # The stable allocator does not know of devices that bind to a node.
        binds = self._features.implementation is not Implementation.STABLE and device.binds_to_node
        if where.node_name is not None or binds:
            return Reach.ONE_NODE
        selector = where.node_selector
        if selector is not None and len(selector.node_selector_terms) > 1:
            return Reach.UNSUPPORTED
        return Reach.NODES


class SliceDevice:
    """A device in its slice."""

    __slots__ = ("device", "slice", "type")

    def __init__(self, device: Device, within: TrackedSlice, type_: DeviceType) -> None:
        self.device = device
        self.slice = within
        self.type = type_

    @property
    def id(self) -> DeviceId:
        return (*self.slice.pool_id, self.device.name)


def id_text(device: DeviceId) -> str:
    """`driver/pool/device`, as error texts name a device."""
    return "/".join(device)
