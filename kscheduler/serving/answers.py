"""Answers in the forms an API server gives them: plain texts, Status objects, YAML.

The form of an answer is negotiated: the Accept header is parsed as goautoneg does, and chosen from
as an API server chooses: in the client's order, and for each of its wishes the first of our forms
that fits.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

import msgspec
from aiohttp import web

from kscheduler.config.dump import yaml_text
from kscheduler.gotext.json_text import marshal
from kscheduler.gotext.strconv import quote
from kscheduler.rest.status import StatusError

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

PLAIN_TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
NO_SNIFF = {"X-Content-Type-Options": "nosniff"}

# User agents of programs whose output people read.
_FOR_EYES = ("curl", "Wget", "Mozilla/5.0")
# Errors must not look like HTML.
_HARMLESS = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def text(
    body: str,
    *,
    status: int = 200,
    content_type: str = PLAIN_TEXT,
    headers: Mapping[str, str] = NO_SNIFF,
) -> web.Response:
    return web.Response(
        status=status,
        body=body.encode("utf-8", "surrogateescape"),
        headers={"Content-Type": content_type, **headers},
    )


def not_found() -> web.Response:
    return text("404 page not found\n", status=404)


def internal_error(request: web.BaseRequest, error: object) -> web.Response:
    said = f"Internal Server Error: {quote(request.raw_path)}: {error}".translate(_HARMLESS)
    return text(f"{said}\n", status=500)


def unauthorized(request: web.BaseRequest) -> web.Response:
    return refusal(request, 401, "Unauthorized", "Unauthorized")


def forbidden(
    request: web.BaseRequest, *, user: str, verb: str, path: str, reason: str
) -> web.Response:
    said = f"User {quote(user)} cannot {verb} path {quote(path)}".translate(_HARMLESS)
    message = f"forbidden: {said}: {reason}" if reason else f"forbidden: {said}"
    answer = refusal(request, 403, "Forbidden", message, details={})
    answer.headers.update(NO_SNIFF)
    return answer


def not_acceptable(request: web.BaseRequest, forms: str) -> web.Response:
    message = f"only the following media types are accepted: {forms}"
    return refusal(request, 406, "NotAcceptable", message)


def refusal(
    request: web.BaseRequest,
    code: int,
    reason: str,
    message: str,
    details: Mapping[str, str] | None = None,
) -> web.Response:
    """A Status in the form the client accepts, or in plain JSON if it accepts none of ours."""
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **({} if details is None else {"details": details}),
        "code": code,
    }
    choice = choose(request.headers.get("Accept", ""), (JSON, YAML))
    if choice is None:
        return _document(indented(document), JSON, code)
    return encoded(request, document, choice.media_type, status=code)


def status_error(request: web.BaseRequest, error: StatusError) -> web.Response:
    """A refusal of an API of resources, with Retry-After where the Status has it."""
    choice = choose(request.headers.get("Accept", ""), (JSON, YAML))
    media_type = JSON if choice is None else choice.media_type
    answer = encoded(request, error.body, media_type, status=error.code)
    if retry_after := (error.details or {}).get("retryAfterSeconds"):
        answer.headers["Retry-After"] = str(retry_after)
    return answer


def encoded(
    request: web.BaseRequest,
    document: Mapping[str, Any],
    media_type: str,
    *,
    content_type: str = "",
    status: int = 200,
) -> web.Response:
    """A document in the chosen form; JSON is indented for ?pretty=1 and for people."""
    if media_type == YAML:
        return _document(yaml_text(document), content_type or media_type, status)
    asked = query_of(request).get("pretty", [""])[0]
    if asked:
        pretty = asked in ("1", "t", "T", "true", "TRUE", "True")
    else:
        pretty = request.headers.get("User-Agent", "").startswith(_FOR_EYES)
    body = f"{indented(document) if pretty else marshal(document)}\n"
    return _document(body, content_type or media_type, status)


def indented(document: Mapping[str, Any]) -> str:
    """`json.MarshalIndent`: Go's escapes, two spaces."""
    written = json.dumps(document, indent=2, ensure_ascii=False)
    return written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def query_of(request: web.BaseRequest) -> dict[str, list[str]]:
    """Parameters by name. Not aiohttp's: in a request a # starts no fragment."""
    found: dict[str, list[str]] = {}
    for part in request.raw_path.partition("?")[2].split("&"):
        if part:
            name, _, value = part.partition("=")
            found.setdefault(unquote_plus(name), []).append(unquote_plus(value))
    return found


def _document(body: str, content_type: str, status: int) -> web.Response:
    return web.Response(
        status=status,
        body=body.encode("utf-8", "surrogateescape"),
        headers={"Content-Type": content_type},
    )


JSON = "application/json"
YAML = "application/yaml"
TEXT = "text/plain"

# A header that names more is not read further.
MAX_WISHES = 64


class Target(NamedTuple):
    """The API kind a client wants an answer converted to."""

    group: str
    version: str
    kind: str

    def parameters(self) -> str:
        parts = (("g", self.group), ("v", self.version), ("as", self.kind))
        return "".join(f";{name}={value}" for name, value in parts if value)


class Wish(msgspec.Struct, frozen=True):
    """One clause of an Accept header."""

    type: str
    subtype: str
    quality: float = 1.0
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)

    def fits(self, media_type: str) -> bool:
        main, _, sub = media_type.partition("/")
        return (self.type, self.subtype) == ("*", "*") or (
            self.type == main and self.subtype in (sub, "*")
        )

    @property
    def target(self) -> Target | None:
        if self.parameters.keys().isdisjoint(("g", "v", "as")):
            return None
        return Target(*(self.parameters.get(name, "") for name in ("g", "v", "as")))


class Choice(NamedTuple):
    media_type: str
    target: Target | None


Allows = Callable[[str, Target | None], bool]


def unconverted(media_type: str, target: Target | None) -> bool:
    """The rule for errors: any form, no other kind."""
    return target is None


def choose(header: str, forms: Sequence[str], allows: Allows = unconverted) -> Choice | None:
    """None if nothing we have will do."""
    if not header:
        return Choice(forms[0], None)
    for wish in wishes(header):
        if wish.parameters.get("stream") or wish.parameters.get("sv"):
            continue
        for form in forms:
            if wish.fits(form) and allows(form, wish.target):
                return Choice(form, wish.target)
    return None


def wishes(header: str) -> list[Wish]:
    """Clauses of an Accept header, best first; malformed ones are left out."""
    found: list[Wish] = []
    for clause in header.split(",", MAX_WISHES)[:MAX_WISHES]:
        media_type, *rest = (part.strip() for part in clause.split(";"))
        main, slash, sub = media_type.partition("/")
        if media_type == "*":
            main, slash, sub = "*", "/", "*"
        if not slash or "/" in sub:
            continue
        pairs = (part.partition("=") for part in rest)
        parameters = {name.strip(): value.strip().strip('"') for name, _, value in pairs}
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 1.0
        found.append(Wish(main.strip(), sub.strip(), quality, parameters))
    # A stable sort: of two wishes of one rank the client's first one wins.
    return sorted(found, key=lambda wish: (-wish.quality, wish.type == "*", wish.subtype == "*"))
