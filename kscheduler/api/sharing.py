"""One copy of what objects repeat.

Pods of one workload differ in name, uid, node and times and repeat the rest; nodes report the same
images. Here an object is rebuilt around the copies seen first and stays equal to what it was.
A spec is recognised by its encoding, and all pods with the same one hold the same parts: what
follows from a spec is then computed once, by caches whose keys are its parts.

Measured on made-up but usual objects: a running pod shrinks from 6.2 KB to 1.6 KB, a node with 50
images from about 20 KB to 2.7 KB, for some 7 µs a pod. The tables are limited in bytes; `CACHES`
names them. What no object has any more leaves them when they are aged, and what is very large is
never in them: then it goes with its object.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from sys import getrefcount, getsizeof
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kscheduler.api.core import (
    Container,
    ContainerStatus,
    Node,
    Pod,
    PodSpec,
    PodStatus,
    Volume,
)
from kscheduler.api.meta import ApiObject
from kscheduler.api.resource import DeviceClass, OpaqueDeviceConfiguration, ResourceClaim
from kscheduler.caches import EXPANSION, Cache, SharedTexts, SharedValues, are_referred_to

H = TypeVar("H", bound=Hashable)
T = TypeVar("T", str, str | None)
ClaimOrClass = TypeVar("ClaimOrClass", ResourceClaim, DeviceClass)

MEBIBYTE = 1 << 20
_encode = msgspec.json.Encoder().encode


def sharing_of(kind: type[ApiObject]) -> Callable[[Any], Any] | None:
    """The function that makes objects of this kind share parts; None where it would not pay."""
    return _SHARING.get(kind)


def share_pod(pod: Pod) -> Pod:
    """A pod equal to this one but for volumes without a known source, built of shared parts."""
    metadata = pod.metadata
    return replace(
        pod,
        metadata=replace(
            metadata,
            namespace=_shared_text(metadata.namespace),
            generate_name=_shared_text(metadata.generate_name),
            creation_timestamp=_shared_text(metadata.creation_timestamp),
            labels=_shared_map(metadata.labels),
            annotations=_shared_map(metadata.annotations),
            owner_references=_shared_item(metadata.owner_references),
        ),
        spec=_shared_spec(pod.spec),
        status=_shared_status(pod.status),
    )


def share_node(node: Node) -> Node:
    """A node equal to this one, whose images and conditions are shared with other nodes."""
    status = node.status
    return replace(
        node,
        status=replace(
            status,
            conditions=_shared_item(status.conditions),
            images=tuple(map(_shared_item, status.images)),
        ),
    )


def own_parameters(item: ClaimOrClass) -> ClaimOrClass:
    """A claim or class that does not keep the whole answer alive of which its parameters are part.

    Those of allocations are left as they are: they come with an answer about one claim.
    """
    config = item.spec.config if isinstance(item, DeviceClass) else item.spec.devices.config
    if not config:
        return item
    owned = tuple([replace(one, opaque=one.opaque and _owned(one.opaque)) for one in config])
    if isinstance(item, DeviceClass):
        return replace(item, spec=replace(item.spec, config=owned))
    devices = replace(item.spec.devices, config=owned)
    return replace(item, spec=replace(item.spec, devices=devices))


def _owned(opaque: OpaqueDeviceConfiguration) -> OpaqueDeviceConfiguration:
    return replace(opaque, parameters=opaque.parameters.copy())


def _shared_spec(spec: PodSpec) -> PodSpec:
    """All parts in common with other pods; those that are placed have a struct of their own."""
    node_name, volumes = spec.node_name, spec.volumes
    if volumes:
        # Each pod has a volume without a known source for its token, under a name of its own.
        volumes = tuple([v for v in volumes if replace(v, name="") != _NO_SOURCE])
    encoded = _encode(replace(spec, node_name="", volumes=volumes))
    shared = _specs.get(encoded)
    if shared is None:
        shared = _decode_spec(encoded)
        _specs.put(encoded, shared, (1 + EXPANSION) * len(encoded))
    return replace(shared, node_name=_shared_text(node_name)) if node_name else shared


def _shared_status(status: PodStatus) -> PodStatus:
    if not status.conditions and not status.container_statuses:
        return status
    return replace(
        status,
        phase=_shared_text(status.phase),
        conditions=tuple(
            [
                replace(
                    condition,
                    type=_shared_text(condition.type),
                    status=_shared_text(condition.status),
                    last_transition_time=_shared_text(condition.last_transition_time),
                )
                for condition in status.conditions
            ]
        ),
        container_statuses=_shared_statuses(status.container_statuses),
        init_container_statuses=_shared_statuses(status.init_container_statuses),
    )


def _shared_statuses(statuses: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
    if not statuses:
        return statuses
    encoded = _encode(statuses)
    shared = _statuses.get(encoded)
    if shared is None:
        shared = _decode_statuses(encoded)
        _statuses.put(encoded, shared, (1 + EXPANSION) * len(encoded))
    return shared


def _shared_map(mapping: Mapping[str, str]) -> Mapping[str, str]:
    if not mapping:
        return mapping
    items = tuple(mapping.items())
    shared = _maps.get(items)
    if shared is None:
        shared = mapping
        # Bytes of the map and of its items as tuples, which hold the same texts.
        texts = sum(map(getsizeof, chain(mapping, mapping.values())))
        _maps.put(items, mapping, texts + getsizeof(mapping) + 64 * len(mapping))
    return shared


def _shared_item(item: H) -> H:
    if not item:
        return item
    shared = _items.get(item)
    if shared is None:
        shared = item
        _items.put(item, item, EXPANSION * len(_encode(item)))
    return shared


def _shared_text(text: T) -> T:
    return _texts.first(text) if text else text


def _specs_in_use(specs: Iterable[PodSpec]) -> Iterable[bool]:
    """Itself, in a pod that waits; or its parts, in pods that are placed."""
    specs = list(specs)
    # Everybody refers to the empty tuple, but then no API server admits a pod without containers.
    parts = [
        bool(spec.containers) and getrefcount(spec.containers) > _PART_UNREFERRED for spec in specs
    ]
    # One more reference each: the list.
    return [used or part for used, part in zip(are_referred_to(specs, 1), parts, strict=True)]


# A tuple in a struct, and the reference by which it is counted.
_PART_UNREFERRED = max(
    [getrefcount(spec.containers) for spec in [PodSpec(containers=(Container(),))]]
)
_NO_SOURCE = Volume()
_decode_spec = msgspec.json.Decoder(PodSpec).decode
_decode_statuses = msgspec.json.Decoder(tuple[ContainerStatus, ...]).decode

# Names, phases, times; no name is longer.
_texts = SharedTexts("shared_texts", entries=8192, longest=253)
_specs: SharedValues[bytes, PodSpec] = SharedValues("shared_specs", 12 * MEBIBYTE, _specs_in_use)
_statuses: SharedValues[bytes, tuple[ContainerStatus, ...]] = SharedValues(
    "shared_statuses", 4 * MEBIBYTE
)
_maps: SharedValues[tuple[tuple[str, str], ...], Mapping[str, str]] = SharedValues(
    "shared_labels", 8 * MEBIBYTE
)
_items: SharedValues[Any, Any] = SharedValues(
    "shared_items",
    4 * MEBIBYTE,
    # An item is its own key, in the cache's dictionaries of values and of costs.
    lambda items: are_referred_to(items, 2),
)
CACHES: Sequence[Cache] = (_specs, _statuses, _maps, _items, _texts)

_SHARING: Mapping[type[ApiObject], Callable[[Any], Any]] = {
    Pod: share_pod,
    Node: share_node,
    ResourceClaim: own_parameters,
    DeviceClass: own_parameters,
}
