"""JSON as Go's encoding/json reads it into types, which have their names in Go here, too.

Keys may be spelled in any case, null stands for nothing said, and whatever follows the first value
is not looked at. What cannot be read is refused in Go's words, which tell of the first value that
does not fit, in the order of the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import msgspec

from kscheduler.errors import KschedulerError
from kscheduler.gotext.json_text import JsonSyntaxError, parse_json

Decode = Callable[[bytes], Any]

STRUCTS: Mapping[str, Mapping[str, str]] = {
    "v1.ExtenderFilterResult": {
        "Nodes": "v1.NodeList",
        "NodeNames": "[]string",
        "FailedNodes": "v1.FailedNodesMap",
        "FailedAndUnresolvableNodes": "v1.FailedNodesMap",
        "Error": "string",
    },
    "v1.NodeList": {"items": "[]v1.Node"},
    "v1.Node": {"metadata": "v1.ObjectMeta"},
    "v1.ObjectMeta": {"name": "string"},
    "v1.HostPriority": {"Host": "string", "Score": "int64"},
    "v1.ExtenderPreemptionResult": {"NodeNameToMetaVictims": "map[string]*v1.MetaVictims"},
    "v1.MetaVictims": {"Pods": "[]*v1.MetaPod", "NumPDBViolations": "int64"},
    "v1.MetaPod": {"UID": "string"},
    "v1.ExtenderBindingResult": {"Error": "string"},
}
LISTS = {
    "[]string": "string",
    "[]v1.Node": "v1.Node",
    "[]*v1.MetaPod": "v1.MetaPod",
    "v1.HostPriorityList": "v1.HostPriority",
}
MAPS = {"v1.FailedNodesMap": "string", "map[string]*v1.MetaVictims": "v1.MetaVictims"}
SPACES = b" \t\r\n"
INT64 = range(-(1 << 63), 1 << 63)
# Where a text stops being JSON is told in Go's words only up to this length: it takes a while.
MAX_EXPLAINED_BYTES = 256 << 10

_FIELDS = {
    struct: {name.casefold(): (name, kind) for name, kind in fields.items()}
    for struct, fields in STRUCTS.items()
}
_FOUND = {dict: "object", list: "array", str: "string", bool: "bool"}
_INTEGER = re.compile("-?[0-9]{1,19}")
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


class ExtenderAnswerError(KschedulerError):
    """An extender answered with an error, or with what cannot be understood."""


class UnfinishedAnswerError(ExtenderAnswerError):
    """An answer ended before its value did."""


class _Number(str):
    """A number as it was written."""


def read(answer: bytes, kind: str, decode: Decode = msgspec.json.decode) -> Any:
    """The first value of the answer, which may be null; of structs those fields that were given.

    `decode` need not read more than what this type is about.
    """
    try:
        return _fitted(decode(answer), kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ExtenderAnswerError):
        # Something is odd about it, which may be all right in Go's eyes.
        return _fitted(_first_value(answer.lstrip(SPACES)), kind)


def is_finished(answer: bytes) -> bool:
    """Whether nothing that may follow could change how it is read."""
    try:
        _first_value(answer.lstrip(SPACES))
    except UnfinishedAnswerError:
        return False
    except ExtenderAnswerError:
        return True
    return True


def _fitted(value: Any, kind: str, struct: str = "", path: str = "") -> Any:
    """The value, if it is one of this type; it stands in this field of that struct."""
    if value is None:
        return None
    if kind in STRUCTS and isinstance(value, dict):
        return _fitted_struct(value, kind, path)
    if kind in LISTS and isinstance(value, list):
        inner = LISTS[kind]
        if inner == "string" and _are_texts(value):
            return value
        return [_fitted(item, inner, struct, path) for item in value]
    if kind in MAPS and isinstance(value, dict):
        inner = MAPS[kind]
        if inner == "string" and _are_texts(value.values()):
            return value
        return {key: _fitted(item, inner, struct, path) for key, item in value.items()}
    if kind == "string" and type(value) is str:
        return value
    if kind == "int64" and (number := _int64(value)) is not None:
        return number
    place = f"struct field {struct}.{path}" if path else "value"
    raise ExtenderAnswerError(
        f"json: cannot unmarshal {_found(value, kind)} into Go {place} of type {kind}"
    )


def _fitted_struct(members: Mapping[str, Any], kind: str, path: str) -> dict[str, Any]:
    fields, struct = _FIELDS[kind], kind.removeprefix("v1.")
    fitted = {}
    for key, member in members.items():
        if (field := fields.get(key.casefold())) is not None:
            name, inner = field
            fitted[name] = _fitted(member, inner, struct, f"{path}.{name}" if path else name)
    return fitted


def _are_texts(values: Iterable[Any]) -> bool:
    """Of nodes there may be thousands: this takes a fraction of looking at each."""
    return set(map(type, values)) == {str}


def _int64(value: object) -> int | None:
    if isinstance(value, _Number):
        value = int(value) if _INTEGER.fullmatch(value) else None
    return value if type(value) is int and value in INT64 else None


def _found(value: object, kind: str) -> str:
    if kind == "int64" and isinstance(value, _Number):
        return f"number {value}"
    return _FOUND.get(type(value), "number")


def _first_value(text: bytes) -> Any:
    if not text:
        raise UnfinishedAnswerError("EOF")
    try:
        value, _ = _DECODER.raw_decode(text.decode(errors="replace"))
    except json.JSONDecodeError as error:
        if error.pos == len(error.doc) or error.msg.startswith("Unterminated string"):
            raise UnfinishedAnswerError("unexpected EOF") from error
        raise _not_json(text) from error
    except (ValueError, RecursionError) as error:
        raise _not_json(text) from error
    return _without_halves(value) if _HALF.search(text) else value


def _without_halves(value: Any) -> Any:
    """Halves of characters, which only escapes can spell, are replaced."""
    if type(value) is str:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_halves(item) for item in value]
    if isinstance(value, dict):
        return {_without_halves(key): _without_halves(item) for key, item in value.items()}
    return value


def _not_json(text: bytes) -> ExtenderAnswerError:
    if len(text) > MAX_EXPLAINED_BYTES:
        return ExtenderAnswerError("invalid character in a long answer")
    try:
        parse_json(text)
    except JsonSyntaxError as error:
        if str(error) == "unexpected end of JSON input":
            return UnfinishedAnswerError("unexpected EOF")
        return ExtenderAnswerError(str(error))
    return ExtenderAnswerError("exceeded max depth")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_float=_Number, parse_int=_Number, parse_constant=_no_constant)
