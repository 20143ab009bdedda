"""/flagz and /statusz: the flags of the process, and its version and uptime.

Plain text is for people; the delimiter in it changes at random so that it is not parsed.
Programs ask for a kind of config.k8s.io instead.

/debug/flags is here, too: the verbosity of the log, changed while running.
"""

from __future__ import annotations

import asyncio
import datetime
import platform
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

from kscheduler import logs
from kscheduler.config.emulation import BINARY, Release, release_text
from kscheduler.errors import ConfigError
from kscheduler.gotext.strconv import parse_uint
from kscheduler.serving import answers
from kscheduler.serving.answers import JSON, TEXT, YAML, Handler, Target, choose
from kscheduler.serving.gate import Pages
from kscheduler.serving.health import STARTED

log = logs.logger(__name__)

COMPONENT = "kube-scheduler"
GROUP = "config.k8s.io"
DEPRECATED = "v1alpha1"
VERSIONS = (DEPRECATED, "v1beta1")
DELIMITERS = (":", ": ", "=", " ")
WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting "
    "compatibility guarantees and is for debugging purposes only."
)
FORMS = (JSON, YAML, TEXT)


class ZPage(msgspec.Struct, frozen=True):
    """`members` are the fields of the structured form behind its metadata."""

    kind: str
    text: Callable[[], str]
    members: Callable[[], Mapping[str, Any]]

    @property
    def name(self) -> str:
        return self.kind.lower()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        accept = request.headers.get("Accept", "")
        if not accept.strip():
            return answers.text(self.text(), headers={})
        own = {Target(GROUP, version, self.kind) for version in VERSIONS}

        def allows(media_type: str, target: Target | None) -> bool:
            return target is None if media_type == TEXT else target in own

        choice = choose(accept, FORMS, allows)
        if choice is None:
            return answers.not_acceptable(request, ", ".join(FORMS))
        media_type, target = choice
        if target is None:
            return answers.text(self.text(), headers={})
        document = {
            "kind": self.kind,
            "apiVersion": f"{GROUP}/{target.version}",
            "metadata": {"name": COMPONENT},
            **self.members(),
        }
        content_type = media_type + target.parameters()
        answer = answers.encoded(request, document, media_type, content_type=content_type)
        if target.version == DEPRECATED:
            answer.headers["Warning"] = (
                f'299 - "This version of the {self.name} endpoint is deprecated. '
                'Please use a newer version."'
            )
        return answer


def flagz(flags: Mapping[str, str]) -> Handler:
    delimiter = random.choice(DELIMITERS)
    lines = [f"{name}{delimiter}{value}\n" for name, value in sorted(flags.items())]
    text = _head("flagz") + "".join(lines)
    return ZPage("Flagz", lambda: text, lambda: {"flags": dict(sorted(flags.items()))})


def statusz(paths: Sequence[str], emulated: Release) -> Handler:
    started = datetime.datetime.fromtimestamp(STARTED, datetime.UTC)
    interpreter = f"python{platform.python_version()}"  # in the place of Go's version

    def text() -> str:
        up = _up_seconds()
        facts = {
            "Started": started.strftime("%a %b %e %H:%M:%S UTC %Y"),
            "Up": f"{up // 3600} hr {up // 60 % 60:02d} min {up % 60:02d} sec",
            "Go version": interpreter,
            "Binary version": str(BINARY),
            "Emulation version": release_text(emulated),
            "Paths": " ".join(paths),
        }
        delimiter = random.choice(DELIMITERS)
        lines = (f"{name}{delimiter} {value}\n" for name, value in facts.items())
        return f"{_head('statusz')}\n{''.join(lines)}"

    def members() -> Mapping[str, Any]:
        return {
            "startTime": f"{started:%Y-%m-%dT%H:%M:%SZ}",
            "uptimeSeconds": _up_seconds(),
            "goVersion": interpreter,
            "binaryVersion": str(BINARY),
            "emulationVersion": release_text(emulated),
            "paths": list(paths),
        }

    return ZPage("Statusz", text, members)


def _head(name: str) -> str:
    return f"\n{COMPONENT} {name}\n{WARNING}\n"


def _up_seconds() -> int:
    return max(0, int(time.time()) - STARTED)


# More than any number takes.
MAX_BODY_BYTES = 1024
BODY_SECONDS = 10.0

INDEX = """\
<html>
<head>
<title>/debug/flags/</title>
</head>
<body>
/debug/flags/<br>
<br>
flags:<br>
<table>
<tr>v<br>
</table>
<br>
full flags configurable<br>
</body>
</html>
"""


def install_debug_flags(pages: Pages) -> None:
    pages.add("/debug/flags", _index)
    pages.add_below("/debug/flags/", _index)
    pages.add("/debug/flags/v", _verbosity)


async def _index(request: web.BaseRequest) -> web.StreamResponse:
    return answers.text(INDEX, content_type=answers.HTML, headers={})


async def _verbosity(request: web.BaseRequest) -> web.StreamResponse:
    if request.method != "PUT":
        return _said(406, "unsupported http method")
    try:
        content = bytearray()
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.content.iter_any():
                content += piece
                if len(content) > MAX_BODY_BYTES:
                    return _said(413, "http: request body too large")
    except TimeoutError:
        return _said(400, "error reading request body: i/o timeout")
    body = content.decode("utf-8", "replace")
    try:
        level = parse_uint(body, base=10, bits=31)
    except ConfigError as error:
        return _said(400, str(error))
    logs.set_verbosity(level)
    log.info("Verbosity was changed over HTTP", v=level, srcIP=request.remote or "")
    return _said(200, f"successfully set klog.logging.verbosity to {body}")


def _said(status: int, words: str) -> web.Response:
    return answers.text(f"{words}\n", status=status, content_type="text/plain")
