"""Costs of out-of-tree plugins: the same logic on columns, and one node at a time.

A plugin filters by what is free and scores by how much of it; it is registered, guarded and called
as in the daemon. All nodes are judged and all feasible ones scored. Own arithmetic is what its two
methods take; the rest is what one more plugin, and guarding it, costs. All of it is CPU time per
pod.

    python -m tests.bench.plugins --nodes 5000
"""

import gc
from collections.abc import Callable
from inspect import isgenerator
from random import Random
from statistics import median
from time import process_time
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from kscheduler.api.core import Pod
from kscheduler.cycle.schedule import SchedulingAlgorithm
from kscheduler.extension_points import METHOD_OF_POINT
from kscheduler.framework import rejected, unschedulable
from kscheduler.metrics import Metrics
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.out_of_tree.registration import register_class
from tests.bench.core import Cluster, make_framework

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
    outside = register_class(plugin_class, "benchmark")

    def make(args: object, handle: Any) -> Any:
        return outside(args, handle)

    for point in outside.points:
        setattr(make, METHOD_OF_POINT[point], None)
    return make


def place(cluster: Cluster, framework: Framework, pod: Pod) -> float:
    """Microseconds to place the pod; it is gone afterwards."""
    cluster.framework = framework
    return cluster.round([pod]) * 1e6


class Stopwatch:
    """How long a plugin's own code takes, measured where it runs, on data as warm or cold."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            started = process_time()
            answer = method(*args)
            answer = list(answer) if isgenerator(answer) else answer
            self.seconds += process_time() - started
            return answer

        return call

    def take(self) -> float:
        seconds, self.seconds = self.seconds, 0.0
        return seconds


def watch(framework: Framework, name: str) -> Stopwatch:
    """Puts a stopwatch into the plugin of that name, inside of everything that guards it."""
    watch = Stopwatch()
    guarded: Any = next(plugin for plugin in framework.plugins if plugin.name == name)
    for method in ("filter", "score"):
        setattr(guarded.plugin, method, watch.around(getattr(guarded.plugin, method)))
    return watch


@click.command()
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=1000, show_default=True)
def main(nodes: int, pods: int) -> None:
    """Each pod is placed with and without the plugin, so that both meet the same machine."""
    table = Table("plugin", "own arithmetic, µs", "over it, µs")
    cluster = Cluster(nodes, WORKLOAD)
    cluster.algorithm = SchedulingAlgorithm(
        Metrics(), rng=Random(1), percentage_of_nodes_to_score=100
    )
    bare = cluster.framework
    for plugin_class, share in ((Nothing, 1), (Columns, 1), (OneByOne, 20)):
        more = {plugin_class.name: factory(plugin_class)}
        with_plugin = make_framework(cluster.cache, Metrics(), more)
        stopwatch = watch(with_plugin, plugin_class.name)
        gc.collect()
        gc.freeze()
        own, over = [], []
        for pod in cluster.decoded(pods // share):
            without_it, with_it = place(cluster, bare, pod), place(cluster, with_plugin, pod)
            own.append(stopwatch.take() * 1e6)
            over.append(with_it - own[-1] - without_it)
        gc.unfreeze()
        table.add_row(plugin_class.name, f"{median(own):.1f}", f"{median(over):.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
