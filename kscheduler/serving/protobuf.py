"""Protocol buffers as they are written: enough for the two messages that tools ask us for."""

from __future__ import annotations

import struct
from collections.abc import Iterable

_VARINT, _FIXED64, _BYTES = 0, 1, 2
# Most numbers are small: keys of fields, lengths of labels.
_ONE_BYTE = tuple(bytes([number]) for number in range(0x80))


def varint(number: int) -> bytes:
    """A number in groups of seven bits; a negative one takes ten bytes."""
    if 0 <= number <= 0x7F:
        return _ONE_BYTE[number]
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def integer(field: int, value: int) -> bytes:
    """Nothing for zero, which is what a reader assumes."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | _FIXED64) + struct.pack("<d", value)


def message(field: int, content: bytes) -> bytes:
    return varint(field << 3 | _BYTES) + varint(len(content)) + content


def string(field: int, value: str) -> bytes:
    return message(field, value.encode("utf-8", "replace"))


def packed(field: int, values: Iterable[int]) -> bytes:
    """A list of numbers in one piece."""
    return message(field, b"".join(map(varint, values)))
