"""What extenders answer: nodes that pass, scores, victims, whether a pod is bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from kscheduler.runtime.extenders.json import INT64, ExtenderAnswerError, read


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


class _Scored(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    host: str
    score: Annotated[int, msgspec.Meta(ge=INT64[0], le=INT64[-1])]


_decode_scores = msgspec.json.Decoder(list[_Scored]).decode


def filter_answer(answer: bytes) -> FilterAnswer:
    """Raises if the extender tells of an error."""
    said = read(answer, "v1.ExtenderFilterResult", _without_contents_of_nodes) or {}
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
        said = read(answer, "v1.HostPriorityList") or ()
    return [HostPriority(_text(one, "Host"), _number(one, "Score")) for one in said]


def chosen_victims(answer: bytes) -> dict[str, ChosenVictims]:
    """By node."""
    said = read(answer, "v1.ExtenderPreemptionResult") or {}
    by_node = said.get("NodeNameToMetaVictims") or {}
    return {name: _chosen(victims or {}) for name, victims in by_node.items()}


def check_binding(answer: bytes) -> None:
    """Raises unless the pod is bound."""
    if error := _text(read(answer, "v1.ExtenderBindingResult"), "Error"):
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
