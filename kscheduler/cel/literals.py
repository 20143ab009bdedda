"""Literals: the value of a number, string or bytes token."""

from __future__ import annotations

from typing import Any

from kscheduler.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

_SIMPLE_ESCAPES = {
    **{"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"},
    **{"\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?"},
}
_HEX_ESCAPES = {"x": 2, "X": 2, "u": 4, "U": 8}


class LiteralError(Exception):
    """Raised for a token of the right shape with no value, with cel-go's words."""


def read_literal(kind: str, text: str) -> Any:
    """The token's value; a number may carry a leading minus."""
    match kind:
        case "true":
            return True
        case "false":
            return False
        case "null":
            return None
        case "int":
            number = _integer(text)
            if number is None or not INT_MIN <= number <= INT_MAX:
                raise LiteralError("invalid int literal")
            return number
        case "uint":
            number = _integer(text[:-1])
            if number is None or number > UINT_MAX:
                raise LiteralError("invalid uint literal")
            return Uint(number)
        case "float":
            value = float(text)
            if value in (float("inf"), float("-inf")):
                raise LiteralError("invalid double literal")
            return value
        case "string":
            return _unescape(text)
        case _:
            return _unescape_bytes(text[1:])


def _integer(text: str) -> int | None:
    digits = text.lstrip("-")
    if digits.startswith("0x"):
        value = int(digits[2:], 16)
    elif len(digits) > 400:  # Python refuses to read very long decimals
        return None
    else:
        value = int(digits)
    return -value if text.startswith("-") else value


def _content(text: str) -> tuple[str, bool]:
    """Text between the quotes, with newlines normalised, and whether it is raw."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text.startswith(('"""', "'''")) else 1
    return text[quotes:-quotes], raw


def _unescape(text: str) -> str:
    content, raw = _content(text)
    if raw or "\\" not in content:
        return content
    parts = []
    position = 0
    while position < len(content):
        char = content[position]
        position += 1
        if char != "\\":
            parts.append(char)
            continue
        escape = content[position]
        position += 1
        if escape in _SIMPLE_ESCAPES:
            parts.append(_SIMPLE_ESCAPES[escape])
            continue
        if escape in _HEX_ESCAPES:
            length = _HEX_ESCAPES[escape]
            code = int(content[position : position + length], 16)
            position += length
        else:
            code = int(escape + content[position : position + 2], 8)
            position += 2
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise LiteralError("invalid unicode code point")
        parts.append(chr(code))
    return "".join(parts)


def _unescape_bytes(text: str) -> bytes:
    content, raw = _content(text)
    if raw or "\\" not in content:
        return content.encode("utf-8", "replace")
    parts = []
    position = 0
    while position < len(content):
        char = content[position]
        position += 1
        if char != "\\":
            parts.append(char.encode("utf-8", "replace"))
            continue
        escape = content[position]
        position += 1
        if escape in _SIMPLE_ESCAPES:
            parts.append(_SIMPLE_ESCAPES[escape].encode())
        elif escape in "xX":
            parts.append(bytes((int(content[position : position + 2], 16),)))
            position += 2
        elif escape in "uU":
            raise LiteralError("unable to unescape string")
        else:
            parts.append(bytes((int(escape + content[position : position + 2], 8),)))
            position += 2
    return b"".join(parts)
