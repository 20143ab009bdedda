"""Claims written back as protobuf, for what does not survive JSON.

An API server keeps a claim's opaque `parameters` as the bytes that it was sent. In JSON it shows
them without white space and with `<`, `>` and `&` escaped. Written back like that, they are not
what they were, and are refused as a change of an immutable field, by an update and a patch alike.
As protobuf, the bytes come and go as they are.

Nothing is decoded but the messages on the way to what is replaced: a message is a sequence of
fields, and the others are copied. Cost: linear in the object's size.
"""

from collections.abc import Iterable, Iterator

from kscheduler.api.resource import ResourceClaim, ResourceClaimConsumerReference

PROTOBUF = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\0"
# Numbers of fields in the generated.proto files of Kubernetes.
_RAW = 2
_METADATA, _STATUS = 1, 3
_RESOURCE_VERSION, _FINALIZERS = 6, 14
_RESERVED_FOR = 2
_GROUP, _RESOURCE, _NAME, _UID = 1, 3, 4, 5

# Wire types: how the end of a field's value is found.
_VARINT, _SIZED = 0, 2
_FIXED_SIZES = {1: 8, 5: 4}


class NotProtobufError(ValueError):
    """Raised when an answer is no object of Kubernetes in protobuf."""


def claim_with_finalizers(stored: bytes, claim: ResourceClaim) -> bytes:
    """The stored object with the claim's finalizers, at the version that we have seen."""
    finalizers = (one.encode() for one in claim.metadata.finalizers)
    whole, metadata = _opened(stored, claim)
    return _closed(stored, _with(whole, _METADATA, [_with(metadata, _FINALIZERS, finalizers)]))


def claim_with_reservations(stored: bytes, claim: ResourceClaim) -> bytes:
    """The stored object with the claim's reservations, at the version that we have seen."""
    whole, metadata = _opened(stored, claim)
    users = (_reference(one) for one in claim.status.reserved_for)
    status = _with(_first(whole, _STATUS), _RESERVED_FOR, users)
    return _closed(stored, _with(_with(whole, _METADATA, [metadata]), _STATUS, [status]))


def _opened(stored: bytes, claim: ResourceClaim) -> tuple[bytes, bytes]:
    """The object's message, and that of its metadata with the claim's resourceVersion."""
    if not stored.startswith(_MAGIC):
        raise NotProtobufError
    whole = _first(stored.removeprefix(_MAGIC), _RAW)
    version = claim.metadata.resource_version.encode()
    return whole, _with(_first(whole, _METADATA), _RESOURCE_VERSION, [version])


def _closed(stored: bytes, whole: bytes) -> bytes:
    return _MAGIC + _with(stored.removeprefix(_MAGIC), _RAW, [whole])


def _reference(user: ResourceClaimConsumerReference) -> bytes:
    members = {
        _GROUP: user.api_group,
        _RESOURCE: user.resource,
        _NAME: user.name,
        _UID: user.uid,
    }
    return b"".join(_sized(number, text.encode()) for number, text in members.items())


def _with(message: bytes, number: int, values: Iterable[bytes]) -> bytes:
    """The message with these values of a field instead of those that it has."""
    kept = (message[start:end] for one, start, _, end in _fields(message) if one != number)
    return b"".join((*kept, *(_sized(number, value) for value in values)))


def _first(message: bytes, number: int) -> bytes:
    """The first value of a field; nothing, if there is none."""
    values = (message[value:end] for one, _, value, end in _fields(message) if one == number)
    return next(values, b"")


def _fields(message: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Each field's number, where it starts, where its value starts and where it ends."""
    at = 0
    while at < len(message):
        start = at
        key, at = _varint(message, at)
        value = at
        kind = key & 7
        if kind == _VARINT:
            _, at = _varint(message, at)
        elif kind == _SIZED:
            size, value = _varint(message, at)
            at = value + size
        elif kind in _FIXED_SIZES:
            at += _FIXED_SIZES[kind]
        else:
            raise NotProtobufError
        yield key >> 3, start, value, at


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends: seven bits a byte, the lowest first."""
    number = shift = 0
    while True:
        if at == len(message):
            raise NotProtobufError
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def _sized(number: int, value: bytes) -> bytes:
    return _to_varint(number << 3 | _SIZED) + _to_varint(len(value)) + value


def _to_varint(number: int) -> bytes:
    digits = bytearray()
    while number >= 0x80:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)
