"""Writes behind a fence: sent while it is open, never after, whatever held them up."""

import asyncio

import pytest

from kscheduler.api.core import Pod
from kscheduler.api.decode import decoder_for
from kscheduler.api.resources import PODS
from kscheduler.client.errors import DeadlineExceeded, Withheld
from kscheduler.client.extender_http import ExtenderHttp, ExtenderHttpError
from kscheduler.client.resources import KubeClient
from kscheduler.client.tls import TlsConfig
from tests.client.scripted import HOLD, Reply, Stream

POD = decoder_for(Pod)(b'{"metadata":{"name":"p1","namespace":"default","uid":"u1"}}')
PATH = "/api/v1/namespaces/default/pods/p1"
BINDING = f"{PATH}/binding"


class Countdown:
    """A fence that is open for so many questions."""

    def __init__(self, questions):
        self.left = questions

    def __call__(self):
        self.left -= 1
        return 60.0 if self.left >= 0 else -1.0


async def test_an_open_fence_changes_nothing_on_the_wire(server, connect):
    server.on("POST", BINDING, Reply(201), Reply(201))
    transport = await connect()
    await KubeClient(transport).bind(POD, "n1")
    await KubeClient(transport, fence=lambda: 60.0).bind(POD, "n1")
    free, fenced = server.requests
    assert (free.body, dict(free.headers)) == (fenced.body, dict(fenced.headers))


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda client: client.bind(POD, "n1"), id="binding"),
        pytest.param(lambda client: client.delete_pod(POD), id="deletion"),
        pytest.param(lambda client: client.patch(PODS, "p1", b"{}", "default"), id="patch"),
    ],
)
async def test_nothing_is_written_behind_a_closed_fence(server, connect, write):
    client = KubeClient(await connect(), fence=lambda: 0.0)
    with pytest.raises(Withheld, match="not sent, because the lease has run out"):
        await write(client)
    assert server.requests == []


async def test_reading_is_free(server, connect):
    server.on("GET", PATH, Reply())
    client = KubeClient(await connect(), fence=lambda: 0.0)
    assert await client.get(PODS, "p1", "default") == b"{}"


async def test_a_request_that_waits_for_its_connection_is_asked_again_when_it_has_one(
    server, connect
):
    """The fence is open when the request begins, and closed when its first byte would go out."""
    client = KubeClient(await connect(), fence=Countdown(1))
    with pytest.raises(Withheld):
        await client.bind(POD, "n1")
    await asyncio.sleep(0)
    assert server.requests == []


async def test_what_is_not_sent_leaves_the_pool_usable(server, connect):
    server.on("POST", BINDING, Reply(201))
    transport = await connect(max_connections=1)
    for _ in range(3):
        with pytest.raises(Withheld):
            await KubeClient(transport, fence=Countdown(1)).bind(POD, "n1")
    await KubeClient(transport, fence=Countdown(2)).bind(POD, "n1")
    assert len(server.requests) == 1


async def test_a_try_that_comes_too_late_is_not_made(server, connect):
    server.on("POST", BINDING, Reply(503), Reply(201))
    client = KubeClient(await connect(), fence=Countdown(2))
    with pytest.raises(Withheld):
        await client.bind(POD, "n1")
    assert len(server.requests) == 1


async def test_a_request_does_not_outlive_its_fence(server, connect):
    server.on("DELETE", PATH, Stream(HOLD))
    client = KubeClient(await connect(), fence=lambda: 0.05)
    async with asyncio.timeout(10):
        with pytest.raises(DeadlineExceeded):
            await client.delete_pod(POD)


async def test_an_extender_is_not_asked_to_bind_behind_a_closed_fence(server):
    server.on("POST", "/filter", Reply())
    wire = ExtenderHttp(server.url, TlsConfig(), timeout_seconds=10, fence=lambda: 0.0)
    try:
        assert await wire.ask("filter", b"{}", repeatable=True, enough=bool) == b"{}"
        with pytest.raises(ExtenderHttpError, match="not sent, because the lease has run out"):
            await wire.ask("bind", b"{}", repeatable=False, enough=bool)
    finally:
        await wire.close()
    assert [seen.path for seen in server.requests] == ["/filter"]
