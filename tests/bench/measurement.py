"""One measurement: a control plane around an image, one contestant, a watch that counts.

In backlog mode the pods are there before the contestant starts, and the clock runs from the first
binding to the last. CPU is read when the contestant has come to rest: it still sends events after
the last binding, and how many it has sent by then is chance. In steady mode pods are created at a
constant rate once a first one was bound, and each has a clock of its own. In turnover a few pods
are there at a time, each replaced when it is bound, and the clock runs for some seconds from the
first binding. Afterwards everybody who placed pods is judged.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import ceil, floor
from pathlib import Path
from typing import NamedTuple

from tests.bench.alternating import blocks_of, keeping_cost
from tests.bench.contestants import (
    ALTERNATING,
    LIFTED,
    STOCK,
    Contestant,
    blocks_file,
    contestant,
)
from tests.bench.images import API_SERVER, ETCD, administration, started
from tests.bench.judgement import BrokenRuleError, judge
from tests.bench.pace import disturbed, paced
from tests.bench.processes import Usage
from tests.bench.quick_client import JSON, RefusedError, Request, Server
from tests.bench.results import STEADY, STOCK_LIMITS, TURNOVER, Entry, Figures
from tests.bench.scenario import MEASURED, PODS, Size, named
from tests.bench.scenarios import SCENARIOS
from tests.bench.sightings import Sightings, sightings
from tests.bench.turnover import Turnover
from tests.controlplane.plane import ControlPlane, ControlPlaneError

LOOK_SECONDS = 0.5
# After that it is time to ask whether there is anybody left: a preemptor may have evicted a pod
# that was on its way to a node.
SILENCE_SECONDS = 3.0
# Between two bindings. Many preemptors evict for minutes before the first of them is bound.
STALL_SECONDS = 240.0
# As long as upstream keeps a cluster in one state.
TURNOVER_SECONDS = 10.0
# It is at rest when it uses less of a CPU than this for a look; schedulers that retry pods for ever
# are not waited for any longer.
REST_CPU_SHARE = 0.1
REST_SECONDS = 10.0
LAST_LINES = 15
WARM_UP = 999_999
WAITING = f"{PODS}?labelSelector={MEASURED}&fieldSelector=spec.nodeName%3D&limit=1"

Tell = Callable[[int], None]
Ask = Callable[[], Awaitable[bool]]


class MeasurementError(Exception):
    """Why there are no figures; the text has the contestant's last words."""


# What may go wrong in a measurement without being a mistake of this program.
FAILURES = (MeasurementError, BrokenRuleError, RefusedError, ControlPlaneError, OSError, EOFError)


async def always() -> bool:
    return True


async def someone_waits(server: Server) -> bool:
    """Whether a measured pod has no node yet."""
    async with server.connection() as connection:
        return bool(json.loads(await connection.demand(Request("GET", WAITING), JSON))["items"])


class Reading(NamedTuple):
    """What contestant, API server, etcd and this process have used by when."""

    at: float
    used: tuple[Usage, ...]


class Bench:
    """A contestant at work."""

    def __init__(self, plane: ControlPlane, one: Contestant, seen: Sightings, tell: Tell) -> None:
        self._one = one
        self._seen = seen
        self._tell = tell
        servers = (plane.processes[name].pid for name in (API_SERVER, ETCD))
        self._pids = (one.process.pid, *servers)
        self.started = time.monotonic()

    async def bound(self, count: int, someone_waits: Ask = always) -> Reading:
        """Taken at the moment when so many pods are, or when the last was that still waited."""
        last, changed = -1, time.monotonic()
        while not await self._seen.reached(count, LOOK_SECONDS):
            now, number = time.monotonic(), len(self._seen.at)
            self._tell(number)
            if number != last:
                last, changed = number, now
            elif now - changed > SILENCE_SECONDS and not await someone_waits():
                return self._read()._replace(at=max(self._seen.at.values()))
            self._check(f"{number:,} of {count:,} pods were bound", now - changed)
        return self._read()

    async def at_rest(self, since: Reading) -> Reading:
        """What all have used when nothing is left to send; the moment stays `since`."""
        before = self._read()
        while before.at - since.at < REST_SECONDS:
            await asyncio.sleep(LOOK_SECONDS)
            now = self._read()
            self._check("all pods were bound", 0.0)
            spent = now.used[0].cpu_seconds - before.used[0].cpu_seconds
            before = now
            if spent < REST_CPU_SHARE * LOOK_SECONDS:
                break
        return before._replace(at=since.at)

    async def working(self, until: float) -> Reading:
        """Taken at that moment."""
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, LOOK_SECONDS))
            self._tell(len(self._seen.at))
            self._check(f"{len(self._seen.at):,} pods were bound", 0.0)
        return self._read()

    def _check(self, so_far: str, idle_seconds: float) -> None:
        code = self._one.process.poll()
        if code is not None:
            raise MeasurementError(f"it ended with code {code} when {so_far}")
        if idle_seconds > STALL_SECONDS:
            raise MeasurementError(f"nothing happened for {idle_seconds:.0f} s when {so_far}")

    def _read(self) -> Reading:
        here = Usage(time.process_time(), 0.0)
        return Reading(time.monotonic(), (*map(Usage.of, self._pids), here))


