"""A watch on the wire: lines of JSON, each an event about one object."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import structs
from msgspec.structs import replace

from kscheduler import logs
from kscheduler.api.core import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kscheduler.api.decode import (
    UNREADABLE,
    DecodeError,
    Json,
    UnbalancedError,
    decoder_for,
    members_of,
    outline,
)
from kscheduler.api.meta import ApiObject, ObjectMeta, PartialObject, Status, WatchEvent
from kscheduler.api.resource import ResourceClaim
from kscheduler.api.sharing import sharing_of
from kscheduler.client.errors import from_status

T = TypeVar("T")
A = TypeVar("A", bound=ApiObject)

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"
_TYPES = frozenset((ADDED, MODIFIED, DELETED, BOOKMARK, ERROR))
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
# An object in etcd is at most a few megabytes; a line beyond this is no event.
MAX_LINE_BYTES = 64 << 20

log = logs.logger(__name__)

_decode_event = decoder_for(WatchEvent)
_decode_partial = decoder_for(PartialObject)
_decode_metadata = decoder_for(ObjectMeta)
_decode_status = decoder_for(Status)

Wanted = Callable[[Any], bool]
Kept = Pod | Node | PersistentVolume | PersistentVolumeClaim | ResourceClaim
_encode = msgspec.json.Encoder().encode


class _Numbered(msgspec.Struct, frozen=True):
    """An object cut off below its members: `metadata` is a part's number."""

    metadata: int


_decode_numbered = decoder_for(_Numbered)


class Shape(msgspec.Struct, Generic[T], frozen=True):
    """Functions that decode objects of one resource and find their key and version."""

    name: str
    decode: Callable[[Any], T]
    key: Callable[[T], str]
    version: Callable[[T], str]


def shape_of(struct: type[A], name: str) -> Shape[A]:
    """The shape of a struct; its objects share equal parts, for an informer keeps thousands."""
    decode, share = decoder_for(struct), sharing_of(struct)
    return Shape(
        name,
        decode if share is None else lambda data: share(decode(data)),
        attrgetter("key"),
        attrgetter("metadata.resource_version"),
    )


def untyped_shape(name: str) -> Shape[dict[str, Any]]:
    """Objects as plain dicts, without their managedFields, which are large and never read."""

    def decode(data: Json) -> dict[str, Any]:
        try:
            item: dict[str, Any] = msgspec.json.decode(data, type=dict[str, Any])
        except UNREADABLE as error:
            raise DecodeError(f"cannot decode object: {error}") from error
        metadata = item.get("metadata")
        if not isinstance(metadata, dict) or not metadata.get("name"):
            raise DecodeError("cannot decode object: it has no metadata.name")
        metadata.pop("managedFields", None)
        return item

    def key(item: Mapping[str, Any]) -> str:
        metadata = item["metadata"]
        namespace = metadata.get("namespace")
        return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])

    def version(item: Mapping[str, Any]) -> str:
        return str(item["metadata"].get("resourceVersion", ""))

    return Shape(name, decode, key, version)


class Change(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One event, understood.

    `item` is None for a bookmark and for what could not be decoded, of which `key` is left.
    """

    type: str
    version: str
    item: T | None = None
    ends_initial_events: bool = False
    key: str = ""


class Lines:
    """Cuts a stream into lines; one that is never finished is never seen."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        first, *rest = chunk.split(b"\n")
        self._pending.append(first)
        if not rest:
            self._size += len(first)
            if self._size > MAX_LINE_BYTES:
                raise DecodeError(f"a line of more than {MAX_LINE_BYTES} bytes")
            return []
        complete = [b"".join(self._pending), *rest[:-1]]
        self._pending, self._size = [rest[-1]], len(rest[-1])
        return [line for line in complete if line]


def decode_change(line: bytes, shape: Shape[T]) -> Change[T]:
    """The change in a line; a DecodeError if not even the object's name can be read from it.

    An ERROR event is raised as the error it holds.
    """
    body: Json
    # The usual line is {"type":"<at most 8 letters>","object":{…}}: cut by position, its object is
    # parsed once, by the shape's decoder, instead of twice.
    split = line.find(b',"object":', 9, 32)
    if split > 0 and line.startswith(b'{"type":"'):
        kind, body = line[9 : split - 1].decode(errors="replace"), memoryview(line)[split + 10 : -1]
    else:
        # The object is set aside, as it may be nested more deeply than an event is read.
        try:
            text, parts = outline(line, depth=1)
            event = _decode_event(text)
            kind, body = event.type, parts[int(bytes(event.object))]
        except (UnbalancedError, ValueError, IndexError) as error:
            raise DecodeError(f"cannot decode an event: {error}") from error
    if kind not in _TYPES:
        raise DecodeError(f"got invalid watch event type: {kind}")
    if kind == BOOKMARK:
        metadata = _decode_partial(body).metadata
        ends = metadata.annotations.get(INITIAL_EVENTS_END) == "true"
        return Change(kind, metadata.resource_version, None, ends)
    if kind == ERROR:
        raise from_status(_decode_status(body))
    item = decoded(body, shape)
    if isinstance(item, Undecodable):
        return Change(kind, item.version, key=item.key)
    return Change(kind, shape.version(item), item)


class Undecodable(msgspec.Struct, frozen=True):
    """Key and version of an object that could not be decoded; an empty key if it has no name."""

    key: str
    version: str


def decoded(data: Json, shape: Shape[T]) -> T | Undecodable:
    """The object. Whatever goes wrong is logged and costs this object only, not those after it.

    A DecodeError if not even its metadata can be read.
    """
    try:
        return shape.decode(data)
    except Exception as error:
        partial = _partial(data)
        name = partial.key or "<unnamed>"
        log.error(error, "Undecodable object skipped", type=shape.name, object=name)
        return Undecodable(partial.key, partial.metadata.resource_version)


def _partial(data: Json) -> PartialObject:
    """Name and version, even of an object that is no JSON behind its metadata."""
    try:
        return _decode_partial(data)
    except DecodeError as error:
        refused = error
    try:
        text, parts = outline(data, depth=1)
        return PartialObject(metadata=_decode_metadata(parts[_decode_numbered(text).metadata]))
    except (DecodeError, UnbalancedError, IndexError):
        raise refused from None


def _always(_item: object) -> bool:
    return True


WRITTEN_BACK: Mapping[type[ApiObject], Wanted] = {
    PersistentVolume: _always,
    PersistentVolumeClaim: _always,
    ResourceClaim: _always,
}


def retaining_json(shape: Shape[Any], wanted: Wanted) -> Shape[Any]:
    """A shape like this one, whose objects carry their JSON if they are `wanted`.

    It is the JSON that upstream would pass on: without kind and version, which its objects do not
    have, and without the managedFields of pods, which it drops on arrival, unlike those of nodes.
    """
    decode = shape.decode

    def decode_keeping(data: Json) -> Kept:
        item: Kept = decode(data)
        if not wanted(item):
            return item
        members = members_of(data)
        members.pop("kind", None)
        members.pop("apiVersion", None)
        if isinstance(item, Pod):
            metadata = members_of(members["metadata"])
            metadata.pop("managedFields", None)
            members["metadata"] = msgspec.Raw(_encode(metadata))
        return structs.replace(item, whole=_encode(members))

    return replace(shape, decode=decode_keeping)
