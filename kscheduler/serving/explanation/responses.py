"""Objects as clients want them: JSON, metadata only, or the rows of a table; streamed.

Lists are written while they are made. After every few milliseconds of work other tasks run, and
nothing more is made until the client has taken what there is, so that an answer of any size takes
the memory of a piece of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

import msgspec
from aiohttp import HttpVersion11, web

from kscheduler.api.meta import ApiObject
from kscheduler.rest import status
from kscheduler.rest.tables import META_VERSION, Json, metadata_of, row, table
from kscheduler.serving import answers
from kscheduler.serving.answers import JSON, Target
from kscheduler.serving.connection import PIECE_BYTES, SEND_SECONDS
from kscheduler.serving.explanation.resources import Served

encode = msgspec.json.Encoder().encode

MAX_WARNING = 256
TABLE_VERSIONS = ("v1", "v1beta1")
_HEADERS = {"Cache-Control": "no-cache, private"}


class Form:
    """The form that an Accept header asks for: whole objects, or those of another kind."""

    def __init__(self, served: Served, target: Target | None, include: str) -> None:
        self._served = served
        self._include = include or "Metadata"
        self.is_table = target is not None and target.kind == "Table"
        self._is_metadata = target is not None and not self.is_table
        version = f"meta.k8s.io/{target.version}" if target else META_VERSION
        self._table_head = {"kind": "Table", "apiVersion": version}

    @property
    def needs_whole(self) -> bool:
        """Whether lists that grow with the nodes are shown at all."""
        return not self._is_metadata and not (self.is_table and self._include != "Object")

    def one(self, item: ApiObject) -> bytes:
        """The answer to a get, or the object of a watch event."""
        if self._is_metadata:
            return encode(metadata_of(item.metadata))
        if not self.is_table:
            return self._served.resource.encode(item)
        version = {"resourceVersion": item.metadata.resource_version}
        return encode(self._table_head | table(self._served.columns, version, [self._row(item)]))

    def item(self, item: ApiObject) -> bytes:
        """The object within a list: the item, or the row of a table."""
        if self.is_table:
            return encode(self._row(item))
        if self._is_metadata:
            return encode(metadata_of(item.metadata))
        return self._served.resource.encode(item)

    def opening(self, metadata: Mapping[str, Any]) -> bytes:
        """A list up to its first item; `CLOSING` ends it."""
        if self.is_table:
            head = self._table_head | table(self._served.columns, metadata, ())
            del head["rows"]
            return encode(head)[:-1] + b',"rows":['
        kind, version = f"{self._served.kind}List", self._served.group_version
        if self._is_metadata:
            kind, version = "PartialObjectMetadataList", META_VERSION
        return encode({"kind": kind, "apiVersion": version, "metadata": metadata})[:-1] + (
            b',"items":['
        )

    def _row(self, item: ApiObject) -> Json:
        head = {"kind": self._served.kind, "apiVersion": self._served.group_version}
        # Parts that are kept as text are the pods and nodes of a review.
        shown = head | msgspec.to_builtins(item, enc_hook=msgspec.json.decode)
        match self._include:
            case "Metadata":
                return row(self._served.columns, shown, metadata_of(item.metadata))
            case "Object":
                return row(self._served.columns, shown, shown)
        return row(self._served.columns, shown, None)


CLOSING = b"]}\n"


def form_for(request: web.BaseRequest, served: Served, query: Mapping[str, str]) -> Form:
    """406 if the client accepts neither JSON nor a kind that objects can be converted to."""

    def allows(media_type: str, target: Target | None) -> bool:
        if target is None:
            return True
        if target.group != "meta.k8s.io" or target.version not in TABLE_VERSIONS:
            return False
        return target.kind in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")

    choice = answers.choose(request.headers.get("Accept", ""), (JSON,), allows)
    if choice is None:
        raise status.not_acceptable((JSON,))
    return Form(served, choice.target, query.get("includeObject", ""))


def document(body: bytes, *, code: int = 200, content_type: str = JSON) -> web.Response:
    return web.Response(body=body, status=code, headers={"Content-Type": content_type, **_HEADERS})


async def stream(
    request: web.BaseRequest,
    pieces: AsyncGenerator[bytes, None],
    *,
    warnings: tuple[str, ...] = (),
    at_once: bool = False,
) -> web.StreamResponse:
    """Sends pieces as they come, or some at a time; a client that does not take them is dropped.

    The first piece is made before anything is sent, so that what it raises can still be a Status.
    """
    async with aclosing(pieces):
        first = await anext(pieces, b"")
        answer = web.StreamResponse(headers={"Content-Type": JSON, **_HEADERS})
        for warning in warnings:
            answer.headers.add("Warning", warning_header(warning))
        if request.version >= HttpVersion11:
            answer.enable_chunked_encoding()
        buffer = bytearray(first)

        async def flush() -> None:
            async with asyncio.timeout(SEND_SECONDS):
                await answer.write(bytes(buffer))
            buffer.clear()

        try:
            async with asyncio.timeout(SEND_SECONDS):
                await answer.prepare(request)
            if request.method == "HEAD":
                return answer
            async for piece in pieces:
                if buffer and (at_once or len(buffer) >= PIECE_BYTES):
                    await flush()
                buffer += piece
                if at_once and buffer:
                    await flush()
            if buffer:
                await flush()
            async with asyncio.timeout(SEND_SECONDS):
                await answer.write_eof()
        except (ConnectionError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()
        return answer


def warning_header(text: str) -> str:
    """A warning as kubectl prints it; code 299 and no agent, as API servers send it.

    The text may have parts of a request in it: what no header can hold is replaced.
    """
    shown = "".join(char if " " <= char <= "~" else "?" for char in text[:MAX_WARNING])
    escaped = shown.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'
