"""Writes behind a fence: sent while it is open, never after, whatever held them up."""

import asyncio

import pytest
from aiohttp import web

from kscheduler.api.core import Pod
from kscheduler.api.decode import decoder_for
from kscheduler.api.resources import PODS
from kscheduler.client.errors import DeadlineExceeded, Withheld
from kscheduler.client.extender import ExtenderHttp, ExtenderHttpError
from kscheduler.client.fence import NO_TERM, Fence
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.tls import TlsConfig
from tests.client.scripted import HOLD, Reply, Stream
from tests.kit.polling import until

POD = decoder_for(Pod)(b'{"metadata":{"name":"p1","namespace":"default","uid":"u1"}}')
PATH = "/api/v1/namespaces/default/pods/p1"
BINDING = f"{PATH}/binding"


OPEN = Fence(lambda: (1, 60.0))
CLOSED = Fence(lambda: (NO_TERM, 0.0))


class Countdown(Fence):
    """A fence that is open for so many questions, and then for good no more."""

    def __init__(self, questions):
        super().__init__(self._next)
        self.left = questions + 1  # one is which term it is

    def _next(self):
        self.left -= 1
        return (1, 60.0) if self.left >= 0 else (NO_TERM, 0.0)


class Lease:
    """A fence whose state tests set."""

    def __init__(self, term=1, seconds=60.0):
        self.state = term, seconds
        self.fence = Fence(lambda: self.state)

    def set(self, term, seconds):
        self.state = term, seconds
        self.fence.changed()


async def test_an_open_fence_changes_nothing_on_the_wire(server, connect):
    server.on("POST", BINDING, Reply(201), Reply(201))
    transport = await connect()
    await KubeClient(transport).bind(POD, "n1")
    await KubeClient(transport, fence=OPEN).bind(POD, "n1")
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
    client = KubeClient(await connect(), fence=CLOSED)
    with pytest.raises(Withheld, match="not sent, because the lease has run out"):
        await write(client)
    assert server.requests == []


async def test_reading_is_free(server, connect):
    server.on("GET", PATH, Reply())
    client = KubeClient(await connect(), fence=CLOSED)
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


def lasting(seconds):
    """A fence that closes by itself, and may be renewed."""
    lease = Lease()
    until = asyncio.get_running_loop().time() + seconds

    def renew(more):
        nonlocal until
        until = asyncio.get_running_loop().time() + more
        lease.fence.changed()

    lease.fence.held = lambda: (1, until - asyncio.get_running_loop().time())
    return lease.fence, renew


async def test_a_request_does_not_outlive_its_fence(server, connect):
    server.on("DELETE", PATH, Stream(HOLD))
    fence, _ = lasting(0.05)
    client = KubeClient(await connect(), fence=fence)
    async with asyncio.timeout(10):
        with pytest.raises(DeadlineExceeded):
            await client.delete_pod(POD)


async def test_an_answer_is_waited_for_as_long_as_the_lease_is_renewed(server, connect):
    """The server takes longer than the lease lasted when the request left."""
    renewals, enough = [], asyncio.Event()
    fence, renew = lasting(0.05)
    held = fence.held

    def renewed_in_the_last_moment():
        _, seconds = held()
        if seconds <= 0 and not enough.is_set():
            renew(0.05)
            renewals.append(seconds)
            if len(renewals) == 3:
                enough.set()
        return held()

    fence.held = renewed_in_the_last_moment

    async def slow(request):
        await enough.wait()
        return web.json_response({}, status=201)

    server.serve(BINDING, slow)
    async with asyncio.timeout(10):
        await KubeClient(await connect(), fence=fence).bind(POD, "n1")
    assert len(renewals) == 3
    assert [seen.method for seen in server.requests] == ["POST"]


async def test_what_was_not_sent_waits_for_the_renewal_and_is_sent_once(server, connect):
    server.on("POST", BINDING, Reply(201))
    lease = Lease(seconds=-1.0)
    writing = asyncio.create_task(KubeClient(await connect(), fence=lease.fence).bind(POD, "n1"))
    await until(lambda: lease.fence._waiting)
    lease.set(1, -0.5)  # a renewal that has run out before anybody was told
    for _ in range(5):
        await asyncio.sleep(0)
    assert server.requests == []
    lease.set(1, 60.0)
    await asyncio.wait_for(writing, 10)
    assert len(server.requests) == 1
    assert not lease.fence._waiting


async def test_what_waits_for_a_connection_when_the_fence_closes_was_not_sent(server, connect):
    held = asyncio.Event()
    server.on("DELETE", PATH, Stream(held), Reply())
    transport = await connect(max_connections=1)
    first = asyncio.create_task(KubeClient(transport).delete_pod(POD))
    await until(lambda: server.requests)
    fence, renew = lasting(0.05)
    second = asyncio.create_task(KubeClient(transport, fence=fence).delete_pod(POD))
    await until(lambda: fence._waiting)
    held.set()
    await first
    assert len(server.requests) == 1
    renew(60.0)
    await asyncio.wait_for(second, 10)
    assert len(server.requests) == 2


@pytest.mark.parametrize("term", [NO_TERM, 2], ids=["nobody's", "the next"])
async def test_what_was_decided_in_one_term_is_not_sent_in_another(server, connect, term):
    lease = Lease(seconds=-1.0)
    client = KubeClient(await connect(), fence=lease.fence)
    writing = asyncio.create_task(client.bind(POD, "n1"))
    await until(lambda: lease.fence._waiting)
    lease.set(term, 60.0)
    with pytest.raises(Withheld):
        await asyncio.wait_for(writing, 10)
    assert server.requests == []


async def test_a_request_that_is_answered_leaves_no_timer_behind(server, connect):
    server.on("POST", BINDING, Reply(201))
    asked = []
    fence = Fence(lambda: asked.append(1) or (1, 0.02))
    await KubeClient(await connect(), fence=fence).bind(POD, "n1")
    asked.clear()
    await asyncio.sleep(0.05)
    assert asked == []


async def test_an_extender_is_asked_to_bind_when_the_fence_is_open_again(server):
    server.on("POST", "/bind", Reply())
    lease = Lease(seconds=-1.0)
    wire = ExtenderHttp(server.url, TlsConfig(), timeout_seconds=10, fence=lease.fence)
    try:
        asking = asyncio.create_task(wire.ask("bind", b"{}", repeatable=False, is_complete=bool))
        await until(lambda: lease.fence._waiting)
        assert server.requests == []
        lease.set(1, 60.0)
        assert await asyncio.wait_for(asking, 10) == b"{}"
    finally:
        await wire.close()
    assert len(server.requests) == 1


async def test_an_extender_is_not_asked_to_bind_behind_a_closed_fence(server):
    server.on("POST", "/filter", Reply())
    wire = ExtenderHttp(server.url, TlsConfig(), timeout_seconds=10, fence=CLOSED)
    try:
        assert await wire.ask("filter", b"{}", repeatable=True, is_complete=bool) == b"{}"
        with pytest.raises(ExtenderHttpError, match="not sent, because the lease has run out"):
            await wire.ask("bind", b"{}", repeatable=False, is_complete=bool)
    finally:
        await wire.close()
    assert [seen.path for seen in server.requests] == ["/filter"]
