"""Whatever a server answers ends in an object or in one of the errors of `client.errors`."""

import asyncio
import random
from contextlib import asynccontextmanager
from itertools import product

import pytest

from kscheduler.api.core import Pod
from kscheduler.api.decode import decoder_for
from kscheduler.client import transport as transport_module
from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.errors import ApiError, StatusError
from kscheduler.client.kube_client import of_answers
from kscheduler.client.transport import Transport
from tests.client.scripted import Reply, failing

DEEP = b"[" * 5000 + b"]" * 5000
DIGITS = b"7" * 5000
STATUS_LINES = [
    b"HTTP/1.1 200 OK",
    b"HTTP/1.1 201",
    b"HTTP/1.0 200 OK",
    b"HTTP/1.1 301 Moved",
    b"HTTP/1.1 307 Elsewhere",
    b"HTTP/1.1 409 \xff\xfe",
    b"HTTP/1.1 503 Later",
    b"HTTP/1.1 999 What",
    b"HTTP/1.1 " + DIGITS,
    b"HTTP/" + DIGITS + b" 200 OK",
    b"",
]
HEADERS = [
    b"",
    b"Location: /again\r\n",
    b"Location: \xff\xfe\r\n",
    b"Retry-After: " + DIGITS + b"\r\n",
    b"Retry-After: -" + DIGITS[:30] + b"\r\n",
    b"Retry-After: \xb2\r\n",
    b"Content-Type: text/\xff\r\n",
    b"Content-Length: " + DIGITS + b"\r\n",
    b"X: \xff\r\nX: \xfe\r\n",
    b": \r\n",
    b"X" * 70_000 + b": 1\r\n",
]
BODIES = [
    b"",
    b"{}",
    b"[]",
    b"null",
    DEEP,
    DEEP[:5000],
    b'{"metadata":' + DEEP + b"}",
    b'{"metadata":{"name":"\xff"}}',
    b'{"metadata":{"name":"\\ud800"}}',
    b'{"metadata":{"generation":' + DIGITS + b"}}",
    b'{"kind":"Status","code":' + DIGITS + b',"status":"Failure"}',
    b'{"kind":"Status","status":"Failure","details":' + DEEP + b"}",
    b'{"kind":"Status","status":"Failure","message":null,"details":{"retryAfterSeconds":-1e99}}',
    b'{"kind":"Status","status":"Failure","reason":"\xff","code":"x"}',
    b"\x00\xff" * 2000,
]


def sized(body):
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def chunked(body):
    return b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def until_closed(body):
    return b"\r\n" + body


def misframed(body):
    return b"Transfer-Encoding: chunked\r\n\r\n" + DIGITS + b"\r\n" + body


@asynccontextmanager
async def answering():
    """A server that sends the bytes in a list to each who connects, and closes; and its client."""
    answer = [b""]

    async def handle(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer[0])
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with Transport(RestConfig(url), agent="x", timeout_seconds=20) as client:
        yield answer, client
    server.close()


async def outcome(client):
    try:
        return of_answers(decoder_for(Pod))(await client.request("DELETE", "/x"))
    except ApiError as error:
        return error


@pytest.fixture
def hasty(monkeypatch):
    """Nobody waits because a server says so."""
    monkeypatch.setattr(transport_module, "MAX_PAUSE_SECONDS", 0)
    monkeypatch.setattr(transport_module, "MAX_RETRIES", 1)


@pytest.mark.parametrize("framed", [sized, chunked, until_closed, misframed])
async def test_every_answer_ends_in_an_object_or_an_api_error(hasty, framed):
    async with answering() as (answer, client):
        for line, headers, body in product(
            STATUS_LINES, HEADERS, random.Random(1).sample(BODIES, 5)
        ):
            answer[0] = line + b"\r\n" + headers + framed(body)
            assert isinstance(await outcome(client), Pod | ApiError)
        for body in BODIES:
            for line in (b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 404 No\r\n"):
                answer[0] = line + framed(body)
                assert isinstance(await outcome(client), Pod | ApiError)


@pytest.mark.parametrize("seed", range(4))
async def test_damaged_answers_end_so_too(hasty, seed):
    chance = random.Random(seed)
    parts = [b"\r\n", b"0\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"Content-Length: 3\r\n", DIGITS[:40]]
    async with answering() as (answer, client):
        for _ in range(150):
            body = chance.choice(BODIES)[:200]
            data = b"HTTP/1.1 %d X\r\n" % chance.choice([200, 404, 500])
            data += chance.choice([sized, chunked, until_closed])(body)
            for _ in range(chance.randrange(1, 4)):
                at = chance.randrange(len(data))
                put = chance.choice([chance.randbytes(chance.randrange(3)), chance.choice(parts)])
                data = data[:at] + put + data[at + chance.randrange(3) :]
            answer[0] = data
            assert isinstance(await outcome(client), Pod | ApiError)


@pytest.mark.parametrize(
    ("text", "paused"),
    [
        ("0", True),
        ("+0", True),
        ("-7", True),
        ("0" * 50, True),
        ("7" * 20, False),
        ("7" * 5000, False),
        ("-" + "7" * 5000, False),
        ("\u0663", False),
        ("1.5", False),
        ("Wed, 21 Oct 2026 07:28:00 GMT", False),
        ("", False),
    ],
)
async def test_retry_after_is_a_number_of_64_bits(server, connect, text, paused):
    server.on("GET", "/x", failing(503, "ServiceUnavailable", **{"Retry-After": text}), Reply())
    transport = await connect()
    if paused:
        assert await transport.request("GET", "/x") == b"{}"
    else:
        with pytest.raises(StatusError, match="fabricated"):
            await transport.request("GET", "/x")


async def test_no_server_makes_us_wait_longer_than_an_hour(server, connect, monkeypatch):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    monkeypatch.setattr(transport_module.asyncio, "sleep", sleep)
    later = [failing(429, "TooManyRequests", **{"Retry-After": t}) for t in ("7", "9" * 18)]
    server.on("GET", "/x", *later, Reply())
    await (await connect()).request("GET", "/x")
    assert pauses == [7, 3600]


async def test_status_with_nested_details_is_still_a_status(server, connect):
    body = (
        b'{"kind":"Status","status":"Failure","code":409,"reason":"Conflict","message":"m","x":%s}'
    )
    server.on("GET", "/x", Reply(409, body % DEEP))
    with pytest.raises(StatusError, match=r"^m$") as raised:
        await (await connect()).request("GET", "/x")
    assert type(raised.value).__name__ == "Conflict"
