"""HTTP/1.1 as the proxy reads and writes it: heads as they came, bodies piece by piece."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

MOST_BYTES = 1 << 26
# Of one hop only.
HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "upgrade"})
WITHOUT_BODY = (204, 304)
BROKEN = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)


@dataclass
class Head:
    """The first line of a message and its headers, names in lower case."""

    first: str
    headers: list[tuple[str, str]] = field(default_factory=list)

    def get(self, name: str, default: str = "") -> str:
        return next((value for known, value in self.headers if known == name), default)

    @property
    def chunked(self) -> bool:
        return self.get("transfer-encoding").lower() == "chunked"

    @property
    def length(self) -> int:
        return int(self.get("content-length") or 0)

    @property
    def status(self) -> int:
        """Of an answer."""
        return int(self.first.split(" ", 2)[1])

    def encode(self, **instead: str) -> bytes:
        """Without the headers of one hop, and with these."""
        kept = [(name, value) for name, value in self.headers if name not in HOP]
        added = [(name.replace("_", "-"), value) for name, value in instead.items()]
        lines = [self.first, *(f"{name}: {value}" for name, value in (*kept, *added))]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """None at the end of a connection, whoever ended it and how."""
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except BROKEN:
        return None
    first, *lines = text.rstrip("\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return Head(first, [(name.strip().lower(), value.strip()) for name, _, value in pairs])


async def pieces(
    reader: asyncio.StreamReader, head: Head, *, has_body: bool = True
) -> AsyncGenerator[bytes, None]:
    """The body, in one piece if its length was told, else chunk by chunk."""
    if head.chunked:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            yield await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readexactly(2)
    elif has_body and head.length:
        yield await reader.readexactly(head.length)


def chunk(data: bytes) -> bytes:
    """Empty data make the chunk that ends a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


@dataclass(frozen=True)
class Request:
    """A request as Kubernetes' rules of authorization see it."""

    method: str
    target: str
    head: Head
    body: bytes
    verb: str
    resource: str
    namespace: str
    name: str
    subresource: str
    query: dict[str, str]
    # The scheduler that sent it.
    who: str = ""

    @classmethod
    def parse(cls, head: Head, body: bytes, who: str = "") -> "Request":
        method, target, _ = head.first.split(" ", 2)
        address = urlsplit(target)
        query = {key: values[-1] for key, values in parse_qs(address.query).items()}
        match address.path.strip("/").split("/"):
            case ["api", _, *rest] | ["apis", _, _, *rest]:
                parts = rest
            case _:
                parts = []
        namespace = ""
        if len(parts) > 2 and parts[0] == "namespaces":
            namespace, parts = parts[1], parts[2:]
        resource, name, subresource = (*parts, "", "", "")[:3]
        verb = _verb(method, name, query) if resource else method.lower()
        return cls(
            method,
            target,
            head,
            body,
            verb,
            resource,
            namespace,
            name,
            subresource,
            query,
            who,
        )

    @property
    def what(self) -> str:
        """Resource and subresource, as a role names them."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    @property
    def is_watch(self) -> bool:
        return self.verb == "watch"


def _verb(method: str, name: str, query: dict[str, str]) -> str:
    match method:
        case "GET" if name:
            return "get"
        case "GET":
            return "watch" if query.get("watch") in ("true", "1") else "list"
        case "DELETE":
            return "delete" if name else "deletecollection"
    return {"POST": "create", "PUT": "update", "PATCH": "patch"}.get(method, method.lower())


def reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection as a machine that has forgotten it does: with RST, and without a word."""
    with contextlib.suppress(OSError), _socket_of(writer) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def end_writing(writer: asyncio.StreamWriter) -> None:
    """Sends FIN and goes on reading; TLS itself has no such half."""
    with contextlib.suppress(OSError), _socket_of(writer) as own:
        own.shutdown(socket.SHUT_WR)


def _socket_of(writer: asyncio.StreamWriter) -> socket.socket:
    """Another handle of a connection's socket: uvloop's own has no options. OSError if closed."""
    own = writer.get_extra_info("socket")
    if own is None:
        raise OSError("the connection is closed")
    return socket.socket(fileno=os.dup(own.fileno()))
