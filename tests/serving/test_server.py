"""The serving port under friendly, slow, silent and too many clients."""

import asyncio
import errno
import io

import pytest
from aiohttp import web

from kscheduler import logs
from kscheduler.serving import server as server_module
from kscheduler.serving.server import Server


@pytest.fixture
def log_lines():
    """What was logged so far, without headers."""
    lines = io.BytesIO()
    logs.configure(logs.Logging(), stderr=lines)
    yield lambda: [line.partition("] ")[2] for line in lines.getvalue().decode().splitlines()]
    logs.configure(logs.Logging())


def application(handler):
    app = web.Application()
    app.router.add_get("/", handler)
    return app


async def hello(request):
    return web.Response(text="hello")


async def reads(reader, limit=5.0):
    async with asyncio.timeout(limit):
        return await reader.read(100)


async def test_tls_and_plain_http_share_the_port(serving, trusting):
    async with serving(application(hello)) as client:
        assert (await client.ask())[::2] == (200, "hello")
        client.context, client.server_name = trusting(), "localhost"
        assert (await client.ask())[::2] == (200, "hello")


async def test_a_connection_serves_several_requests(serving):
    async with serving(application(hello)) as client:
        reader, writer = await client.connect()
        for _ in range(3):
            writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            await asyncio.wait_for(reader.readuntil(b"hello"), 5)


async def test_a_silent_client_is_let_go(serving, monkeypatch):
    monkeypatch.setattr(server_module, "FIRST_BYTE_SECONDS", 0.01)
    async with serving(application(hello)) as client:
        reader, _ = await client.connect()
        assert await reads(reader) == b""


async def test_a_client_that_takes_its_time_with_the_first_byte_is_waited_for(serving):
    async with serving(application(hello)) as client:
        reader, writer = await client.connect()
        assert (await client.ask())[0] == 200  # and keeps nobody else waiting
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"hello"), 5)


async def test_a_request_that_never_ends_is_given_up(serving, monkeypatch):
    monkeypatch.setattr(server_module, "IDLE_SECONDS", 0.01)
    async with serving(application(hello)) as client:
        reader, writer = await client.connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: ")
        assert await reads(reader) == b""


async def test_a_handshake_that_never_ends_is_given_up(serving, monkeypatch):
    monkeypatch.setattr(server_module, "HANDSHAKE_SECONDS", 0.01)
    async with serving(application(hello)) as client:
        reader, writer = await client.connect()
        writer.write(b"\x16\x03\x01")
        assert await reads(reader) == b""


@pytest.mark.parametrize("noise", [b"\x16\x03\x01\x00\x02xx", b"\x00\xff\x00\r\n\r\n", b"\x80"])
async def test_noise_disturbs_nobody(serving, noise):
    async with serving(application(hello)) as client:
        reader, writer = await client.connect()
        writer.write(noise)
        writer.write_eof()
        await reads(reader)
        assert (await client.ask())[0] == 200


async def test_a_client_that_leaves_at_once_disturbs_nobody(serving):
    async with serving(application(hello)) as client:
        for _ in range(5):
            _, writer = await client.connect()
            writer.transport.abort()
        assert (await client.ask())[0] == 200


@pytest.mark.parametrize("spoken", [b"", b"G"], ids=["silent", "slow"])
async def test_more_clients_than_allowed_wait_their_turn(serving, monkeypatch, spoken):
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(server_module, "BUSY_SECONDS", 0.01)
    async with serving(application(hello)) as client:
        writers = [(await client.connect())[1] for _ in range(2)]
        for writer in writers:
            writer.write(spoken)
        waiting = asyncio.ensure_future(client.ask())
        done, _ = await asyncio.wait({waiting}, timeout=0.1)
        assert not done
        writers[0].transport.abort()
        assert (await asyncio.wait_for(waiting, 5))[0] == 200
        writers[1].transport.abort()


async def test_running_out_of_descriptors_is_survived(serving, monkeypatch, log_lines):
    monkeypatch.setattr(server_module, "BUSY_SECONDS", 0.01)
    failing = iter([OSError(errno.EMFILE, "Too many open files")])
    accept = Server._accept

    async def accept_or_fail(self):
        loop = asyncio.get_running_loop()
        with monkeypatch.context() as patched:
            for error in failing:
                patched.setattr(loop, "sock_accept", lambda _, error=error: _raise(error))
                return await accept(self)
        return await accept(self)

    async def _raise(error):
        raise error

    monkeypatch.setattr(Server, "_accept", accept_or_fail)
    async with serving(application(hello)) as client:
        assert (await client.ask())[0] == 200
    assert any("Too many open files" in line for line in log_lines())


async def closed(listener):
    async with asyncio.timeout(5):
        while listener.fileno() != -1:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_requests_under_way_are_finished_on_the_way_out(serving, log_lines):
    entered, leave = asyncio.Event(), asyncio.Event()

    async def slow(request):
        entered.set()
        await leave.wait()
        return web.Response(text="done")

    async with serving(application(slow)) as client:
        asking = asyncio.ensure_future(client.ask())
        await asyncio.wait_for(entered.wait(), 5)
        await client.connect()  # and says nothing
        client.server.cancel()
        await closed(client.listener)
        with pytest.raises(ConnectionRefusedError):
            await client.connect()
        assert not client.server.done()
        leave.set()
        assert (await asyncio.wait_for(asking, 5))[2] == "done"
    assert log_lines() == [
        f"Serving securely on 127.0.0.1:{client.port}",
        '"[graceful-termination] secure server has stopped listening"',
        '"[graceful-termination] secure server is exiting"',
    ]


async def test_the_way_out_does_not_wait_for_ever(serving, monkeypatch):
    monkeypatch.setattr(server_module, "DRAIN_SECONDS", 0.05)
    entered = asyncio.Event()

    async def stuck(request):
        entered.set()
        await asyncio.Event().wait()

    async with serving(application(stuck)) as client:
        asking = asyncio.ensure_future(client.ask())
        await asyncio.wait_for(entered.wait(), 5)
        client.server.cancel()
        done, _ = await asyncio.wait({client.server}, timeout=5)
        assert done
    await asyncio.wait({asking}, timeout=5)
    assert asking.done()
    asking.exception()
