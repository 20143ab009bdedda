"""Streams through port forwarding, against a kubelet's end that speaks the real protocol."""

import asyncio
import contextlib
import hashlib
import ssl

import pytest
from aiohttp import web

from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.credentials import Identity, Impersonation
from kscheduler.client.errors import TlsError, TransportError
from kscheduler.client.http.dial import ProxyRefusedError, Route
from kscheduler.client.port_forward import PortForward
from kscheduler.client.tls import TlsConfig, as_file
from kscheduler.client.transport import Transport
from tests.client.authority import Authority
from tests.kit.polling import until
from tests.kit.port_forwarding import PortForwarding

PATH = "/api/v1/namespaces/{namespace}/pods/{pod}/portforward"


@contextlib.asynccontextmanager
async def served(application, context=None):
    runner = web.AppRunner(application, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def cluster(port, **statuses):
    """An API server where pod kube-system/s has port 10259; other pods are told on the stream."""
    forwarding = PortForwarding(
        lambda ns, pod, at: (
            ("127.0.0.1", port) if (ns, pod, at) == ("kube-system", "s", 10259) else None
        )
    )

    async def answer(request):
        if status := statuses.get(request.match_info["pod"]):
            assert status == 403
            raise web.HTTPForbidden(text="no")
        return await forwarding(request)

    application = web.Application()
    application.router.add_get(PATH, answer)
    async with served(application) as api:
        yield forwarding, f"http://127.0.0.1:{api}"


@pytest.fixture
async def echo():
    """A server that says back what it is told."""

    async def handle(reader, writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_bytes_go_both_ways_and_arrive_as_they_were_sent(echo):
    sent = bytes(range(256)) * 4096
    async with (
        cluster(echo) as (_, url),
        PortForward(RestConfig(url), "kube-system", "s", 10259) as forward,
    ):
        reader, writer = await asyncio.open_connection(sock=await forward.dial())
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent
        writer.close()


async def test_streams_of_one_port_do_not_mix(echo):
    async with (
        cluster(echo) as (_, url),
        PortForward(RestConfig(url), "kube-system", "s", 10259) as forward,
    ):
        streams = [await asyncio.open_connection(sock=await forward.dial()) for _ in range(3)]
        for number, (_, writer) in enumerate(streams):
            writer.write(b"%d" % number)
        assert [await reader.readexactly(1) for reader, _ in streams] == [b"0", b"1", b"2"]
        for _, writer in streams:
            writer.close()


async def test_the_users_identity_goes_to_the_api_server(echo):
    identity = Identity(token="secret", impersonation=Impersonation(user="jane"))
    async with (
        cluster(echo) as (forwarding, url),
        PortForward(RestConfig(url, identity=identity), "kube-system", "s", 10259) as forward,
    ):
        (await forward.dial()).close()
        (request,) = forwarding.requests
        assert request.headers["Authorization"] == "Bearer secret"
        assert request.headers["Impersonate-User"] == "jane"


async def test_a_refusal_names_the_port_the_pod_and_the_missing_right(echo):
    async with (
        cluster(echo, s=403) as (_, url),
        PortForward(RestConfig(url), "kube-system", "s", 10259) as forward,
    ):
        with pytest.raises(ProxyRefusedError) as refused:
            await forward.dial()
    assert str(refused.value) == (
        "port 10259 of pod kube-system/s cannot be forwarded: 403, "
        "it takes the rights to get and to create pods/portforward there"
    )


async def test_an_api_server_that_is_away_is_told_as_such():
    async with PortForward(RestConfig("http://127.0.0.1:1"), "kube-system", "s", 1) as forward:
        with pytest.raises(ProxyRefusedError, match="port 1 of pod kube-system/s cannot be"):
            await forward.dial()


async def test_a_pod_that_cannot_be_reached_ends_the_stream_and_is_told_as_its_failure(echo):
    async with (
        cluster(echo) as (_, url),
        PortForward(RestConfig(url), "kube-system", "other", 10259) as forward,
    ):
        reader, writer = await asyncio.open_connection(sock=await forward.dial())
        assert await reader.read() == b""
        await until(lambda: forward.failure)
        assert "error forwarding port 10259 to pod other" in forward.failure
        writer.close()


class TestRequests:
    """TLS and HTTP end to end, over a forwarded port."""

    @pytest.fixture
    async def scheduler(self):
        """A server with a certificate of its own; gives its port and the certificate's digest."""
        certificate, key = Authority().issue("scheduler", host="elsewhere")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with as_file(certificate + key) as path:
            context.load_cert_chain(path)
        application = web.Application()

        async def whoami(request):
            return web.json_response({"token": request.headers.get("Authorization", "")})

        application.router.add_get("/whoami", whoami)
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.decode())).hexdigest()
        async with served(application, context) as port:
            yield port, digest

    @pytest.fixture
    async def ask(self, scheduler):
        """Asks the scheduler over the forwarded port, with its certificate pinned."""
        port, _ = scheduler

        async def asked(digest, pod="s"):
            config = RestConfig(
                "https://s.kube-system:10259",
                tls=TlsConfig(insecure=True),
                identity=Identity(token="secret"),
            )
            async with (
                cluster(port) as (_, url),
                PortForward(RestConfig(url), "kube-system", pod, 10259) as forward,
                Transport(
                    config,
                    agent="test",
                    timeout_seconds=10,
                    route=Route(config.server, dial=forward.dial, certificate_sha256=digest),
                ) as transport,
            ):
                return await transport.request("GET", "/whoami")

        return asked

    async def test_the_users_token_reaches_the_scheduler(self, scheduler, ask):
        assert await ask(scheduler[1]) == b'{"token": "Bearer secret"}'

    async def test_nothing_is_sent_to_a_server_with_another_certificate(self, scheduler, ask):
        with pytest.raises(TlsError, match=f"has the SHA-256 {scheduler[1]}, not 00ff"):
            await ask("00ff")

    async def test_a_proxy_of_the_environment_is_not_for_forwarded_ports(
        self, scheduler, ask, monkeypatch
    ):
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
        assert await ask(scheduler[1]) == b'{"token": "Bearer secret"}'

    async def test_the_kubelets_complaint_is_the_error_of_the_request(self, scheduler, ask):
        with pytest.raises(TransportError, match="error forwarding port 10259 to pod other"):
            await ask(scheduler[1], pod="other")
