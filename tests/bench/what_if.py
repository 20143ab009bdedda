"""A large placement review while a backlog is being bound: what the backlog notices of it.

A whole scheduler follows nodes and pods that are made up on the way, and bindings come back as
events at once, so that only our side works. A round is a backlog of plain pods, from the first that
arrives to the last that is bound; in every other round a review of many pods is asked as it begins.
Told are pods per second, CPU of the round per pod (the review's included), how long attempts took
from their start to the end of the binding, the longest pause between two decisions, and how long
the review took.

    make bench-what-if ARGS="--nodes 5000 --backlog 5000 --review 1000 --rounds 5"
"""

import asyncio
import json
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median

import click
import msgspec
from rich.console import Console
from rich.table import Table

from kscheduler import logs
from kscheduler.api.core import Pod
from kscheduler.api.explanation import PlacementReview, PlacementReviewSpec
from kscheduler.app.scheduler import Scheduler
from kscheduler.client.events.broadcaster import EventBroadcaster
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.load import load_config
from kscheduler.config.profiles import complete
from kscheduler.decisions.decision_log import Entry
from kscheduler.metrics import Metrics
from kscheduler.plugins import catalog, factories
from kscheduler.what_if import LiveScheduler, Reviewer
from tests.bench import workloads
from tests.bench.stalls import KIND, Client, Nowhere, _line, _versioned, assembled, until

WITHOUT, WITH = "without", "with a review"


class BindingClient(Client):
    """Tells of a pod's binding as soon as it is asked for."""

    def __init__(self, nodes: int, pods: range) -> None:
        super().__init__(nodes, pods)
        self.bound = 0

    async def bind(self, pod: Pod, node: str) -> None:
        await asyncio.sleep(0)
        item = workloads.pod(pod.name, nodeName=node)
        self.tell("pods", "MODIFIED", _versioned(item, 9))
        self.bound += 1


@dataclass(frozen=True)
class Round:
    kind: str
    pods_per_second: float
    cpu_us: float
    p50_ms: float
    p99_ms: float
    longest_pause_ms: float
    review_seconds: float = 0.0
    reviewed: int = 0


def live(scheduler: Scheduler) -> LiveScheduler:
    gates = FeatureGates.defaults()
    config = load_config(json.dumps(KIND).encode(), catalog(), gates=gates)
    return LiveScheduler(
        cache=scheduler.cache,
        listers=scheduler.informers,
        nominator=scheduler.queue.nominator,
        gates=gates,
        completed=complete(config, catalog(), gates=gates),
        catalog=catalog(),
        registry=factories(),
        next_start_node_index=lambda: 0,
        is_busy=lambda: scheduler.is_busy,
    )


