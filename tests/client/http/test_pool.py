"""Exchanges with servers that behave, misbehave and vanish, on both event loops."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import pytest

from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.errors import (
    ConnectionRefused,
    ConnectionReset,
    DeadlineExceeded,
    StatusError,
    TransportError,
)
from kscheduler.client.http import dial
from kscheduler.client.http import pool as connections
from kscheduler.client.http.connection import MAX_UNREAD_BYTES
from kscheduler.client.http.dial import Route
from kscheduler.client.http.pool import ConnectionPool
from kscheduler.client.tls import TlsConfig
from kscheduler.client.transport import Transport
from tests.client.authority import Authority
from tests.kit.polling import until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CUT_IN_HEAD = b"HTTP/1.1 200 OK\r\nContent-"
CUT_IN_BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CLOSE = object()


class RawServer:
    """Gives each connection the answers of its script, one per request; CLOSE ends it."""

    def __init__(self, *scripts, endless=()):
        self.scripts = list(scripts)
        self.requests = []
        self.connections = 0
        self.lost = 0
        self.url = ""
        self._endless = endless

    async def __call__(self, reader, writer):
        self.connections += 1
        script = self.scripts.pop(0) if self.scripts else self._endless
        try:
            for answer in script:
                if answer is CLOSE:
                    break
                self.requests.append(await read_request(reader))
                writer.write(answer)
                await writer.drain()
            else:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.lost += 1
            writer.close()


async def read_request(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    return head + await reader.readexactly(int(sizes[0].split(b":")[1]) if sizes else 0)


@asynccontextmanager
async def serving(handler, context=None):
    """The URL of a server that lets `handler` deal with each connection, and leaves none open."""
    writers = []

    async def handle(reader, writer):
        writers.append(writer)
        await handler(reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    scheme = "http" if context is None else "https"
    try:
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        gone = (writer.wait_closed() for writer in writers)
        await asyncio.gather(*gone, return_exceptions=True)


@pytest.fixture
async def connect():
    """Serves scripts, one per connection, and gives a transport to them."""

    @asynccontextmanager
    async def connected(*scripts, endless=(), **options):
        raw = RawServer(*scripts, endless=endless)
        async with (
            serving(raw) as raw.url,
            Transport(RestConfig(raw.url), agent="x", **options) as one,
        ):
            yield raw, one

    return connected


async def test_one_connection_serves_many_requests(connect):
    async with connect([OK] * 5) as (server, transport):
        for _ in range(5):
            assert await transport.request("POST", "/x", body=b"{}") == b"ok"
    assert (server.connections, len(server.requests)) == (1, 5)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(b"", "EOF", id="nothing"),
        pytest.param(CUT_IN_HEAD, "unexpected EOF", id="half a head"),
        pytest.param(CUT_IN_BODY, "unexpected EOF", id="half a body"),
        pytest.param(STREAM + b"5\r\nab", "unexpected EOF", id="half a chunk"),
        pytest.param(STREAM + b"2\r\nab\r\n", "unexpected EOF", id="no last chunk"),
    ],
)
async def test_premature_end_is_a_reset_and_a_write_is_not_repeated(connect, answer, told):
    async with connect([answer, CLOSE]) as (server, transport):
        with pytest.raises(ConnectionReset) as raised:
            await transport.request("POST", "/x", body=b"{}")
    assert str(raised.value) == f'Post "{server.url}/x": {told}'
    assert len(server.requests) == 1


async def test_malformed_answer_costs_its_connection_only(connect):
    async with connect([b"hello\r\n"], [OK]) as (server, transport):
        with pytest.raises(TransportError, match='broken: malformed HTTP response "hello"'):
            await transport.request("POST", "/x", body=b"{}")
        assert await transport.request("POST", "/x", body=b"{}") == b"ok"
    assert server.connections == 2


async def test_answer_followed_by_rubbish_is_taken_but_its_connection_is_not_used_again(connect):
    async with connect([OK + b"HTTP/1.1 200"], [OK]) as (server, transport):
        assert await transport.request("PUT", "/x", body=b"{}") == b"ok"
        assert await transport.request("PUT", "/x", body=b"{}") == b"ok"
    assert server.connections == 2


async def test_connection_announced_as_closing_is_not_used_again(connect):
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    async with connect([closing], [OK]) as (server, transport):
        for _ in range(2):
            assert await transport.request("POST", "/x", body=b"{}") == b"ok"
    assert server.connections == 2


async def test_connection_that_speaks_unasked_is_dropped(connect):
    async with connect(endless=[OK]) as (server, transport):
        await transport.request("GET", "/x")
        (idle,) = transport._requests._idle
        idle.data_received(OK)
        assert not idle.free
        await until(lambda: server.lost == 1)
        assert await transport.request("GET", "/x") == b"ok"
    assert server.connections == 2


async def test_connection_closed_while_idle_is_replaced_before_a_request_is_lost(connect):
    async with connect([OK, CLOSE], [OK]) as (server, transport):
        await transport.request("POST", "/x", body=b"{}")
        await until(lambda: server.lost == 1)
        (idle,) = transport._requests._idle
        await until(lambda: not idle.free)
        assert await transport.request("POST", "/x", body=b"{}") == b"ok"
    assert len(server.requests) == 2


async def test_get_on_a_connection_just_closed_goes_over_another_at_once(connect, monkeypatch):
    monkeypatch.setattr("kscheduler.client.transport.BROKEN_PAUSE_SECONDS", 3600)
    async with connect([OK, b"", CLOSE], [OK]) as (server, transport):
        await transport.request("GET", "/1")
        async with asyncio.timeout(60):  # Less than the pause before a repetition.
            assert await transport.request("GET", "/2") == b"ok"
    assert [one.split()[1] for one in server.requests] == [b"/1", b"/2", b"/2"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_write_on_a_connection_just_closed_is_never_sent_twice(connect, method):
    async with connect([OK, b"", CLOSE], endless=[OK]) as (server, transport):
        await transport.request(method, "/1", body=b"{}")
        with pytest.raises(ConnectionReset, match="EOF"):
            await transport.request(method, "/2", body=b"{}")
    assert [one.split()[1] for one in server.requests] == [b"/1", b"/2"]


async def test_answer_that_comes_before_the_request_is_through_is_taken():
    async def impatient(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        while await reader.read(1 << 16):
            pass
        writer.close()

    async with serving(impatient) as url, Transport(RestConfig(url), agent="x") as transport:
        with pytest.raises(StatusError) as raised:
            await transport.request("POST", "/x", body=b"x" * (8 << 20))
    assert raised.value.code == 413


async def test_cancelled_request_frees_its_slot_and_takes_its_connection_along(connect):
    async with connect([b""], [OK], max_connections=1) as (server, transport):
        waiting = asyncio.create_task(transport.request("POST", "/1", body=b"{}"))
        await until(lambda: server.requests)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await transport.request("POST", "/2", body=b"{}") == b"ok"
        await until(lambda: server.lost == 1)


async def test_many_requests_share_few_connections(connect):
    async with connect(endless=[OK] * 100, max_connections=3) as (server, transport):
        answers = await asyncio.gather(*(transport.request("GET", f"/{n}") for n in range(50)))
    assert answers == [b"ok"] * 50
    assert server.connections == 3


async def test_idle_connections_are_closed_after_a_while(connect, monkeypatch):
    monkeypatch.setattr(connections, "KEEP_ALIVE_SECONDS", 0.05)
    async with connect([OK]) as (server, transport):
        await transport.request("GET", "/x")
        assert server.lost == 0
        await until(lambda: server.lost == 1)


async def test_server_waits_while_nobody_reads():
    sent = 0

    async def flood(reader, writer):
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(STREAM)
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        try:
            for _ in range(4096):
                writer.write(chunk)
                await writer.drain()
                sent += 0x10000
        except ConnectionError:
            pass
        writer.close()

    async with (
        serving(flood) as url,
        Transport(RestConfig(url), agent="x") as transport,
        transport.stream("/watch") as read,
    ):
        await read()
        before = -1
        while before != sent:  # Until everything between us is full.
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 256 << 20
        received = 0
        while received < before + (4 << 20):
            piece = await read()
            assert len(piece) < MAX_UNREAD_BYTES + (1 << 20)
            received += len(piece)


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def server_context(authority, tmp_path):
    certificate, key = authority.issue("server", address="127.0.0.1")
    (tmp_path / "server.pem").write_bytes(certificate + key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "server.pem")
    return context


class Proxy:
    """Tunnels as it is asked to, or answers itself."""

    def __init__(self, answer=b"HTTP/1.1 200 Connection established\r\n\r\n"):
        self.answer = answer
        self.requests = []

    async def __call__(self, reader, writer):
        request = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(request)
        writer.write(self.answer)
        method, target, _ = request.split(b" ", 2)
        if method == b"CONNECT" and b" 200 " in self.answer:
            host, _, port = target.decode().rpartition(":")
            there = await asyncio.open_connection(host, int(port))
            await asyncio.gather(pumped(reader, there[1]), pumped(there[0], writer))
        writer.close()


async def pumped(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
    except ConnectionError:
        pass
    writer.close()


async def test_tls_goes_through_a_tunnel(authority, server_context):
    raw, proxy = RawServer(endless=[OK] * 3), Proxy()
    async with serving(raw, server_context) as url, serving(proxy) as proxy_url:
        config = RestConfig(
            url,
            tls=TlsConfig(ca_data=authority.pem),
            proxy=proxy_url.replace("//", "//joe:p%40ss@"),
        )
        async with Transport(config, agent="x") as transport:
            for _ in range(3):
                assert await transport.request("GET", "/x") == b"ok"
    address = url.removeprefix("https://")
    assert proxy.requests == [
        f"CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n"
        "Proxy-Authorization: Basic am9lOnBAc3M=\r\n\r\n".encode()
    ]


async def test_proxy_may_speak_tls_itself(authority, server_context):
    raw, proxy = RawServer(endless=[OK]), Proxy()
    async with (
        serving(raw, server_context) as url,
        serving(proxy, server_context) as proxy_url,
        Transport(
            RestConfig(url, tls=TlsConfig(ca_data=authority.pem), proxy=proxy_url), agent="x"
        ) as transport,
    ):
        assert await transport.request("GET", "/x") == b"ok"


async def test_proxy_is_told_the_whole_address_of_a_server_without_tls():
    proxy = Proxy(OK)
    async with serving(proxy) as proxy_url:
        config = RestConfig("http://api.example:8080/prefix", proxy=proxy_url)
        async with Transport(config, agent="x") as transport:
            assert await transport.request("GET", "/x") == b"ok"
    request_line, host, *_ = proxy.requests[0].split(b"\r\n")
    assert request_line == b"GET http://api.example:8080/prefix/x HTTP/1.1"
    assert host == b"Host: api.example:8080"


async def test_proxy_that_refuses_is_told():
    proxy = Proxy(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
    async with serving(proxy) as proxy_url:
        config = RestConfig("https://api.example", tls=TlsConfig(insecure=True), proxy=proxy_url)
        async with Transport(config, agent="x") as transport:
            with pytest.raises(TransportError) as raised:
                await transport.request("POST", "/x", body=b"{}")
    assert str(raised.value) == 'Post "https://api.example/x": Forbidden'


async def test_proxy_that_is_not_there_is_told():
    config = RestConfig("http://api.example", proxy="http://127.0.0.1:1")
    async with Transport(config, agent="x") as transport:
        with pytest.raises(ConnectionRefused) as raised:
            await transport.request("POST", "/x", body=b"{}")
    assert str(raised.value) == (
        'Post "http://api.example/x": proxyconnect tcp: dial tcp 127.0.0.1:1: '
        "connect: connection refused"
    )


async def silent(reader, writer):
    await reader.read()
    writer.close()


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_proxy_that_never_answers_is_given_up(monkeypatch, scheme):
    monkeypatch.setattr(dial, "TUNNEL_SECONDS", 0.05)
    async with serving(silent) as proxy_url:
        proxy = proxy_url.replace("http:", f"{scheme}:")
        config = RestConfig("https://api.example", tls=TlsConfig(insecure=True), proxy=proxy)
        async with Transport(config, agent="x", max_connections=1) as transport:
            for _ in range(2):
                with pytest.raises(DeadlineExceeded) as raised:
                    await transport.request("POST", "/x", body=b"{}")
    told = 'Post "https://api.example/x": context deadline exceeded'
    assert str(raised.value) == told


async def test_proxy_of_the_environment_is_used_but_for_its_exceptions(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
    proxy = Proxy(OK)
    async with serving(proxy) as proxy_url:
        monkeypatch.setenv("HTTP_PROXY", proxy_url)
        monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,*.example:1")
        async with Transport(RestConfig("http://api.example:2"), agent="x") as transport:
            assert await transport.request("GET", "/x") == b"ok"
        assert Route("http://api.example:1").target_prefix == ""
        assert Route("http://10.96.0.1").target_prefix == ""
        monkeypatch.setenv("REQUEST_METHOD", "GET")
        async with Transport(RestConfig("http://api.example:2"), agent="x") as transport:
            with pytest.raises(TransportError, match="refusing to use HTTP_PROXY value in CGI"):
                await transport.request("POST", "/x", body=b"{}")
    assert len(proxy.requests) == 1


class Socks:
    """A SOCKS5 proxy: each answer follows after as many bytes as are to be read before it."""

    def __init__(self, *steps):
        self.steps = steps
        self.received = []

    async def __call__(self, reader, writer):
        try:
            for size, answer in self.steps:
                self.received.append(await reader.readexactly(size))
                writer.write(answer)
            await read_request(reader)
            writer.write(OK)
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        writer.close()


GREETED = (3, b"\x05\x00")
LET_THROUGH = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50"


@pytest.mark.parametrize(
    ("server", "login", "steps", "received"),
    [
        pytest.param(
            "http://10.1.2.3:81",
            "",
            [GREETED, (10, LET_THROUGH)],
            [b"\5\1\0", b"\5\1\0\1\x0a\1\2\3\0\x51"],
            id="address",
        ),
        pytest.param(
            "http://[2001:db8::1]",
            "",
            [GREETED, (22, b"\5\0\0\4" + bytes(18))],
            [b"\5\1\0", b"\5\1\0\4\x20\1\x0d\xb8" + bytes(11) + b"\1\0\x50"],
            id="IPv6",
        ),
        pytest.param(
            "http://api.example",
            "joe:p%40@",
            [(4, b"\5\2"), (8, b"\1\0"), (18, b"\5\0\0\3\1a\0\1")],
            [b"\5\2\0\2", b"\1\3joe\2p@", b"\5\1\0\3\x0bapi.example\0\x50"],
            id="name and password",
        ),
    ],
)
async def test_proxy_may_speak_socks(server, login, steps, received):
    socks = Socks(*steps)
    async with serving(socks) as url:
        proxy = url.replace("http://", f"socks5://{login}")
        async with Transport(RestConfig(server, proxy=proxy), agent="x") as transport:
            assert await transport.request("GET", "/x") == b"ok"
    assert socks.received == received


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([(3, b"\4\0")], "unexpected protocol version 4"),
        ([(3, b"\5\xff")], "no acceptable authentication methods"),
        ([GREETED, (10, b"\5\5\0\1")], "unknown error connection refused"),
        ([GREETED, (10, b"\5\x63\0\1")], "unknown error unknown code: 99"),
        ([GREETED, (10, b"\5\0\0\7")], "unknown address type 7"),
        ([GREETED, (10, b"\5\0\1\1")], "non-zero reserved field"),
    ],
)
async def test_socks_proxy_that_refuses_is_told(steps, told):
    async with serving(Socks(*steps)) as url:
        config = RestConfig("http://10.1.2.3:81", proxy=url.replace("http", "socks5"))
        async with Transport(config, agent="x") as transport:
            with pytest.raises(TransportError) as raised:
                await transport.request("POST", "/x", body=b"{}")
    way = f"{url.removeprefix('http://')}->10.1.2.3:81"
    assert str(raised.value) == f'Post "http://10.1.2.3:81/x": socks connect tcp {way}: {told}'


async def test_server_name_of_the_configuration_is_the_one_to_prove(authority, tmp_path):
    certificate, key = authority.issue("elsewhere.example", host="elsewhere.example")
    (tmp_path / "server.pem").write_bytes(certificate + key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "server.pem")
    tls = TlsConfig(ca_data=authority.pem, server_name="elsewhere.example")
    async with (
        serving(RawServer(endless=[OK]), context) as url,
        Transport(RestConfig(url, tls=tls), agent="x") as transport,
    ):
        assert await transport.request("GET", "/x") == b"ok"


async def test_handshake_that_takes_for_ever_is_given_up(monkeypatch):
    monkeypatch.setattr(dial, "TLS_SECONDS", 0.05)
    async with serving(silent) as url:
        config = RestConfig(url.replace("http:", "https:"), tls=TlsConfig(insecure=True))
        async with Transport(config, agent="x") as transport:
            with pytest.raises(DeadlineExceeded, match="net/http: TLS handshake timeout"):
                await transport.request("POST", "/x", body=b"{}")


async def test_header_that_would_break_the_request_is_not_sent(connect):
    async with connect(endless=[OK]) as (server, transport):
        with pytest.raises(TransportError, match="invalid character in URL"):
            await transport.request("GET", "/x y\r\nA: b")
    assert server.requests == []


async def test_closing_ends_what_is_under_way(connect):
    async with connect([b""]) as (server, transport):
        waiting = asyncio.create_task(transport.request("POST", "/x", body=b"{}"))
        await until(lambda: server.requests)
    with pytest.raises(ConnectionReset):
        await waiting


async def test_failed_dials_leave_no_slot_taken():
    pool = ConnectionPool(Route("http://127.0.0.1:1"), limit=1)
    for _ in range(3):
        with pytest.raises(dial.DialError):
            await pool.ask(b"")
    await pool.close()
