"""What a measurement is made of: a cluster, a backlog, and what happens meanwhile.

Pods that are counted carry a label, others are there to disturb. Servers list objects by name, so
names with leading zeros say in which order a scheduler first sees its backlog.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from tests.bench.quick_client import MERGE_PATCH, Request
from tests.bench.workloads import NAMESPACE, Json, node

NODES = "/api/v1/nodes"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
MEASURED = "measured"
DELETE_AT_ONCE = json.dumps({"gracePeriodSeconds": 0}).encode()
# Of 4 CPUs, 100m each, some stay free.
MOST_PER_NODE = 30.0
USUAL_PODS = 3000


class Size(NamedTuple):
    nodes: int
    pods: int


@dataclass(frozen=True)
class Disturbance:
    """Requests sent at a steady rate while pods are being placed, until there are no more."""

    per_second: float
    requests: Callable[[Size], Iterator[Request]]


@dataclass(frozen=True)
class Scenario:
    # The pod that is measured, by its number, and what must be there for it.
    backlog: Callable[[int, Size], Iterable[Request]]
    # What else is there from the start.
    before: Callable[[Size], Iterable[Request]] = lambda size: ()
    # What is written when all of that is there: a server takes no status with a new object.
    statuses: Callable[[Size], Iterable[Request]] = lambda size: ()
    # What a controller writes for a measured pod that the server has, by its name and UID.
    controller: Callable[[str, str], Iterable[Request]] | None = None
    # How a pod that was bound is taken away again, by its name.
    removal: Callable[[str], Iterable[Request]] = lambda name: (delete(PODS, name),)
    node: Callable[[int], Iterable[Request]] = lambda number: (create(NODES, node(number)),)
    meanwhile: tuple[Disturbance, ...] = ()
    # Pods that are there at a time, each replaced when it is bound; none: all from the start.
    turnover: int = 0
    # Share of the backlog that is bound before the clock starts.
    warm_up: float = 0.0
    # What a scheduler is told beside its connection.
    configuration: Mapping[str, object] = field(default_factory=dict)
    pods_per_node: float = MOST_PER_NODE
    # However many nodes there are.
    most_pods: int = 1_000_000
    # Unless somebody asks for another number.
    usual_pods: int = USUAL_PODS

    def at_most(self, size: Size) -> Size:
        """With no more pods than surely find a place."""
        room = int(size.nodes * self.pods_per_node)
        return Size(size.nodes, min(size.pods, room, self.turnover or self.most_pods))

    def objects(self, size: Size) -> Iterator[Request]:
        """All that is there when a scheduler starts, but for what somebody writes about it."""
        yield from chain.from_iterable(map(self.node, range(size.nodes)))
        yield from self.before(size)
        for number in range(0 if self.turnover else size.pods):
            yield from self.backlog(number, size)


def create(path: str, body: Json) -> Request:
    return Request("POST", path, json.dumps(body).encode())


def put(path: str, body: Json) -> Request:
    return Request("PUT", path, json.dumps(body).encode())


def patch(path: str, body: Json) -> Request:
    return Request("PATCH", path, json.dumps(body).encode(), MERGE_PATCH)


def delete(path: str, name: str) -> Request:
    return Request("DELETE", f"{path}/{name}", DELETE_AT_ONCE)


def measured(body: Json) -> Request:
    body["metadata"]["labels"][MEASURED] = "true"
    return create(PODS, body)


def named(number: int) -> str:
    return f"pod-{number:06d}"


def node_name(number: int, size: Size) -> str:
    return node(number % size.nodes)["metadata"]["name"]
