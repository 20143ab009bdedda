"""Pods that come and go at full rate for as long as it takes, and what is left of it: nothing.

\b
    make soak                                        200,000 pods, half an hour on two cores
    make soak ARGS="--pods 5000 --scheduler kube-scheduler"

Pods of many shapes are created in ever new namespaces, with labels that no other has, and deleted
once they are bound; nodes change their labels, are cordoned, go and come back all the time. Every
few seconds memory, file descriptors, tasks (goroutines) and the time until pods are bound are
written down. They must be flat: the last quarter is held against the second one.

The figures go to a file of lines, and a plot beside it.
"""

import asyncio
import json
import random
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median, quantiles

import click
import msgspec
import uvloop

from tests.adversary.comparison import resident_megabytes
from tests.bench.contestants import OURS, THEIRS
from tests.bench.images import CREATORS, administration
from tests.bench.quick_client import (
    MERGE_PATCH,
    METADATA_LIST,
    METADATA_ONLY,
    Connection,
    Request,
    Server,
)
from tests.bench.results import this_run
from tests.bench.workloads import SHAPES, node
from tests.controlplane.build import build_unless_named
from tests.controlplane.plane import ADMIN, ControlPlane
from tests.faults.matrix import control_plane
from tests.faults.rig import USER
from tests.faults.scheduler import Scheduler
from tests.faults.soak_plot import plot
from tests.kit.polling import until

NODES = 100
# Pods that are there at a time, each replaced when it is bound.
ALIVE = 64
PODS_OF_NAMESPACE = 500
KEPT_NAMESPACES = 2
SAMPLE_SECONDS = 5.0
# A pod that is not bound by then is lost, and the soak is over.
PATIENCE_SECONDS = 120.0
DISTURB_SECONDS = 0.2
BOUND = "/api/v1/pods?watch=true&fieldSelector=spec.nodeName!="
AT_ONCE = json.dumps({"gracePeriodSeconds": 0}).encode()
# How much more the last quarter may have than the second one.
MOST_MORE = {"megabytes": 24.0, "descriptors": 8, "tasks": 50}
MOST_TIMES = 1.5
LATENCY_SLACK_SECONDS = 0.05


class LostPodError(Exception):
    """A pod that was not bound, as the server has it."""


class Sample(msgspec.Struct, tag="sample", tag_field="kind"):
    """What was seen in the seconds before."""

    seconds: float
    pods: int
    megabytes: float
    descriptors: int
    tasks: float
    p50: float
    p99: float
    longest: float

    def told(self) -> str:
        return (
            f"{self.seconds:6.0f} s  {self.pods:,} pods, {self.megabytes:.0f} MB, "
            f"{self.descriptors} files, {self.tasks:.0f} tasks, "
            f"p50 {1000 * self.p50:.0f} ms, p99 {1000 * self.p99:.0f} ms, "
            f"longest {1000 * self.longest:.0f} ms"
        )