def measure(image: Path, entry: Entry, per_second: float, tell: Tell) -> Figures:
    """Raises MeasurementError. `tell` hears now and then how many pods are bound."""
    with explained(), started(image) as plane:
        if entry.case.mode == STEADY:
            return asyncio.run(steady(plane, entry, per_second, tell))
        if entry.case.mode == TURNOVER:
            return asyncio.run(turnover(plane, entry, tell))
        return asyncio.run(backlog(plane, entry, tell))


async def backlog(plane: ControlPlane, entry: Entry, tell: Tell) -> Figures:
    case = entry.case
    server = administration(plane)
    scenario = SCENARIOS[case.scenario]
    disturbances = scenario.meanwhile
    limits = STOCK if case.mode == STOCK_LIMITS else LIFTED
    # With them the clock starts.
    warm = max(1, int(case.pods * scenario.warm_up))
    async with sightings(server) as seen:
        with contestant(entry.who, plane, limits, scenario.configuration) as one, last_words(one):
            bench = Bench(plane, one, seen, tell)
            started = await bench.bound(1)
            first = await bench.bound(warm)
            async with disturbed(server, disturbances, Size(case.nodes, case.pods)):
                waits = partial(someone_waits, server) if disturbances else always
                last = await bench.bound(case.pods, waits)
            last = await bench.at_rest(last)
    await judge(server)
    result = figures(len(seen.at) - warm, started.at - bench.started, first, last)
    if entry.who == ALTERNATING:
        add_keeping_cost(result, blocks_file(plane))
    return result


def add_keeping_cost(result: Figures, path: Path) -> None:
    cost = keeping_cost([*blocks_of(path)])
    if cost is None:
        raise MeasurementError("too few pods for blocks with kept decisions and without")
    result.keeping_cpu_ms, result.keeping_seconds = cost.cpu_ms, cost.seconds


async def turnover(plane: ControlPlane, entry: Entry, tell: Tell) -> Figures:
    case = entry.case
    server = administration(plane)
    scenario = SCENARIOS[case.scenario]
    async with sightings(server) as seen:
        pods = Turnover(scenario, Size(case.nodes, case.pods), seen)
        with contestant(entry.who, plane, LIFTED, scenario.configuration) as one, last_words(one):
            bench = Bench(plane, one, seen, tell)
            async with pods.going_on(server):
                first = await bench.bound(1)
                before = len(seen.at)
                last = await bench.working(first.at + TURNOVER_SECONDS)
                bound = len(seen.at) - before
    await judge(server)
    result = figures(bound, first.at - bench.started, first, last)
    return with_latencies(result, pods.taken)


async def steady(plane: ControlPlane, entry: Entry, per_second: float, tell: Tell) -> Figures:
    case = entry.case
    server = administration(plane)
    scenario, size = SCENARIOS[case.scenario], Size(case.nodes, case.pods)
    steps = [tuple(scenario.backlog(number, size)) for number in range(case.pods)]
    async with sightings(server) as seen:
        with contestant(entry.who, plane, LIFTED, scenario.configuration) as one, last_words(one):
            bench = Bench(plane, one, seen, tell)
            await server.send_all(scenario.backlog(WARM_UP, size), 1)
            ready = await bench.bound(1)
            begun = await paced(server, steps, per_second)
            last = await bench.bound(1 + case.pods)
    await judge(server)
    result = figures(case.pods, ready.at - bench.started, ready, last)
    due = {named(number): begun + number / per_second for number in range(case.pods)}
    return with_latencies(result, [seen.at[name] - moment for name, moment in due.items()])


def with_latencies(result: Figures, seconds: list[float]) -> Figures:
    ordered = sorted(seconds)
    result.p50_ms, result.p90_ms, result.p99_ms = (
        1000 * percentile(ordered, share) for share in (0.5, 0.9, 0.99)
    )
    return result


def figures(pods: int, start_seconds: float, first: Reading, last: Reading) -> Figures:
    """Between two readings, for so many pods."""
    seconds = last.at - first.at
    cpu = [
        1000 * (after.cpu_seconds - before.cpu_seconds) / pods
        for before, after in zip(first.used, last.used, strict=True)
    ]
    return Figures(
        seconds=seconds,
        pods_per_second=pods / seconds,
        start_seconds=start_seconds,
        scheduler_cpu_ms=cpu[0],
        apiserver_cpu_ms=cpu[1],
        etcd_cpu_ms=cpu[2],
        bench_cpu_ms=cpu[3],
        peak_megabytes=last.used[0].peak_megabytes,
    )


def percentile(ordered: list[float], share: float) -> float:
    """The value below which that share of them lies, between two neighbours in proportion."""
    position = share * (len(ordered) - 1)
    low, high = ordered[floor(position)], ordered[ceil(position)]
    return low + (high - low) * (position - floor(position))


@contextmanager
def last_words(one: Contestant) -> Iterator[None]:
    try:
        yield
    except (*FAILURES, BaseExceptionGroup) as error:
        lines = one.log.read_text(errors="replace").splitlines()
        told = "\n  ".join(lines[-LAST_LINES:])
        raise MeasurementError(f"{_cause(error)}\nits last words:\n  {told}") from error


@contextmanager
def explained() -> Iterator[None]:
    """Failures come out as what they are, whatever group of tasks they were in."""
    try:
        yield
    except BaseExceptionGroup as group:
        cause = _cause(group)
        if not isinstance(cause, FAILURES):
            raise
        raise MeasurementError(str(cause)) from group
    except FAILURES as error:
        raise MeasurementError(str(error)) from error


def _cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
