"""The daemon, set up against a cluster in memory, and what it logs."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from kscheduler import app, logs
from kscheduler.app.startup import NO_PLUGINS
from kscheduler.cli.command_line import parse
from kscheduler.sandbox import ApiServer, node_manifest

# Looked at often, but not lost because this machine stood still for a while.
ELECTED = (
    "--leader-elect-lease-duration=60s",
    "--leader-elect-renew-deadline=30s",
    "--leader-elect-retry-period=50ms",
)
PATIENCE_SECONDS = 60.0


class Lines:
    """What is logged, without headers."""

    def __init__(self):
        self.lines = []

    def write(self, line):
        self.lines.append(line.decode().partition("] ")[2].rstrip("\n"))

    def flush(self):
        pass

    def having(self, *texts):
        return [line for line in self.lines if any(text in line for text in texts)]


@pytest.fixture
def log():
    lines = Lines()
    logs.configure(logs.Logging(), stderr=lines)
    yield lines
    logs.configure(logs.Logging())


@pytest.fixture
async def api():
    async with ApiServer() as server:
        server.objects.create(node_manifest("n1"))
        yield server


@pytest.fixture
def set_up(api):
    """`async with set_up(*flags) as daemon`"""

    def make(*flags, election=False, serving=False, plugins=NO_PLUGINS):
        elected = ELECTED if election else ["--leader-elect=false"]
        flags = [f"--master={api.url}", "--kube-api-qps=-1", *elected, *flags]
        flags += ["--bind-address=127.0.0.1"] if serving else ["--secure-port=0"]
        options, _ = parse(flags)
        return app.setup(options, options.gates(), out_of_tree=plugins)

    return make


@pytest.fixture
def running(set_up):
    """`async with running(*flags) as daemon`: at work, as `daemon.task`; ended if it still is."""

    @asynccontextmanager
    async def run(*flags, **settings):
        async with set_up(*flags, **settings) as daemon:
            task = asyncio.create_task(daemon.run())
            try:
                yield daemon, task
            finally:
                daemon.stopping.set()
                await asyncio.wait({task}, timeout=PATIENCE_SECONDS)
                assert task.done()
                task.exception()

    return run
