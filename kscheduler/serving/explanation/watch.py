"""Watching: every change of an object becomes a line for each client that watches it.

A watch keeps the changes that its client has not taken yet, one per object: one that changes twice
meanwhile is sent once, as it is then. It refers to no entry that its source has dropped, so a slow
client costs no memory beyond the source's own. One that falls too far behind is cut off, and has to
list again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping

from kscheduler.decisions.decision_log import Dropped, Entry
from kscheduler.rest import status
from kscheduler.rest.lists import ListOptions
from kscheduler.rest.status import StatusError
from kscheduler.serving.explanation.followed import Followed
from kscheduler.serving.explanation.limits import Limit
from kscheduler.serving.explanation.lists import Selection, read_query, wants_all
from kscheduler.serving.explanation.reads import Reader
from kscheduler.serving.explanation.resources import Served
from kscheduler.serving.explanation.responses import Form, encode
from kscheduler.serving.explanation.rights import Asker
from kscheduler.serving.explanation.subjects import Subject, subject_for
from kscheduler.slices import Slices

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"

MAX_WATCHES = 32
MAX_WATCHES_PER_ASKER = 8
# Changes that a client may fall behind, besides the objects that a watch begins with.
MAX_BEHIND = 20_000
# Objects that are looked up rights for, and sent, together.
BATCH = 100
BOOKMARK_SECONDS = 60.0
# How often a client that is sent nothing is looked after: it may have gone.
LOOK_SECONDS = 5.0
# As upstream's --min-request-timeout, doubled at random so that clients do not come back together.
TIMEOUT_SECONDS = 1800.0

Change = tuple[str, Entry | Followed | Dropped]


class Changes:
    """Changes of a selection of objects that are still to be sent, in order."""

    def __init__(self, subject: Subject, selection: Selection) -> None:
        self._subject = subject
        self._source = subject.source
        self._selection = selection
        self._waiting: dict[tuple[str, str, str], Change] = {}
        # Uids of the objects that the client has, where a selector lets them come and go.
        self._known: set[str] | None = set() if selection.selects else None
        self._wake = asyncio.Event()
        self._stop = self._source.watch(self._changed)
        self._most = MAX_BEHIND + self._source.entries
        self.is_over = False

    def begin(self, options: ListOptions) -> StatusError | None:
        """Everything there is as added, or what has changed since a version; the error, if that is
        too long ago.
        """
        if not options.version:
            for entry in self._source.all(self._selection.namespace or None):
                self._changed(ADDED, entry)
            return None
        found = self._source.changes_since(options.version)
        if found is None or options.version > self._source.version:
            return status.expired(
                f"too old resource version: {options.version} ({self._source.version})"
            )
        dropped, changed = found
        if self._known is not None:
            # Of objects that no longer match, it is not known whether they did; to be told of
            # the end of an object that it does not have does no harm to a client.
            self._known = {one.uid for one in self._source.all()}
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

    def _changed(self, kind: str, entry: Entry | Followed) -> None:
        """Called by the source, perhaps in the middle of a decision: as little as possible."""
        if self._selection.namespace not in ("", entry.namespace):
            return
        if self._known is not None:
            matches = kind != DELETED and self._subject.matches(entry, self._selection)
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
        self._limit = Limit("watch", "watches", MAX_WATCHES, MAX_WATCHES_PER_ASKER)
        self._open: set[Changes] = set()

    def end(self) -> None:
        """Ends all of them: the scheduler stops, or stops to lead."""
        for changes in list(self._open):
            changes.end()

    async def watch(
        self,
        served: Served,
        asker: Asker,
        form: Form,
        namespace: str,
        query: Mapping[str, str],
        is_gone: Callable[[], bool],
    ) -> AsyncGenerator[bytes, None]:
        """Lines of the watch; the first one is empty, and tells that the watch is open.

        `is_gone` says whether the client has left.
        """
        options, selection = read_query(served, namespace, query)
        per_node = wants_all(query) and form.needs_whole
        subject = subject_for(served, self._reader, asker, per_node=per_node)
        await subject.need_rights(namespace)
        with self._limit.taken_by(asker.user):
            await subject.refresh()
            changes = Changes(subject, selection)
            self._open.add(changes)
            try:
                if error := changes.begin(options):
                    yield _line(ERROR, encode(error.body))
                    return
                yield b""
                async for line in self._lines(changes, subject, form, options, is_gone):
                    yield line
            finally:
                changes.end()
                self._open.discard(changes)

    async def _lines(
        self,
        changes: Changes,
        subject: Subject,
        form: Form,
        options: ListOptions,
        is_gone: Callable[[], bool],
    ) -> AsyncGenerator[bytes, None]:
        now = asyncio.get_running_loop().time
        ends = now() + (options.timeout_seconds or TIMEOUT_SECONDS * (1 + random.random()))
        next_bookmark = now() + BOOKMARK_SECONDS
        slices = Slices()
        while True:
            while batch := changes.batch():
                async for line in _batch(batch, subject, form, slices):
                    yield line
            if options.bookmarks and (now() >= min(next_bookmark, ends) or changes.is_over):
                next_bookmark = now() + BOOKMARK_SECONDS
                yield _bookmark(subject.served, subject.source.version)
            if changes.is_over or now() >= ends or is_gone():
                return
            pause = min(LOOK_SECONDS, subject.look_seconds or LOOK_SECONDS)
            await changes.wait(min(pause, max(0.0, min(next_bookmark, ends) - now())))
            await subject.refresh()


async def _batch(
    batch: list[Change], subject: Subject, form: Form, slices: Slices
) -> AsyncGenerator[bytes, None]:
    seen = await subject.namespaces({one.namespace for _, one in batch})
    make = await subject.maker([one for _, one in batch if not isinstance(one, Dropped)])
    for kind, one in batch:
        if one.namespace not in seen:
            continue
        item = subject.gone(one) if isinstance(one, Dropped) else make(one)
        # One that has gone meanwhile is told of at the next look.
        if item is not None:
            yield _line(kind, form.one(item))
        if slices.due():
            await slices.rest()


def _bookmark(served: Served, version: int) -> bytes:
    """An otherwise empty object: the client has seen everything up to this version."""
    return _line(
        BOOKMARK,
        encode(
            {
                "kind": served.kind,
                "apiVersion": served.group_version,
                "metadata": {"resourceVersion": str(version)},
            }
        ),
    )


def _line(kind: str, item: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), item)
