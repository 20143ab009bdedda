"""The extender of a recorded scenario: it answers every question as it was answered then."""

import json
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from tests.parity.wire_scenario import EXTENDER_PATH, Request

Answered = Callable[[Request], Any]  # the recorded reply to a question, filled in
Bind = Callable[[str, str], object]


class RecordedExtender:
    """`asked` is told of each question and knows the reply; bindings are carried out by `bind`."""

    def __init__(self, asked: Answered, bind: Bind) -> None:
        self._asked = asked
        self._bind = bind
        self._runner: web.AppRunner | None = None
        self.address = ""

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_post(EXTENDER_PATH + "{verb}", self._answer)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        question = Request(
            scheduler="A",
            client="extender",
            method=request.method,
            path=request.path,
            after_step=-1,
            headers={name.lower(): value for name, value in request.headers.items()},
            body=body,
        )
        reply = self._asked(question)
        if reply is None:
            return web.Response(status=500, text="nobody asked that then")
        if "PodUID" in body and reply["body"] == {"Error": ""}:
            self._bind(body["PodName"], body["Node"])
        text = reply["body"] if isinstance(reply["body"], str) else json.dumps(reply["body"])
        return web.Response(status=reply["status"], text=text, content_type="application/json")
