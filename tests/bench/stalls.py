"""What holds up the event loop, on a cluster in memory: the longest step of any task, by stage.

A whole scheduler follows pods and nodes that are made up on the way, so that only our side works:
first sync, relist with a fifth of the pods gone, pages, dump, thousands of pods that fit nowhere,
and events that all of them wait for. A step is what a task does between two awaits; its CPU time is
that of this thread, garbage collection included.

    make bench-stalls ARGS="--nodes 5000 --pods 100000 --pending 10000"
"""

import asyncio
import gc
import json
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import asynccontextmanager
from functools import partial

import click
from rich.console import Console
from rich.table import Table

from kscheduler import logs
from kscheduler.api.resources import Resource
from kscheduler.app import debugger
from kscheduler.app.scheduler import Scheduler, new_scheduler
from kscheduler.client.events.broadcaster import EventBroadcaster
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.load import load_config
from kscheduler.config.profiles import complete
from kscheduler.metrics import Metrics
from kscheduler.plugins import catalog, factories
from kscheduler.serving.metrics_page import MetricsPage
from kscheduler.serving.pod_resources import ResourcesPage
from tests.bench import workloads
from tests.kit import polling

KIND = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
CHUNK_BYTES = 64 * 1024
TARGET_SECONDS = 0.25
PATIENCE_SECONDS = 300
until = partial(polling.until, seconds=PATIENCE_SECONDS)
GONE = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "old"}


class Steps:
    """CPU seconds of steps of the loop, by stage and task."""

    def __init__(self) -> None:
        self.stage = "start"
        self.longest: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self._collecting = 0.0
        run = asyncio.events.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            started = time.thread_time()
            run(handle)
            owner = getattr(handle._callback, "__self__", None)
            name = owner.get_name() if isinstance(owner, asyncio.Task) else type(owner).__name__
            self._note(name, time.thread_time() - started)

        asyncio.events.Handle._run = timed
        gc.callbacks.append(self._collected)

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            self._note(f"gc {info['generation']}", time.thread_time() - self._collecting)

    def _note(self, name: str, seconds: float) -> None:
        stage = self.longest[self.stage]
        stage[name] = max(seconds, stage.get(name, 0.0))


class Client:
    """An API server as far as reflectors see it."""

    fence = None

    def __init__(self, nodes: int, pods: range) -> None:
        self.nodes = nodes
        self.pods = pods
        self.version = 1
        self._news: defaultdict[str, asyncio.Queue[bytes]] = defaultdict(asyncio.Queue)

    def tell(self, plural: str, kind: str, item: workloads.Json) -> None:
        self._news[plural].put_nowait(_line(kind, item))

    @asynccontextmanager
    async def watch(self, resource: Resource, namespace="", query=None, *, idle_seconds=None):
        news, chunks = self._news[resource.plural], iter(())
        if query.get("sendInitialEvents"):
            chunks = self._listed(resource.plural)

        async def read() -> bytes:
            await asyncio.sleep(0)
            return next(chunks, None) or await news.get()

        yield read

    def _listed(self, plural: str) -> Iterator[bytes]:
        held: list[bytes] = []
        for line in self._lines(plural):
            held.append(line)
            if len(held) * len(line) > CHUNK_BYTES:
                yield b"".join(held)
                held.clear()
        ends = {"k8s.io/initial-events-end": "true"}
        about = {"resourceVersion": str(self.version), "annotations": ends}
        yield b"".join([*held, _line("BOOKMARK", {"metadata": about})])

    def _lines(self, plural: str) -> Iterator[bytes]:
        if plural == "nodes":
            for number in range(self.nodes):
                yield _line("ADDED", _versioned(workloads.node(number), self.version))
        elif plural == "pods":
            placed = workloads.placed(77777777, "node-88888") | {"status": workloads.running()}
            text = _line("ADDED", _versioned(placed, self.version))
            for number in self.pods:
                named = text.replace(b"77777777", b"%08d" % number)
                yield named.replace(b"node-88888", b"node-%05d" % (number % self.nodes))

    async def bind(self, *_): ...
    async def patch_pod_status(self, *_): ...
    async def patch(self, *_): ...
    async def create(self, *_): ...


def _versioned(item: workloads.Json, version: int) -> workloads.Json:
    name = item["metadata"]["name"]
    return {**item, "metadata": {**item["metadata"], "uid": name, "resourceVersion": str(version)}}


def _line(kind: str, item: workloads.Json) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


