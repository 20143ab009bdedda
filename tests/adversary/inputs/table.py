"""Rows of the table of hostile inputs, and the few helpers that every builder uses.

A builder is asked for a size, for a tag and for the names of nodes. The size is its knob: twice
the size is twice the object, or twice as many of them. All names and keys it makes up contain the
tag, so that nothing that was worked out for one build is found in a cache by the next.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.bench.workloads import IMAGE

Json = dict[str, Any]

# The tenant's namespace; the innocent pods of everybody else are in another.
NAMESPACE = "adversary"
INNOCENT = "innocent"
# Who may create these objects: anyone with edit rights in a namespace, or more than that.
TENANT = "namespace editor"
STORAGE = "storage administrator"
NAMESPACES = "namespace creator"
HIGH_PRIORITY = "system-cluster-critical"
SMALL = {"cpu": "10m", "memory": "16Mi"}


@dataclass(frozen=True)
class Ask:
    """What a builder is asked for; `nodes` are all nodes of the cluster."""

    size: int
    tag: str
    nodes: Sequence[str]

    def label_keys(self, count: int | None = None) -> list[str]:
        """Label keys that no node and no pod has."""
        return [f"{self.tag}.example.com/k{i:05d}" for i in range(self.many(count))]

    def names(self, count: int | None = None) -> list[str]:
        return [f"{self.tag}-{i:05d}" for i in range(self.many(count))]

    def many(self, count: int | None) -> int:
        return self.size if count is None else count


@dataclass(frozen=True)
class Scene:
    """Objects in the order in which they are created. Where no pod is to be decided, the objects
    themselves are the attack, and a plain pod is decided after them.
    """

    before: Sequence[Json] = ()
    pods: Sequence[Json] = ()


@dataclass(frozen=True)
class Hostile:
    name: str
    attacks: str
    build: Callable[[Ask], Scene]
    # For a comparison with kube-scheduler: about as much as a real API server admits.
    size: int
    # For counting, where twice as much is built as well.
    small: int
    by: str = TENANT
    # Why the decision about an innocent pod costs in proportion to the size, here as with
    # kube-scheduler; empty where it must not depend on the size at all.
    innocent_pays: str = ""
    # PreEnqueue keeps the pod out of the queue, so that nobody ever decides about it.
    held_back: bool = False


@dataclass
class Table:
    rows: dict[str, Hostile] = field(default_factory=dict)

    def row(
        self, name: str, attacks: str, *, size: int, small: int, **more: Any
    ) -> Callable[[Callable[[Ask], Scene]], Callable[[Ask], Scene]]:
        """Decorates a builder."""

        def add(build: Callable[[Ask], Scene]) -> Callable[[Ask], Scene]:
            assert name not in self.rows, name
            self.rows[name] = Hostile(name, attacks, build, size, small, **more)
            return build

        return add


TABLE = Table()
row = TABLE.row


def pod(name: str, *, namespace: str = NAMESPACE, on: str = "", **fields: Any) -> Json:
    """A small pod. `metadata` adds to its metadata, `container` to its only container; all other
    fields are its spec's.
    """
    metadata = fields.pop("metadata", {})
    container = {
        "name": "main",
        "image": IMAGE,
        "resources": {"requests": SMALL, "limits": SMALL},
        **fields.pop("container", {}),
    }
    spec = {
        "schedulerName": "default-scheduler",
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        **fields,
    }
    if on:
        spec["nodeName"] = on
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": spec,
    }


def deep(levels: int) -> str:
    """Arrays in arrays, which `encoded` writes out: no encoder goes that deep."""
    return f"@deep:{levels}@"


def encoded(item: Json) -> bytes:
    text = json.dumps(item, separators=(",", ":"))
    return re.sub(r'"@deep:(\d+)@"', _arrays, text).encode()


def _arrays(found: re.Match[str]) -> str:
    return "[" * int(found[1]) + "]" * int(found[1])


def named(
    kind: str, name: str, *, api: str = "v1", namespace: str = NAMESPACE, **more: Any
) -> Json:
    """Any object; a namespace of "" is for kinds that are in none."""
    metadata = {"name": name, **more.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **more}


def expression(key: str, operator: str = "DoesNotExist", values: Sequence[str] = ()) -> Json:
    told: Json = {"key": key, "operator": operator}
    if values:
        told["values"] = list(values)
    return told


def matching(*expressions: Json) -> Json:
    return {"matchExpressions": list(expressions)}
