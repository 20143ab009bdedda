"""A scripted API server, connections to it, and what was logged."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
import uvloop
from aiohttp import web

from kscheduler import logs
from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.transport import Transport, user_agent
from tests.client.scripted import Lines, ScriptedServer

ON_BOTH_LOOPS = "test_pool.py"


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(item):
    """What depends on how a loop tells of closed sockets is tested on the daemon's loop, too."""
    if item.path.name == ON_BOTH_LOOPS:
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", scripted.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    scripted.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield scripted
    finally:
        await runner.cleanup()


@pytest.fixture
async def connect(server: ScriptedServer) -> AsyncIterator[Callable[..., Awaitable[Transport]]]:
    """Opens transports to the scripted server; they are closed before it is."""
    async with AsyncExitStack() as stack:

        async def connected(**options: object) -> Transport:
            config = options.pop("config", RestConfig(server.url))
            options.setdefault("agent", user_agent("scheduler"))
            return await stack.enter_async_context(Transport(config, **options))

        yield connected


@pytest.fixture
async def client(connect: Callable[..., Awaitable[Transport]]) -> KubeClient:
    return KubeClient(await connect())


@pytest.fixture
def logged():
    lines = Lines()
    logs.configure(logs.Logging(verbosity=5), stderr=lines)
    yield lines
    logs.configure(logs.Logging())
