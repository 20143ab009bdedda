"""Requests at a constant rate."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager

from tests.bench.quick_client import Connection, RefusedError, Request, Server
from tests.bench.scenario import Disturbance, Size

CONNECTIONS = 16
# What is gone already, or there already, disturbs as much.
TOLERATED = (404, 409)


async def paced(server: Server, steps: Iterable[Iterable[Request]], per_second: float) -> float:
    """Sends a step's requests when its turn comes, not when the last one was answered; a step that
    comes late does not delay the next. The moment at which the first was due.
    """
    start = time.monotonic()
    rest = enumerate(steps)
    async with asyncio.TaskGroup() as tasks:
        for number in range(CONNECTIONS):
            tasks.create_task(_work(server, rest, start, per_second), name=f"paced/{number}")
    return start


async def _work(
    server: Server,
    rest: Iterator[tuple[int, Iterable[Request]]],
    start: float,
    per_second: float,
) -> None:
    async with server.connection() as connection:
        for number, requests in rest:
            await asyncio.sleep(start + number / per_second - time.monotonic())
            for request in requests:
                await _send(connection, request)


async def _send(connection: Connection, request: Request) -> None:
    status, body = await connection.exchange(request)
    if status >= 300 and status not in TOLERATED:
        text = body.decode(errors="replace")
        raise RefusedError(f"{request.method} {request.path}: {status} {text}")


@asynccontextmanager
async def disturbed(
    server: Server, disturbances: Iterable[Disturbance], size: Size
) -> AsyncIterator[None]:
    """For as long as the block takes."""
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(_disturb(server, one, size), name="disturb") for one in disturbances
        ]
        yield
        for task in running:
            task.cancel()


async def _disturb(server: Server, disturbance: Disturbance, size: Size) -> None:
    steps = ((request,) for request in disturbance.requests(size))
    await paced(server, steps, disturbance.per_second)
