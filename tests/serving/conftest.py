"""A serving port on loopback, and clients that see every byte."""

import asyncio
import datetime
import socket
import ssl
from contextlib import asynccontextmanager, suppress

import pytest
import uvloop
from aiohttp import web

from kscheduler.serving.certificate import self_signed
from kscheduler.serving.secure_port import SecurePort
from kscheduler.serving.server import Server


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
            "pair": pair,
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

    async def ask(self, target="/", method="GET"):
        reader, writer = await self.connect()
        rest = "HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
        writer.write(f"{method} {target} {rest}".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        fields = [line.partition(": ") for line in lines]
        headers = {name.lower(): value for name, _, value in fields}
        return int(status.split()[1]), headers, body.decode()


@pytest.fixture
def serving(make_port):
    """`async with serving(application) as client`: a server that is cancelled on the way out."""

    @asynccontextmanager
    async def run(application=None, **settings):
        port = make_port(**settings)
        server = asyncio.create_task(Server(application or web.Application(), port).run())
        client = Client(port.listener.getsockname()[1])
        client.server = server
        client.listener = port.listener
        try:
            yield client
        finally:
            server.cancel()
            await client.close()
            await asyncio.wait({server})
            assert server.cancelled()

    return run


@pytest.fixture(scope="session")
def trusting():
    """A TLS client's settings; `authority` in PEM, or nobody is verified."""

    def make(authority=None):
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if authority is None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    return make
