"""Answers of extenders: nodes that pass, scores, victims, whether a pod is bound.

Read as Go's encoding/json reads them: keys may be spelled in any case, null stands for nothing
given, and whatever follows the first value is not looked at. What cannot be read is refused in Go's
words, which tell of the first value that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from kscheduler.errors import KschedulerError
from kscheduler.gotext.json_text import JsonSyntaxError, UnfinishedJsonError, first_value
from kscheduler.gotext.unmarshal import (
    INT64,
    INTEGER_RANGES,
    STRING,
    GoType,
    ListOf,
    MapOf,
    Pointer,
    Struct,
    StructField,
    UnmarshalError,
    unmarshal,
)


def _struct(name: str, /, **fields: GoType) -> Struct:
    return Struct(name, tuple(StructField(key, kind, key) for key, kind in fields.items()))


# The types of k8s.io/kube-scheduler/extender/v1; of nodes only the part that is read.
_META = _struct("v1.ObjectMeta", name=STRING)
_NODES = _struct("v1.NodeList", items=ListOf(_struct("v1.Node", metadata=_META)))
_FAILED = MapOf(STRING, "v1.FailedNodesMap")
FILTER_RESULT = _struct(
    "v1.ExtenderFilterResult",
    Nodes=Pointer(_NODES),
    NodeNames=Pointer(ListOf(STRING)),
    FailedNodes=_FAILED,
    FailedAndUnresolvableNodes=_FAILED,
    Error=STRING,
)
HOST_PRIORITIES = ListOf(
    _struct("v1.HostPriority", Host=STRING, Score=INT64), "v1.HostPriorityList"
)
_VICTIMS = _struct(
    "v1.MetaVictims",
    Pods=ListOf(Pointer(_struct("v1.MetaPod", UID=STRING))),
    NumPDBViolations=INT64,
)
PREEMPTION_RESULT = _struct(
    "v1.ExtenderPreemptionResult", NodeNameToMetaVictims=MapOf(Pointer(_VICTIMS))
)
BINDING_RESULT = _struct("v1.ExtenderBindingResult", Error=STRING)


class ExtenderAnswerError(KschedulerError):
    """An extender answered with an error, or with what cannot be understood."""


class UnfinishedAnswerError(ExtenderAnswerError):
    """An answer ended before its value did."""


class FilterAnswer(NamedTuple):
    """Nodes that pass, by name or as objects, whichever the extender gave; and why others fail."""

    names: Sequence[str] | None
    listed: Sequence[str] | None
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class HostPriority(NamedTuple):
    host: str
    score: int


class ChosenVictims(NamedTuple):
    """Pods by UID, and how many budgets their going violates."""

    pods: Sequence[str]
    violations: int


class _Named(msgspec.Struct):
    name: str


class _Node(msgspec.Struct):
    metadata: _Named


class _NodeList(msgspec.Struct):
    items: list[_Node]


_INT64 = INTEGER_RANGES["int64"]


class _Scored(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    host: str
    score: Annotated[int, msgspec.Meta(ge=_INT64[0], le=_INT64[-1])]


_decode_scores = msgspec.json.Decoder(list[_Scored]).decode


def filter_answer(answer: bytes) -> FilterAnswer:
    """Raises if the extender tells of an error."""
    said = _read(answer, FILTER_RESULT, _without_contents_of_nodes) or {}
    if error := said.get("Error"):
        raise ExtenderAnswerError(error)
    names, nodes = said.get("NodeNames"), said.get("Nodes")
    return FilterAnswer(
        None if names is None else [name or "" for name in names],
        None if nodes is None else [_node_name(node) for node in nodes.get("items") or ()],
        _reasons(said.get("FailedNodes")),
        _reasons(said.get("FailedAndUnresolvableNodes")),
    )


def priorities(answer: bytes) -> list[HostPriority]:
    try:
        # Nearly all are spelled like this, and there may be thousands.
        return [HostPriority(one.host, one.score) for one in _decode_scores(answer)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        said = _read(answer, HOST_PRIORITIES) or ()
    return [HostPriority(_text(one, "Host"), _number(one, "Score")) for one in said]


def chosen_victims(answer: bytes) -> dict[str, ChosenVictims]:
    """By node."""
    said = _read(answer, PREEMPTION_RESULT) or {}
    by_node = said.get("NodeNameToMetaVictims") or {}
    return {name: _chosen(victims or {}) for name, victims in by_node.items()}


def check_binding(answer: bytes) -> None:
    """Raises unless the pod is bound."""
    if error := _text(_read(answer, BINDING_RESULT), "Error"):
        raise ExtenderAnswerError(error)


def _chosen(victims: Mapping[str, Any]) -> ChosenVictims:
    pods = [_text(pod, "UID") for pod in victims.get("Pods") or ()]
    return ChosenVictims(pods, _number(victims, "NumPDBViolations"))


def _node_name(node: Mapping[str, Any] | None) -> str:
    return _text((node or {}).get("metadata"), "name")


def _reasons(by_node: Mapping[str, str | None] | None) -> dict[str, str]:
    return {name: reason or "" for name, reason in (by_node or {}).items()}


def _text(struct: Mapping[str, Any] | None, field: str) -> str:
    return (struct or {}).get(field) or ""


def _number(struct: Mapping[str, Any] | None, field: str) -> int:
    return (struct or {}).get(field) or 0


def _without_contents_of_nodes(answer: bytes) -> Any:
    """Of nodes, which may be thousands, nothing is decoded but their names."""
    members = msgspec.json.decode(answer, type=dict[str, msgspec.Raw] | None)
    return members and {
        key: msgspec.to_builtins(msgspec.json.decode(member, type=_NodeList | None))
        if key.casefold() == "nodes"
        else msgspec.json.decode(member)
        for key, member in members.items()
    }


def _read(answer: bytes, kind: GoType, decode: Callable[[bytes], Any] = msgspec.json.decode) -> Any:
    """The first value of the answer, which may be null; of structs those fields that were given.

    `decode` is quick, and need not read more than what this type is about. What it or the type does
    not accept is read again as Go reads it, before it is refused: other text may follow the value,
    numbers may be too long, strings may hold halves of characters.
    """
    try:
        return unmarshal(decode(answer), kind, ignores_case=True).value
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, UnmarshalError):
        pass
    try:
        return unmarshal(first_value(answer), kind, ignores_case=True).value
    except UnfinishedJsonError as error:
        raise UnfinishedAnswerError(str(error)) from error
    except (JsonSyntaxError, UnmarshalError) as error:
        raise ExtenderAnswerError(str(error)) from error
