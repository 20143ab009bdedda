"""JSON messages between the scheduler and extenders: k8s.io/kube-scheduler/extender/v1.

    filter, prioritize   ExtenderArgs → ExtenderFilterResult, HostPriorityList
    preempt              ExtenderPreemptionArgs → ExtenderPreemptionResult
    bind                 ExtenderBindingArgs → ExtenderBindingResult

Arguments are written with keys as upstream's structs spell them, with a capital; the objects inside
are as the API server wrote them. Results are read as Go's encoding/json reads them: keys may be
spelled in any case, null stands for nothing given, and whatever follows the first value is ignored.
What cannot be read is refused in Go's words, which tell of the first value that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from kscheduler.api.core import Node, Pod
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
from kscheduler.state.pod_info import PodInfo

_encode = msgspec.json.Encoder().encode


class Victims(NamedTuple):
    """Pods of one node that would be evicted, the most important first."""

    pods: Sequence[PodInfo]
    num_pdb_violations: int


def extender_args(pod: Pod, nodes: Iterable[Node]) -> bytes:
    """For extenders that know nothing by themselves."""
    items = b",".join(node.whole or _encode(node) for node in nodes)
    return b'{"Pod":%b,"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null}' % (
        _whole_pod(pod),
        items,
    )


def extender_args_by_name(pod: Pod, names: Sequence[str]) -> bytes:
    """For extenders with nodeCacheCapable."""
    return b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (_whole_pod(pod), _encode(names))


def extender_preemption_args(pod: Pod, victims: Mapping[str, Victims]) -> bytes:
    by_node = _victims_by_node(victims, lambda victim: _whole_pod(victim.pod))
    return b'{"Pod":%b,"NodeNameToVictims":%b,"NodeNameToMetaVictims":null}' % (
        _whole_pod(pod),
        by_node,
    )


def extender_preemption_args_by_uid(pod: Pod, victims: Mapping[str, Victims]) -> bytes:
    """For extenders with nodeCacheCapable."""
    by_node = _victims_by_node(victims, lambda victim: _encode({"UID": victim.uid}))
    return b'{"Pod":%b,"NodeNameToVictims":null,"NodeNameToMetaVictims":%b}' % (
        _whole_pod(pod),
        by_node,
    )


def extender_binding_args(pod: PodInfo, node: str) -> bytes:
    return _encode(
        {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node}
    )


def _victims_by_node(victims: Mapping[str, Victims], encode: Callable[[PodInfo], bytes]) -> bytes:
    """By name of the node, in their order, as Go writes maps."""
    return b"{%b}" % b",".join(
        b'%b:{"Pods":[%b],"NumPDBViolations":%d}'
        % (_encode(name), b",".join(map(encode, one.pods)), one.num_pdb_violations)
        for name, one in sorted(victims.items())
    )


def _whole_pod(pod: Pod) -> bytes:
    """As the API server has it; one that it does not know yet to be on its node is shown there."""
    if not pod.whole:
        return _encode(pod)
    if not pod.spec.node_name:
        return pod.whole
    shown = msgspec.json.decode(pod.whole)
    if shown["spec"].get("nodeName") == pod.spec.node_name:
        return pod.whole
    shown["spec"]["nodeName"] = pod.spec.node_name
    return _encode(shown)


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


class ExtenderFilterResult(NamedTuple):
    """Nodes that pass, as names or as objects, whichever the extender gave; and why others fail."""

    node_names: Sequence[str] | None
    # Names of the nodes that came as objects.
    nodes: Sequence[str] | None
    failed_nodes: Mapping[str, str]
    failed_and_unresolvable_nodes: Mapping[str, str]


class HostPriority(NamedTuple):
    host: str
    score: int


class MetaVictims(NamedTuple):
    """Pods by UID."""

    pods: Sequence[str]
    num_pdb_violations: int


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


def filter_result(answer: bytes) -> ExtenderFilterResult:
    """Raises if the extender reports an error."""
    result = _read(answer, FILTER_RESULT, _without_contents_of_nodes) or {}
    if error := result.get("Error"):
        raise ExtenderAnswerError(error)
    names, nodes = result.get("NodeNames"), result.get("Nodes")
    if nodes is not None:
        nodes = [_text((node or {}).get("metadata"), "name") for node in nodes.get("items") or ()]
    return ExtenderFilterResult(
        None if names is None else [name or "" for name in names],
        nodes,
        _reasons(result.get("FailedNodes")),
        _reasons(result.get("FailedAndUnresolvableNodes")),
    )


def host_priority_list(answer: bytes) -> list[HostPriority]:
    try:
        # Nearly all are spelled like this, and there may be thousands.
        return [HostPriority(one.host, one.score) for one in _decode_scores(answer)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        result = _read(answer, HOST_PRIORITIES) or ()
    return [HostPriority(_text(one, "Host"), _number(one, "Score")) for one in result]


def preemption_result(answer: bytes) -> dict[str, MetaVictims]:
    """Victims by node."""
    result = _read(answer, PREEMPTION_RESULT) or {}
    by_node = {}
    for name, victims in (result.get("NodeNameToMetaVictims") or {}).items():
        pods = [_text(pod, "UID") for pod in (victims or {}).get("Pods") or ()]
        by_node[name] = MetaVictims(pods, _number(victims, "NumPDBViolations"))
    return by_node


def check_binding_result(answer: bytes) -> None:
    """Raises unless the pod is bound."""
    if error := _text(_read(answer, BINDING_RESULT), "Error"):
        raise ExtenderAnswerError(error)


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
