"""The feed: frames without gaps, a ring that is honest about its end, plots of the last minutes."""

import json
import time
from contextlib import asynccontextmanager

import msgspec
import pytest

from kscheduler.api.explanation import NodeInfo
from kscheduler.api.timestamps import format_micro_time
from kscheduler.ui import cluster as cluster_module
from kscheduler.ui import feed as feed_module
from kscheduler.ui.cluster import Cluster, columns_of, difference
from kscheduler.ui.feed import BUCKETS, Feed
from kscheduler.ui.source import OPENED, Change, Expired, Lost
from tests.kit.polling import until
from tests.ui.nobody import Nobody


def decision(name, version, *, outcome="Scheduled", seconds=0.01, attempts=1):
    return {
        "metadata": {"namespace": "default", "name": name, "resourceVersion": str(version)},
        "attempts": attempts,
        "outcome": outcome,
        "summary": f"It is {name}.",
        "last": {"time": format_micro_time(time.time()), "durationSeconds": seconds},
    }


class Instance(Nobody):
    """A leader: the decisions that it has, and the changes since any version."""

    def __init__(self, *decisions, version=10):
        self.decisions, self.changes, self.first_version = list(decisions), [], version
        self.is_up = True
        self.watched_from = []

    async def list(self, resource, namespace="", query=None):
        if not self.is_up:
            raise Lost("Nobody is there.")
        if resource.plural != "decisions":
            return b'{"items": []}'
        version = max((version_of(one) for _, one in self.changes), default=self.first_version)
        found = {one["metadata"]["name"]: one for one in self.decisions}
        found |= {one["metadata"]["name"]: one for _, one in self.changes}
        metadata = {"resourceVersion": str(version)}
        return msgspec.json.encode({"metadata": metadata, "items": list(found.values())})

    async def watch(self, resource, namespace="", query=None):
        if not self.is_up:
            raise Lost("Nobody is there.")
        since = int(query["resourceVersion"])
        self.watched_from.append(since)
        yield OPENED
        if since < self.first_version:
            raise Expired("Too old.")
        for kind, item in self.changes:
            if version_of(item) > since:
                yield Change(kind, msgspec.Raw(msgspec.json.encode(item)))


def version_of(item):
    return int(item["metadata"]["resourceVersion"])


