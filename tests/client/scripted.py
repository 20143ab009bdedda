"""An API server that does as it is told: scripted answers, streams that break when they should."""

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web
from multidict import CIMultiDictProxy

CUT = object()
"""Ends a stream by aborting its connection."""
HOLD = object()
"""Keeps a stream open until the server stops."""


@dataclass
class Seen:
    """One request as the server got it."""

    method: str
    path: str
    query: dict[str, str]
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


@dataclass
class Reply:
    status: int = 200
    body: object = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    async def send(self, request: web.Request) -> web.StreamResponse:
        data = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        headers = {"Content-Type": "application/json", **self.headers}
        return web.Response(status=self.status, body=data, headers=headers)


class Broken:
    """The connection is closed instead of an answer."""

    async def send(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()


class Stream:
    """A watch: dicts become lines, bytes are sent as they are, and the end may be CUT or HOLD."""

    def __init__(self, *steps: object) -> None:
        self.steps = steps
        self.sent = 0

    async def send(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for step in self.steps:
            if step is CUT:
                assert request.transport is not None
                request.transport.abort()
                break
            if step is HOLD:
                await asyncio.Event().wait()
            if isinstance(step, asyncio.Event):
                await step.wait()
                continue
            data = step if isinstance(step, bytes) else line(step)
            await response.write(data)
            self.sent += 1
        return response


def line(item: object) -> bytes:
    """A line of a watch, without spaces as Go writes it."""
    return json.dumps(item, separators=(",", ":")).encode() + b"\n"


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ScriptedServer:
    """Answers each method and path with the replies given for it, the last one for ever."""

    def __init__(self) -> None:
        self.requests: list[Seen] = []
        self.url = ""
        self._replies: dict[tuple[str, str], deque[object]] = defaultdict(deque)
        self._answers: dict[str, Answer] = {}

    def on(self, method: str, path: str, *replies: object) -> None:
        self._replies[method, path].extend(replies)

    def serve(self, path: str, answer: Answer) -> None:
        """Lets a function answer everything at this path."""
        self._answers[path] = answer

    def seen(self, method: str, path: str) -> list[Seen]:
        return [one for one in self.requests if (one.method, one.path) == (method, path)]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append(
            Seen(request.method, request.path, dict(request.query), request.headers, body)
        )
        if request.path in self._answers:
            return await self._answers[request.path](request)
        replies = self._replies[request.method, request.path]
        if not replies:
            return await Reply(404, status_body(404, "NotFound", "not scripted")).send(request)
        reply = replies.popleft() if len(replies) > 1 else replies[0]
        return await reply.send(request)


def status_body(code: int, reason: str, message: str, **details: object) -> dict[str, object]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }


def failing(code: int, reason: str, message: str = "fabricated", **headers: str) -> Reply:
    return Reply(code, status_body(code, reason, message), headers)


def pod(name: str, version: str | int, namespace: str = "default", **spec: object):
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "managedFields": [{"manager": "test", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": spec,
        "status": {},
    }


def event(kind: str, item: object) -> dict[str, object]:
    return {"type": kind, "object": item}


def bookmark(version: str | int, *, initial_end: bool = False) -> dict[str, object]:
    metadata: dict[str, object] = {"resourceVersion": str(version), "creationTimestamp": None}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    item = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {"containers": None},
        "status": {},
    }
    return event("BOOKMARK", item)


async def settle() -> None:
    """Lets everything that is ready to run do so, several times over."""
    for _ in range(100):
        await asyncio.sleep(0)


class Lines:
    """What was logged."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, line: bytes) -> None:
        self.text += line.decode()

    def flush(self) -> None:
        pass

    @property
    def messages(self) -> list[str]:
        """Severity and text, without time, process and place."""
        return [f"{line[0]} {line.split('] ', 1)[1]}" for line in self.text.splitlines()]
