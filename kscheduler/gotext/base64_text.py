"""Bytes in JSON: standard base64, refused in the words of Go's encoding/base64."""

import base64
from typing import NoReturn

ALPHABET = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def decode_base64(data: bytes) -> bytes:
    """Standard base64 with line breaks anywhere; Go says at which byte it stops being that."""
    symbols = [(at, char) for at, char in enumerate(data) if char not in b"\r\n"]
    for count, (at, char) in enumerate(symbols):
        if char not in ALPHABET:
            _check_padding(data, at, char, count % 4, symbols[count + 1 :])
            break
    else:
        if len(symbols) % 4:
            _illegal(len(data) - len(symbols) % 4)
    return base64.b64decode(data)


def _check_padding(
    data: bytes, at: int, char: int, position: int, rest: list[tuple[int, int]]
) -> None:
    if char != ord("=") or position < 2:
        _illegal(at)
    if position == 2:
        if not rest:
            _illegal(len(data))
        if rest[0][1] != ord("="):
            _illegal(rest[0][0] - 1)
        rest = rest[1:]
    if rest:
        _illegal(rest[0][0])


def _illegal(at: int) -> NoReturn:
    raise ValueError(f"illegal base64 data at input byte {at}")
