"""Simulated usage of nodes and pods, as a metrics server would have measured it.

A running container uses a part of what it asks for, always the same part; one that asks for nothing
uses a little. A node uses what its pods use, and something for itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from kscheduler.api.quantity import milli_value, value
from kscheduler.rest.lists import ListOptions
from kscheduler.sandbox.lists import list_page, parse_selection
from kscheduler.sandbox.metadata import now
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import NODES, PODS
from kscheduler.sandbox.rest.request import RequestInfo
from kscheduler.sandbox.store import Object, Stored

_WINDOW = "30s"
_LITTLE = (5, 16 << 20)  # millicores and bytes
_OF_NODE = (120, 512 << 20)
_Usage = tuple[int, int]


def answer_metrics(registry: Registry, info: RequestInfo, query: Mapping[str, str]) -> Object:
    """The NodeMetrics or PodMetrics of one object or of all that are selected."""
    resource = NODES if info.resource.plural == "nodes" else PODS
    kind, version = info.resource.kind, info.resource.group_version
    typed = {"kind": kind, "apiVersion": version}
    shown = _of_nodes(registry) if resource is NODES else _of_pods()
    if info.name:
        return typed | shown(registry.get(resource, info.namespace, info.name))
    selection = parse_selection(resource, info.namespace, dict(query))
    page = list_page(
        registry.collection(resource), registry.store.version, selection, ListOptions()
    )
    items = [
        shown(stored)
        for stored in page.items
        if resource is NODES or stored.fields["status.phase"] == "Running"
    ]
    return {"kind": f"{kind}List", "apiVersion": version, "metadata": {}, "items": items}


def _of_pods() -> Any:
    def shown(stored: Stored) -> Object:
        pod = stored.decode()
        containers = [
            {"name": name, "usage": _written(usage)} for name, usage in _container_usage(pod)
        ]
        return {**_head(stored), "containers": containers}

    return shown


def _of_nodes(registry: Registry) -> Any:
    used: dict[str, _Usage] = {}
    for stored in registry.collection(PODS):
        node = stored.fields["spec.nodeName"]
        if node and stored.fields["status.phase"] == "Running":
            for _, (cpu, memory) in _container_usage(stored.decode()):
                before = used.get(node, (0, 0))
                used[node] = before[0] + cpu, before[1] + memory

    def shown(stored: Stored) -> Object:
        cpu, memory = used.get(stored.key[1], (0, 0))
        return {**_head(stored), "usage": _written((cpu + _OF_NODE[0], memory + _OF_NODE[1]))}

    return shown


def _container_usage(pod: Object) -> Iterator[tuple[str, _Usage]]:
    for container in pod["spec"]["containers"]:
        requests = container["resources"].get("requests") or {}
        seed = f"{pod['metadata']['uid']}/{container['name']}".encode()
        percent = 30 + zlib.crc32(seed) % 60
        cpu = milli_value(requests.get("cpu", 0)) * percent // 100
        memory = value(requests.get("memory", 0)) * percent // 100
        yield container["name"], (cpu or _LITTLE[0], memory or _LITTLE[1])


def _written(usage: _Usage) -> Object:
    return {"cpu": f"{usage[0]}m", "memory": f"{usage[1] >> 10}Ki"}


def _head(stored: Stored) -> Object:
    about = stored.decode()["metadata"]
    kept = ("name", "namespace", "creationTimestamp", "labels")
    metadata = {part: about[part] for part in kept if part in about}
    return {"metadata": metadata, "timestamp": now(), "window": _WINDOW}
