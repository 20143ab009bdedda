"""The serving port under friendly, slow, silent and too many clients."""

import asyncio
import errno
import io
from contextlib import suppress

import pytest
from aiohttp import web

from kscheduler import logs
from kscheduler.serving import connection as connection_module
from kscheduler.serving import server as server_module
from kscheduler.serving.connection import Connection


@pytest.fixture
def log_lines():
    """What was logged so far, without headers."""
    lines = io.BytesIO()
    logs.configure(logs.Logging(), stderr=lines)
    yield lambda: [line.partition("] ")[2] for line in lines.getvalue().decode().splitlines()]
    logs.configure(logs.Logging())


PATIENCE_SECONDS = 30.0


async def hello(request):
    return web.Response(text="hello")


async def reads(reader, size=100):
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await reader.read(size)


async def gone(reader):
    """Whether the connection ends, in whatever way, without a word."""
    try:
        return await reads(reader) == b""
    except ConnectionError:
        return True


async def test_who_speaks_plain_http_to_the_secure_port_is_told(serving):
    async with serving(hello, tls=True) as client:
        assert (await client.ask())[::2] == (200, "hello")
        client.context = None
        reader, writer = await client.connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert await reads(reader) == (
            b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
        )


async def test_a_plain_port_speaks_plain_http(serving):
    async with serving(hello) as client:
        assert (await client.ask())[::2] == (200, "hello")


async def test_a_connection_serves_several_requests(serving):
    async with serving(hello) as client:
        reader, writer = await client.connect()
        for _ in range(3):
            writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            await asyncio.wait_for(reader.readuntil(b"hello"), PATIENCE_SECONDS)


async def test_a_silent_client_is_let_go(serving, monkeypatch):
    monkeypatch.setattr(server_module, "FIRST_BYTE_SECONDS", 0.01)
    async with serving(hello) as client:
        reader, _ = await client.connect()
        assert await reads(reader) == b""


async def test_a_client_that_takes_its_time_with_the_first_byte_is_waited_for(serving):
    async with serving(hello) as client:
        reader, writer = await client.connect()
        assert (await client.ask())[0] == 200  # and keeps nobody else waiting
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"hello"), PATIENCE_SECONDS)


@pytest.mark.parametrize("spoken", [b"G", b"GET / HTTP/1.1\r\nHost: ", b"\r\n"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_a_request_that_never_ends_is_given_up(serving, monkeypatch, spoken, tls):
    monkeypatch.setattr(connection_module, "HEADER_SECONDS", 0.02)
    async with serving(hello, tls=tls) as client:
        reader, writer = await client.connect()
        writer.write(spoken)
        assert await gone(reader)


async def test_a_slow_second_request_is_given_up_too(serving, monkeypatch):
    async with serving(hello) as client:
        reader, writer = await client.connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"hello"), PATIENCE_SECONDS)
        monkeypatch.setattr(connection_module, "HEADER_SECONDS", 0.02)
        writer.write(b"GET / HTTP/1.1\r\n")
        assert await gone(reader)


async def test_a_client_with_nothing_more_to_ask_is_let_go(serving, monkeypatch):
    monkeypatch.setattr(connection_module, "IDLE_SECONDS", 0.02)
    async with serving(hello) as client:
        reader, writer = await client.connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"hello"), PATIENCE_SECONDS)
        assert await gone(reader)


async def test_a_client_that_does_not_take_its_answer_is_let_go(serving, monkeypatch):
    monkeypatch.setattr(connection_module, "SEND_SECONDS", 0.05)
    dropped = asyncio.Event()
    drop = Connection.drop
    monkeypatch.setattr(Connection, "drop", lambda self: (drop(self), dropped.set()))

    async def huge(request):
        return web.Response(body=b"x" * (64 << 20))

    async with serving(huge) as client:
        _, writer = await client.connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await asyncio.wait_for(dropped.wait(), PATIENCE_SECONDS)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"X: " + b"y" * 70_000, id="one long field"),
        pytest.param(b"".join(b"X%d: %s\r\n" % (n, b"y" * 1000) for n in range(70)), id="many"),
    ],
)
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_an_oversized_header_is_refused(serving, header, tls):
    async with serving(hello, tls=tls) as client:
        reader, writer = await client.connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n" + header)
        assert (await reads(reader, size=1000)).startswith(b"HTTP/1.1 431 Request Header Fields")
        assert (await client.ask())[0] == 200


async def test_an_endless_line_is_refused(serving):
    async with serving(hello) as client:
        reader, writer = await client.connect()
        writer.write(b"GET /" + b"a" * 100_000)
        assert (await reads(reader)).startswith(b"HTTP/1.1 431 ")


async def test_a_body_that_nobody_wants_does_not_stay(serving):
    async with serving(hello) as client:
        reader, writer = await client.connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000000\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"hello"), PATIENCE_SECONDS)
        with suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not reader.at_eof():
                    writer.write(b"x" * 65536)
                    await writer.drain()
                    await asyncio.sleep(0)
        assert (await client.ask())[0] == 200


