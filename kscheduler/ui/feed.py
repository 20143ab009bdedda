"""The feed: changes of the cluster, numbered, for every page that is open.

    watch of decisions ─┐
    status, every 2 s  ─┼─▶ frames: id, event, JSON ─▶ a ring ─▶ server-sent events
    nodes that changed ─┘

Frames are numbered without gaps. A page that was away names the last one it has and gets those
since; if the ring does not have them any more, it is told to read everything anew. Decisions are
gathered for a moment, so that hundreds per second are a few frames. The feed runs while somebody
looks, and a minute longer.
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
from kscheduler.api.timestamps import TimestampError, parse_time
from kscheduler.ui.cluster import MAX_DECISIONS, Brief, Cluster, NodeColumns
from kscheduler.ui.source import Trouble

GATHER_SECONDS = 0.25
STATUS_SECONDS = 2.0
# Comments on a quiet connection, by which either end notices that the other is gone.
HEARTBEAT_SECONDS = 15.0
IDLE_SECONDS = 60.0
FRAMES = 512
# Of one frame; more than these are counted.
MAX_ITEMS = 500
# Plots: the last minutes, in buckets.
PLOT_SECONDS = 600.0
BUCKETS = 60
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 15.0

_decode_brief = msgspec.json.Decoder(Brief)


class Frame(NamedTuple):
    id: int
    text: bytes


class Sample(NamedTuple):
    """One attempt: when it ended, how long it took, and how it ended."""

    time: float
    seconds: float
    outcome: str


class Plots(NamedTuple):
    """By bucket, the oldest first: attempts per second, and the median and 99th percentile of
    seconds per attempt (None where there was none).
    """

    scheduled: list[float]
    failed: list[float]
    median: list[float | None]
    slow: list[float | None]


class Feed:
    """Events of the cluster, as frames; `recent` has the latest decisions, the newest first."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # Another process has other frames: a page that outlived one must not trust its numbers.
        self.epoch = secrets.token_hex(4)
        self._frames: deque[Frame] = deque(maxlen=FRAMES)
        self._next_id = 1
        self._changed = asyncio.Event()
        self._briefs: OrderedDict[str, Brief] = OrderedDict()
        self._gathered: list[Brief] = []
        self._samples: deque[Sample] = deque(maxlen=4 * MAX_DECISIONS)
        self._listed = asyncio.Event()
        self.seen = 0
        self.trouble: Trouble | None = None
        self.namespace = ""
        self._subscribers = 0
        self._wanted = 0.0
        self._task: asyncio.Task[None] | None = None
        self._nodes: NodeColumns | None = None

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

    def recent(self, count: int) -> list[Brief]:
        found: list[Brief] = []
        for brief in reversed(self._briefs.values()):
            if len(found) == count:
                break
            found.append(brief)
        return found

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
        told = {"epoch": self.epoch, "id": since, "seen": self.seen, "trouble": _said(self.trouble)}
        return _event(event, told, since)

    def _has(self, number: int) -> bool:
        """Whether all frames from this one on are in the ring."""
        first = self._frames[0].id if self._frames else self._next_id
        return first <= number

    def _tell(self, event: str, data: object) -> None:
        self._frames.append(Frame(self._next_id, _event(event, data, self._next_id)))
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
        """Lists and watches decisions; after any failure again, with longer and longer pauses."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                briefs, version, self.namespace = await self._cluster.briefs()
                self._take_list(briefs)
                self._listed.set()
                self._recovered()
                pause = FIRST_PAUSE_SECONDS
                query = {"resourceVersion": version}
                watch = self._cluster.source.watch(DECISIONS, self.namespace, query)
                async for change in watch:
                    if change.type == "DELETED":
                        self._briefs.pop(_decode_brief.decode(change.object).key, None)
                    elif change.type in ("ADDED", "MODIFIED"):
                        self._take(_decode_brief.decode(change.object))
                # The server ends watches now and then; a list tells what was missed.
            except Trouble as trouble:
                self._lost(trouble)
                self._listed.set()
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            except msgspec.DecodeError as error:
                self._lost(Trouble(f"A decision cannot be read: {error}."))
                await asyncio.sleep(LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(0)

    def _take_list(self, briefs: Sequence[Brief]) -> None:
        """A whole list: the first one is how things are, later ones tell what changed meanwhile."""
        is_first = not self._listed.is_set()
        present = {brief.key for brief in briefs}
        for key in [key for key in self._briefs if key not in present]:
            del self._briefs[key]
        for brief in sorted(briefs, key=lambda one: one.last.time):
            known = self._briefs.get(brief.key)
            if known is None or known.version != brief.version:
                self._take(brief, quietly=is_first)

    def _take(self, brief: Brief, *, quietly: bool = False) -> None:
        self._briefs[brief.key] = brief
        self._briefs.move_to_end(brief.key)
        while len(self._briefs) > MAX_DECISIONS:
            self._briefs.popitem(last=False)
        with contextlib.suppress(TimestampError):
            when = parse_time(brief.last.time)
            self._samples.append(Sample(when, brief.last.duration_seconds, brief.outcome))
        if not quietly:
            self.seen += 1
            self._gathered.append(brief)

    async def _gather(self) -> None:
        while True:
            await asyncio.sleep(GATHER_SECONDS)
            if gathered := self._gathered:
                self._gathered = []
                items = [line_of(brief) for brief in gathered[-MAX_ITEMS:]]
                self._tell("decisions", {"seen": self.seen, "items": items})

    async def _poll(self) -> None:
        """Status every two seconds, and nodes if something changed and somebody may see them."""
        generation, told = -1, b""
        while True:
            try:
                statuses = await self._cluster.statuses()
                leader = next((one for one in statuses if one.leader), None)
                if leader is not None:
                    status = {"queue": leader.queue, "rates": leader.rates, "cache": leader.cache}
                    encoded = msgspec.json.encode(status)
                    if encoded != told:
                        told = encoded
                        self._tell("status", msgspec.Raw(encoded))
                    if leader.snapshot_generation != generation:
                        generation = leader.snapshot_generation
                        await self._tell_nodes()
            except Trouble:
                # Whoever may not see them is told so where they would be.
                pass
            await asyncio.sleep(STATUS_SECONDS)

    async def _tell_nodes(self) -> None:
        nodes, before = await self._cluster.nodes(), self._nodes
        self._nodes = nodes
        if before is None or before is nodes or not self._subscribers:
            return
        if before.names != nodes.names or before.resources != nodes.resources:
            self._tell("nodes", {"reset": True})
            return
        changed: dict[int, list[float]] = {}
        for index in range(len(nodes.names)):
            new = [nodes.requested[name][index] for name in nodes.resources]
            if new != [before.requested[name][index] for name in nodes.resources]:
                changed[index] = new
        is_other = before.cordoned != nodes.cordoned or before.allocatable != nodes.allocatable
        if is_other:
            self._tell("nodes", {"reset": True})
        elif changed:
            self._tell("nodes", {"resources": nodes.resources, "requested": changed})

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
