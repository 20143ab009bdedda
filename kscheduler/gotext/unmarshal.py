"""JSON into Go's types: a description of a type in, a value or the words of json.Unmarshal out.

kube-scheduler reads JSON with three decoders, which agree in how they refuse a value of a wrong
type ("json: cannot unmarshal string into Go struct field X.y of type int32"). Configuration files
and kubeconfigs go through sigs.k8s.io/json, answers of extenders through encoding/json. What
differs is asked for by a parameter of `unmarshal`:

- encoding/json finds a field whatever the case of its key (`ignores_case`);
- strict decoding of configuration files collects complaints about unknown and repeated fields;
- in upstream's internal types, fields that are not given are zero rather than defaulted (`zeroes`).

Three kinds of complaint, in falling order of precedence: a type that decodes itself from a text (a
duration) ends decoding at once; of all values of a wrong type the first one, in the order of the
text, is reported; unknown and repeated fields do not stop anything by themselves.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import msgspec

from kscheduler.errors import KschedulerError
from kscheduler.gotext.json_text import Node, Number
from kscheduler.gotext.strconv import float32, quote

MAX_STRICT_ERRORS = 100
BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
INTEGER_RANGES = {
    "int32": range(-(1 << 31), 1 << 31),
    "int64": range(-(1 << 63), 1 << 63),
    "uint8": range(1 << 8),
}
# No integer of 64 bits has more digits.
MAX_INTEGER_DIGITS = 19
ZEROES = {"string": "", "bool": False, "int32": 0, "int64": 0, "uint8": 0, "float32": 0.0}


class UnmarshalError(KschedulerError, ValueError):
    """A value has the wrong type or cannot be read; the text is Go's.

    `path` is where it stands, with indexes, which Go does not tell: `profiles[0].schedulerName`.
    """

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(text)
        self.path = path


class Scalar(msgspec.Struct, frozen=True):
    """A string, bool or number; `name` is its Go type, which may be a named string.

    `internal` is the name of the type in upstream's internal package, where that differs.
    """

    kind: str
    name: str
    internal: str = ""


STRING = Scalar("string", "string")
BOOL = Scalar("bool", "bool")
INT64 = Scalar("int64", "int64")
BYTE = Scalar("uint8", "uint8")


class Bytes(msgspec.Struct, frozen=True):
    """A []byte: base64 in a string, or an array of small numbers."""


class Text(msgspec.Struct, frozen=True):
    """A type that decodes itself from a JSON string by `parse`, whose ValueError ends decoding."""

    parse: Callable[[str], Any]
    zero: Any


class Raw(msgspec.Struct, frozen=True):
    """Any JSON (runtime.RawExtension); `keep` makes of it what becomes the value."""

    keep: Callable[[Node], Any]


class Interface(msgspec.Struct, frozen=True):
    """A Go interface, into which nothing can be decoded."""

    name: str


class Pointer(msgspec.Struct, frozen=True):
    """A Go pointer: null and absent are the same, and differ from empty."""

    inner: GoType


class ListOf(msgspec.Struct, frozen=True):
    item: GoType
    name: str = ""  # of a named type


class MapOf(msgspec.Struct, frozen=True):
    """A map from strings."""

    value: GoType
    name: str = ""  # of a named type


class StructField(msgspec.Struct, frozen=True):
    """A struct's field; `name` is its key in JSON.

    `key` is under which the value is found in the result; "" drops the value.
    `embedded` is the embedded Go struct that holds the field, which type errors mention.
    """

    name: str
    type: GoType
    key: str
    embedded: str = ""


# Compared by identity: descriptions are made once per type.
@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """A Go struct by the name that reflection prints, with its fields in Go's order."""

    name: str
    fields: tuple[StructField, ...]
    by_name: dict[str, StructField] = field(init=False, repr=False)
    by_folded_name: dict[str, StructField] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        fields = {one.name: one for one in self.fields}
        folded = {one.name.casefold(): one for one in self.fields}
        object.__setattr__(self, "by_name", fields)
        object.__setattr__(self, "by_folded_name", folded)


GoType = Scalar | Bytes | Text | Raw | Interface | Pointer | ListOf | MapOf | Struct


def type_name(kind: GoType) -> str:
    """The type as Go's reflection prints it; a pointer shows only inside of another type."""
    match kind:
        case Scalar(name=name) | Struct(name=name) | Interface(name=name):
            return name
        case ListOf(item=item, name=name):
            return name or f"[]{_inner_name(item)}"
        case MapOf(value=value, name=name):
            return name or f"map[string]{_inner_name(value)}"
        case Pointer(inner=inner):
            return type_name(inner)
        case Bytes():
            return "[]uint8"
        case Raw():
            return "runtime.RawExtension"
        case Text():
            return "string"


def _inner_name(kind: GoType) -> str:
    return f"*{type_name(kind)}" if isinstance(kind, Pointer) else type_name(kind)


