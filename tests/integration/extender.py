"""An extender for tests: it notes what it is asked and answers as it is told."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Json = dict[str, Any]
Answer = Callable[[Json], Any]


class Extender:
    """`answers`: by verb, what to say to a question: a value, text, a Response, or a wait for one.

    Verbs without an answer let everything pass.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, Json]] = []
        self.connections: set[Any] = set()
        self.answers: dict[str, Answer] = {}
        self.url = ""

    def asked(self, verb: str) -> list[Json]:
        return [body for called, body in self.calls if called == verb]

    def config(self, *verbs: str, **fields: Any) -> Json:
        """Its entry in the configuration file."""
        known = {f"{verb}Verb": verb for verb in verbs}
        return {"urlPrefix": self.url, **known, **fields}

    async def handle(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        self.connections.add(request.transport.get_extra_info("peername"))
        assert request.content_type == "application/json"
        verb, body = request.match_info["verb"], json.loads(await request.read())
        self.calls.append((verb, body))
        answer = self.answers.get(verb, AGREES[verb])(body)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, web.Response):
            return answer
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return web.Response(text=text, content_type="application/json")


def names(question: Json) -> list[str]:
    """The nodes that a question is about."""
    if question["NodeNames"] is not None:
        assert question["Nodes"] is None
        return list(question["NodeNames"])
    return [node["metadata"]["name"] for node in question["Nodes"]["items"]]


def only(*wanted: str, **reasons: str) -> Answer:
    """Lets these nodes pass, in the form in which they were given."""

    def answer(question: Json) -> Json:
        passed = [name for name in names(question) if name in wanted]
        if question["NodeNames"] is not None:
            return {"NodeNames": passed, "FailedNodes": reasons}
        items = [node for node in question["Nodes"]["items"] if node["metadata"]["name"] in wanted]
        return {"Nodes": {"items": items}, "FailedNodes": reasons}

    return answer


def victims(question: Json) -> Json:
    """The victims by UID, as an extender gives them back."""
    if question["NodeNameToMetaVictims"] is not None:
        return dict(question["NodeNameToMetaVictims"])
    return {
        name: {
            "Pods": [{"UID": pod["metadata"]["uid"]} for pod in one["Pods"]],
            "NumPDBViolations": one["NumPDBViolations"],
        }
        for name, one in question["NodeNameToVictims"].items()
    }


def fails(status: int) -> Answer:
    return lambda _: web.Response(status=status, text="boom")


async def hangs(_: Json) -> None:
    await asyncio.sleep(3600)


AGREES: dict[str, Answer] = {
    "filter": lambda question: only(*names(question))(question),
    "prioritize": lambda question: [{"Host": name, "Score": 0} for name in names(question)],
    "preempt": lambda question: {"NodeNameToMetaVictims": victims(question)},
    "bind": lambda question: {"Error": ""},
}


@asynccontextmanager
async def running_extender(tls: ssl.SSLContext | None = None) -> AsyncIterator[Extender]:
    extender = Extender()
    application = web.Application(client_max_size=256 << 20)
    application.router.add_post("/ext/{verb}", extender.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    extender.url = f"http{'s' if tls else ''}://127.0.0.1:{port}/ext"
    try:
        yield extender
    finally:
        await runner.cleanup()
