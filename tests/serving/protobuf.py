"""Reading protobuf messages without their schema."""

import struct


def fields(message):
    """(field, value) of a protobuf message; values as they are."""
    at, found = 0, []
    while at < len(message):
        key, at = read_varint(message, at)
        if key & 7 == 0:
            value, at = read_varint(message, at)
        elif key & 7 == 1:
            (value,) = struct.unpack_from("<d", message, at)
            at += 8
        else:
            size, at = read_varint(message, at)
            value, at = message[at : at + size], at + size
        found.append((key >> 3, value))
    return found


def read_varint(message, at):
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