class Unmarshalled(NamedTuple):
    """A value, and the complaints of strict decoding about unknown and repeated fields."""

    value: Any
    complaints: list[str]


def unmarshal(
    given: Any, kind: GoType, *, ignores_case: bool = False, zeroes: bool = False
) -> Unmarshalled:
    """The value that JSON stands for: structs and maps as dicts, lists as tuples, null as None.

    `given` is a `Node`, or what a JSON decoder made of a text: dicts, lists, strings, numbers
    (`Number` where their spelling matters). A field that is absent or null is not in its struct's
    dict, unless `zeroes` are asked for. Raises UnmarshalError.
    """
    unmarshaller = _Unmarshaller(ignores_case=ignores_case, zeroes=zeroes)
    value = unmarshaller.value(given, kind, None)
    if unmarshaller.first_mismatch is not None:
        raise unmarshaller.first_mismatch
    if value is None and zeroes:
        value = unmarshaller.zero(kind)
    return Unmarshalled(value, unmarshaller.complaints)


# Where a value stands: the place around it, then the struct and its field, or None and the
# subscript of a list or map. Linked upwards and turned into text only for a complaint: an answer
# may have ten thousand values, and a plain tuple is what costs least.
_Place = tuple["_Place | None", Struct | None, Any]

_KINDS = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    Number: "number",
    type(None): "null",
}


class _Unmarshaller:
    def __init__(self, *, ignores_case: bool, zeroes: bool) -> None:
        self._ignores_case = ignores_case
        self._zeroes = zeroes
        self.first_mismatch: UnmarshalError | None = None
        self.complaints: list[str] = []

    def value(self, given: Any, kind: Any, place: _Place | None) -> Any:
        """The value in Python, or None where null leaves things as they are."""
        # By type rather than by `match`, in order of frequency: 5,000 nodes are 15,000 values.
        of = type(given)
        if kind is STRING and of is str:
            return given
        found = given.kind if of is Node else _KINDS[of]
        wanted = type(kind)
        if wanted is Struct and found == "object":
            return self._struct(given, kind, place)
        if wanted is Pointer:
            return None if found == "null" else self.value(given, kind.inner, place)
        if wanted is Text:
            # Null as well: such a type reads it as an empty string, and refuses that.
            if found not in ("string", "null"):
                raise UnmarshalError(_cannot_unmarshal(found, "string", place), _path(place))
            try:
                return kind.parse(given.text if of is Node else given or "")
            except ValueError as error:
                raise UnmarshalError(str(error), _path(place)) from error
        if found == "null":
            return None
        if wanted is Scalar:
            return self._scalar(given, found, kind, place)
        if wanted is ListOf and found == "array":
            return self._list(given, kind.item, place)
        if wanted is MapOf and found == "object":
            return self._map(given, kind.value, place)
        if wanted is Bytes and found in ("string", "array"):
            return self._bytes(given, found, place)
        if wanted is Raw:
            return kind.keep(given)
        self._mismatch(found, kind, place)
        # Go goes on with the empty value, in case that something worse comes.
        return None if wanted in (Bytes, Interface) else self.zero(kind)

    def zero(self, kind: GoType) -> Any:
        match kind:
            case Scalar(kind=basic):
                return ZEROES[basic]
            case Struct():
                return self._with_zeroes({}, kind) if self._zeroes else {}
            case ListOf():
                return ()
            case MapOf():
                return {}
            case Bytes():
                return b""
            case Text(zero=zero):
                return zero
            case _:
                return None

    def _with_zeroes(self, values: dict[str, Any], kind: Struct) -> dict[str, Any]:
        return {one.key: self.zero(one.type) for one in kind.fields if one.key} | values

    def _struct(self, given: Any, kind: Struct, place: _Place | None) -> dict[str, Any]:
        values: dict[str, Any] = {}
        by_name = kind.by_name
        # Of repeated keys a JSON decoder has left one.
        seen: set[str] | None = set() if type(given) is Node else None
        for name, member in given.items() if seen is None else given.members:
            found = by_name.get(name)
            if found is None and self._ignores_case:
                found = kind.by_folded_name.get(name.casefold())
            if found is None:
                self._complain("unknown field", name, place)
                continue
            if seen is not None:
                if name in seen:
                    self._complain("duplicate field", name, place)
                seen.add(name)
            value = self.value(member, found.type, (place, kind, found))
            if value is not None and found.key:
                values[found.key] = value
        return self._with_zeroes(values, kind) if self._zeroes else values

    def _list(self, given: Any, item: GoType, place: _Place | None) -> tuple[Any, ...]:
        items = given.items if type(given) is Node else given
        if item is STRING and _are_strings(items):
            return tuple(items)
        values = []
        for index, one in enumerate(items):
            value = self.value(one, item, (place, None, index))
            values.append(self.zero(item) if value is None else value)
        return tuple(values)

    def _map(self, given: Any, item: GoType, place: _Place | None) -> dict[str, Any]:
        if type(given) is not Node and item is STRING and _are_strings(given.values()):
            return dict(given)
        values: dict[str, Any] = {}
        for key, one in given.members if type(given) is Node else given.items():
            if key in values:
                self._complain("duplicate field", key, place)
            value = self.value(one, item, (place, None, key))
            values[key] = self.zero(item) if value is None else value
        return values

    def _scalar(self, given: Any, found: str, kind: Scalar, place: _Place | None) -> Any:
        if kind.kind == found == "string":
            return given.text if type(given) is Node else given
        if kind.kind == found == "bool":
            return given.raw == "true" if type(given) is Node else given
        if found != "number" or kind.kind in ("string", "bool"):
            self._mismatch(found, kind, place)
            return None
        spelled = given.raw if type(given) is Node else str(given)
        if kind.kind == "float32":
            value = float32(float(spelled))
            if math.isinf(value):
                self._mismatch(f"number {spelled}", kind, place)
            return value
        digits = spelled.removeprefix("-")
        if digits.isdigit() and len(digits) <= MAX_INTEGER_DIGITS:
            number = int(spelled)
            if number in INTEGER_RANGES[kind.kind]:
                return number
        self._mismatch(f"number {spelled}", kind, place)
        return None

    def _bytes(self, given: Any, found: str, place: _Place | None) -> bytes | None:
        if found == "array":
            return bytes(number or 0 for number in self._list(given, BYTE, place))
        text = given.text if type(given) is Node else given
        try:
            return decode_base64(text.encode())
        except ValueError as error:
            self.first_mismatch = self.first_mismatch or UnmarshalError(str(error), _path(place))
            return None

    def _mismatch(self, found: str, kind: GoType, place: _Place | None) -> None:
        if self.first_mismatch is None:
            text = _cannot_unmarshal(found, type_name(kind), place)
            self.first_mismatch = UnmarshalError(text, _path(place))

    def _complain(self, problem: str, name: str, place: _Place | None) -> None:
        if len(self.complaints) >= MAX_STRICT_ERRORS:
            return
        path = f"{_path(place)}.{name}".removeprefix(".")
        text = f"{problem} {quote(path)}"
        if text not in self.complaints:
            self.complaints.append(text)


