"""/debug/flags: the verbosity of the log, changed while running."""

from __future__ import annotations

import asyncio

from aiohttp import web

from kscheduler import logs
from kscheduler.errors import ConfigError
from kscheduler.gotext.strconv import parse_uint
from kscheduler.serving import answers
from kscheduler.serving.pages import Pages

log = logs.logger(__name__)

# Nobody needs more to write a number down.
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


def install(pages: Pages) -> None:
    pages.add("/debug/flags", _index)
    pages.add_below("/debug/flags/", _index)
    pages.add("/debug/flags/v", _verbosity)


async def _index(request: web.BaseRequest) -> web.StreamResponse:
    return answers.text(INDEX, content_type=answers.HTML, headers={})


async def _verbosity(request: web.BaseRequest) -> web.StreamResponse:
    if request.method != "PUT":
        return _said(406, "unsupported http method")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await _body(request)
    except web.HTTPRequestEntityTooLarge:
        return _said(413, "http: request body too large")
    except TimeoutError:
        return _said(400, "error reading request body: i/o timeout")
    try:
        level = parse_uint(body, base=10, bits=31)
    except ConfigError as error:
        return _said(400, str(error))
    logs.set_verbosity(level)
    log.info("Verbosity was changed over HTTP", v=level, srcIP=request.remote or "")
    return _said(200, f"successfully set klog.logging.verbosity to {body}")


async def _body(request: web.BaseRequest) -> str:
    """The whole of it, if it is short."""
    content = bytearray()
    async for piece in request.content.iter_any():
        content += piece
        if len(content) > MAX_BODY_BYTES:
            raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES, len(content))
    return content.decode("utf-8", "replace")


def _said(status: int, words: str) -> web.Response:
    return answers.text(f"{words}\n", status=status, content_type="text/plain")
