"""When pods were bound, as a watch tells it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from tests.bench.quick_client import METADATA_ONLY, Connection, Server
from tests.bench.scenario import MEASURED, PODS

BOUND = f"{PODS}?watch=true&labelSelector={MEASURED}&fieldSelector=spec.nodeName!="


class _Metadata(msgspec.Struct):
    name: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata


class _Event(msgspec.Struct):
    type: str
    object: _Object


_decode = msgspec.json.Decoder(_Event).decode


class Sightings:
    """The measured pods that were seen with a node, and since when; deleted ones stay in it."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self._wanted = 0
        self._reached = asyncio.Event()
        self._awaited: dict[str, asyncio.Event] = {}

    async def reached(self, count: int, within: float) -> bool:
        """Whether that many are bound, at the latest after some seconds."""
        self._wanted = count
        if len(self.at) >= count:
            return True
        self._reached.clear()
        try:
            async with asyncio.timeout(within):
                await self._reached.wait()
        except TimeoutError:
            return False
        return True

    async def of(self, name: str) -> float:
        """When that pod was bound, or will be."""
        if name not in self.at:
            await self._awaited.setdefault(name, asyncio.Event()).wait()
        return self.at[name]

    def see(self, name: str, now: float) -> None:
        if self.at.setdefault(name, now) != now:
            return
        if len(self.at) >= self._wanted:
            self._reached.set()
        if awaited := self._awaited.pop(name, None):
            awaited.set()


@asynccontextmanager
async def sightings(server: Server) -> AsyncIterator[Sightings]:
    """Of everything that happens from now on."""
    seen = Sightings()
    begun = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(_watch(server, seen, begun), name="watch")
        await begun.wait()
        yield seen
        task.cancel()


async def _watch(server: Server, seen: Sightings, begun: asyncio.Event) -> None:
    """A watch that lags behind is ended by the server; the next one tells of all pods again."""
    while True:
        async with server.connection() as connection:
            await _follow(connection, seen, begun)


async def _follow(connection: Connection, seen: Sightings, begun: asyncio.Event) -> None:
    lines = await connection.follow(BOUND, METADATA_ONLY)
    begun.set()
    async for line in lines:
        event = _decode(line)
        if event.type == "ERROR":
            return
        seen.see(event.object.metadata.name, time.monotonic())
