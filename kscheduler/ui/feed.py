"""The feed: changes of the cluster, numbered, for every page that is open.

    watch of decisions ─┐
    status, every 2 s  ─┼─▶ frames: id, event, JSON ─▶ a ring ─▶ server-sent events
    nodes that changed ─┘

Frames are numbered without gaps. A page that was away names the last one it has and gets those
since; if the ring does not have them any more, it is told to read everything anew. Decisions are
gathered for a moment, so that hundreds per second are a few frames. Nodes are read again when the
scheduler's cache has changed, and told as the difference to the reading before. The feed runs
while somebody looks, and a minute longer.

A watch that breaks is taken up where it was. If that cannot be done, because another instance
leads or because too much has happened, decisions may be missing, and the stream has a `Gap` there.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import msgspec

from kscheduler.api.explanation import DECISIONS
from kscheduler.api.timestamps import TimestampError, format_micro_time, parse_time
from kscheduler.ui.cluster import MAX_DECISIONS, Brief, Cluster, NodeChange
from kscheduler.ui.source import OPENED, Expired, Lost, Refused, Trouble

GATHER_SECONDS = 0.25
STATUS_SECONDS = 2.0
# Comments on a quiet connection, by which either end notices that the other is gone.
HEARTBEAT_SECONDS = 15.0
IDLE_SECONDS = 60.0
FRAMES = 512
FRAMES_BYTES = 8 << 20
MAX_GAPS = 20
# Of one frame; more than these are counted.
MAX_ITEMS = 500
# Plots: the last minutes, in buckets.
PLOT_SECONDS = 600.0
BUCKETS = 60
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 5.0
# A user without the right to see the status may be given it.
REFUSED_SECONDS = 30.0

_decode_brief = msgspec.json.Decoder(Brief)


class Frame(NamedTuple):
    id: int
    text: bytes


class Sample(NamedTuple):
    """One attempt: when it ended, how long it took, and how it ended."""

    time: float
    seconds: float
    outcome: str


class Gap(NamedTuple):
    """A time of which decisions may be missing; times are texts, as those of decisions."""

    since: str
    until: str


class Plots(NamedTuple):
    """By bucket, the oldest first: attempts per second, and the median and 99th percentile of
    seconds per attempt (None where there was none).
    """

    scheduled: list[float]
    failed: list[float]
    median: list[float | None]
    slow: list[float | None]


class Feed:
    """Events of the cluster, as frames; `recent` has the latest decisions, the newest first.

    `seen` counts attempts that were heard of, those of the first list not included; `told` those
    that are in frames.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        cluster.on_nodes = self._tell_nodes
        # Another process has other frames: a page that outlived one must not trust its numbers.
        self.epoch = secrets.token_hex(4)
        self._frames: deque[Frame] = deque()
        self._frames_bytes = 0
        self._next_id = 1
        self._changed = asyncio.Event()
        self._briefs: OrderedDict[str, Brief] = OrderedDict()
        self._gathered: list[Brief] = []
        self._gaps: deque[Gap] = deque(maxlen=MAX_GAPS)
        # When the watch was last known to be whole, in seconds since the epoch.
        self._heard = 0.0
        self._is_watching = False
        self._version = ""
        self._samples: deque[Sample] = deque(maxlen=4 * MAX_DECISIONS)
        self._listed = asyncio.Event()
        self.seen = self.told = 0
        self.trouble: Trouble | None = None
        self.namespace = ""
        self._subscribers = 0
        self._wanted = 0.0
        self._task: asyncio.Task[None] | None = None

    # For views.

    def want(self) -> None:
        """Interest of a viewer: the feed runs on for a while."""
        self._wanted = time.monotonic()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="feed")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def listed(self, patience_seconds: float) -> bool:
        """Whether the decisions have been read once, or are within so many seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._listed.wait(), patience_seconds)
        return self._listed.is_set()

    def recent(self, count: int) -> list[Brief | Gap]:
        """The latest decisions, with gaps where they were."""
        found: list[Brief | Gap] = []
        gaps = list(self._gaps)
        for brief in reversed(self._briefs.values()):
            while gaps and gaps[-1].since >= brief.last.time:
                found.append(gaps.pop())
            if len(found) >= count:
                return found[:count]
            found.append(brief)
        return [*found, *reversed(gaps)][:count]

    def named(self, name: str) -> list[str]:
        """Keys of decided pods of this name, the latest first."""
        return [key for key in reversed(self._briefs) if key.partition("/")[2] == name]

    @property
    def last_id(self) -> int:
        return self._next_id - 1

    def plots(self, now: float | None = None) -> Plots:
        now = time.time() if now is None else now
        width = PLOT_SECONDS / BUCKETS
        taken: list[list[float]] = [[] for _ in range(BUCKETS)]
        failed = [0] * BUCKETS
        for sample in self._samples:
            bucket = BUCKETS - 1 - int((now - sample.time) // width)
            if 0 <= bucket < BUCKETS:
                if sample.outcome == "Scheduled":
                    taken[bucket].append(sample.seconds)
                else:
                    failed[bucket] += 1
        for seconds in taken:
            seconds.sort()
        return Plots(
            [len(one) / width for one in taken],
            [one / width for one in failed],
            [one[len(one) // 2] if one else None for one in taken],
            [one[len(one) * 99 // 100] if one else None for one in taken],
        )

    # For open pages.

    async def frames(self, epoch: str, since: int) -> AsyncIterator[bytes]:
        """Server-sent events, from the frame after `since` on, until the page leaves."""
        self._subscribers += 1
        try:
            if epoch != self.epoch or since > self.last_id or not self._has(since + 1):
                since = self.last_id
                yield self._hello(since, "reset" if epoch else "hello")
            else:
                yield self._hello(since, "hello")
            while True:
                self.want()
                if not self._has(since + 1):
                    # The page was slower than the ring.
                    since = self.last_id
                    yield self._hello(since, "reset")
                for frame in [frame for frame in self._frames if frame.id > since]:
                    since = frame.id
                    yield frame.text
                changed = self._changed
                try:
                    await asyncio.wait_for(changed.wait(), HEARTBEAT_SECONDS)
                except TimeoutError:
                    yield b": quiet\n\n"
        finally:
            self._subscribers -= 1
            self._wanted = time.monotonic()

    def _hello(self, since: int, event: str) -> bytes:
        told = {
            "epoch": self.epoch,
            "id": since,
            "nodes": self._cluster.nodes_serial,
            "trouble": _said(self.trouble),
        }
        return _event(event, told, since)

    def _has(self, number: int) -> bool:
        """Whether all frames from this one on are in the ring."""
        first = self._frames[0].id if self._frames else self._next_id
        return first <= number

    def _tell(self, event: str, data: object) -> None:
        frame = Frame(self._next_id, _event(event, data, self._next_id))
        self._frames.append(frame)
        self._frames_bytes += len(frame.text)
        while len(self._frames) > FRAMES or self._frames_bytes > FRAMES_BYTES:
            self._frames_bytes -= len(self._frames.popleft().text)
        self._next_id += 1
        self._changed.set()
        self._changed = asyncio.Event()

    # The work.

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            work = [
                tasks.create_task(self._follow_decisions()),
                tasks.create_task(self._gather()),
                tasks.create_task(self._poll()),
            ]
            await self._until_idle()
            for task in work:
                task.cancel()

    async def _until_idle(self) -> None:
        while True:
            idle = time.monotonic() - self._wanted
            if idle >= IDLE_SECONDS and not self._subscribers:
                return
            await asyncio.sleep(max(1.0, IDLE_SECONDS - idle))

    async def _follow_decisions(self) -> None:
        """Lists decisions once and watches them; after any failure again from the last version on,
        with longer and longer pauses.
        """
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                if not self._version:
                    briefs, version, self.namespace = await self._cluster.briefs()
                    self._take_list(briefs)
                    self._version = version
                    self._listed.set()
                query = {"resourceVersion": self._version, "allowWatchBookmarks": "true"}
                async for change in self._cluster.source.watch(DECISIONS, self.namespace, query):
                    if change is OPENED:
                        pause, self._is_watching = FIRST_PAUSE_SECONDS, True
                        self._recovered()
                        continue
                    self._heard = time.time()
                    brief = _decode_brief.decode(change.object)
                    self._version = brief.version or self._version
                    if change.type == "DELETED":
                        self._briefs.pop(brief.key, None)
                    elif change.type in ("ADDED", "MODIFIED"):
                        self._take(brief)
                # The server ends watches now and then, and when it stops to lead.
                await asyncio.sleep(FIRST_PAUSE_SECONDS)
            except Expired:
                self._version = ""
                await asyncio.sleep(FIRST_PAUSE_SECONDS)
            except Trouble as trouble:
                self._lost(trouble)
                self._listed.set()
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            except msgspec.DecodeError as error:
                self._lost(Trouble(f"A decision cannot be read: {error}."))
                self._version = ""
                await asyncio.sleep(LONGEST_PAUSE_SECONDS)
            finally:
                self._is_watching = False

    def _take_list(self, briefs: Sequence[Brief]) -> None:
        """A whole list: the first one is how things are, a later one has what can still be told of
        what was missed. Decisions that it does not have stay in the stream, as they were told.
        """
        is_first = not self._heard
        if not is_first:
            self._tell_gathered()
            now = time.time()
            gap = Gap(format_micro_time(self._heard), format_micro_time(now))
            self._gaps.append(gap)
            self._tell("gap", gap._asdict())
        self._heard = time.time()
        for brief in sorted(briefs, key=lambda one: one.last.time):
            known = self._briefs.get(brief.key)
            if known is None or known.version != brief.version:
                self._take(brief, quietly=is_first)

    def _take(self, brief: Brief, *, quietly: bool = False) -> None:
        known = self._briefs.pop(brief.key, None)
        self._briefs[brief.key] = brief
        while len(self._briefs) > MAX_DECISIONS:
            self._briefs.popitem(last=False)
        with contextlib.suppress(TimestampError):
            when = parse_time(brief.last.time)
            self._samples.append(Sample(when, brief.last.duration_seconds, brief.outcome))
        if not quietly:
            # Attempts that followed each other quickly are told as one.
            before = known.attempts if known is not None and known.uid == brief.uid else 0
            self.seen += max(1, brief.attempts - before)
            self._gathered.append(brief)

    async def _gather(self) -> None:
        while True:
            await asyncio.sleep(GATHER_SECONDS)
            self._tell_gathered()

    def _tell_gathered(self) -> None:
        if gathered := self._gathered:
            self._gathered = []
            items = [line_of(brief) for brief in gathered[-MAX_ITEMS:]]
            count, self.told = self.seen - self.told, self.seen
            self._tell("decisions", {"seen": self.seen, "count": count, "items": items})

    async def _poll(self) -> None:
        """Status every two seconds, and nodes if something changed and somebody may see them."""
        generation, changed_at, told = -1, 0.0, b""
        while True:
            pause = STATUS_SECONDS
            try:
                statuses = await self._cluster.statuses()
                if self._is_watching:
                    self._recovered()
                leader = next((one for one in statuses if one.leader), None)
                if leader is not None:
                    encoded = msgspec.json.encode(
                        {
                            "leader": leader.identity,
                            "queue": dict(leader.queue),
                            "rates": dict(leader.rates),
                            "cache": dict(leader.cache),
                        }
                    )
                    if encoded != told:
                        told = encoded
                        self._tell("status", msgspec.Raw(encoded))
                    if leader.snapshot_generation != generation:
                        generation, changed_at = leader.snapshot_generation, time.monotonic()
                    if self._cluster.nodes_read_at < changed_at:
                        # Perhaps not yet: large clusters are read less often.
                        await self._cluster.nodes()
            except Refused:
                # Said where it would be shown.
                pause = REFUSED_SECONDS
            except Lost as trouble:
                self._lost(trouble)
            except Trouble:
                pass
            await asyncio.sleep(pause)

    def _tell_nodes(self, change: NodeChange) -> None:
        self._tell("nodes", change)

    def _lost(self, trouble: Trouble) -> None:
        if _said(trouble) != _said(self.trouble):
            self.trouble = trouble
            self._tell("trouble", _said(trouble))

    def _recovered(self) -> None:
        if self.trouble is not None:
            self.trouble = None
            self._tell("recovered", {})


def line_of(brief: Brief) -> dict[str, Any]:
    """A decision as the stream shows it."""
    return {
        "pod": brief.key,
        "outcome": brief.outcome,
        "node": brief.node,
        "summary": brief.summary,
        "time": brief.last.time,
    }


def _said(trouble: Trouble | None) -> dict[str, str] | None:
    if trouble is None:
        return None
    return {"kind": type(trouble).__name__, "text": str(trouble)}


def _event(event: str, data: object, number: int) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (
        number,
        event.encode(),
        msgspec.json.encode(data),
    )
