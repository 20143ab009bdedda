"""What it costs to keep decisions: CPU per pod with and without, and how many fit into 64 MiB.

Pods are decided and assumed in process as in `bench-core`; with recording on, each attempt is kept
in a DecisionLog from its decision to its end, as the cycle does it. Rounds with and without
alternate on one cluster, so that both see the same machine. A decision is measured alone, without
watch, binding and events: a pod in a daemon costs several times as much, so the share of recording
is smaller there.

    make bench-decisions ARGS="--nodes 5000 --workloads plain,affinity"
"""

import gc
import json
import os
from dataclasses import dataclass
from statistics import median
from time import time

import click
from rich.console import Console
from rich.table import Table

from kscheduler.api.core import Pod
from kscheduler.cycle.attempt import Attempt, Placement, at_once
from kscheduler.cycle.failure import Failure
from kscheduler.decisions.decision_log import DEFAULT_BYTES, DecisionLog
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code, Status
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.state.pod_info import PodInfo
from tests.bench import workloads
from tests.bench.core import SAMPLED, WORKLOADS, Assumed, Cluster, at_most

# A pod that no node takes: all of them are rejected, for lack of memory.
TOO_LARGE = "too large"
FULL_LOG = 64 << 20


class RecordingCluster(Cluster):
    """A cluster whose decisions are kept while `log` is set."""

    def __init__(self, size: int, workload: str) -> None:
        self.log: DecisionLog | None = None
        super().__init__(size, workload)

    def too_large(self, count: int) -> list[Pod]:
        resources = {"requests": {"memory": "1Ti"}}
        return [
            self._decoded(workloads.pod(f"large-{number}", containers=[{"resources": resources}]))
            for number in range(count)
        ]

    def place(self, pod: Pod, queued: QueuedPodInfo | None = None) -> Assumed | None:
        log = self.log
        queued = queued or self._queue_entry()
        info = queued.pod = PodInfo(pod)
        cycle = CycleState(sampled=self._rng.random() < SAMPLED)
        began = time()
        attempt = Attempt(queued, self.framework, cycle, self.cache.snapshot(), began=began)
        outcome = at_once(self.algorithm.schedule_pod(attempt))
        if log is not None:
            log.decided(attempt, outcome, began)
        if not isinstance(outcome, Placement):
            failure = Failure(Status(Code.UNSCHEDULABLE, (outcome.message,)))
            if log is not None:
                log.ended(attempt, failure, began)
            return None
        assumed = info.assigned_to(outcome.node)
        self.cache.assume(assumed)
        if log is not None:
            log.ended(attempt, None, began)
        return Assumed(assumed, cycle)

    def forget(self, one: Assumed | None) -> None:
        if one is not None:
            super().forget(one)


@dataclass(frozen=True)
class RecordingCost:
    nodes: int
    workload: str
    pods: int
    rounds: int
    # Microseconds of CPU per pod: the median of the rounds, and the least.
    off_us: float
    on_us: float
    least_off_us: float
    least_on_us: float
    # Bytes per decision, and how many 64 MiB hold.
    bytes_per_decision: float
    held: int

    @property
    def share(self) -> float:
        """Of recording in the CPU of a decision, from the least times, which vary least."""
        return self.least_on_us / self.least_off_us - 1


def measure(size: int, workload: str, pods: int, rounds: int) -> RecordingCost:
    if workload == TOO_LARGE:
        cluster = RecordingCluster(size, "plain")
        make = cluster.too_large
    else:
        cluster = RecordingCluster(size, workload)
        make, pods = cluster.decoded, at_most(workload, pods, size)
    log = DecisionLog(DEFAULT_BYTES)
    gc.collect()
    gc.freeze()
    off, on = [], []
    for number in range(2 * rounds):
        batch = make(pods)
        cluster.log = log if number % 2 else None
        (on if number % 2 else off).append(cluster.round(batch) / pods * 1e6)
    gc.unfreeze()
    each = log.bytes / log.entries
    least = min(off), min(on)
    return RecordingCost(
        size, workload, pods, rounds, median(off), median(on), *least, each, int(FULL_LOG / each)
    )


def table(costs: list[RecordingCost]) -> Table:
    table = Table(title="Keeping decisions: µs of CPU per pod, median (least) of the rounds")
    for name in ("nodes", "workload", "off", "on", "more", "bytes each", "held by 64 MiB"):
        table.add_column(name, justify="left" if name == "workload" else "right")
    for one in costs:
        table.add_row(
            f"{one.nodes:,}",
            one.workload,
            f"{one.off_us:.0f} ({one.least_off_us:.0f})",
            f"{one.on_us:.0f} ({one.least_on_us:.0f})",
            f"{one.share:+.1%}",
            f"{one.bytes_per_decision:,.0f}",
            f"{one.held:,}",
        )
    return table


def _listed(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


@click.command(help=__doc__)
@click.option("--nodes", default="5000", callback=_listed, show_default=True)
@click.option("--workloads", "chosen", default=f"plain,affinity,{TOO_LARGE}", callback=_listed)
@click.option("--pods", default=100, show_default=True, help="Pods per round.")
@click.option("--rounds", default=25, show_default=True, help="With and without, so many of each.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line per measurement.")
def main(nodes: list[str], chosen: list[str], pods: int, rounds: int, as_json: bool) -> None:
    unknown = set(chosen) - {*WORKLOADS, TOO_LARGE}
    if unknown:
        raise click.BadParameter(f"no such workload: {', '.join(sorted(unknown))}")
    costs = []
    for size in map(int, nodes):
        for workload in chosen:
            costs.append(measure(size, workload, pods, rounds))
            if as_json:
                print(json.dumps(vars(costs[-1])), flush=True)
    if not as_json:
        console = Console()
        console.print(table(costs))
        console.print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")


if __name__ == "__main__":
    main()