@pytest.mark.parametrize("request_", [b"NOT HTTP\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n"])
async def test_what_is_not_http_is_a_bad_request(serving, request_, log_lines):
    async with serving(hello) as client:
        reader, writer = await client.connect()
        writer.write(request_)
        answer = await reads(reader, size=1000)
        assert answer.startswith((b"HTTP/1.0 400 ", b"HTTP/1.1 400 "))
        assert answer.endswith(b"400 Bad Request")
    assert not any("Error" in line for line in log_lines())


async def test_a_handshake_that_never_ends_is_given_up(serving, monkeypatch):
    monkeypatch.setattr(server_module, "HANDSHAKE_SECONDS", 0.01)
    async with serving(hello, tls=True) as client:
        client.context = None
        reader, writer = await client.connect()
        writer.write(b"\x16\x03\x01")
        assert await gone(reader)


@pytest.mark.parametrize("noise", [b"\x16\x03\x01\x00\x02xx", b"\x00\xff\x00\r\n\r\n", b"\x80"])
async def test_noise_disturbs_nobody(serving, noise):
    async with serving(hello) as client:
        reader, writer = await client.connect()
        writer.write(noise)
        writer.write_eof()
        await reads(reader)
        assert (await client.ask())[0] == 200


async def test_a_client_that_leaves_at_once_disturbs_nobody(serving):
    async with serving(hello) as client:
        for _ in range(5):
            _, writer = await client.connect()
            writer.transport.abort()
        assert (await client.ask())[0] == 200


@pytest.mark.parametrize("spoken", [b"", b"G"], ids=["silent", "slow"])
async def test_who_keeps_us_waiting_longest_makes_room(serving, monkeypatch, spoken):
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(server_module, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(server_module, "GRACE_SECONDS", 0.05)
    async with serving(hello) as client:
        readers = []
        for _ in range(2):
            reader, writer = await client.connect()
            writer.write(spoken)
            readers.append(reader)
        assert (await asyncio.wait_for(client.ask(), PATIENCE_SECONDS))[0] == 200
        assert await gone(readers[0])


async def test_requests_under_way_are_not_made_to_leave(serving, monkeypatch):
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(server_module, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(server_module, "GRACE_SECONDS", 0.05)
    entered, leave = asyncio.Semaphore(0), asyncio.Event()

    async def slow(request):
        entered.release()
        await leave.wait()
        return web.Response(text="done")

    async with serving(slow) as client:
        first = [asyncio.ensure_future(client.ask()) for _ in range(2)]
        for _ in first:
            await asyncio.wait_for(entered.acquire(), PATIENCE_SECONDS)
        third = asyncio.ensure_future(client.ask())
        done, _ = await asyncio.wait({third, *first}, timeout=0.1)
        assert not done
        leave.set()
        answers = await asyncio.wait_for(asyncio.gather(*first, third), PATIENCE_SECONDS)
        assert [answer[2] for answer in answers] == ["done"] * 3


async def test_running_out_of_descriptors_is_survived(serving, monkeypatch, log_lines):
    monkeypatch.setattr(server_module, "BUSY_SECONDS", 0.01)
    failing = iter([OSError(errno.EMFILE, "Too many open files")])
    loop = asyncio.get_running_loop()
    accept = loop.sock_accept

    async def accept_or_fail(listener):
        for error in failing:
            raise error
        return await accept(listener)

    monkeypatch.setattr(loop, "sock_accept", accept_or_fail)
    async with serving(hello) as client:
        assert (await client.ask())[0] == 200
    assert any("Too many open files" in line for line in log_lines())


async def closed(listener):
    async with asyncio.timeout(PATIENCE_SECONDS):
        while listener.fileno() != -1:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_requests_under_way_are_finished_on_the_way_out(serving, log_lines):
    entered, leave = asyncio.Event(), asyncio.Event()

    async def slow(request):
        entered.set()
        await leave.wait()
        return web.Response(text="done")

    async with serving(slow) as client:
        asking = asyncio.ensure_future(client.ask())
        await asyncio.wait_for(entered.wait(), PATIENCE_SECONDS)
        await client.connect()  # and says nothing
        client.server.cancel()
        await closed(client.listener)
        with pytest.raises(ConnectionRefusedError):
            await client.connect()
        assert not client.server.done()
        leave.set()
        assert (await asyncio.wait_for(asking, PATIENCE_SECONDS))[2] == "done"
    assert log_lines() == [
        f"Serving without encryption on 127.0.0.1:{client.port}",
        '"[graceful-termination] plain server has stopped listening"',
        '"[graceful-termination] plain server is exiting"',
    ]


async def test_the_way_out_does_not_wait_for_ever(serving, monkeypatch):
    monkeypatch.setattr(server_module, "DRAIN_SECONDS", 0.05)
    entered = asyncio.Event()

    async def stuck(request):
        entered.set()
        await asyncio.Event().wait()

    async with serving(stuck) as client:
        asking = asyncio.ensure_future(client.ask())
        await asyncio.wait_for(entered.wait(), PATIENCE_SECONDS)
        client.server.cancel()
        done, _ = await asyncio.wait({client.server}, timeout=PATIENCE_SECONDS)
        assert done
    await asyncio.wait({asking}, timeout=PATIENCE_SECONDS)
    assert asking.done()
    asking.exception()
