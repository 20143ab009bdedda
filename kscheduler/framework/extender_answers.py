"""What extenders answer, read as Go's encoding/json reads it.

Keys may be spelled in any case, null stands for nothing said, and whatever follows the first value
is not looked at. What cannot be read is refused in Go's words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kscheduler.api.json_text import JsonSyntaxError, parse_json
from kscheduler.errors import KschedulerError

INT64 = range(-(1 << 63), 1 << 63)


class ExtenderAnswerError(KschedulerError):
    """An extender answered with an error, or with what cannot be understood."""


class FilterAnswer(NamedTuple):
    """Nodes that pass, by name or as objects, whichever the extender gave; and why others fail."""

    names: Sequence[str] | None
    listed: Sequence[str] | None
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class _Named(msgspec.Struct):
    name: str = ""


class _Node(msgspec.Struct):
    metadata: _Named


class _NodeList(msgspec.Struct):
    items: list[_Node]


class HostPriority(NamedTuple):
    host: str
    score: int


class ChosenVictims(NamedTuple):
    """Pods by UID, and how many budgets their going violates."""

    pods: Sequence[str]
    violations: int


def filter_answer(answer: bytes) -> FilterAnswer:
    """Raises if the extender tells of an error."""
    said = _Said("ExtenderFilterResult", _without_contents_of_nodes(answer))
    nodes = said.members("Nodes", "v1.NodeList")
    read = FilterAnswer(
        said.texts("NodeNames"),
        None if nodes is None else list(map(_node_name, nodes.many("items", "[]v1.Node"))),
        said.text_map("FailedNodes", "v1.FailedNodesMap"),
        said.text_map("FailedAndUnresolvableNodes", "v1.FailedNodesMap"),
    )
    if error := said.text("Error"):
        raise ExtenderAnswerError(error)
    return read


def priorities(answer: bytes) -> list[HostPriority]:
    value = _value(answer)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _unreadable(value, "value", "v1.HostPriorityList")
    said = [_Said("HostPriority", one) for one in value]
    return [HostPriority(one.text("Host"), one.number("Score")) for one in said]


def chosen_victims(answer: bytes) -> dict[str, ChosenVictims]:
    """By node."""
    said = _Said("ExtenderPreemptionResult", _value(answer))
    by_node = said.map("NodeNameToMetaVictims", "map[string]*v1.MetaVictims")
    return {name: _chosen(_Said("MetaVictims", victims)) for name, victims in by_node.items()}


def check_binding(answer: bytes) -> None:
    """Raises unless the pod is bound."""
    if error := _Said("ExtenderBindingResult", _value(answer)).text("Error"):
        raise ExtenderAnswerError(error)


def _chosen(said: _Said) -> ChosenVictims:
    pods = [_Said("MetaPod", pod).text("UID") for pod in said.many("Pods", "[]*v1.MetaPod")]
    return ChosenVictims(pods, said.number("NumPDBViolations"))


def _node_name(node: object) -> str:
    metadata = _Said("Node", node).members("metadata", "v1.ObjectMeta")
    return "" if metadata is None else metadata.text("name")


class _Said:
    """One JSON object, read as a struct of this name; what is missing is zero."""

    def __init__(self, struct: str, value: object) -> None:
        if value is not None and not isinstance(value, dict):
            raise _unreadable(value, "value", f"v1.{struct}")
        self._struct = struct
        self._members = {key.lower(): member for key, member in (value or {}).items()}

    def members(self, field: str, kind: str) -> _Said | None:
        value = self._of(field, dict, kind)
        return None if value is None else _Said(kind.removeprefix("v1."), value)

    def map(self, field: str, kind: str) -> dict[str, Any]:
        return self._of(field, dict, kind) or {}

    def many(self, field: str, kind: str) -> list[Any]:
        return self._of(field, list, kind) or []

    def text(self, field: str) -> str:
        return self._of(field, str, "string") or ""

    def number(self, field: str) -> int:
        value: int = self._of(field, int, "int64") or 0
        if value not in INT64:
            raise _unreadable(value, f"struct field {self._struct}.{field}", "int64")
        return value

    def texts(self, field: str) -> list[str] | None:
        values = self._of(field, list, "[]string")
        return None if values is None else [self._text(field, value) for value in values]

    def text_map(self, field: str, kind: str) -> dict[str, str]:
        return {key: self._text(field, value) for key, value in self.map(field, kind).items()}

    def _text(self, field: str, value: object) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            raise _unreadable(value, f"struct field {self._struct}.{field}", "string")
        return value

    def _of(self, field: str, python: type, kind: str) -> Any:
        value = self._members.get(field.lower())
        if value is not None and type(value) is not python:
            raise _unreadable(value, f"struct field {self._struct}.{field}", kind)
        return value


_KINDS = {dict: "object", list: "array", str: "string", bool: "bool"}


def _unreadable(value: object, where: str, kind: str) -> ExtenderAnswerError:
    what = _KINDS.get(type(value), f"number {json.dumps(value)}" if kind == "int64" else "number")
    return ExtenderAnswerError(f"json: cannot unmarshal {what} into Go {where} of type {kind}")


def _value(answer: bytes) -> Any:
    """The first JSON value of the answer."""
    try:
        return msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _first_value(answer.decode(errors="replace"), error)


def _without_contents_of_nodes(answer: bytes) -> Any:
    """The same, but of nodes, which may be thousands, nothing is read but their names."""
    try:
        members = msgspec.json.decode(answer, type=dict[str, msgspec.Raw])
        return {
            key: msgspec.to_builtins(msgspec.json.decode(member, type=_NodeList | None))
            if key.lower() == "nodes"
            else msgspec.json.decode(member)
            for key, member in members.items()
        }
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _value(answer)


def _first_value(answer: str, problem: Exception) -> Any:
    text = answer.lstrip(" \t\r\n")
    if not text:
        raise ExtenderAnswerError("EOF") from problem
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        raise ExtenderAnswerError(_syntax_error(text)) from problem
    return value


def _syntax_error(text: str) -> str:
    try:
        parse_json(text.encode())
    except JsonSyntaxError as error:
        said = str(error)
        return "unexpected EOF" if said == "unexpected end of JSON input" else said
    return "exceeded max depth"
