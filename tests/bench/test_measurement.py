"""The measuring itself, on a server of a few lines and processes that are none."""

import asyncio
import json
from collections import defaultdict
from contextlib import asynccontextmanager, nullcontext
from types import SimpleNamespace

import pytest

from tests.bench import judgement, measurement
from tests.bench.judgement import BrokenRuleError, forgotten
from tests.bench.measurement import Bench, MeasurementError, Reading, explained, figures, last_words
from tests.bench.processes import Usage
from tests.bench.quick_client import JSON, Connection, RefusedError, Request
from tests.bench.results import Case, Entry
from tests.bench.scenario import MEASURED
from tests.bench.sightings import Sightings


def reading(at, *cpu_seconds, peak=0.0):
    return Reading(at, tuple(Usage(seconds, peak) for seconds in cpu_seconds))


def test_figures_are_differences_per_pod():
    first = reading(12.0, 1.0, 10.0, 2.0, 0.5, peak=80.0)
    last = reading(14.0, 3.0, 14.0, 2.5, 0.6, peak=90.0)
    found = figures(1000, 2.0, first, last)
    assert found.pods_per_second == 500.0
    assert found.start_seconds == 2.0
    assert found.peak_megabytes == 90.0
    per_pod = (
        found.scheduler_cpu_ms,
        found.apiserver_cpu_ms,
        found.etcd_cpu_ms,
        found.bench_cpu_ms,
    )
    assert per_pod == pytest.approx((2.0, 4.0, 0.5, 0.1))


def pod(name, *, node="", gates=(), **labels):
    spec = {"nodeName": node, "schedulingGates": list(gates), "containers": []}
    metadata = {"name": name, "namespace": "bench", "uid": f"uid-{name}", "labels": labels}
    return {"metadata": metadata, "spec": spec}


def test_pods_that_were_forgotten_or_bound_behind_their_gates_are_told():
    pods = [
        pod("bound", node="n1", **{MEASURED: "true"}),
        pod("waiting", **{MEASURED: "true"}),
        pod("in-the-way"),
        pod("gated", gates=[{"name": "hold"}]),
        pod("ungated", node="n1", gates=[{"name": "hold"}]),
    ]
    assert list(forgotten(pods)) == [
        "pod waiting has no node",
        "pod ungated was bound in spite of its gates",
    ]


class FakeServer:
    """Lists what it was given."""

    def __init__(self, nodes, pods):
        self._items = defaultdict(list, nodes=nodes, pods=pods)

    @asynccontextmanager
    async def connection(self):
        yield self

    async def demand(self, request, accept):
        assert accept == JSON
        return json.dumps({"items": self._items[request.path.rpartition("/")[2]]}).encode()


async def test_what_the_checker_finds_fails_a_measurement(monkeypatch):
    asked = []

    def violations(nodes, pods):
        asked.append((nodes, pods))
        return ["node n1: too many"]

    monkeypatch.setattr(judgement, "violations", violations)
    nodes, pods = [{"metadata": {"name": "n1"}}], [pod("bound", node="n1", **{MEASURED: "true"})]
    with pytest.raises(BrokenRuleError, match="1 rules are broken:\n  node n1: too many"):
        await judgement.judge(FakeServer(nodes, pods))
    assert asked == [(nodes, pods)]


async def test_whoever_has_placed_all_pods_is_judged(tmp_path, monkeypatch):
    judged = []

    @asynccontextmanager
    async def sightings(server):
        seen = Sightings()
        seen.at.update({f"p{number}": float(number) for number in range(11)})
        yield seen

    async def bound(self, count, someone_waits=None):
        return reading(float(count), 1.0, 1.0, 1.0, 1.0)

    async def judge(server):
        judged.append(server)

    one = contestant(tmp_path)
    monkeypatch.setattr(measurement, "administration", lambda plane: "server")
    monkeypatch.setattr(measurement, "sightings", sightings)
    monkeypatch.setattr(measurement, "contestant", lambda *_: nullcontext(one))
    monkeypatch.setattr(measurement, "judge", judge)

    async def at_rest(self, since):
        return reading(since.at, 12.0, 1.0, 1.0, 1.0)

    monkeypatch.setattr(Bench, "bound", bound)
    monkeypatch.setattr(Bench, "at_rest", at_rest)
    entry = Entry(Case("plain", 5, 11), "kscheduler", 1)
    found = await measurement.backlog(plane(), entry, lambda pods: None)
    assert (found.pods_per_second, judged) == (1.0, ["server"])
    assert found.scheduler_cpu_ms == 1100.0


async def test_cpu_is_read_when_there_is_nothing_left_to_send(tmp_path, monkeypatch):
    monkeypatch.setattr(measurement, "LOOK_SECONDS", 0.001)
    spent = iter([1.0, 2.0, 3.0, 3.0, 99.0])
    monkeypatch.setattr(Bench, "_read", lambda self: reading(10.0, next(spent)))
    found = await bench(contestant(tmp_path), Sightings()).at_rest(reading(9.0, 0.5))
    assert found == reading(9.0, 3.0)


