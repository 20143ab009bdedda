"""Small clusters in memory: snapshots of nodes and pods, and frameworks of made-up plugins."""

from collections.abc import Collection, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from kscheduler.api.core import Node
from kscheduler.extension_points import METHOD_OF_POINT, Point
from kscheduler.framework.listers import FixedListers
from kscheduler.metrics import Metrics
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.state.cache import Cache
from kscheduler.state.change_log import ChangeLog
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

PROFILE = "default-scheduler"
# A QueueSort for frameworks that are about something else.
BY_TIME = SimpleNamespace(name="ByTime", sort_key=lambda queued: queued.timestamp)


def cache_of(nodes: Iterable[Node], pods: Iterable[PodInfo] = ()) -> Cache:
    """A cache that was told of these nodes, in order, and of these pods."""
    cache = Cache()
    for node in nodes:
        cache.add_node(node)
    for pod in pods:
        cache.add_pod(pod)
    return cache


def snapshot_of(
    nodes: Iterable[Node], pods: Iterable[PodInfo] = (), gone: Iterable[Node] = ()
) -> Nodes:
    """A snapshot; row i is the i-th node. Those of the nodes that are `gone` left free rows."""
    cache = cache_of(nodes, pods)
    for node in gone:
        cache.remove_node(node)
    return cache.snapshot()


class FixedNominator:
    """A nominator that never changes: its pods are given by node."""

    def __init__(self, pods: Mapping[str, list[PodInfo]] | None = None) -> None:
        self._pods = pods or {}
        self.changes: ChangeLog[str] = ChangeLog()

    @property
    def nodes(self) -> Collection[str]:
        return self._pods.keys()

    def pods_for_node(self, node: str) -> list[PodInfo]:
        return self._pods.get(node, [])

    def node_of(self, uid: str) -> str | None:
        return next(
            (node for node, pods in self._pods.items() if uid in {pod.uid for pod in pods}), None
        )


def make_handle(*, gates: Collection[str] = (), **parts: Any) -> RuntimeHandle:
    """A handle whose `parts` are given, or else do nothing; these feature gates are on."""
    return RuntimeHandle(
        **{
            "gates": SimpleNamespace(enabled=lambda name: name in gates),
            "listers": FixedListers(),
            "snapshot": lambda: None,
            "nominator": FixedNominator(),
            "activate": lambda pods: None,
            "client": None,
            "recorder": None,
            "metrics": Metrics(),
            "profile_name": PROFILE,
            **parts,
        }
    )


def make_framework(
    handle: RuntimeHandle,
    plugins: Iterable[Any],
    *,
    weights: Mapping[str, int] | None = None,
    **settings: Any,
) -> Framework:
    """A profile of these plugins, each at every point it has a method for, in this order.

    Plugins may be any objects. Weights are 1 unless given; pods are sorted by time unless one of
    the plugins sorts them.
    """
    plugins = list(plugins)
    if not any(hasattr(plugin, METHOD_OF_POINT[Point.QUEUE_SORT]) for plugin in plugins):
        plugins.append(BY_TIME)
    plugins_at = {
        point: [plugin for plugin in plugins if hasattr(plugin, method)]
        for point, method in METHOD_OF_POINT.items()
    }
    weights = {plugin.name: 1 for plugin in plugins} | dict(weights or {})
    return Framework(handle, plugins_at, weights=weights, **settings)
