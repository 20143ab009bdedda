"""What a decision costs: pods decided and assumed in process, without any API server.

The framework, the plugins and the cache are the real ones in the default configuration. Before
anything is measured each node has two plain pods, and some pods of the workload are placed as well;
after each round the pods of that round are taken out again, so that every round sees the same
cluster. A pod is decoded from JSON before the clock runs; compiling it, deciding and assuming are
what is measured, in CPU time of this process, and with devices Reserve, where they are allocated.

    make bench-core ARGS="--nodes 100,5000 --workloads plain,affinity"
"""

import cProfile
import gc
import json
import os
import pstats
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median
from time import process_time
from types import SimpleNamespace
from typing import NamedTuple

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from kscheduler.api.core import Node, Pod
from kscheduler.api.decode import decoder_for
from kscheduler.api.sharing import share_pod
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.load import load_config
from kscheduler.config.profiles import complete
from kscheduler.cycle.attempt import Attempt, Placement, at_once
from kscheduler.cycle.schedule import SchedulingAlgorithm
from kscheduler.extension_points import points_of
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Factory
from kscheduler.framework.listers import FixedListers, Listers
from kscheduler.metrics import Metrics
from kscheduler.plugins import catalog, factories
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.profile import build_frameworks
from kscheduler.state.cache import Cache
from kscheduler.state.pod_info import PodInfo
from tests.bench import claims, volumes, workloads
from tests.bench.stock import Stock

SIZES = (100, 1000, 5000, 15000)
PODS_PER_NODE = 2
# Share of attempts whose plugin calls are timed one by one, as in the daemon.
SAMPLED = 0.1
# Microseconds of CPU per pod that we mean to stay below, by number of nodes.
TARGETS = {100: 150, 1000: 500, 5000: 500}
# Pods with volumes are like no others: nothing that was worked out for one serves the next.
TARGETS_WITH_VOLUMES = {5000: 600}
TARGETS_WITH_DEVICES = {500: 500, 5000: 1000}
WORKLOADS = (*workloads.WORKLOADS, volumes.CSI, *claims.KINDS)

KIND = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}

_decode_node = decoder_for(Node)
_decode_pod = decoder_for(Pod)


class Assumed(NamedTuple):
    """A pod on its node, and what plugins keep about it."""

    pod: PodInfo
    cycle: CycleState


