"""What plugins from outside cost: the same logic on columns, and one node at a time.

A plugin filters by what is free and scores by how much of it; it is registered, guarded and called
as in the daemon. All nodes are judged and all feasible ones scored. Own arithmetic is what its two
methods take when called directly; the rest is what running plugins of others costs. All of it is
CPU time per pod.

    python tests/bench/plugins.py --nodes 5000
"""

import gc
from collections.abc import Callable
from random import Random
from statistics import median
from time import process_time
from typing import Any

import click
import numpy as np
from core import Cluster, make_framework
from rich.console import Console
from rich.table import Table

from kscheduler.cycle.schedule import Scheduler
from kscheduler.framework import rejected, unschedulable
from kscheduler.framework.outside.registration import checked
from kscheduler.framework.outside.views import Views
from kscheduler.framework.per_node import adapted
from kscheduler.framework.plugin import METHOD_OF_POINT
from kscheduler.framework.runtime import Framework
from kscheduler.metrics import Metrics

REASON = "node(s) had no CPU to spare"
WORKLOAD = "plain"


class Columns:
    name = "Columns"

    def __init__(self, args: object, handle: object) -> None:
        pass

    def filter(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        free = nodes.allocatable_of("cpu") - nodes.requested_of("cpu")
        yield unschedulable(free < pod.requests.get("cpu", 0), REASON)

    def score(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        room = nodes.allocatable_of("cpu")
        return (room - nodes.requested_of("cpu")) * 100 // np.maximum(room, 1)


class OneByOne:
    name = "OneByOne"

    def __init__(self, args: object, handle: object) -> None:
        pass

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> Any:
        free = node.allocatable["cpu"] - node.requested["cpu"]
        return rejected(REASON) if free < pod.requests.get("cpu", 0) else None

    def score_node(self, cycle: Any, pod: Any, node: Any) -> Any:
        room = node.allocatable["cpu"]
        return (room - node.requested["cpu"]) * 100 // max(room, 1)


class Nothing:
    """No arithmetic at all: what is left is the price of being asked."""

    name = "Nothing"

    def __init__(self, args: object, handle: object) -> None:
        self._scores = np.zeros(0, np.int64)

    def filter(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        return ()

    def score(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        if len(self._scores) != len(nodes):
            self._scores = np.zeros(len(nodes), np.int64)
        return self._scores


def factory(plugin_class: type) -> Any:
    """As the daemon registers it; the function says where it runs."""
    outside = checked(plugin_class, "benchmark")

    def make(args: object, handle: Any) -> Any:
        return outside(args, handle)

    for point in outside.points:
        setattr(make, METHOD_OF_POINT[point], None)
    return make


def per_pod(cluster: Cluster, framework: Framework, pods: int) -> float:
    """Microseconds of one round."""
    cluster.framework = framework
    return cluster.round(cluster.decoded(WORKLOAD, pods)) / pods * 1e6


def arithmetic(plugin_class: type, cluster: Cluster, calls: int) -> float:
    """Microseconds that the plugin's own methods take for one pod."""
    views = Views()
    plugin: Any = adapted(plugin_class(None, None))
    nodes = cluster.cache.snapshot()
    pod = views.pod(nodes.pods(0)[0])

    def ask() -> None:
        list(plugin.filter(None, pod, views.nodes(nodes)))
        plugin.score(None, pod, views.nodes(nodes))

    ask()
    return _timed(ask, calls)


def _timed(ask: Callable[[], None], calls: int) -> float:
    started = process_time()
    for _ in range(calls):
        ask()
    return (process_time() - started) / calls * 1e6


@click.command()
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=200, show_default=True, help="Pods per round.")
@click.option("--rounds", default=7, show_default=True)
def main(nodes: int, pods: int, rounds: int) -> None:
    """Rounds with and without the plugin take turns, so that both meet the same machine."""
    table = Table("plugin", "all, µs", "own arithmetic, µs", "over its arithmetic, µs")
    cluster = Cluster(nodes, WORKLOAD)
    cluster.scheduler = Scheduler(rng=Random(1), percentage_of_nodes_to_score=100)
    bare = cluster.framework
    for plugin_class, share in ((Nothing, 1), (Columns, 1), (OneByOne, 20)):
        more = {plugin_class.name: factory(plugin_class)}
        with_plugin = make_framework(cluster.cache, Metrics(), more)
        gc.collect()
        gc.freeze()
        extra, own = [], []
        for _ in range(rounds):
            count = max(pods // share, 1)
            with_it = per_pod(cluster, with_plugin, count)
            extra.append(with_it - per_pod(cluster, bare, count))
            own.append(arithmetic(plugin_class, cluster, count))
        gc.unfreeze()
        all_of_it, arithmetic_us = min(extra), min(own)
        cells = (all_of_it, arithmetic_us, all_of_it - arithmetic_us)
        table.add_row(plugin_class.name, *(f"{cell:.1f}" for cell in cells))
    Console().print(table)


if __name__ == "__main__":
    main()
