"""Watching decisions: every change of the log becomes a line for each client that watches it.

A watch keeps the changes that its client has not taken yet, one per pod: a decision that changes
twice meanwhile is sent once, as it is then. It refers to no entry that the log has dropped, so a
slow client costs no memory beyond the log's own. One that falls too far behind is cut off, and has
to list again.

What the asker may see is looked up again for every batch, so that a right that was taken away ends
what depends on it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping

from kscheduler.api.explanation import Decision
from kscheduler.api.meta import ApiObject, ObjectMeta
from kscheduler.decisions.decision_log import DecisionLog, Dropped, Entry
from kscheduler.decisions.explain import decision_of
from kscheduler.rest import status
from kscheduler.rest.lists import ListOptions
from kscheduler.rest.status import StatusError
from kscheduler.serving.explanation.limits import Limit
from kscheduler.serving.explanation.reads import Reader, Selection, read_query, wants_all
from kscheduler.serving.explanation.resources import DECISION
from kscheduler.serving.explanation.responses import Form, encode
from kscheduler.serving.explanation.rights import Asker
from kscheduler.slices import Slices

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"

MAX_WATCHES = 32
MAX_WATCHES_PER_ASKER = 8
# Changes that a client may fall behind, besides the decisions that a watch begins with.
MAX_BEHIND = 20_000
# Decisions that are looked up rights for, and sent, together.
BATCH = 100
BOOKMARK_SECONDS = 60.0
# How often a client that is sent nothing is looked after: it may have gone.
LOOK_SECONDS = 5.0
# As upstream's --min-request-timeout, doubled at random so that clients do not come back together.
TIMEOUT_SECONDS = 1800.0

Change = tuple[str, Entry | Dropped]


class Changes:
    """Changes of a selection of decisions that are still to be sent, in order."""

    def __init__(self, log: DecisionLog, selection: Selection) -> None:
        self._log = log
        self._selection = selection
        self._waiting: dict[tuple[str, str, str], Change] = {}
        # Uids of the decisions that the client has, where a selector lets them come and go.
        self._known: set[str] | None = set() if selection.selects else None
        self._wake = asyncio.Event()
        self._stop = log.watch(self._changed)
        self._most = MAX_BEHIND + log.entries
        self.is_over = False

    def begin(self, options: ListOptions) -> StatusError | None:
        """Everything there is as added, or what has changed since a version; the error, if that is
        too long ago.
        """
        if not options.version:
            for entry in self._log.all(self._selection.namespace or None):
                self._changed(ADDED, entry)
            return None
        found = self._log.changes_since(options.version)
        if found is None or options.version > self._log.version:
            return status.expired(
                f"too old resource version: {options.version} ({self._log.version})"
            )
        dropped, changed = found
        if self._known is not None:
            # Of decisions that no longer match, it is not known whether they did; to be told of
            # the end of an object that it does not have does no harm to a client.
            self._known = {one.uid for one in self._log.all()}
            self._known |= {one.uid for one in dropped}
        for one in dropped:
            if self._selection.namespace in ("", one.namespace):
                self._waiting[one.namespace, one.name, one.uid] = DELETED, one
        for entry in changed:
            is_new = entry.added_version > options.version
            self._changed(ADDED if is_new else MODIFIED, entry)
        return None

    @property
    def is_behind(self) -> bool:
        return bool(self._waiting)

    def batch(self) -> list[Change]:
        keys = [key for key, _ in zip(self._waiting, range(BATCH), strict=False)]
        return [self._waiting.pop(key) for key in keys]

    async def wait(self, seconds: float) -> None:
        """Until there are changes, the watch is over, or so long."""
        self._wake.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    def end(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._stop()
            self._wake.set()

    def _changed(self, kind: str, entry: Entry) -> None:
        """Called by the log, in the middle of a decision: as little as possible."""
        if self._selection.namespace not in ("", entry.namespace):
            return
        if self._known is not None:
            matches = kind != DELETED and self._selection.matches_entry(entry)
            was_known = entry.uid in self._known
            if matches:
                kind = MODIFIED if was_known else ADDED
                self._known.add(entry.uid)
            elif was_known:
                kind = DELETED
                self._known.discard(entry.uid)
            else:
                return
        key = (entry.namespace, entry.name, entry.uid)
        waiting = self._waiting.pop(key, None)
        unseen = waiting is not None and waiting[0] == ADDED
        if kind == DELETED:
            if not unseen:
                gone = Dropped(entry.namespace, entry.name, entry.uid, entry.version)
                self._waiting[key] = DELETED, gone
        else:
            self._waiting[key] = ADDED if unseen else kind, entry
        if len(self._waiting) > self._most:
            self._waiting.clear()
            self.end()
        self._wake.set()


class Watches:
    """All open watches; bounded per asker and in all."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._limit = Limit("watches", MAX_WATCHES, MAX_WATCHES_PER_ASKER)
        self._open: set[Changes] = set()

    def end(self) -> None:
        """Ends all of them: the scheduler stops, or stops to lead."""
        for changes in list(self._open):
            changes.end()

    async def watch(
        self,
        asker: Asker,
        form: Form,
        namespace: str,
        query: Mapping[str, str],
        is_gone: Callable[[], bool],
    ) -> AsyncGenerator[bytes, None]:
        """Lines of the watch; the first one is empty, and tells that the watch is open.

        `is_gone` says whether the client has left.
        """
        log = self._reader.decision_log()
        options, selection = read_query(DECISION, namespace, query)
        per_node = wants_all(query) and form.needs_whole
        if namespace:
            await asker.need_pods(DECISION, namespace)
        with self._limit.taken_by(asker.user):
            changes = Changes(log, selection)
            self._open.add(changes)
            try:
                if error := changes.begin(options):
                    yield _line(ERROR, encode(error.body))
                    return
                yield b""
                async for line in self._lines(
                    changes, log, asker, form, options, is_gone, per_node=per_node
                ):
                    yield line
            finally:
                changes.end()
                self._open.discard(changes)

    async def _lines(
        self,
        changes: Changes,
        log: DecisionLog,
        asker: Asker,
        form: Form,
        options: ListOptions,
        is_gone: Callable[[], bool],
        *,
        per_node: bool,
    ) -> AsyncGenerator[bytes, None]:
        now = asyncio.get_running_loop().time
        ends = now() + (options.timeout_seconds or TIMEOUT_SECONDS * (1 + random.random()))
        next_bookmark = now() + BOOKMARK_SECONDS
        slices = Slices()
        while True:
            while batch := changes.batch():
                async for line in self._batch(batch, asker, form, slices, per_node=per_node):
                    yield line
            if options.bookmarks and (now() >= min(next_bookmark, ends) or changes.is_over):
                next_bookmark = now() + BOOKMARK_SECONDS
                yield _bookmark(log.version)
            if changes.is_over or now() >= ends or is_gone():
                return
            await changes.wait(min(LOOK_SECONDS, max(0.0, min(next_bookmark, ends) - now())))

    async def _batch(
        self,
        batch: list[Change],
        asker: Asker,
        form: Form,
        slices: Slices,
        *,
        per_node: bool,
    ) -> AsyncGenerator[bytes, None]:
        seen = await asker.namespaces_seen(one.namespace for _, one in batch)
        entries = [one for _, one in batch if isinstance(one, Entry)]
        view = await self._reader.view(asker, entries, per_node=per_node)
        for kind, one in batch:
            if one.namespace not in seen:
                continue
            item = decision_of(one, view) if isinstance(one, Entry) else _gone(one)
            yield _line(kind, form.one(item))
            if slices.due():
                await slices.rest()


def _gone(one: Dropped) -> ApiObject:
    """A decision that is no longer there, as far as it is still known."""
    return Decision(
        metadata=ObjectMeta(
            name=one.name,
            namespace=one.namespace,
            uid=one.uid,
            resource_version=str(one.version),
        )
    )


def _bookmark(version: int) -> bytes:
    """An otherwise empty object: the client has seen everything up to this version."""
    return _line(
        BOOKMARK,
        encode(
            {
                "kind": DECISION.kind,
                "apiVersion": DECISION.group_version,
                "metadata": {"resourceVersion": str(version)},
            }
        ),
    )


def _line(kind: str, item: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), item)
