import asyncio
import socket
import struct

import pytest

from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.credentials import Identity, Impersonation
from kscheduler.client.errors import (
    BadRequest,
    ConnectionRefused,
    ConnectionReset,
    DeadlineExceeded,
    Forbidden,
    HostNotFound,
    TooManyRequests,
    Unauthorized,
)
from kscheduler.client.http.response import Response
from kscheduler.client.observation import RestClientMetrics, ThreadsafeObserver
from kscheduler.client.tls import TlsConfig
from kscheduler.client.transport import Transport, user_agent
from kscheduler.metrics import Metrics
from tests.client.scripted import CUT, HOLD, Broken, Reply, Stream, failing
from tests.kit.ports import free_port

PATH = "/api/v1/namespaces/default/pods/p1"


class Recording:
    def __init__(self):
        self.attempts = []
        self.finishes = []
        self.holds = []

    def attempted(self, verb, host, code, *, again):
        self.attempts.append((verb, code, again))

    def finished(self, verb, host, seconds, sent, received):
        self.finishes.append((verb, sent, received))

    def throttled(self, verb, host, seconds):
        self.holds.append(seconds)


async def test_request_carries_upstreams_headers_and_nothing_else(server, connect):
    server.on("POST", PATH, Reply(201, {"ok": True}))
    transport = await connect()
    answer = await transport.request("POST", PATH, body=b"{}")
    (seen,) = server.requests
    headers = {name.lower(): value for name, value in seen.headers.items()}
    host = headers.pop("host")
    assert (answer, host) == (b'{"ok": true}', server.url.removeprefix("http://"))
    assert headers == {
        "accept": "application/json, */*",
        "content-type": "application/json",
        "content-length": "2",
        "user-agent": user_agent("scheduler"),
    }


async def test_get_has_no_content_type(server, connect):
    server.on("GET", PATH, Reply())
    await (await connect()).request("GET", PATH)
    assert "content-type" not in server.requests[0].headers


def test_user_agent_names_the_program_the_machine_and_the_purpose():
    agent = user_agent("leader-election", commit="6806297")
    assert agent.startswith("kscheduler/")
    assert agent.endswith("kubernetes/6806297/leader-election")
    assert "(linux/" in agent or "(darwin/" in agent


async def test_query_is_sorted_and_escaped_as_go_does(server, connect):
    server.on("GET", PATH, Reply())
    transport = await connect(timeout_seconds=5)
    async with Transport(RestConfig("http://127.0.0.1:1"), agent="x") as dead:
        with pytest.raises(ConnectionRefused) as raised:
            await dead.request("GET", PATH, query={"b": "a!=b,c", "a": "x y"})
    assert "?a=x+y&b=a%21%3Db%2Cc" in str(raised.value)
    await transport.request("GET", PATH, query={"limit": "500"})
    assert server.requests[0].query == {"limit": "500", "timeout": "5s"}


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_retry_after_is_waited_out(server, connect, status):
    server.on("POST", PATH, Reply(status, headers={"Retry-After": "0"}), Reply(201, b"done"))
    observer = Recording()
    transport = await connect(observer=observer)
    assert await transport.request("POST", PATH, body=b"{}") == b"done"
    assert observer.attempts == [("POST", str(status), False), ("POST", "201", True)]
    assert observer.finishes == [("POST", 2, 4)]


async def test_retry_after_seconds_pass_before_the_second_try(server, connect):
    server.on("GET", PATH, Reply(429, headers={"Retry-After": "1"}), Reply(200, b"done"))
    loop = asyncio.get_running_loop()
    started = loop.time()
    await (await connect()).request("GET", PATH)
    assert loop.time() - started >= 1.0


async def test_server_that_always_says_later_is_believed_after_ten_retries(server, connect):
    server.on("GET", PATH, Reply(429, b"busy", {"Retry-After": "0", "Content-Type": "text/plain"}))
    with pytest.raises(TooManyRequests) as raised:
        await (await connect()).request("GET", PATH, subject="pods p1")
    assert len(server.requests) == 11
    assert raised.value.retry_after == 0
    assert str(raised.value) == (
        "the server has received too many requests and has asked us to try again later "
        "(get pods p1)"
    )


@pytest.mark.parametrize("status", [400, 409, 500, 503])
async def test_failure_without_retry_after_is_final(server, connect, status):
    server.on("GET", PATH, Reply(status))
    with pytest.raises(Exception, match=r"the server|an error on the server"):
        await (await connect()).request("GET", PATH)
    assert len(server.requests) == 1


