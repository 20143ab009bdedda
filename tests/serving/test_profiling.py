"""What /debug/pprof shows of a Python process."""

import asyncio
import gzip
import json
import signal
import threading
import time

import pytest

from kscheduler.serving.gate import Pages
from kscheduler.serving.profiling import memory, pages
from kscheduler.serving.profiling.formats import pprof, speedscope, summed
from kscheduler.serving.profiling.sampler import (
    BusyError,
    Place,
    Sampler,
    Samples,
    stack_of_task,
    stacks_of_threads,
)
from tests.serving.protobuf import fields

INNER = Place("inner", "a.py", 1, 3)
OUTER = Place("outer", "a.py", 10, 12)


@pytest.fixture
def installed():
    made = Pages()
    pages.install(made)
    return made


def read_profile(content):
    """Stacks by function name, with their numbers, as a reader of profile.proto sees them."""
    found = {}
    for field, value in fields(gzip.decompress(content)):
        found.setdefault(field, []).append(value)
    texts = [text.decode() for text in found[6]]
    functions = {dict(fields(one))[1]: texts[dict(fields(one))[2]] for one in found.get(5, ())}
    locations = {}
    for one in found.get(4, ()):
        location = dict(fields(one))
        locations[location[1]] = functions[dict(fields(location[4]))[1]]
    units = [tuple(texts[dict(fields(unit)).get(key, 0)] for key in (1, 2)) for unit in found[1]]
    samples = {}
    for one in found.get(2, ()):
        sample = dict(fields(one))
        samples[tuple(locations[number] for number in sample[1])] = list(sample[2])
    return units, samples


def test_a_profile_can_be_read_back():
    content = pprof(
        [("samples", "count"), ("cpu", "nanoseconds")],
        [((INNER, OUTER), (2, 5)), ((OUTER,), (1, 7))],
        started=1.0,
        seconds=2.0,
        period=(("cpu", "nanoseconds"), 10),
    )
    assert read_profile(content) == (
        [("samples", "count"), ("cpu", "nanoseconds")],
        {("inner", "outer"): [2, 5], ("outer",): [1, 7]},
    )


def test_samples_are_summed_by_stack_and_kept_in_order():
    samples = Samples(0.0, 1.0, [((INNER, OUTER), 5), ((OUTER,), 1), ((INNER, OUTER), 2)])
    assert summed(samples) == {(INNER, OUTER): (2, 7), (OUTER,): (1, 1)}
    document = json.loads(speedscope(samples))
    (profile,) = document["profiles"]
    names = [frame["name"] for frame in document["shared"]["frames"]]
    stacks = [[names[frame] for frame in stack] for stack in profile["samples"]]
    assert stacks == [["outer", "inner"], ["outer"], ["outer", "inner"]]
    assert profile["weights"] == [5, 1, 2]


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(100))


async def test_work_is_seen_and_waiting_is_not():
    looking = asyncio.ensure_future(Sampler().sample(0.3))
    await asyncio.sleep(0.01)
    burn(0.2)
    samples = await looking
    seen = {place.function for stack, _ in samples.seen for place in stack}
    assert "burn" in seen
    burning = [used for stack, used in samples.seen if stack[0].function == "burn"]
    assert sum(burning) > 0.1e9
    idle = await Sampler().sample(0.05)
    assert sum(used for _, used in idle.seen) < 0.04e9


async def test_only_one_looks_at_a_time():
    shared = Sampler()
    looking = asyncio.ensure_future(shared.sample(0.05))
    await asyncio.sleep(0)
    with pytest.raises(BusyError):
        await shared.sample(0.05)
    await looking
    await shared.sample(0.001)
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    signal.raise_signal(signal.SIGPROF)  # a late one harms nobody


async def test_tasks_are_told_with_what_they_await():
    async def inner():
        await asyncio.Event().wait()

    async def outer():
        await inner()

    task = asyncio.create_task(outer())
    await asyncio.sleep(0)
    names = [place.function.rpartition(".")[2] for place in stack_of_task(task)]
    task.cancel()
    assert names == ["wait", "inner", "outer"]


def test_threads_are_told_with_where_they_stand():
    ended = threading.Event()

    def stands_here():
        ended.wait()

    thread = threading.Thread(target=stands_here)
    thread.start()
    try:
        stacks = stacks_of_threads()
    finally:
        ended.set()
        thread.join()
    assert "stands_here" in [place.function for place in stacks[thread.ident]]
    own = [place.function for place in stacks[threading.get_ident()]]
    assert own[:2] == ["stacks_of_threads", "test_threads_are_told_with_where_they_stand"]


async def test_memory_is_told_by_type_and_bounded(monkeypatch):
    class Peculiar:
        pass

    kept = [Peculiar() for _ in range(1000)]
    # Whatever else this process has run: the largest types alone might not be ours.
    monkeypatch.setattr(memory, "MAX_TYPES", 100_000)
    held = await memory.by_type()
    (name,) = (name for name in held if name.endswith("Peculiar"))
    assert held[name][0] == len(kept)
    monkeypatch.setattr(memory, "MAX_TYPES", 3)
    assert len(await memory.by_type()) == 4


@pytest.mark.parametrize(
    ("path", "status", "content_type"),
    [
        ("", 200, "text/html; charset=utf-8"),
        ("goroutine?debug=1", 200, "text/plain; charset=utf-8"),
        ("goroutine?debug=0", 200, "application/octet-stream"),
        ("heap?debug=1", 200, "text/plain; charset=utf-8"),
        ("threadcreate", 200, "application/octet-stream"),
        ("mutex", 200, "application/octet-stream"),
        ("profile?seconds=301", 400, "text/plain; charset=utf-8"),
        ("cmdline", 404, "text/plain; charset=utf-8"),
        ("../secret", 404, "text/plain; charset=utf-8"),
    ],
)
async def test_pages(serving, installed, path, status, content_type):
    async with serving(installed) as client:
        got, headers, body = await client.ask(f"/debug/pprof/{path}")
    assert (got, headers["content-type"]) == (status, content_type)
    assert body


async def begun():
    """Returns when somebody looks."""
    async with asyncio.timeout(30):
        while signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0):  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_a_second_profile_is_refused_meanwhile(serving, installed):
    async with serving(installed) as client:
        first = asyncio.ensure_future(client.ask("/debug/pprof/profile?seconds=3"))
        await begun()
        refused = await client.ask("/debug/pprof/trace?seconds=1")
        answered = await first
    assert answered[0] == 200
    assert refused[::2] == (
        500,
        "Could not enable CPU profiling: cpu profiling already in use\n",
    )