class Request:
    def __init__(self) -> None:
        self.method, self.headers = "GET", {"Accept-Encoding": "gzip"}


def assembled(
    client: Client,
    broadcaster: EventBroadcaster,
    metrics: Metrics,
    *,
    decision_log_bytes: int = 0,
) -> Scheduler:
    gates = FeatureGates.defaults()
    completed = complete(
        load_config(json.dumps(KIND).encode(), catalog(), gates=gates),
        catalog(),
        gates=gates,
    )
    return new_scheduler(
        completed=completed,
        registry=factories(),
        gates=gates,
        client=client,
        broadcaster=broadcaster,
        metrics=metrics,
        max_unschedulable_seconds=300,
        rng=random.Random(1),
        decision_log_bytes=decision_log_bytes,
    )


async def play(steps: Steps, nodes: int, pods: int, pending: int) -> None:
    metrics, client = Metrics(), Client(nodes, range(pods))
    broadcaster = EventBroadcaster(client)
    scheduler = assembled(client, broadcaster, metrics)
    queue, known = scheduler.queue, scheduler.informers.pods

    async with asyncio.TaskGroup() as tasks:
        steps.stage = "first sync"
        await scheduler.sync(tasks)
        tasks.create_task(broadcaster.run())
        steps.stage = "relist"
        client.version, client.pods = 2, range(pods // 5, pods)
        client.tell("pods", "ERROR", GONE)
        await until(lambda: len(known) == pods - pods // 5)
        steps.stage = "pages"
        page = MetricsPage(metrics.registry.collect, metrics.reset)
        await asyncio.create_task(page(Request()), name="/metrics")
        page = ResourcesPage(known.items, lambda: True)
        await asyncio.create_task(page(Request()), name="/metrics/resources")
        steps.stage = "pods that fit nowhere"
        for number in range(pending):
            waiting = workloads.pod(f"waiting-{number}")
            waiting["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
            client.tell("pods", "ADDED", _versioned(waiting, 3))
            if number % 100 == 0:
                await asyncio.sleep(0)
        running = tasks.create_task(scheduler.run())
        await until(lambda: len(queue.pending().unschedulable) == pending)
        steps.stage = "SIGUSR2"
        await asyncio.create_task(debugger.dump(scheduler), name="dump")
        steps.stage = "event that wakes nobody"
        slightly_larger = _versioned(workloads.node(0), 4)
        slightly_larger["status"] |= {"allocatable": {**workloads.ALLOCATABLE, "cpu": "5"}}
        client.tell("nodes", "MODIFIED", slightly_larger)
        nodes_known = scheduler.informers.nodes
        await until(lambda: nodes_known.get("node-00000").status.allocatable["cpu"] == "5")
        await until(lambda: not len(queue._moves))
        steps.stage = "event that wakes everybody"
        gone = workloads.placed(0, f"node-{(pods - 1) % nodes:05d}")
        gone["metadata"]["name"] = f"placed-{pods - 1:08d}"
        client.tell("pods", "DELETED", _versioned(gone, 4))
        await until(lambda: len(known) == pods - pods // 5 + pending - 1)
        await until(lambda: not len(queue._moves))
        steps.stage = "end"
        running.cancel()
        await asyncio.wait({running})
        for task in list(tasks._tasks):
            task.cancel()


class Nowhere:
    def write(self, line: bytes) -> None: ...
    def flush(self) -> None: ...


@click.command(help=__doc__)
@click.option("--nodes", default=1000, show_default=True)
@click.option("--pods", default=20_000, show_default=True, help="Pods that run at the start.")
@click.option("--pending", default=4000, show_default=True, help="Pods that fit nowhere.")
def main(nodes: int, pods: int, pending: int) -> None:
    logs.configure(logs.Logging(), stderr=Nowhere())
    steps = Steps()
    asyncio.run(play(steps, nodes, pods, pending))
    table = Table(title=f"longest steps: {nodes:,} nodes, {pods:,} pods, {pending:,} waiting")
    table.add_column("stage")
    table.add_column("CPU ms", justify="right")
    table.add_column("of")
    for stage, longest in steps.longest.items():
        # The last is this script's own task.
        ours = {name: taken for name, taken in longest.items() if name != "Task-1"}
        for name, seconds in sorted(ours.items(), key=lambda one: -one[1])[:3]:
            mark = "[red]" if seconds > TARGET_SECONDS else ""
            table.add_row(stage, f"{mark}{seconds * 1000:.0f}", name)
            stage = ""
    Console().print(table)


if __name__ == "__main__":
    main()
