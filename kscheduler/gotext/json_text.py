"""JSON text as Go's encoding/json reads and writes it, with its words for what is no JSON.

`parse_json` mirrors json.Unmarshal's first step: the whole text as a tree that forgets nothing
(order, repeated keys, the spelling of numbers). Go checks the whole text first, and what it says
depends on the byte at which the text stops being JSON.

`first_value` mirrors json.Decoder.Decode: the first value of a stream as dicts, lists and scalars,
whatever comes behind it. It is made for answers of megabytes, so the standard library's C scanner
reads them; only what it refuses is looked at again for Go's words.

`marshal` mirrors json.Marshal. Types are checked by `unmarshal`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn

import msgspec

from kscheduler.gotext.strconv import layout_float, quote, shortest_float32

Kind = Literal["object", "array", "string", "number", "bool", "null"]

# Deeper than any configuration and shallower than the interpreter's stack (Go stops at 10000).
MAX_DEPTH = 200
# Longer numbers count as infinite: Python reads no more digits, and no field could hold them.
MAX_DIGITS = 1000
SPACES = b" \t\r\n"
SIMPLE = {ord(k): v for k, v in zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True)}
HEX = frozenset(b"0123456789abcdefABCDEF")
DIGITS = frozenset(b"0123456789")
SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")
# A syntax error of a longer stream is not worded as Go does: finding the place is slow.
MAX_EXPLAINED_BYTES = 256 << 10

JSON_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


class Node(msgspec.Struct, frozen=True):
    """One JSON value; `raw` is its own text."""

    kind: Kind
    raw: str
    text: str = ""  # of a string
    items: tuple[Node, ...] = ()  # of an array
    members: tuple[tuple[str, Node], ...] = ()  # of an object


class JsonSyntaxError(ValueError):
    """The text is not JSON."""


class UnfinishedJsonError(JsonSyntaxError):
    """A stream ended before its first value did."""


class Number(str):
    """A number of a stream as it was written."""

    __slots__ = ()


def parse_json(text: bytes) -> Node:
    scanner = _Scanner(text)
    scanner.skip_space()
    node = scanner.value(depth=0)
    scanner.skip_space()
    if scanner.at < len(text):
        raise scanner.failure("after top-level value")
    return node


def plain(node: Node) -> object:
    """The tree as dicts, lists and scalars; of repeated keys the last one counts."""
    match node.kind:
        case "object":
            return {key: plain(value) for key, value in node.members}
        case "array":
            return [plain(item) for item in node.items]
        case "string":
            return node.text
        case "number":
            is_int = node.raw.lstrip("-").isdigit() and len(node.raw) <= MAX_DIGITS
            return int(node.raw) if is_int else float(node.raw)
        case "bool":
            return node.raw == "true"
        case "null":
            return None


def first_value(text: bytes) -> Any:
    """The first value of a stream, numbers as `Number`; half a surrogate pair is U+FFFD."""
    text = text.lstrip(SPACES)
    if not text:
        raise UnfinishedJsonError("EOF")
    try:
        value, _ = _stream_decoder.raw_decode(text.decode(errors="replace"))
    except json.JSONDecodeError as error:
        if error.pos == len(error.doc) or error.msg.startswith("Unterminated string"):
            raise UnfinishedJsonError("unexpected EOF") from error
        raise _stream_error(text) from error
    except (ValueError, RecursionError) as error:
        raise _stream_error(text) from error
    return _without_half_pairs(value) if _SURROGATE_ESCAPE.search(text) else value


def is_finished(text: bytes) -> bool:
    """Whether nothing that may follow could change how the first value of a stream is read."""
    try:
        first_value(text)
    except UnfinishedJsonError:
        return False
    except JsonSyntaxError:
        return True
    return True


def _stream_error(text: bytes) -> JsonSyntaxError:
    if len(text) > MAX_EXPLAINED_BYTES:
        return JsonSyntaxError("invalid character in a long answer")
    try:
        parse_json(text)
    except JsonSyntaxError as error:
        if str(error) == "unexpected end of JSON input":
            return UnfinishedJsonError("unexpected EOF")
        return error
    return JsonSyntaxError("exceeded max depth")


def _without_half_pairs(value: Any) -> Any:
    if type(value) is str:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_half_pairs(item) for item in value]
    if isinstance(value, dict):
        return {_without_half_pairs(key): _without_half_pairs(v) for key, v in value.items()}
    return value


def _refuse_constant(name: str) -> NoReturn:
    """Python reads NaN and Infinity, Go does not."""
    raise ValueError(name)


_stream_decoder = json.JSONDecoder(
    parse_float=Number, parse_int=Number, parse_constant=_refuse_constant
)


class _Scanner:
    def __init__(self, text: bytes) -> None:
        self.source = text
        self.at = 0

    def failure(self, where: str) -> JsonSyntaxError:
        if self.at >= len(self.source):
            return JsonSyntaxError("unexpected end of JSON input")
        return JsonSyntaxError(f"invalid character {_quote_byte(self.source[self.at])} {where}")

    def peek(self) -> int:
        return self.source[self.at] if self.at < len(self.source) else -1

    def skip_space(self) -> None:
        while self.at < len(self.source) and self.source[self.at] in SPACES:
            self.at += 1

    def value(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise JsonSyntaxError("exceeded max depth")
        start = self.at
        match self.peek():
            case 0x7B:  # {
                return self._object(start, depth)
            case 0x5B:  # [
                return self._array(start, depth)
            case 0x22:  # "
                text = self.string()
                return Node("string", self._raw(start), text=text)
            case byte if byte in DIGITS or byte == 0x2D:
                return self._number(start)
            case 0x6E:
                self._literal(b"null")
                return Node("null", "null")
            case 0x74 | 0x66 as byte:
                self._literal(b"true" if byte == 0x74 else b"false")
                return Node("bool", self._raw(start))
        raise self.failure("looking for beginning of value")

    def _raw(self, start: int) -> str:
        return self.source[start : self.at].decode("utf-8", "replace")

    def _object(self, start: int, depth: int) -> Node:
        members: list[tuple[str, Node]] = []
        self.at += 1
        self.skip_space()
        if self.peek() == 0x7D:
            self.at += 1
            return Node("object", self._raw(start))
        while True:
            if self.peek() != 0x22:
                raise self.failure("looking for beginning of object key string")
            key = self.string()
            self.skip_space()
            if self.peek() != 0x3A:
                raise self.failure("after object key")
            members.append((key, self._next_value(depth)))
            if self.peek() == 0x7D:
                self.at += 1
                return Node("object", self._raw(start), members=tuple(members))
            if self.peek() != 0x2C:
                raise self.failure("after object key:value pair")
            self.at += 1
            self.skip_space()

    def _array(self, start: int, depth: int) -> Node:
        items: list[Node] = []
        self.at += 1
        self.skip_space()
        if self.peek() == 0x5D:
            self.at += 1
            return Node("array", self._raw(start))
        self.at -= 1
        while True:
            items.append(self._next_value(depth))
            if self.peek() == 0x5D:
                self.at += 1
                return Node("array", self._raw(start), items=tuple(items))
            if self.peek() != 0x2C:
                raise self.failure("after array element")

    def _next_value(self, depth: int) -> Node:
        """The value after the delimiter under the cursor, and the space around it."""
        self.at += 1
        self.skip_space()
        node = self.value(depth + 1)
        self.skip_space()
        return node

    def _literal(self, word: bytes) -> None:
        for i, expected in enumerate(word):
            if self.peek() != expected:
                raise self.failure(f"in literal {word.decode()} (expecting {_quote_byte(word[i])})")
            self.at += 1

    def _number(self, start: int) -> Node:
        if self.peek() == 0x2D:
            self.at += 1
        if self.peek() == 0x30:
            self.at += 1
        else:
            self._digits("in numeric literal")
        if self.peek() == 0x2E:
            self.at += 1
            self._digits("after decimal point in numeric literal")
        if self.peek() in (0x65, 0x45):
            self.at += 1
            if self.peek() in (0x2B, 0x2D):
                self.at += 1
            self._digits("in exponent of numeric literal")
        return Node("number", self._raw(start))

    def _digits(self, where: str) -> None:
        start = self.at
        while self.peek() in DIGITS:
            self.at += 1
        if self.at == start:
            raise self.failure(where)

    def string(self) -> str:
        parts: list[str] = []
        self.at += 1
        start = self.at
        while (byte := self.peek()) != 0x22:
            if byte < 0x20:  # the end of the input, too
                raise self.failure("in string literal")
            self.at += 1
            if byte != 0x5C:
                continue
            parts.append(self.source[start : self.at - 1].decode("utf-8", "replace"))
            escape = self.peek()
            if escape not in SIMPLE and escape != 0x75:
                raise self.failure("in string escape code")
            self.at += 1
            if escape in SIMPLE:
                parts.append(SIMPLE[escape])
            else:
                for _ in range(4):
                    if self.peek() not in HEX:
                        raise self.failure("in \\u hexadecimal character escape")
                    self.at += 1
                parts.append(chr(int(self.source[self.at - 4 : self.at], 16)))
            start = self.at
        parts.append(self._raw(start))
        self.at += 1
        return SURROGATES.sub(_joined, "".join(parts))


def _joined(match: re.Match[str]) -> str:
    """A surrogate pair is one character; half a pair is the replacement character."""
    pair = match.group()
    if len(pair) == 1:
        return "\ufffd"
    return pair.encode("utf-16", "surrogatepass").decode("utf-16")


def _quote_byte(byte: int) -> str:
    if byte == 0x27:
        return "'\\''"
    if byte == 0x22:
        return "'\"'"
    return f"'{quote(chr(byte))[1:-1]}'"


def json_string(text: str) -> str:
    out = (JSON_ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in text)
    return f'"{"".join(out)}"'


def marshal(value: object) -> str:
    """`json.Marshal`'s text: compact, mappings in their own order.

    ValueError for what JSON cannot express: infinities and not-a-number.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return json_float(value)
        case str():
            return json_string(value)
        case Mapping():
            pairs = (f"{json_string(str(k))}:{marshal(v)}" for k, v in value.items())
            return f"{{{','.join(pairs)}}}"
        case Sequence():
            return f"[{','.join(marshal(v) for v in value)}]"
        case _:
            raise TypeError(f"no JSON for {type(value).__name__}")


def json_float(value: float) -> str:
    """A float64 as JSON: plain digits unless the exponent is below -6 or above 20."""
    _check_finite(value)
    return layout_float(repr(value), smallest=-6, largest=20, padded=False)


def json_float32(value: float) -> str:
    _check_finite(value)
    return layout_float(shortest_float32(value), smallest=-6, largest=20, padded=False)


def _check_finite(value: float) -> None:
    if not math.isfinite(value):
        name = "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
        raise ValueError(f"json: unsupported value: {name}")