def parsed(frame):
    fields = dict(line.split(": ", 1) for line in frame.decode().strip().split("\n"))
    return fields["event"], int(fields["id"]), json.loads(fields["data"])


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(feed_module, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(feed_module, "GATHER_SECONDS", 0.001)


@asynccontextmanager
async def followed(source):
    feed = Feed(Cluster(source))
    feed.want()
    try:
        await feed.listed(30)
        yield feed
    finally:
        await feed.close()


def told(feed, *kinds):
    """Events of all frames, those of these kinds."""
    events = (parsed(frame.text) for frame in feed._frames)
    return [(kind, data) for kind, _, data in events if kind in kinds]


def pods_in(feed):
    return [one["pod"] for _, data in told(feed, "decisions") for one in data["items"]]


async def test_what_is_there_at_first_is_no_news_and_what_comes_is():
    source = Instance(decision("a", 1), decision("b", 2))
    async with followed(source) as feed:
        assert feed.seen == 0
        source.changes.append(("ADDED", decision("c", 11)))
        await until(lambda: pods_in(feed) == ["default/c"])
        assert [one.key for one in feed.recent(2)] == ["default/c", "default/b"]


async def test_a_watch_that_ended_is_taken_up_where_it_was():
    source = Instance(decision("a", 1))
    async with followed(source) as feed:
        source.changes.append(("ADDED", decision("b", 11)))
        await until(lambda: 11 in source.watched_from)
        source.changes.append(("MODIFIED", decision("a", 12)))
        await until(lambda: 12 in source.watched_from)
        assert pods_in(feed) == ["default/b", "default/a"]
        assert told(feed, "gap", "trouble") == []


async def test_decisions_that_nobody_can_tell_of_any_more_leave_a_gap_that_is_told():
    """The leader is gone, and the next one has decisions of its own."""
    source = Instance(decision("a", 1), version=10)
    async with followed(source) as feed:
        source.changes.append(("ADDED", decision("b", 11)))
        await until(lambda: 11 in source.watched_from)
        source.is_up = False
        await until(lambda: feed.trouble)
        source.decisions, source.changes = [decision("c", 101)], []
        source.first_version, source.is_up = 100, True
        await until(lambda: "default/c" in pods_in(feed))
        kinds = ("trouble", "recovered", "gap", "decisions")
        assert [kind for kind, _ in told(feed, *kinds)] == [
            "decisions",
            "trouble",
            "recovered",
            "gap",
            "decisions",
        ]
        newest, gap, *older = feed.recent(9)
        assert newest.key == "default/c"
        assert gap.since <= gap.until
        assert [one.key for one in older] == ["default/b", "default/a"]
        assert feed.recent(2) == [newest, gap]


async def test_attempts_that_were_folded_into_one_change_are_all_counted():
    source = Instance(decision("a", 1, attempts=2))
    async with followed(source) as feed:
        source.changes.append(("MODIFIED", decision("a", 11, attempts=5)))
        await until(lambda: pods_in(feed))
        [(_, data)] = told(feed, "decisions")
        assert (data["count"], data["seen"], len(data["items"])) == (3, 3, 1)


async def test_frames_are_numbered_and_replayed_until_the_ring_has_lost_them(monkeypatch):
    feed = Feed(Cluster(Nobody()))
    feed.want = lambda: None
    for number in range(3):
        feed._tell("status", number)
    frames = feed.frames(feed.epoch, 1)
    assert parsed(await anext(frames))[:2] == ("hello", 1)
    assert [parsed(await anext(frames))[1] for _ in range(2)] == [2, 3]
    await frames.aclose()
    for number in range(feed_module.FRAMES + 1):
        feed._tell("status", number)
    for epoch, since in ((feed.epoch, 1), ("other", 3), (feed.epoch, 10**6)):
        frames = feed.frames(epoch, since)
        assert parsed(await anext(frames))[:2] == ("reset", feed.last_id)
        await frames.aclose()


async def test_frames_take_no_more_than_their_room(monkeypatch):
    monkeypatch.setattr(feed_module, "FRAMES_BYTES", 1000)
    feed = Feed(Cluster(Nobody()))
    for number in range(20):
        feed._tell("nodes", "x" * (number * 10))
    assert sum(len(frame.text) for frame in feed._frames) == feed._frames_bytes <= 1000
    frames = feed.frames(feed.epoch, 1)
    assert parsed(await anext(frames))[0] == "reset"
    await frames.aclose()


async def test_trouble_and_its_end_are_told_once():
    source = Instance(decision("a", 1))
    source.is_up = False
    async with followed(source) as feed:
        await until(lambda: feed.trouble)
        source.is_up = True
        await until(lambda: feed.recent(1))
        await until(lambda: not feed.trouble)
        # What was there before anybody could ask is no news, and no gap.
        assert [kind for kind, _ in told(feed, "trouble", "recovered", "gap", "decisions")] == [
            "trouble",
            "recovered",
        ]


def test_plots_have_rates_and_latencies_by_bucket():
    feed = Feed(Cluster(Nobody()))
    now = time.time()
    for index in range(100):
        feed._samples.append(feed_module.Sample(now - 1, index / 1000, "Scheduled"))
    feed._samples.append(feed_module.Sample(now - 15, 0.5, "Unschedulable"))
    feed._samples.append(feed_module.Sample(now - 1e5, 0.5, "Scheduled"))
    plots = feed.plots(now)
    assert len(plots.scheduled) == BUCKETS
    assert (plots.scheduled[-1], plots.failed[-2]) == (10.0, 0.1)
    assert (plots.median[-1], plots.slow[-1], plots.median[0]) == (0.05, 0.099, None)


class Nodes(Nobody):
    """A scheduler whose nodes are given; what is asked for is counted."""

    def __init__(self, *nodes):
        self.nodes, self.generation, self.lists = list(nodes), 1, 0

    async def list(self, resource, namespace="", query=None):
        if resource.plural == "nodeinfos":
            self.lists += 1
            return msgspec.json.encode({"items": self.nodes})
        if resource.plural == "schedulerstatuses":
            status = {"metadata": {"name": "s"}, "leader": True}
            return msgspec.json.encode(
                {"items": [{**status, "snapshotGeneration": self.generation}]}
            )
        raise Lost("Nobody is there.")


def node(name, *, cpu="0", **fields):
    allocatable = {"cpu": "4", "memory": "8Ki", "pods": "110"}
    return {
        "metadata": {"name": name},
        "allocatable": allocatable,
        "requested": {"cpu": cpu},
        **fields,
    }


@pytest.fixture
def no_rest(monkeypatch):
    monkeypatch.setattr(cluster_module, "LIST_SECONDS", 0.0)
    monkeypatch.setattr(cluster_module, "STATUS_SECONDS", 0.0)
    monkeypatch.setattr(cluster_module, "REST", 0.0)
    monkeypatch.setattr(feed_module, "STATUS_SECONDS", 0.001)


async def test_nodes_are_read_when_they_changed_and_told_by_their_difference(no_rest):
    source = Nodes(node("a"), node("b"), node("c"))
    async with followed(source) as feed:
        await until(lambda: source.lists == 1)
        source.nodes[1] = node("b", cpu="1500m")
        source.generation += 1
        await until(lambda: told(feed, "nodes"))
        source.nodes[2] = node("c", unschedulable=True)
        source.generation += 1
        await until(lambda: len(told(feed, "nodes")) == 2)
        # A generation by itself changes nothing that is shown.
        source.generation += 1
        await until(lambda: source.lists == 4)
        resources = ["cpu", "memory", "pods"]
        assert told(feed, "nodes") == [
            ("nodes", {"serial": 1, "resources": resources, "requested": {"1": [1.5, 0, 0]}}),
            ("nodes", {"serial": 2, "resources": resources, "requested": None}),
        ]


async def test_nodes_that_were_read_before_a_change_was_heard_of_are_read_again(monkeypatch):
    """The rest after a reading delays the next one, and does not replace it."""
    monkeypatch.setattr(cluster_module, "LIST_SECONDS", 0.2)
    monkeypatch.setattr(cluster_module, "STATUS_SECONDS", 0.0)
    monkeypatch.setattr(feed_module, "STATUS_SECONDS", 0.001)
    source = Nodes(node("a"))
    async with followed(source) as feed:
        await until(lambda: source.lists == 1)
        source.nodes[0] = node("a", cpu="1")
        source.generation += 1
        await until(lambda: told(feed, "nodes"))
        assert source.lists == 2


def test_a_change_of_many_nodes_is_read_as_a_whole(monkeypatch):
    monkeypatch.setattr(cluster_module, "MAX_CHANGED_NODES", 1)

    def columns(*cpu):
        made = [node(f"n{number}", cpu=text) for number, text in enumerate(cpu)]
        return columns_of(msgspec.convert(made, list[NodeInfo]))

    before = columns("0", "0")
    assert difference(before, columns("0", "0")) is None
    assert difference(before, columns("1", "0")).requested == {0: [1.0, 0.0, 0.0]}
    assert difference(before, columns("1", "1")).requested is None
    assert difference(before, columns("0", "0", "0")).requested is None
