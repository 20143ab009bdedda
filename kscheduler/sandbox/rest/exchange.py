"""One request and its answer, as the parts of the REST layer see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from kscheduler.sandbox.access.users import ANONYMOUS, User
from kscheduler.sandbox.representation import encode
from kscheduler.sandbox.status import StatusError

_HEADERS = {"Cache-Control": "no-cache, private"}
JSON = "application/json"


@dataclass(slots=True)
class Exchange:
    """What came in, who sent it, and, once that is known, the status it was answered with."""

    method: str
    path: str
    query: dict[str, str]
    headers: Any
    body: bytes = b""
    user: User = ANONYMOUS
    status: int = 0
    warnings: list[str] = field(default_factory=list)

    @property
    def user_agent(self) -> str:
        return str(self.headers.get("User-Agent", ""))

    @property
    def content_type(self) -> str:
        return str(self.headers.get("Content-Type", ""))

    @property
    def accept(self) -> str:
        return ",".join(self.headers.getall("Accept", ()))

    @property
    def dry_run(self) -> bool:
        return "dryRun" in self.query


def json_answer(body: bytes | dict[str, Any], code: int = 200) -> web.Response:
    encoded = body if isinstance(body, bytes) else encode(body)
    return web.Response(body=encoded, status=code, content_type=JSON, headers=_HEADERS)


def text_answer(text: str, code: int = 200) -> web.Response:
    return web.Response(text=text, status=code, headers=_HEADERS)


def refusal(error: StatusError) -> web.Response:
    answer = json_answer(error.body, error.code)
    retry_after = (error.details or {}).get("retryAfterSeconds")
    if retry_after:
        answer.headers["Retry-After"] = str(retry_after)
    return answer