class Backlogs:
    """Backlogs of one scheduler, one after the other."""

    def __init__(self, client: BindingClient, scheduler: Scheduler, reviewed: int) -> None:
        self._client = client
        self._scheduler = scheduler
        self._reviewer = Reviewer(live(scheduler))
        pod = workloads.pod("reviewed")
        pod["spec"]["containers"][0]["resources"] = {"requests": workloads.REQUESTS}
        self._review = PlacementReview(
            spec=PlacementReviewSpec(pods=(msgspec.Raw(json.dumps(pod)),), replicas=reviewed)
        )
        assert scheduler.decisions is not None
        scheduler.decisions.watch(self._heard)
        self._ends: list[float] = []
        self._durations: list[float] = []

    def _heard(self, kind: str, entry: Entry) -> None:
        if kind != "DELETED":
            self._ends.append(time.perf_counter())
            self._durations.append(entry.last.duration)

    async def round(self, number: int, size: int, kind: str) -> Round:
        items = [
            _versioned(workloads.pod(f"backlog-{number}-{position}"), 5) for position in range(size)
        ]
        lines = [_line("ADDED", item) for item in items]
        known, running = self._scheduler.informers.pods, len(self._scheduler.informers.pods)
        self._ends, self._durations, self._client.bound = [], [], 0
        review = None
        if kind == WITH:
            review = asyncio.create_task(self._reviewer.review(self._review), name="review")
        started, cpu_started = time.perf_counter(), time.thread_time()
        news = self._client._news["pods"]
        for start in range(0, size, 50):
            news.put_nowait(b"".join(lines[start : start + 50]))
        await until(lambda: len(self._ends) == size and not self._scheduler.is_busy)
        seconds, cpu = time.perf_counter() - started, time.thread_time() - cpu_started
        ends, durations = sorted(self._ends), sorted(self._durations)
        pauses = [later - earlier for earlier, later in pairwise(ends)]
        found = Round(
            kind,
            size / seconds,
            cpu / size * 1e6,
            durations[size // 2] * 1e3,
            durations[size * 99 // 100] * 1e3,
            max(pauses) * 1e3,
        )
        if review is not None:
            status = (await review).status
            found = Round(*list(asdict(found).values())[:6], status.duration_seconds, status.placed)
        for item in items:
            self._client.tell("pods", "DELETED", item)
        await until(lambda: len(known) == running)
        return found


async def play(nodes: int, pods: int, backlog: int, reviewed: int, rounds: int) -> list[Round]:
    client = BindingClient(nodes, range(pods))
    broadcaster = EventBroadcaster(client)
    scheduler = assembled(client, broadcaster, Metrics(), decision_log_bytes=64 << 20)
    found = []
    async with asyncio.TaskGroup() as tasks:
        await scheduler.sync(tasks)
        tasks.create_task(broadcaster.run())
        running = tasks.create_task(scheduler.run())
        backlogs = Backlogs(client, scheduler, reviewed)
        await backlogs.round(0, max(backlog // 5, 10), WITHOUT)  # warms everything up
        for number in range(1, 2 * rounds + 1):
            kind = WITH if number % 2 else WITHOUT
            found.append(await backlogs.round(number, backlog, kind))
        running.cancel()
        await asyncio.wait({running})
        for task in list(tasks._tasks):
            task.cancel()
    return found


def table(found: list[Round], title: str) -> Table:
    table = Table(title=title)
    names = (
        "",
        "pods/s",
        "CPU µs per pod",
        "attempt p50 ms",
        "p99 ms",
        "longest pause ms",
        "review s",
        "reviewed",
    )
    for name in names:
        table.add_column(name, justify="right" if name else "left")
    for kind in (WITHOUT, WITH):
        rounds = [one for one in found if one.kind == kind]
        table.add_row(
            kind,
            f"{median(one.pods_per_second for one in rounds):,.0f}",
            f"{median(one.cpu_us for one in rounds):.0f}",
            f"{median(one.p50_ms for one in rounds):.1f}",
            f"{median(one.p99_ms for one in rounds):.1f}",
            f"{median(one.longest_pause_ms for one in rounds):.1f}",
            f"{median(one.review_seconds for one in rounds):.1f}" if kind == WITH else "",
            f"{median(one.reviewed for one in rounds):,.0f}" if kind == WITH else "",
        )
    return table


@click.command(help=__doc__)
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=10_000, show_default=True, help="Pods that run at the start.")
@click.option("--backlog", default=5000, show_default=True)
@click.option("--review", default=1000, show_default=True, help="Pods that the review asks about.")
@click.option("--rounds", default=5, show_default=True, help="With and without, so many of each.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line per round.")
def main(nodes: int, pods: int, backlog: int, review: int, rounds: int, as_json: bool) -> None:
    logs.configure(logs.Logging(), stderr=Nowhere())
    found = asyncio.run(play(nodes, pods, backlog, review, rounds))
    if as_json:
        for one in found:
            print(json.dumps(asdict(one)))
        return
    title = f"a backlog of {backlog:,} plain pods, {nodes:,} nodes: medians of {rounds} rounds"
    console = Console()
    console.print(table(found, title))
    rates = [
        median(one.pods_per_second for one in found if one.kind == kind) for kind in (WITHOUT, WITH)
    ]
    p99 = [median(one.p99_ms for one in found if one.kind == kind) for kind in (WITHOUT, WITH)]
    cpu = [median(one.cpu_us for one in found if one.kind == kind) for kind in (WITHOUT, WITH)]
    console.print(
        f"CPU per pod of the backlog {cpu[1] / cpu[0] - 1:+.1%}, throughput "
        f"{rates[1] / rates[0] - 1:+.1%}, p99 of attempts {p99[1] - p99[0]:+.1f} ms"
    )


if __name__ == "__main__":
    main()