async def test_status_object_becomes_its_error(server, connect):
    server.on("GET", PATH, failing(403, "Forbidden", "no way"))
    with pytest.raises(Forbidden, match=r"^no way$") as raised:
        await (await connect()).request("GET", PATH)
    assert raised.value.code == 403


async def test_broken_get_is_sent_again_and_broken_write_is_not(server, connect):
    server.on("GET", PATH, Broken(), Reply(200, b"done"))
    server.on("POST", PATH, Broken())
    transport = await connect()
    assert await transport.request("GET", PATH) == b"done"
    with pytest.raises(ConnectionReset) as raised:
        await transport.request("POST", PATH, body=b"{}")
    assert str(raised.value) == f'Post "{server.url}{PATH}": EOF'
    assert len(server.seen("POST", PATH)) == 1


async def test_refused_connection_names_the_server_and_a_remedy():
    port = free_port()
    async with Transport(RestConfig(f"http://127.0.0.1:{port}"), agent="x") as transport:
        with pytest.raises(ConnectionRefused) as raised:
            await transport.request("PATCH", "/x")
    assert str(raised.value) == (
        f'Patch "http://127.0.0.1:{port}/x": dial tcp 127.0.0.1:{port}: connect: connection refused'
    )
    assert "kubeconfig" in raised.value.remedy


async def test_connection_dropped_before_the_handshake_is_a_reset():
    def drop(_, writer):
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    async with await asyncio.start_server(drop, "127.0.0.1", 0) as dropping:
        port = dropping.sockets[0].getsockname()[1]
        config = RestConfig(f"https://127.0.0.1:{port}", tls=TlsConfig(insecure=True))
        async with Transport(config, agent="x") as transport:
            with pytest.raises(ConnectionReset, match="connection reset by peer"):
                await transport.request("PATCH", "/x")


async def test_unknown_host_is_told_as_go_does():
    async with Transport(RestConfig("http://no-such-host.invalid:1"), agent="x") as transport:
        with pytest.raises(HostNotFound, match=r"dial tcp: lookup no-such-host\.invalid: no such"):
            await transport.request("POST", "/x")


async def test_timeout_covers_the_whole_request(server, connect):
    server.on("GET", PATH, Stream(b"{", HOLD))
    transport = await connect(timeout_seconds=0.05)
    with pytest.raises(DeadlineExceeded, match="context deadline exceeded"):
        await transport.request("GET", PATH)


async def test_answer_cut_in_its_middle_is_a_reset(server, connect):
    server.on("PUT", PATH, Stream(b"{", CUT))
    with pytest.raises(ConnectionReset):
        await (await connect()).request("PUT", PATH, body=b"{}")


async def test_an_answer_for_which_there_is_no_memory_is_a_reset(server, connect, monkeypatch):
    def feed(_response, _data):
        raise MemoryError

    server.on("PUT", PATH, Reply())
    transport = await connect()
    monkeypatch.setattr(Response, "feed", feed)
    with pytest.raises(ConnectionReset, match="no memory for the answer"):
        await transport.request("PUT", PATH, body=b"{}")


async def test_rate_limit_holds_back_what_exceeds_the_burst(server, connect):
    server.on("GET", PATH, Reply())
    observer = Recording()
    transport = await connect(qps=10.0, burst=2, observer=observer)
    await asyncio.gather(*(transport.request("GET", PATH) for _ in range(4)))
    first, second, *held = observer.holds
    assert (first, second) == (0.0, 0.0)
    assert all(0 < seconds <= 0.2 for seconds in held)


async def test_request_given_up_while_held_back_returns_its_token(server, connect):
    server.on("GET", PATH, Reply())
    observer = Recording()
    transport = await connect(qps=0.01, burst=1, observer=observer)
    await transport.request("GET", PATH)
    waiting = asyncio.create_task(transport.request("GET", PATH))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await transport.request("GET", PATH)
    assert len(server.requests) == 1


async def test_watches_do_not_take_connections_from_requests(server, connect):
    server.on("GET", "/watch", Stream(b"x\n", HOLD))
    server.on("GET", PATH, Reply(200, b"done"))
    transport = await connect(max_connections=1)
    async with transport.stream("/watch") as first, transport.stream("/watch") as second:
        assert (await first(), await second()) == (b"x\n", b"x\n")
        async with asyncio.timeout(30):
            assert await transport.request("GET", PATH) == b"done"


