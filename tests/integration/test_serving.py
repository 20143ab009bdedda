"""The secure port under clients that mean harm: scheduling goes on, and memory stays flat."""

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path

import aiohttp
import pytest

from kscheduler.sandbox import User
from tests.integration.cluster import pod, program
from tests.kit.manifests import node_manifest
from tests.kit.polling import until
from tests.kit.ports import free_port

pytestmark = pytest.mark.slow

TOKEN = "scraper-token"
SCRAPES = 500
LORISES = 300
ROUNDS = 2
PODS_PER_ROUND = 30
# What a round may leave behind: less than any of the attacks would, did it stay in memory.
MOST_GROWTH_BYTES = 24 << 20
PAGE_BYTES = 4096


class Port:
    """The daemon's port, and ways to misuse it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE

    async def connect(self):
        return await asyncio.open_connection("127.0.0.1", self.number, ssl=self.context)

    async def get(self, path: str, token: str = "") -> int:
        reader, writer = await self.connect()
        try:
            bearer = f"Authorization: Bearer {token}\r\n" if token else ""
            head = f"GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{bearer}\r\n"
            writer.write(head.encode())
            answer = await reader.read()
            return int(answer.split(b" ", 2)[1])
        finally:
            writer.transport.abort()

    async def is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            return await self.get("/readyz") == 200
        return False

    async def scrape_at_once(self) -> None:
        statuses = await asyncio.gather(*(self.get("/metrics", TOKEN) for _ in range(SCRAPES)))
        assert set(statuses) == {200}

    async def speak_slowly(self) -> None:
        """Half of them say nothing at all, half begin a request; none ever ends."""
        writers = []
        for number in range(LORISES):
            if number % 2:
                _, writer = await asyncio.open_connection("127.0.0.1", self.number)
            else:
                _, writer = await self.connect()
                writer.write(b"GET /metrics HTTP/1.1\r\nHost: h\r\nX-Slow: ")
            writers.append(writer)
        for writer in writers:
            writer.write(b"a" if writer.get_extra_info("ssl_object") else b"\x16")
        assert await self.get("/metrics", TOKEN) == 200
        for writer in writers:
            writer.transport.abort()

    async def send_large_headers(self) -> None:
        async def one() -> None:
            reader, writer = await self.connect()
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: h\r\n" + b"X: " + b"y" * (1 << 20))
            with contextlib.suppress(ConnectionError):
                assert (await reader.read(100)).startswith(b"HTTP/1.1 431 ")
            writer.transport.abort()

        await asyncio.gather(*(one() for _ in range(50)))

    async def send_large_bodies(self) -> None:
        async def one() -> None:
            _, writer = await self.connect()
            bearer = f"Authorization: Bearer {TOKEN}".encode()
            head = b"PUT /debug/flags/v HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n"
            writer.write(head + bearer + b"\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                for _ in range(200):
                    writer.write(b"1" * 65536)
                    await writer.drain()
            writer.transport.abort()

        await asyncio.gather(*(one() for _ in range(10)))

    async def send_bad_tokens(self) -> None:
        asked = (self.get("/metrics", f"nobody-{number}") for number in range(100))
        assert set(await asyncio.gather(*asked)) == {401}


@pytest.mark.parametrize(
    "attack",
    [
        Port.scrape_at_once,
        Port.speak_slowly,
        Port.send_large_headers,
        Port.send_large_bodies,
        Port.send_bad_tokens,
    ],
    ids=lambda attack: attack.__name__,
)
async def test_scheduling_goes_on_and_memory_stays_flat(cluster, attack):
    port = Port(free_port())
    cluster.create(*(node_manifest(f"n{number}", pods="1000") for number in range(5)))
    async with program(arguments(cluster, port.number)) as daemon:
        await becomes_ready(port)
        sizes = []
        for turn in range(ROUNDS + 1):
            names = [f"p{turn}-{number}" for number in range(PODS_PER_ROUND)]
            cluster.create(*(pod(name, cpu="1m") for name in names))
            await asyncio.wait_for(attack(port), 120)
            await until(lambda names=names: all(map(cluster.place, names)))
            sizes.append(resident_bytes(daemon.pid))
        assert daemon.returncode is None
        assert await port.get("/healthz") == 200
    # The first round fills caches and pools that are there to stay.
    assert sizes[-1] - sizes[1] < MOST_GROWTH_BYTES, sizes


async def test_plain_listeners_answer_probes_and_scrapers(cluster):
    health, metrics = free_port(), free_port()
    flags = (f"--health-listen={health}", f"--metrics-listen=127.0.0.1:{metrics}")
    async with cluster.scheduler(args=flags), aiohttp.ClientSession() as session:
        for port, path, status in (
            (health, "/readyz", 200),
            (health, "/metrics", 404),
            (metrics, "/metrics", 200),
            (metrics, "/readyz", 404),
            (metrics, "/configz", 404),
        ):
            async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
                assert (path, answer.status) == (path, status)


async def test_a_listener_that_cannot_be_had_ends_the_start(cluster):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        async with program(cluster.arguments(args=[f"--health-listen={port}"])) as daemon:
            _, said = await asyncio.wait_for(daemon.communicate(), 60)
    assert daemon.returncode == 1
    assert f"failed to listen on 127.0.0.1:{port}" in said.decode()


def arguments(cluster, port: int) -> list[str]:
    cluster.api.users.add(User("scraper", ("system:masters",)), TOKEN)
    where = cluster.kubeconfig()
    flags = ["--bind-address=127.0.0.1", f"--secure-port={port}"]
    flags += [f"--authentication-kubeconfig={where}", f"--authorization-kubeconfig={where}"]
    return cluster.arguments(args=flags)


async def becomes_ready(port: Port) -> None:
    for _ in range(600):
        if await port.is_ready():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the daemon never became ready")


def resident_bytes(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE_BYTES
