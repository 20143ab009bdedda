"""The feed: frames without gaps, a ring that is honest about its end, plots of the last minutes."""

import json
import time

import msgspec

from kscheduler.api.timestamps import format_micro_time
from kscheduler.ui import feed as feed_module
from kscheduler.ui.cluster import Cluster
from kscheduler.ui.feed import BUCKETS, Feed
from kscheduler.ui.source import Change, Lost
from tests.kit.polling import until
from tests.ui.nobody import Nobody


def decision(name, version, *, outcome="Scheduled", seconds=0.01):
    return {
        "metadata": {"namespace": "default", "name": name, "resourceVersion": str(version)},
        "outcome": outcome,
        "summary": f"It is {name}.",
        "last": {"time": format_micro_time(time.time()), "durationSeconds": seconds},
    }


class Scripted(Nobody):
    """Lists and watches that are given; after the last one, nobody answers."""

    def __init__(self, *acts):
        self.acts = list(acts)

    async def list(self, resource, namespace="", query=None):
        if resource.plural != "decisions" or not self.acts:
            raise Lost("Nobody is there.")
        listed, self.changes = self.acts.pop(0)
        return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": listed})

    async def watch(self, resource, namespace="", query=None):
        for kind, item in self.changes:
            yield Change(kind, msgspec.Raw(msgspec.json.encode(item)))


def parsed(frame):
    fields = dict(line.split(": ", 1) for line in frame.decode().strip().split("\n"))
    return fields["event"], int(fields["id"]), json.loads(fields["data"])


async def test_what_is_there_at_first_is_no_news_and_what_a_broken_watch_missed_is():
    first = [decision("a", 1), decision("b", 2)]
    acts = (
        (first, [("ADDED", decision("c", 3))]),
        ([*first, decision("c", 3), decision("d", 4)], []),
    )
    feed = Feed(Cluster(Scripted(*acts)))
    feed.want()
    frames = feed.frames("", 0)
    await anext(frames)
    told = []
    while feed.trouble is None or len(told) < 2:
        event, _, data = parsed(await anext(frames))
        told += [one["pod"] for one in data["items"]] if event == "decisions" else []
    assert told == ["default/c", "default/d"]
    assert feed.seen == 2
    assert [brief.key for brief in feed.recent(2)] == ["default/d", "default/c"]
    await frames.aclose()
    await feed.close()


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


async def test_trouble_and_its_end_are_told_once(monkeypatch):
    monkeypatch.setattr(feed_module, "FIRST_PAUSE_SECONDS", 0.001)
    source = Scripted()
    feed = Feed(Cluster(source))
    feed.want()
    await until(lambda: feed.trouble)
    source.acts = [([decision("a", 1)], [])]
    await until(lambda: feed.seen)
    events = [parsed(frame.text)[0] for frame in feed._frames]
    assert events[:2] == ["trouble", "recovered"]
    await feed.close()


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