async def test_stream_ends_with_nothing_more_to_read(server, connect):
    server.on("GET", "/watch", Stream(b"a\n", b"b\n"))
    async with (await connect()).stream("/watch") as read:
        received = b""
        while chunk := await read():
            received += chunk
    assert received == b"a\nb\n"


async def test_cut_stream_is_a_reset_and_a_silent_one_is_given_up(server, connect):
    server.on("GET", "/cut", Stream(b"a\n", CUT))
    server.on("GET", "/silent", Stream(b"a\n", HOLD))
    transport = await connect()
    async with transport.stream("/cut") as read:
        assert await read() == b"a\n"
        with pytest.raises(ConnectionReset):
            await read()
    with pytest.raises(DeadlineExceeded):
        await read_to_the_end(transport, "/silent", idle_seconds=0.05)


async def read_to_the_end(transport, path, **options):
    async with transport.stream(path, **options) as read:
        while await read():
            pass


async def test_refused_stream_raises_the_servers_error(server, connect):
    server.on("GET", "/watch", failing(400, "BadRequest", "no"))
    with pytest.raises(BadRequest):
        async with (await connect()).stream("/watch"):
            pytest.fail("a refused stream must not open")


async def test_impersonation_is_asked_for_in_headers(server, connect):
    server.on("GET", PATH, Reply())
    extra = {"k": ("v",), "acme.com/k\xe9": ("w",)}
    identity = Identity(impersonation=Impersonation("joe", "7", ("a", "b"), extra))
    transport = await connect(config=RestConfig(server.url, identity=identity))
    await transport.request("GET", PATH)
    headers = server.requests[0].headers
    assert headers.getall("Impersonate-Group") == ["a", "b"]
    assert (headers["Impersonate-User"], headers["Impersonate-Uid"]) == ("joe", "7")
    assert headers["Impersonate-Extra-k"] == "v"
    assert headers["Impersonate-Extra-acme.com%2fk%c3%a9"] == "w"


async def test_rejected_token_is_read_again_from_its_file(server, connect, tmp_path):
    token = tmp_path / "token"
    token.write_text("old\n")
    server.on("GET", PATH, failing(401, "Unauthorized"), Reply())
    identity = Identity(token="old", token_file=str(token))
    transport = await connect(config=RestConfig(server.url, identity=identity))
    with pytest.raises(Unauthorized):
        await transport.request("GET", PATH)
    token.write_text("new\n")
    await transport.request("GET", PATH)
    sent = [one.headers["Authorization"] for one in server.requests]
    assert sent == ["Bearer old", "Bearer new"]


async def test_requests_become_upstreams_metrics(server, connect):
    server.on("POST", PATH, Reply(503, headers={"Retry-After": "0"}), Reply(201, b"12345"))
    metrics = Metrics()
    transport = await connect(observer=RestClientMetrics(metrics), qps=1000.0, burst=1000)
    await transport.request("POST", PATH, body=b"{}")
    host = transport.host
    assert metrics.rest_client_requests_total.labels("503", "POST", host).value == 1
    assert metrics.rest_client_requests_total.labels("201", "POST", host).value == 1
    assert metrics.rest_client_request_retries_total.labels("201", "POST", host).value == 1


async def test_waiting_for_connections_does_not_fail_requests(server, connect):
    server.on("GET", PATH, Reply(200, b"done"))
    transport = await connect(max_connections=2)
    answers = await asyncio.gather(*(transport.request("GET", PATH) for _ in range(20)))
    assert answers == [b"done"] * 20


async def test_long_wait_is_told_at_verbosity_three(server, connect, logged):
    server.on("GET", PATH, Reply())
    transport = await connect(qps=10.0, burst=1)
    await asyncio.gather(*(transport.request("GET", PATH) for _ in range(2)))
    assert "Waited before sending request" in logged.text
    assert 'reason="client-side throttling, not priority and fairness"' in logged.text


async def test_what_is_told_from_another_thread_is_told_here(server, connect):
    server.on("GET", PATH, failing(429, "TooManyRequests", **{"Retry-After": "0"}), Reply())
    observer, posted = Recording(), []
    transport = await connect(
        qps=100.0,
        burst=10,
        observer=ThreadsafeObserver(observer, lambda *call: posted.append(call)),
    )
    await transport.request("GET", PATH)
    assert (observer.attempts, observer.finishes, observer.holds) == ([], [], [])
    for call, *args in posted:
        call(*args)
    assert observer.attempts == [("GET", "429", False), ("GET", "200", True)]
    assert observer.finishes == [("GET", 0, 2)]
    assert len(observer.holds) == 2
