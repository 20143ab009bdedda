"""What a rule of one's own costs: as a plugin over columns, as one for a node at a time, and as an
extender that is asked over HTTP.

The rule is the same each time: no node of the last zone, and the emptier the better. The extender
is a process of its own, on loopback; once it is told whole nodes, as is the default, once names.
CPU is what a decision takes beyond the same decision without the rule, of all processes. In each
form the same nodes are asked about: all of them, unless a percentage says otherwise.

    python tests/bench/outside.py --nodes 5000
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter, process_time

import click
import numpy as np
import uvloop
import workloads
from core import Cluster
from plugins import factory
from processes import Usage, running
from rich.console import Console
from rich.table import Table

from kscheduler.api.core import Pod
from kscheduler.client.extender_http import ExtenderHttp
from kscheduler.client.tls import TlsConfig
from kscheduler.config.duration import Duration
from kscheduler.config.model import Extender as ExtenderConfig
from kscheduler.cycle.extended import ExtendedScheduler
from kscheduler.cycle.schedule import FIRST_TURN, Placement, Scheduler
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.extender import Extender
from kscheduler.framework.extenders import Extenders
from kscheduler.framework.node_info import NodeInfo
from kscheduler.framework.verdict import Rejection, Scores, Status, rejected, unschedulable
from kscheduler.metrics import Metrics
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

NAME = "Measured"
REASON = "node(s) were in the last zone"
EXCLUDED = workloads.ZONES[-1]
TIMEOUT_SECONDS = 30
WORKLOAD = "plain"


class OverColumns:
    """The rule, once for all nodes."""

    name = NAME

    def __init__(self, args: object, handle: object) -> None:
        pass

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        code = nodes.label_values(workloads.ZONE).get(EXCLUDED, -1)
        yield unschedulable(nodes.label(workloads.ZONE) == code, REASON)

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        return 100 - 100 * nodes.pod_count // np.maximum(nodes.max_pods, 1)


class NodeByNode:
    """The rule, for one node at a time."""

    name = NAME

    def __init__(self, args: object, handle: object) -> None:
        pass

    def filter_node(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return rejected(REASON) if node.labels.get(workloads.ZONE) == EXCLUDED else None

    def score_node(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return 100 - 100 * len(node.pods) // 110


@dataclass(frozen=True)
class Cost:
    """Microseconds per decision, medians of the rounds."""

    rule: str
    nodes: int
    cpu_us: float
    # Of the extender's process.
    other_cpu_us: float
    waited_us: float


class Asked:
    """A cluster whose decisions an extender has a say in."""

    def __init__(self, cluster: Cluster, port: int, *, by_name: bool) -> None:
        self._cluster = cluster
        config = ExtenderConfig(
            url_prefix=f"http://127.0.0.1:{port}",
            filter_verb="filter",
            prioritize_verb="prioritize",
            weight=1,
            node_cache_capable=by_name,
            http_timeout=Duration.of(TIMEOUT_SECONDS),
        )
        self._wire = ExtenderHttp(config.url_prefix, TlsConfig(), timeout_seconds=TIMEOUT_SECONDS)
        extenders = Extenders([Extender(config, self._wire)])
        self._scheduler = ExtendedScheduler(cluster.scheduler, extenders, Metrics())
        self._loop = asyncio.Runner(loop_factory=uvloop.new_event_loop)

    def place(self, pod: Pod) -> PodInfo:
        return self._loop.run(self._place(pod))

    async def _place(self, pod: Pod) -> PodInfo:
        info, nodes = PodInfo(pod), self._cluster.cache.snapshot()
        outcome = await self._scheduler.decide(
            CycleState(), self._cluster.framework, info, nodes, FIRST_TURN
        )
        assert isinstance(outcome, Placement), outcome
        assumed = info.assigned_to(outcome.node)
        self._cluster.cache.assume(assumed)
        return assumed

    def close(self) -> None:
        self._loop.run(self._wire.close())
        self._loop.close()


def measured(
    rule: str,
    cluster: Cluster,
    place: Callable[[Pod], PodInfo],
    pods: int,
    rounds: int,
    other: Callable[[], float] = lambda: 0.0,
) -> Cost:
    """Pods of a round are gone after it, so that each round sees the same cluster."""
    figures: list[tuple[float, float, float]] = []
    for _ in range(rounds):
        batch = cluster.decoded(WORKLOAD, pods)
        before = (process_time(), other(), perf_counter())
        assumed = [place(pod) for pod in batch]
        after = (process_time(), other(), perf_counter())
        for pod in assumed:
            cluster.cache.forget(pod)
        used, others, waited = (b - a for a, b in zip(before, after, strict=True))
        figures.append((used, others, waited))
    medians = (median(column) / pods * 1e6 for column in zip(*figures, strict=True))
    return Cost(rule, len(cluster.cache.snapshot()), *medians)


@contextmanager
def extender(nodes: int) -> Iterator[tuple[int, int]]:
    """Its port and its process id."""
    script = Path(__file__).with_name("extender.py")
    command = [sys.executable, str(script), f"--nodes={nodes}"]
    with running(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.pid
        process.stdout.close()


def cpu_seconds(pid: int) -> float:
    return Usage.of(pid).cpu_seconds


def cluster_of(nodes: int, percentage: int, *rules: type) -> Cluster:
    """With these plugins, registered and guarded as in the daemon."""
    cluster = Cluster(nodes, WORKLOAD, {rule.name: factory(rule) for rule in rules})
    cluster.scheduler = Scheduler(rng=Random(1), percentage_of_nodes_to_score=percentage)
    return cluster


def compare(nodes: int, percentage: int, pods: int, rounds: int) -> Iterator[Cost]:
    forms = {"none": (), "over columns": (OverColumns,), "node by node": (NodeByNode,)}
    for rule, classes in forms.items():
        cluster = cluster_of(nodes, percentage, *classes)
        yield measured(rule, cluster, cluster.place, pods, rounds)
    cluster = cluster_of(nodes, percentage)
    for told in ("nodes", "names"):
        with (
            extender(nodes) as (port, pid),
            closing(Asked(cluster, port, by_name=told == "names")) as asked,
        ):
            rule, cpu = f"extender, told {told}", partial(cpu_seconds, pid)
            yield measured(rule, cluster, asked.place, pods, rounds, cpu)


def table(costs: list[Cost]) -> Table:
    without = costs[0].cpu_us
    table = Table(title=f"µs per decision on {costs[0].nodes:,} nodes")
    table.add_column("rule", no_wrap=True)
    for name in ("CPU", "extender's", "waited", "CPU for the rule"):
        table.add_column(name, justify="right")
    for cost in costs:
        figures = (cost.cpu_us, cost.other_cpu_us, cost.waited_us)
        more = cost.cpu_us + cost.other_cpu_us - without
        table.add_row(cost.rule, *(f"{figure:,.0f}" for figure in (*figures, more)))
    return table


@click.command(help=__doc__)
@click.option("--nodes", default=5000, show_default=True)
@click.option("--percentage", default=100, show_default=True, help="Of nodes to score; 0: default.")
@click.option("--pods", default=20, show_default=True, help="Decisions per round.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON line per rule.")
def main(nodes: int, percentage: int, pods: int, rounds: int, as_json: bool) -> None:
    costs = list(compare(nodes, percentage, pods, rounds))
    if as_json:
        for cost in costs:
            print(json.dumps(asdict(cost)))
        return
    console = Console()
    console.print(table(costs))
    console.print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")


if __name__ == "__main__":
    main()
