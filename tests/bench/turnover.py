"""Pods that are replaced as soon as they are bound, so that a cluster stays as full as it is."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from tests.bench.quick_client import Connection, Server
from tests.bench.scenario import Scenario, Size, named
from tests.bench.sightings import Sightings

# For those that wait when no more are to come.
LAST_SECONDS = 60.0


@dataclass
class Turnover:
    """The pods of a scenario, some at a time."""

    scenario: Scenario
    size: Size
    seen: Sightings
    # Seconds from the moment a pod could be bound until it was.
    taken: list[float] = field(default_factory=list)
    _goes_on: bool = True
    _numbers: Iterator[int] = field(default_factory=count)

    @asynccontextmanager
    async def going_on(self, server: Server) -> AsyncIterator[None]:
        """For as long as the block takes. The last pods are bound, too, and stay."""
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(self._take_turns(server), name=f"turnover/{number}")
                for number in range(self.size.pods)
            ]
            yield
            self._goes_on = False
            async with asyncio.timeout(LAST_SECONDS):
                await asyncio.wait(running)

    async def _take_turns(self, server: Server) -> None:
        async with server.connection() as connection:
            while True:
                name = await self._arrive(connection)
                ready = time.monotonic()
                self.taken.append(await self.seen.of(name) - ready)
                if not self._goes_on:
                    return
                for request in self.scenario.removal(name):
                    await connection.demand(request)

    async def _arrive(self, connection: Connection) -> str:
        """The name of a pod that can be bound from now on."""
        number = next(self._numbers)
        name, answer = named(number), b""
        for request in self.scenario.backlog(number, self.size):
            answer = await connection.demand(request)
        if self.scenario.controller:
            # The pod is the last of what it needs.
            uid = json.loads(answer)["metadata"]["uid"]
            for request in self.scenario.controller(name, uid):
                await connection.demand(request)
        return name