class Cluster:
    """A scheduler's core around nodes that have some pods already."""

    def __init__(
        self, size: int, workload: str, more_plugins: Mapping[str, Factory] | None = None
    ) -> None:
        self.cache = Cache()
        self._stock = stock_of(workload)
        metrics = Metrics()
        self.framework = make_framework(self.cache, metrics, more_plugins or {}, self._stock)
        self.algorithm = SchedulingAlgorithm(metrics, rng=Random(1), batching=True)
        self._rng = Random(2)
        self._no_pod = PodInfo(Pod())
        self._serial = 0
        nodes = [workloads.node(number) for number in range(size)]
        for node in nodes:
            self.cache.add_node(_decode_node(json.dumps(node)))
            self._stock.add_node(node["metadata"]["name"])
        names = [node["metadata"]["name"] for node in nodes] * PODS_PER_NODE
        for number, name in enumerate(names):
            self.cache.add_pod(PodInfo(self._decoded(workloads.placed(number, name))))
        for pod in self.decoded(max(size // 5, 20)):
            self.place(pod)

    def decoded(self, count: int) -> list[Pod]:
        return [self._decoded(one) for one in self._stock.pods(count)]

    def _decoded(self, pod: workloads.Json) -> Pod:
        self._serial += 1
        pod["metadata"]["uid"] = f"00000000-0000-0000-0000-{self._serial:012d}"
        return share_pod(_decode_pod(json.dumps(pod)))

    def _queue_entry(self) -> QueuedPodInfo:
        """Made when a pod enters the queue, which is not measured; it gets its pod later."""
        return QueuedPodInfo(self._no_pod, timestamp=0.0)

    def place(self, pod: Pod, queued: QueuedPodInfo | None = None) -> Assumed:
        """What is measured: one pod from its struct to its node."""
        queued = queued or self._queue_entry()
        info = queued.pod = PodInfo(pod)
        cycle = CycleState(sampled=self._rng.random() < SAMPLED)
        attempt = Attempt(queued, self.framework, cycle, self.cache.snapshot())
        outcome = at_once(self.algorithm.schedule_pod(attempt))
        assert isinstance(outcome, Placement), outcome
        assumed = info.assigned_to(outcome.node)
        self.cache.assume(assumed)
        if self._stock.reserves:
            status = self.framework.run_reserve(cycle, assumed, outcome.node)
            assert status is None, status
        return Assumed(assumed, cycle)

    def forget(self, one: Assumed) -> None:
        """As if the pod had never come."""
        if self._stock.reserves:
            self.framework.run_unreserve(one.cycle, one.pod, one.pod.pod.spec.node_name)
        self.cache.forget(one.pod)

    def round(self, pods: Sequence[Pod]) -> float:
        """Seconds of CPU to place these pods; they are gone afterwards."""
        entries = [self._queue_entry() for _ in pods]
        started = process_time()
        assumed = [self.place(pod, queued) for pod, queued in zip(pods, entries, strict=True)]
        taken = process_time() - started
        for one in assumed:
            self.forget(one)
        return taken


def stock_of(workload: str) -> Stock:
    if workload == volumes.CSI:
        return volumes.VolumeStock(workload)
    return (claims.DeviceStock if workload in claims.KINDS else Stock)(workload)


def at_most(workload: str, pods: int, size: int) -> int:
    """As many of these pods as surely find a place beside those that are there."""
    if kind := claims.KINDS.get(workload):
        return min(pods, size * kind.pods_per_node // 2)
    return workloads.at_most(workload, pods, size)


def make_framework(
    cache: Cache,
    metrics: Metrics,
    more_plugins: Mapping[str, Factory],
    listers: Listers | None = None,
) -> Framework:
    gates = FeatureGates.defaults()
    enabled = [{"name": name} for name in more_plugins]
    document = {**KIND, "profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}]}
    config = load_config(json.dumps(document).encode(), catalog(), gates=gates)
    more = (
        SimpleNamespace(name=name, points=points_of(made), signs=hasattr(made, "sign"))
        for name, made in more_plugins.items()
    )
    completed = complete(config, catalog().including(more), gates=gates)
    handle = RuntimeHandle(
        gates=gates,
        listers=listers or FixedListers(),
        snapshot=cache.snapshot,
        nominator=SimpleNamespace(nodes=(), pods_for_node=lambda node: ()),
        activate=lambda pods: None,
        client=SimpleNamespace(),
        recorder=SimpleNamespace(),
        metrics=metrics,
    )
    (framework,) = build_frameworks(
        completed, factories() | more_plugins, lambda _name: handle
    ).values()
    return framework


@dataclass(frozen=True)
class Cost:
    """Microseconds of CPU per pod."""

    nodes: int
    workload: str
    pods: int
    rounds: int
    median_us: float
    least_us: float


def measure(size: int, workload: str, pods: int, rounds: int) -> Cost:
    pods = at_most(workload, pods, size)
    cluster = Cluster(size, workload)
    gc.collect()
    gc.freeze()
    costs = [cluster.round(cluster.decoded(pods)) / pods * 1e6 for _ in range(rounds)]
    gc.unfreeze()
    return Cost(size, workload, pods, rounds, median(costs), min(costs))


def profile(size: int, workload: str, pods: int) -> None:
    cluster = Cluster(size, workload)
    batch = cluster.decoded(at_most(workload, pods, size))
    profiler = cProfile.Profile()
    profiler.runcall(cluster.round, batch)
    stats = pstats.Stats(profiler, stream=sys.stdout).strip_dirs()
    stats.sort_stats("tottime").print_stats(50)


def table(costs: Sequence[Cost]) -> Table:
    sizes = sorted({cost.nodes for cost in costs})
    table = Table(title="µs of CPU per pod: median (least) of the rounds, by number of nodes")
    table.add_column("workload")
    for size in sizes:
        table.add_column(f"{size:,}", justify="right")
    for workload in dict.fromkeys(cost.workload for cost in costs):
        found = {cost.nodes: cost for cost in costs if cost.workload == workload}
        table.add_row(workload, *(_cell(found[size]) for size in sizes))
    return table


def _cell(cost: Cost) -> str:
    text = f"{cost.median_us:.0f} ({cost.least_us:.0f})"
    targets = TARGETS
    if cost.workload == volumes.CSI:
        targets = TARGETS_WITH_VOLUMES
    elif cost.workload in claims.KINDS:
        targets = TARGETS_WITH_DEVICES
    return f"[red]{text}[/]" if cost.least_us > targets.get(cost.nodes, cost.least_us) else text


def _listed(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


@click.command(help=__doc__)
@click.option("--nodes", default=",".join(map(str, SIZES)), callback=_listed, show_default=True)
@click.option("--workloads", "chosen", default=",".join(WORKLOADS), callback=_listed)
@click.option("--pods", default=100, show_default=True, help="Pods per round.")
@click.option("--rounds", default=25, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON line per measurement.")
@click.option("--profile", "profiled", is_flag=True, help="cProfile of the first of each.")
def main(
    nodes: list[str],
    chosen: list[str],
    pods: int,
    rounds: int,
    as_json: bool,
    profiled: bool,
) -> None:
    unknown = set(chosen) - set(WORKLOADS)
    if unknown:
        raise click.BadParameter(f"no such workload: {', '.join(sorted(unknown))}")
    sizes = [int(size) for size in nodes]
    if profiled:
        profile(sizes[0], chosen[0], pods)
        return
    costs = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(sizes) * len(chosen))
        for size in sizes:
            for workload in chosen:
                progress.update(task, description=f"{size:,} nodes, {workload}")
                costs.append(measure(size, workload, pods, rounds))
                progress.advance(task)
                if as_json:
                    print(json.dumps(vars(costs[-1])), flush=True)
    if not as_json:
        console = Console()
        console.print(table(costs))
        console.print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")


if __name__ == "__main__":
    main()
