"""A house of its own for each test: embedded cluster, scheduler, page."""

import asyncio

import pytest
import pytest_asyncio

from kscheduler import logs
from kscheduler.sandbox import ApiServer
from tests.integration.cluster import Cluster
from tests.kit.polling import PATIENCE_SECONDS
from tests.ui.opened import House


class Lines:
    """What is logged."""

    def __init__(self):
        self.lines = []

    def write(self, line, /):
        self.lines.append(line.decode())

    def flush(self):
        pass


@pytest.fixture(autouse=True, scope="module")
def log():
    lines = Lines()
    logs.configure(logs.Logging(), stderr=lines)
    yield lines
    logs.configure(logs.Logging())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory):
    """One for all tests of a module, with its clients ended before it is."""
    folder = tmp_path_factory.mktemp("cluster")
    async with ApiServer(tls=True) as api:
        cluster = Cluster(api, folder)
        async with House.built(cluster, tmp_path_factory.mktemp("users")) as built:
            yield built
        await asyncio.wait_for(api.stop(), PATIENCE_SECONDS)
