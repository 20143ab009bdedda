"""What extenders are asked, in JSON.

Keys are spelled as upstream's structs spell them, with a capital; the objects inside are as the API
server wrote them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.state.pod_info import PodInfo

_encode = msgspec.json.Encoder().encode


class Victims(NamedTuple):
    """The pods of a node that would go, the most important first."""

    pods: Sequence[PodInfo]
    # Of budgets for disruptions.
    violations: int


def about_nodes(pod: Pod, nodes: Iterable[Node]) -> bytes:
    """Which of these nodes, or how good is each? For extenders that know nothing by themselves."""
    items = b",".join(map(_whole_node, nodes))
    return b'{"Pod":%b,"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null}' % (
        _whole_pod(pod),
        items,
    )


def about_names(pod: Pod, names: Sequence[str]) -> bytes:
    """The same, for extenders that know the nodes."""
    return b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (_whole_pod(pod), _encode(names))


def about_victims(pod: Pod, victims: Mapping[str, Victims]) -> bytes:
    """Which of these nodes may be emptied?"""
    by_node = _members(
        (name, _victims(map(_whole_pod, (pod.pod for pod in one.pods)), one.violations))
        for name, one in victims.items()
    )
    return b'{"Pod":%b,"NodeNameToVictims":%b,"NodeNameToMetaVictims":null}' % (
        _whole_pod(pod),
        by_node,
    )


def about_victim_uids(pod: Pod, victims: Mapping[str, Victims]) -> bytes:
    """The same, for extenders that know the pods."""
    by_node = _members(
        (name, _victims((_encode({"UID": pod.uid}) for pod in one.pods), one.violations))
        for name, one in victims.items()
    )
    return b'{"Pod":%b,"NodeNameToVictims":null,"NodeNameToMetaVictims":%b}' % (
        _whole_pod(pod),
        by_node,
    )


def about_binding(pod: PodInfo, node: str) -> bytes:
    return _encode(
        {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node}
    )


def _victims(pods: Iterable[bytes], violations: int) -> bytes:
    return b'{"Pods":[%b],"NumPDBViolations":%d}' % (b",".join(pods), violations)


def _members(members: Iterable[tuple[str, bytes]]) -> bytes:
    """A JSON object, in the order of its keys."""
    return b"{%b}" % b",".join(b"%b:%b" % (_encode(key), value) for key, value in sorted(members))


def _whole_node(node: Node) -> bytes:
    return node.whole or _encode(node)


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
