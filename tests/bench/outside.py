"""What a rule of one's own costs: as a plugin over columns, as one for a node at a time, and as an
extender that is asked over HTTP.

The rule is the same each time: no node of the last zone, and the emptier the better. The extender
is a process of its own, on loopback; once it is told whole nodes, as is the default, once names.
CPU is what a decision takes beyond the same decision without the rule, of all processes, in the
best of the rounds. All nodes are asked about, and then as many as the default percentage finds
enough: the plugins until there are so many that suit, the extender about so many, of which it may
leave fewer.

    python -m tests.bench.outside --nodes 5000
"""

import asyncio
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from random import Random
from time import clock_gettime, perf_counter, process_time

import click
import numpy as np
import uvloop
from rich.console import Console
from rich.table import Table

from kscheduler.api.core import Pod
from kscheduler.client.extender import ExtenderHttp
from kscheduler.client.tls import TlsConfig
from kscheduler.config.model import Extender as ExtenderConfig
from kscheduler.cycle.attempt import Attempt, Placement
from kscheduler.cycle.schedule import SchedulingAlgorithm
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.node_info import NodeInfo
from kscheduler.framework.status import Rejection, Scores, Status, rejected, unschedulable
from kscheduler.gotext.duration import Duration
from kscheduler.metrics import Metrics
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.runtime.extenders.extender import Extender
from kscheduler.runtime.extenders.extenders import Extenders
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo
from tests.bench import workloads
from tests.bench.core import Assumed, Cluster
from tests.bench.plugins import factory
from tests.bench.processes import running

NAME = "Measured"
REASON = "node(s) were in the last zone"
EXCLUDED = workloads.ZONES[-1]
TIMEOUT_SECONDS = 30
WORKLOAD = "plain"
PERCENTAGES = {100: "all nodes asked", 0: "the default percentage"}
TO_NODES, TO_NAMES = "extender, told nodes", "extender, told names"


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
    """Microseconds per decision in the best round."""

    rule: str
    nodes: int
    percentage: int
    cpu_us: float
    # Of the extender's process.
    other_cpu_us: float
    waited_us: float

    @property
    def all_cpu_us(self) -> float:
        return self.cpu_us + self.other_cpu_us


class Asked:
    """A cluster whose decisions an extender has a say in."""

    def __init__(self, cluster: Cluster, percentage: int, port: int, *, by_name: bool) -> None:
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
        self._algorithm = algorithm_of(percentage, extenders)
        self._loop = asyncio.Runner(loop_factory=uvloop.new_event_loop)

    def place(self, pod: Pod) -> Assumed:
        return self._loop.run(self._place(pod))

    async def _place(self, pod: Pod) -> Assumed:
        info, nodes = PodInfo(pod), self._cluster.cache.snapshot()
        queued, framework = QueuedPodInfo(info, timestamp=0.0), self._cluster.framework
        attempt = Attempt(queued, framework, CycleState(), nodes, extended=True)
        outcome = await self._algorithm.schedule_pod(attempt)
        assert isinstance(outcome, Placement), outcome
        assumed = info.assigned_to(outcome.node)
        self._cluster.cache.assume(assumed)
        return Assumed(assumed, attempt.cycle)

    def close(self) -> None:
        self._loop.run(self._wire.close())
        self._loop.close()


Figures = tuple[float, float, float]


@dataclass(frozen=True)
class Form:
    """The rule in one of its forms, and a cluster to decide by it."""

    cluster: Cluster
    place: Callable[[Pod], Assumed]
    # CPU seconds of whoever else takes part.
    other: Callable[[], float] = lambda: 0.0

    def round(self, pods: int) -> Figures:
        """Microseconds per pod. The pods are gone afterwards: each round sees the same cluster."""
        batch = self.cluster.decoded(pods)
        before = (process_time(), self.other(), perf_counter())
        assumed = [self.place(pod) for pod in batch]
        after = (process_time(), self.other(), perf_counter())
        for one in assumed:
            self.cluster.forget(one)
        used, others, waited = ((b - a) / pods * 1e6 for a, b in zip(before, after, strict=True))
        return used, others, waited