class Soak:
    """One scheduler, and everything that happens around it."""

    def __init__(self, server: Server, pods: int, seed: int) -> None:
        self._server = server
        self._most = pods
        self._rng = random.Random(seed)
        self._numbers = count()
        self._bound: dict[str, asyncio.Future[float]] = {}
        self._latencies: list[float] = []
        self.gone = 0
        self._gone_of: Counter[str] = Counter()
        # Namespaces whose pods have all gone. The last few stay: events may still be on their way.
        self._empty: deque[str] = deque()
        self.samples: list[Sample] = []

    async def run(self, scheduler: Scheduler, told: Path) -> None:
        begun = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            around = [
                tasks.create_task(self._watch(), name="watch"),
                tasks.create_task(self._disturb(), name="disturb"),
                tasks.create_task(self._sample(scheduler, begun, told), name="sample"),
            ]
            workers = [
                tasks.create_task(self._come_and_go(), name=f"pod/{number}")
                for number in range(ALIVE)
            ]
            await asyncio.wait(workers)
            for task in around:
                task.cancel()

    async def _come_and_go(self) -> None:
        async with self._server.connection() as connection:
            while (number := next(self._numbers)) < self._most:
                namespace = f"soak-{number // PODS_OF_NAMESPACE}"
                if number % PODS_OF_NAMESPACE == 0:
                    await self._open(connection, namespace)
                name = f"pod-{number}"
                where = f"/api/v1/namespaces/{namespace}/pods"
                bound = self._bound[name] = asyncio.get_running_loop().create_future()
                body = self._pod(name, namespace)
                # Its namespace may just be made by another worker.
                await until(partial(self._create, connection, where, body), "it has a namespace")
                created = time.monotonic()
                try:
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        self._latencies.append(max(0.0, await bound - created))
                except TimeoutError:
                    found = await connection.exchange(Request("GET", f"{where}/{name}"))
                    raise LostPodError(f"{namespace}/{name}: {found.body!r}") from None
                await connection.demand(Request("DELETE", f"{where}/{name}", AT_ONCE))
                self.gone += 1
                self._gone_of[namespace] += 1
                if self._gone_of[namespace] == PODS_OF_NAMESPACE:
                    self._empty.append(namespace)
                    if len(self._empty) > KEPT_NAMESPACES:
                        await self._close(connection, self._empty.popleft())

    async def _create(self, connection: Connection, where: str, body: bytes) -> bool:
        answer = await connection.exchange(Request("POST", where, body))
        assert answer.status in (201, 403, 404), answer.body
        return answer.status == 201

    def _pod(self, name: str, namespace: str) -> bytes:
        body = self._rng.choice([*SHAPES.values()])(name)
        body["metadata"] |= {"namespace": namespace}
        body["metadata"]["labels"] |= {f"example.com/{name}": "x", "revision": name}
        return json.dumps(body).encode()

    async def _open(self, connection: Connection, namespace: str) -> None:
        body = {"metadata": {"name": namespace, "labels": {"number": namespace}}}
        await connection.demand(Request("POST", "/api/v1/namespaces", json.dumps(body).encode()))

    async def _close(self, connection: Connection, namespace: str) -> None:
        """The namespace controller's part."""
        where = f"/api/v1/namespaces/{namespace}"
        pods = Request("DELETE", f"{where}/pods", AT_ONCE)
        events = Request("DELETE", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", AT_ONCE)
        final = {"metadata": {"name": namespace}, "spec": {"finalizers": []}}
        for request in (pods, events):
            await connection.demand(request, METADATA_LIST)
        await connection.demand(Request("DELETE", where, AT_ONCE))
        await connection.demand(Request("PUT", f"{where}/finalize", json.dumps(final).encode()))

    async def _watch(self) -> None:
        """A watch that a server ends is begun anew, and tells of all pods again."""
        while True:
            async with self._server.connection() as connection:
                async for line in await connection.follow(BOUND, METADATA_ONLY):
                    event = json.loads(line)
                    name = event["object"].get("metadata", {}).get("name", "")
                    waiting = self._bound.pop(name, None)
                    if waiting is not None:
                        waiting.set_result(time.monotonic())

    async def _disturb(self) -> None:
        """Labels, cordons, and nodes that go and come back with their pods gone."""
        async with self._server.connection() as connection:
            for turn in count():
                await asyncio.sleep(DISTURB_SECONDS)
                number = self._rng.randrange(NODES)
                path = f"/api/v1/nodes/node-{number:05d}"
                match turn % 4:
                    case 0 | 1:
                        labels = {"turn": str(turn), f"example.com/turn-{turn % 50}": str(turn)}
                        change = {"metadata": {"labels": labels}}
                    case 2:
                        change = {"spec": {"unschedulable": bool(turn % 8 == 2) or None}}
                    case _:
                        await connection.exchange(Request("DELETE", path, AT_ONCE))
                        made = json.dumps(node(number)).encode()
                        await connection.exchange(Request("POST", "/api/v1/nodes", made))
                        continue
                body = json.dumps(change).encode()
                await connection.exchange(Request("PATCH", path, body, MERGE_PATCH))

    async def _sample(self, scheduler: Scheduler, begun: float, told: Path) -> None:
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            taken, self._latencies = self._latencies, []
            cuts = quantiles(taken, n=100) if len(taken) > 1 else [0.0] * 99
            metrics = await scheduler.samples()
            sample = Sample(
                round(time.monotonic() - begun, 1),
                self.gone,
                resident_megabytes(scheduler.pid),
                descriptors(scheduler.pid),
                metrics.get("kscheduler_tasks") or metrics.get("go_goroutines", 0.0),
                round(cuts[49], 4),
                round(cuts[98], 4),
                round(max(taken, default=0.0), 4),
            )
            self.samples.append(sample)
            with told.open("ab") as file:
                file.write(msgspec.json.encode(sample) + b"\n")
            click.echo(sample.told(), err=True)


def descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def grown(samples: Sequence[Sample]) -> Iterator[str]:
    """What the last quarter has more of than the second one, and may not."""
    quarter = len(samples) // 4
    if not quarter:
        yield "too short to tell anything"
        return
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    for name, most in MOST_MORE.items():
        before, after = (median(getattr(one, name) for one in some) for some in (early, late))
        if after > before + most:
            yield f"{name}: {before:g} and then {after:g}"
    for name in ("p50", "p99"):
        before, after = (median(getattr(one, name) for one in some) for some in (early, late))
        if after > MOST_TIMES * before + LATENCY_SLACK_SECONDS:
            yield f"{name}: {before:.3f} s and then {after:.3f} s"


async def soak(plane: ControlPlane, who: str, pods: int, seed: int, path: Path) -> list[Sample]:
    """The scheduler's log stays beside the figures."""
    server = administration(plane)
    made = (
        Request("POST", "/api/v1/nodes", json.dumps(node(number)).encode())
        for number in range(NODES)
    )
    await server.send_all(made, CREATORS)
    kubeconfig = plane.folder / f"{USER}.kubeconfig"
    evidence = path.with_suffix("").absolute()
    evidence.mkdir(exist_ok=True)
    scheduler = Scheduler(
        who,
        who,
        evidence,
        kubeconfig=kubeconfig,
        direct=kubeconfig,
        token=plane.tokens[ADMIN],
        configured={},
    )
    await scheduler.start()
    try:
        await scheduler.ready()
        soaking = Soak(server, pods, seed)
        await soaking.run(scheduler, path)
    finally:
        await scheduler.stop()
    return soaking.samples


@click.command(help=__doc__)
@click.option("--pods", default=200_000, show_default=True, help="That come and go.")
@click.option("--scheduler", "who", default=OURS, type=click.Choice([OURS, THEIRS]))
@click.option("--seed", default=1, show_default=True)
@click.option("--results", "path", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--plot-only", is_flag=True, help="Draw what --results has, and do nothing else.")
def main(pods: int, who: str, seed: int, path: Path | None, plot_only: bool) -> None:
    path = path or Path("build", "soak", f"{time.strftime('%Y%m%d-%H%M%S')}.jsonl")
    if plot_only:
        lines = map(msgspec.json.decode, path.read_bytes().splitlines())
        samples = [msgspec.convert(one, Sample) for one in lines if one["kind"] == "sample"]
    else:
        build_unless_named()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(this_run()) + b"\n")
        with control_plane() as plane:
            try:
                samples = uvloop.run(soak(plane, who, pods, seed, path))
            except* LostPodError as group:
                raise click.ClickException(f"not bound: {group.exceptions[0]}") from group
    path.with_suffix(".svg").write_text(plot(samples, f"{who}, {samples[-1].pods:,} pods"))
    click.echo(f"{path} has the figures, {path.with_suffix('.svg')} the plot")
    if problems := list(grown(samples)):
        raise click.ClickException("not flat: " + "; ".join(problems))


if __name__ == "__main__":
    main()
