"""HTTP/1.1 for a program that shares its processors with what it measures.

A request is bytes that were made before the clock runs; an answer is a number and bytes. No pool,
no redirects, no retries: a connection carries one request after the other, and as many of them as
wanted work through one list.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

MOST_BYTES_OF_HEAD = 1 << 20
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
# Names without specs: little to encode for the server, little to decode for us.
METADATA_ONLY = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
# The same where the answer is a list, as it is when a whole collection is deleted.
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class Request(NamedTuple):
    method: str
    path: str
    body: bytes = b""
    content_type: str = JSON


class Answer(NamedTuple):
    status: int
    body: bytes


class RefusedError(Exception):
    """What the server said instead of yes."""


@dataclass(frozen=True)
class Server:
    """Where to, and in whose name: the token's owner, or a user that its owner impersonates."""

    port: int
    authority: Path
    token: str
    impersonated: str = ""

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority))

    @asynccontextmanager
    async def connection(self) -> AsyncIterator["Connection"]:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self._context, limit=MOST_BYTES_OF_HEAD
        )
        try:
            yield Connection(reader, writer, self.token, self.impersonated)
        finally:
            writer.transport.abort()

    async def send_all(
        self, requests: Iterable[Request], connections: int, accept: str = METADATA_ONLY
    ) -> None:
        """Some at a time, in the order they come; the server must agree to each."""
        rest = iter(requests)

        async def work() -> None:
            async with self.connection() as connection:
                for request in rest:
                    await connection.demand(request, accept)

        async with asyncio.TaskGroup() as tasks:
            for number in range(connections):
                tasks.create_task(work(), name=f"send/{number}")


class Connection:
    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        token: str,
        impersonated: str = "",
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._always = f"Host: localhost\r\nAuthorization: Bearer {token}\r\n"
        if impersonated:
            self._always += f"Impersonate-User: {impersonated}\r\n"

    async def exchange(self, request: Request, accept: str = METADATA_ONLY) -> Answer:
        status, chunks = await self._send(request, accept)
        return Answer(status, b"".join([chunk async for chunk in chunks]))

    async def demand(self, request: Request, accept: str = METADATA_ONLY) -> bytes:
        """The answer to a request that must succeed."""
        status, body = await self.exchange(request, accept)
        if status >= 300:
            raise RefusedError(f"{request.method} {request.path}: {status} {_text(body)}")
        return body

    async def follow(self, path: str, accept: str) -> AsyncGenerator[bytes, None]:
        """Once a watch has begun: its lines, for as long as it lasts."""
        status, chunks = await self._send(Request("GET", path), accept)
        if status != 200:
            said = b"".join([chunk async for chunk in chunks])
            raise RefusedError(f"{path}: {status} {_text(said)}")
        return _lines(chunks)

    async def _send(self, request: Request, accept: str) -> tuple[int, AsyncGenerator[bytes, None]]:
        method, path, body, content_type = request
        head = (
            f"{method} {path} HTTP/1.1\r\n{self._always}Accept: {accept}\r\n"
            f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        head_of_answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        return int(head_of_answer[9:12]), self._body(head_of_answer)

    async def _body(self, head: bytes) -> AsyncGenerator[bytes, None]:
        """In one piece if its length was told, else chunk by chunk."""
        if b"\r\ntransfer-encoding: chunked\r\n" not in head:
            yield await self._reader.readexactly(_content_length(head))
            return
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)


async def _lines(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line


def _content_length(head: bytes) -> int:
    _, found, rest = head.partition(b"\r\ncontent-length: ")
    return int(rest.partition(b"\r\n")[0]) if found else 0


def _text(body: bytes) -> str:
    return body.decode(errors="replace").strip()