@contextmanager
def extender(nodes: int) -> Iterator[tuple[int, int]]:
    """Its port and its process id."""
    command = [sys.executable, "-m", "tests.bench.extender", f"--nodes={nodes}"]
    with running(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.pid
        process.stdout.close()


def cpu_seconds(pid: int) -> float:
    """By the process's own clock, as clock_getcpuclockid(3) numbers it; /proc counts in ticks."""
    return clock_gettime((~pid << 3) | 2)


def cluster_of(nodes: int, percentage: int, *rules: type) -> Cluster:
    """With these plugins, registered and guarded as in the daemon."""
    cluster = Cluster(nodes, WORKLOAD, {rule.name: factory(rule) for rule in rules})
    cluster.algorithm = algorithm_of(percentage)
    return cluster


def algorithm_of(percentage: int, extenders: Extenders | None = None) -> SchedulingAlgorithm:
    return SchedulingAlgorithm(
        Metrics(), rng=Random(1), percentage_of_nodes_to_score=percentage, extenders=extenders
    )


@contextmanager
def all_forms(nodes: int, percentage: int) -> Iterator[dict[str, Form]]:
    plugins = {"none": (), "over columns": (OverColumns,), "node by node": (NodeByNode,)}
    forms = {}
    for rule, classes in plugins.items():
        cluster = cluster_of(nodes, percentage, *classes)
        forms[rule] = Form(cluster, cluster.place)
    bare = forms["none"].cluster
    with ExitStack() as stack:
        for rule in (TO_NODES, TO_NAMES):
            port, pid = stack.enter_context(extender(nodes))
            asked = stack.enter_context(
                closing(Asked(bare, percentage, port, by_name=rule == TO_NAMES))
            )
            forms[rule] = Form(bare, asked.place, partial(cpu_seconds, pid))
        yield forms


def compare(nodes: int, percentage: int, pods: int, rounds: int) -> Iterator[Cost]:
    """Round by round in turn, so that all forms meet the same machine."""
    with all_forms(nodes, percentage) as forms:
        gc.collect()
        gc.freeze()
        figures = [{rule: form.round(pods) for rule, form in forms.items()} for _ in range(rounds)]
    gc.unfreeze()
    for rule in forms:
        best = min((one[rule] for one in figures), key=lambda one: one[0] + one[1])
        yield Cost(rule, nodes, percentage, *best)


def table(costs: list[Cost]) -> Table:
    without, *rules = costs
    more = {cost.rule: cost.all_cpu_us - without.all_cpu_us for cost in rules}
    title = f"CPU µs per decision on {without.nodes:,} nodes, {PERCENTAGES[without.percentage]}"
    caption = "rule: both, beyond a decision without it; x: an extender's, told these"
    table = Table(title=title, caption=caption)
    table.add_column("rule", no_wrap=True)
    for name in ("scheduler", "extender", "rule", "nodes", "names"):
        table.add_column(name, justify="right", no_wrap=True)
    for cost in rules:
        figures = (cost.cpu_us, cost.other_cpu_us, more[cost.rule])
        times = (more[other] / more[cost.rule] for other in (TO_NODES, TO_NAMES))
        told = (*map("{:,.0f}".format, figures), *map("x {:,.1f}".format, times))
        table.add_row(cost.rule, *told)
    return table


@click.command(help=__doc__)
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=10, show_default=True, help="Decisions per round.")
@click.option("--rounds", default=15, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON line per rule.")
def main(nodes: int, pods: int, rounds: int, as_json: bool) -> None:
    console = Console()
    for percentage in PERCENTAGES:
        costs = list(compare(nodes, percentage, pods, rounds))
        if as_json:
            for cost in costs:
                print(json.dumps(asdict(cost)))
        else:
            console.print(table(costs))
            console.print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")


if __name__ == "__main__":
    main()
