"""A serving port on loopback, and clients that see every byte."""

import asyncio
import datetime
import socket
import ssl
from contextlib import asynccontextmanager, suppress

import pytest
import uvloop
from aiohttp import web

from kscheduler.metrics import Metrics
from kscheduler.serving.access_metrics import Upkeep
from kscheduler.serving.certificate import self_signed
from kscheduler.serving.listeners import SecurePort
from kscheduler.serving.server import Server
from kscheduler.serving.tls_context import TlsContexts
from kscheduler.serving.trust import Trust


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories():
    """The daemon's own kind of loop."""
    return {"uvloop": uvloop.new_event_loop}


NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture(scope="session")
def pair():
    return self_signed("127.0.0.1", now=NOW)


@pytest.fixture
def make_port(pair):
    """A listener nobody accepts from yet; what is still open at the end is closed."""
    listeners = []

    def make(**settings):
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        values = {
            "make_pair": lambda: pair,
            "sni_pairs": (),
            "ciphers": "",
            "curves": (),
            "min_version": ssl.TLSVersion.TLSv1_2,
        }
        return SecurePort(listener=listener, **(values | settings))

    yield make
    for listener in listeners:
        listener.close()


class Client:
    """Requests as they are written; what comes back as it is."""

    def __init__(self, port):
        self.port = port
        self.context = None
        self.server_name = None
        self._writers = []

    async def connect(self):
        name = self.server_name if self.context else None
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.context, server_hostname=name
        )
        self._writers.append(writer)
        return reader, writer

    async def close(self):
        for writer in self._writers:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    async def ask(self, target="/", method="GET", headers=(), body=b""):
        reader, writer = await self.connect()
        lines = [f"{method} {target} HTTP/1.1", "Host: h", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in dict(headers).items()]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        writer.write("".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body)
        head, _, content = (await reader.read()).partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        fields = [line.partition(": ") for line in lines]
        headers = {name.lower(): value for name, _, value in fields}
        return int(status.split()[1]), headers, content.decode("utf-8", "replace")


async def nothing(request):
    return web.Response()


@pytest.fixture
def serving(make_port):
    """`async with serving(handler) as client`: a server that is cancelled on the way out.

    Plain unless `tls` is set; `trust` says whom to ask for certificates.
    """

    @asynccontextmanager
    async def run(handler=nothing, *, tls=False, trust=None, **settings):
        port = make_port(**settings)
        upkeep = Upkeep(Metrics(), "test")
        contexts = TlsContexts(port, trust or Trust(), upkeep) if tls else None
        server = asyncio.create_task(Server(handler, port.listener, contexts).run())
        client = Client(port.listener.getsockname()[1])
        client.server = server
        client.listener = port.listener
        if tls:
            client.context, client.server_name = insecure_context(), "localhost"
        try:
            yield client
        finally:
            server.cancel()
            await client.close()
            await asyncio.wait({server})
            assert server.cancelled()

    return run


def insecure_context():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@pytest.fixture(scope="session")
def trusting():
    """A TLS client's settings; `authority` in PEM, or nobody is verified."""

    def make(authority=None):
        if authority is None:
            return insecure_context()
        return ssl.create_default_context(cadata=authority.decode())

    return make
