"""Rows in which watches end, expire, fall silent, or tell events in another way than they came."""

import random
from contextlib import ExitStack

from tests.faults.event_faults import (
    BookmarksOnly,
    Corruption,
    Duplicates,
    Reordering,
    Replays,
    SwallowedDeletes,
)
from tests.faults.request_faults import Refusal, Rule
from tests.faults.rig import Rig
from tests.faults.row import FAULT_SECONDS, Row

CLOSE_SECONDS = 1.0


class ClosedWatches(Row):
    number = 6
    title = "all watches closed each second"
    reads_events = True

    async def fault(self, rig: Rig) -> None:
        for _ in range(round(FAULT_SECONDS * rig.scale / CLOSE_SECONDS)):
            await rig.pause(CLOSE_SECONDS / rig.scale)
            rig.proxy.end_watches()


class Expired(Row):
    """410 in the watch, and once more to the watch that would go on from there."""

    number = 7
    title = "410 on every collection in turn"
    reads_events = True

    async def fault(self, rig: Rig) -> None:
        collections = sorted({watch.request.resource for watch in rig.proxy.watches})
        rig.rng.shuffle(collections)
        with ExitStack() as rules:
            for resource in collections:
                goes_on = Rule(
                    Refusal(410),
                    verbs={"watch"},
                    resources={resource},
                    times=1,
                    only=lambda request: request.query.get("sendInitialEvents") != "true",
                )
                rules.enter_context(rig.proxy.rule(goes_on))
                rig.proxy.expire(resource)
                await rig.pause(FAULT_SECONDS / len(collections))


class Bookmarks(Row):
    """Events are late, and every watch looks alive: what was held back comes, or a 410 does."""

    number = 8
    title = "watches tell nothing but bookmarks for 10 s; then half go on, half end with 410"
    reads_events = True

    async def fault(self, rig: Rig) -> None:
        silence = BookmarksOnly(_rng(rig))
        with rig.proxy.tampering(silence):
            for _ in range(round(FAULT_SECONDS * rig.scale)):
                await rig.pause(1.0 / rig.scale)
                silence.bookmark(rig.proxy.watches)


class OutOfOrder(Row):
    """First doubled and in another order; then told again by each watch that goes on."""

    number = 9
    title = "events doubled, re-ordered, told again after each reconnect, some garbled"
    reads_events = True

    async def fault(self, rig: Rig) -> None:
        rng = _rng(rig)
        with rig.proxy.tampering(Duplicates(rng, 0.3), Reordering(rng)):
            await rig.pause(FAULT_SECONDS / 2)
        with rig.proxy.tampering(Replays(rng), Corruption(rng, 0.01)):
            for _ in range(5):
                await rig.pause(FAULT_SECONDS / 10)
                rig.proxy.end_watches()


class UntoldDeletes(Row):
    """Until the watch expires a scheduler cannot know; from then on it must."""

    number = 10
    title = "half of all deletions never told; watches expire at the end"
    reads_events = True

    async def fault(self, rig: Rig) -> None:
        with rig.proxy.tampering(SwallowedDeletes(_rng(rig), 0.5)):
            await rig.pause(FAULT_SECONDS)


def _rng(rig: Rig) -> random.Random:
    return random.Random(f"{rig.seed}/events")


ROWS = (ClosedWatches(), Expired(), Bookmarks(), OutOfOrder(), UntoldDeletes())