async def test_rest_that_does_not_come_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(measurement, "LOOK_SECONDS", 0.001)
    moments = iter([1.0, 5.0, 12.0, 99.0])

    def read(self):
        moment = next(moments)
        return reading(moment, moment)

    monkeypatch.setattr(Bench, "_read", read)
    found = await bench(contestant(tmp_path), Sightings()).at_rest(reading(1.0, 0.5))
    assert found == reading(1.0, 12.0)


def contestant(tmp_path, code=None):
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    return SimpleNamespace(process=SimpleNamespace(pid=1, poll=lambda: code), log=log)


def plane():
    servers = {name: SimpleNamespace(pid=1) for name in ("kube-apiserver", "etcd")}
    return SimpleNamespace(processes=servers)


def bench(one, seen):
    return Bench(plane(), one, seen, lambda pods: None)


async def test_a_contestant_that_ends_is_a_failure_with_its_last_words(tmp_path, monkeypatch):
    monkeypatch.setattr(measurement, "LOOK_SECONDS", 0.001)
    one = contestant(tmp_path, code=3)
    ended = pytest.raises(MeasurementError, match="ended with code 3 when 0 of 5")
    with ended as error, last_words(one):
        await bench(one, Sightings()).bound(5)
    assert str(error.value).endswith("  line 98\n  line 99")
    assert "line 50" not in str(error.value)


async def test_a_contestant_that_does_nothing_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(measurement, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(measurement, "STALL_SECONDS", 0.01)
    with pytest.raises(MeasurementError, match="nothing happened"):
        await bench(contestant(tmp_path), Sightings()).bound(5)


async def test_readings_are_taken_when_enough_pods_are_bound(tmp_path, monkeypatch):
    seen = Sightings()
    monkeypatch.setattr(Bench, "_read", lambda self: dict(seen.at))
    async with asyncio.TaskGroup() as tasks:
        read = tasks.create_task(bench(contestant(tmp_path), seen).bound(2))
        for moment, name in enumerate(["a", "a", "b"]):
            seen.see(name, float(moment))
            await asyncio.sleep(0)
    assert read.result() == {"a": 0.0, "b": 2.0}


async def test_pods_that_were_evicted_on_their_way_are_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(measurement, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(measurement, "SILENCE_SECONDS", 0.0)
    monkeypatch.setattr(Bench, "_read", lambda self: reading(9.0, 1.0, 1.0, 1.0, 1.0))
    waiting, seen = [True, True, False], Sightings()

    async def someone_waits():
        return waiting.pop(0)

    seen.see("a", 4.0)
    found = await bench(contestant(tmp_path), seen).bound(2, someone_waits)
    assert (found.at, waiting) == (4.0, [])


def test_failures_come_out_of_groups_of_tasks():
    with pytest.raises(MeasurementError, match="refused"), explained():
        raise BaseExceptionGroup("tasks", [ExceptionGroup("more", [RefusedError("refused")])])


def test_mistakes_of_the_program_are_not_failures_of_a_contestant():
    with pytest.raises(BaseExceptionGroup), explained():
        raise BaseExceptionGroup("tasks", [TypeError("oops")])


async def answered(*parts):
    """A connection on which these bytes arrive."""
    reader = asyncio.StreamReader()
    sent = []
    writer = SimpleNamespace(write=sent.append)
    for part in parts:
        reader.feed_data(part)
    reader.feed_eof()
    return Connection(reader, writer, "secret"), sent


async def test_a_request_is_http():
    connection, sent = await answered(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}")
    assert await connection.exchange(Request("POST", "/pods", b"{}"), JSON) == (201, b"{}")
    head, _, body = sent[0].partition(b"\r\n\r\n")
    assert body == b"{}"
    assert head.splitlines()[0] == b"POST /pods HTTP/1.1"
    assert b"Authorization: Bearer secret" in head
    assert b"Content-Length: 2" in head


async def test_chunks_are_joined_and_lines_are_split():
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"4\r\none\n\r\n3\r\ntwo\r\n6\r\n\nthree\r\n1\r\n\n\r\n0\r\n\r\n"
    connection, _ = await answered(head, body)
    lines = await connection.follow("/pods?watch=true", JSON)
    assert [line async for line in lines] == [b"one", b"two", b"three"]


async def test_a_server_that_hangs_up_is_a_failure():
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    connection, _ = await answered(head, b"4\r\none\n\r\n")
    lines = await connection.follow("/pods?watch=true", JSON)
    assert await anext(lines) == b"one"
    with pytest.raises(measurement.FAILURES):
        await anext(lines)


async def test_a_refusal_is_told():
    connection, _ = await answered(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
    with pytest.raises(RefusedError, match="POST /pods: 403 no"):
        await connection.demand(Request("POST", "/pods", b"{}"))
