"""A cluster of its own for each test, and what was logged."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kscheduler import logs
from kscheduler.sandbox import ApiServer
from tests.integration.cluster import SCHEDULER, Cluster
from tests.kit.polling import PATIENCE_SECONDS


class Lines:
    """What is logged, line by line."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: bytes, /) -> None:
        self.lines.append(line.decode())

    def flush(self) -> None:
        pass

    def having(self, *texts: str) -> list[str]:
        return [line for line in self.lines if all(text in line for text in texts)]


@pytest.fixture(autouse=True)
def log() -> Iterator[Lines]:
    lines = Lines()
    logs.configure(logs.Logging(), stderr=lines)
    yield lines
    logs.configure(logs.Logging())


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with ApiServer(anonymous=SCHEDULER) as api:
        yield Cluster(api, tmp_path)
        await asyncio.wait_for(api.stop(), PATIENCE_SECONDS)