def _path(place: _Place | None) -> str:
    steps: list[str] = []
    while place is not None:
        place, struct, step = place
        if struct is not None:
            steps.append(f".{step.name}")
        else:
            steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).removeprefix(".")


def _cannot_unmarshal(found: str, wanted: str, place: _Place | None) -> str:
    """The struct is the innermost one; the path to the field begins at the outermost, and has
    neither indexes nor keys of maps.
    """
    innermost, names = "", []
    while place is not None:
        place, struct, step = place
        if struct is not None:
            innermost = innermost or struct.name.rpartition(".")[2]
            names += [step.name, step.embedded]
    path = ".".join(filter(None, reversed(names)))
    where = f"struct field {innermost}.{path}" if path else "value"
    return f"json: cannot unmarshal {found} into Go {where} of type {wanted}"


def _are_strings(values: Iterable[Any]) -> bool:
    """Of nodes there may be thousands: this takes a fraction of looking at each."""
    return set(map(type, values)) == {str}


def format_v(node: Node | None, kind: GoType) -> str:
    """A value as Go's `%v` prints it; not for maps and pointers, whose order and address vary."""
    match kind:
        case Struct(fields=fields):
            members = dict(node.members) if node else {}
            shown = (format_v(members.get(one.name), one.type) for one in fields)
            return f"{{{' '.join(shown)}}}"
        case Raw():
            return f"{{{_format_bytes(node.raw.encode() if node else b'')} <nil>}}"
        case Bytes():
            return _format_bytes(decode_base64(node.text.encode()) if node else b"")
        case ListOf(item=item):
            items = node.items if node else ()
            return f"[{' '.join(format_v(one, item) for one in items)}]"
        case Scalar(kind="bool"):
            return node.raw if node and node.kind == "bool" else "false"
        case Scalar(kind="string"):
            return node.text if node else ""
        case _:
            raise TypeError(f"no text for {type_name(kind)}")


def _format_bytes(data: bytes) -> str:
    return f"[{' '.join(map(str, data))}]"


def decode_base64(data: bytes) -> bytes:
    """Standard base64 with line breaks anywhere; Go says at which byte it stops being that."""
    symbols = [(at, char) for at, char in enumerate(data) if char not in b"\r\n"]
    for count, (at, char) in enumerate(symbols):
        if char in BASE64:
            continue
        # Only padding may follow: `==` after two symbols of a group of four, `=` after three.
        position, rest = count % 4, symbols[count + 1 :]
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
        break
    else:
        if len(symbols) % 4:
            _illegal(len(data) - len(symbols) % 4)
    return base64.b64decode(data)


def _illegal(at: int) -> NoReturn:
    raise ValueError(f"illegal base64 data at input byte {at}")
