"""How many objects are dealt with before others have their turn, counted.

Time is a count of looks at the clock: a budget of 4 ms is four of them.
"""

import asyncio
import json

import pytest

from kscheduler.api.core import Pod
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.resources import PODS
from kscheduler.client.informers import listing, pace
from kscheduler.client.informers.informer import Informer
from kscheduler.client.informers.listing import Lister, ListWatch
from kscheduler.client.informers.pace import Gate, Pace
from kscheduler.client.informers.reflector import Reflector
from tests.client.following import SHAPE, Story
from tests.client.scripted import bookmark, event, line, pod
from tests.client.streams import MemoryClient

MANY = 300
# A budget's worth of looks, and one object more.
FEW = 6


@pytest.fixture(autouse=True)
def _counted_time(monkeypatch):
    looks = iter(range(10**9))
    monkeypatch.setattr(pace.time, "perf_counter", lambda: next(looks) / 1000)


class Turns:
    """Another task: it notes how much was done each time that it has its turn."""

    def __init__(self, done):
        self.done = done
        self.seen = []

    async def during(self, work):
        task = asyncio.ensure_future(work)
        while not task.done():
            self.seen.append(self.done())
            await asyncio.sleep(0)
        self.seen.append(self.done())
        return await task

    @property
    def largest(self):
        return max(after - before for before, after in zip(self.seen, self.seen[1:], strict=False))


def pods(*numbers, version=1):
    made = (
        Pod(ObjectMeta(name=f"p{number}", namespace="ns", resource_version=str(version)))
        for number in numbers
    )
    return {one.key: one for one in made}


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def informer(gate):
    return Informer(SHAPE, Pace(gate))


async def test_first_list_is_delivered_a_few_at_a_time(informer):
    story = Story()
    registration = informer.add_handler(story)
    synced = []

    def done():
        synced.append((len(story.calls), registration.has_synced))
        return len(story.calls)

    turns = Turns(done)
    await turns.during(informer.replace(pods(*range(MANY))))
    assert len(story.calls) == MANY
    assert turns.largest <= FEW
    # Whoever waits for the first sync sees all of it or is still waiting.
    assert {count for count, is_synced in synced if is_synced} == {MANY}


async def test_relist_tells_changes_and_losses_a_few_at_a_time(informer):
    story = Story()
    await informer.replace(pods(*range(MANY)))
    informer.add_handler(story)
    story.calls.clear()
    turns = Turns(lambda: len(story.calls))
    await turns.during(informer.replace(pods(*range(MANY // 2, 2 * MANY), version=2)))
    kinds = [what for what, _, _ in story.calls]
    assert (kinds.count("update"), kinds.count("add"), kinds.count("lost")) == (150, 300, 150)
    assert turns.largest <= FEW


async def test_streamed_list_is_decoded_a_few_at_a_time(informer):
    decoded = []

    def decode(data):
        decoded.append(1)
        return SHAPE.decode(data)

    shape = type(SHAPE)(SHAPE.name, decode, SHAPE.key, SHAPE.version)
    lines = [line(event("ADDED", pod(f"p{number}", number + 1))) for number in range(MANY)]
    client = MemoryClient([b"".join([*lines, line(bookmark(MANY, initial_end=True))])])
    reflector = Reflector(client, ListWatch(PODS, shape), informer, informer._pace)
    following = asyncio.create_task(reflector.run())
    turns = Turns(lambda: len(decoded))
    await turns.during(informer.wait_for_sync())
    following.cancel()
    assert len(informer) == MANY
    assert turns.largest <= FEW


async def test_list_in_one_piece_is_decoded_a_few_at_a_time(gate, monkeypatch):
    monkeypatch.setattr(listing, "PART_BYTES", 1000)
    document = {"metadata": {"resourceVersion": "7"}, "items": []}
    document["items"] = [pod(f"p{number}", number + 1) for number in range(MANY)]

    class Client:
        async def list(self, resource, namespace, query):
            return json.dumps(document, separators=(",", ":")).encode()

    decoded = []

    def decode(data):
        decoded.append(1)
        return SHAPE.decode(data)

    shape = type(SHAPE)(SHAPE.name, decode, SHAPE.key, SHAPE.version)
    lister = Lister(Client(), ListWatch(PODS, shape), Pace(gate), lambda key: None)
    turns = Turns(lambda: len(decoded))
    found = await turns.during(lister.list_all("5"))
    assert (len(found.items), found.version) == (MANY, "7")
    assert turns.largest <= FEW


async def test_nothing_is_delivered_while_somebody_needs_a_still_world(informer, gate):
    """Even within a budget: the handler itself may have shut the gate."""
    story = Story()
    informer.add_handler(story)
    holds = []

    class Busy(Story):
        def on_add(self, item, *, is_initial):
            if len(story.calls) == 2:
                holds.append(gate.hold())
                holds[0].__enter__()

    informer.add_handler(Busy())
    replacing = asyncio.create_task(informer.replace(pods(*range(10))))
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(story.calls) == 2
    holds[0].__exit__(None, None, None)
    await replacing
    assert len(story.calls) == 10
