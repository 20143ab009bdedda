"""/metrics and its kin: a registry's families, in the form a scraper asks for.

Printing some hundred series holds up the loop for milliseconds, so what was printed serves
everybody for ten times as long as it took: however many scrape at once, no more than a tenth of the
time goes into it.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable

import msgspec
from aiohttp import web
from prometheus_client import Metric

from kscheduler.serving import answers
from kscheduler.serving.answers import wishes
from kscheduler.serving.exposition import as_protobuf, as_text
from kscheduler.serving.health import STARTED

PROTOBUF = "application/vnd.google.protobuf"
FAMILY = "io.prometheus.client.MetricFamily"
ESCAPINGS = ("allow-utf-8", "underscores", "dots", "values")
# A page is good for so many times the time it took to print.
REUSE_FACTOR = 10
GZIP = 31

Collect = Callable[[], Iterable[Metric]]


class _Printed(msgspec.Struct):
    body: bytes
    good_until: float
    compressed: bytes | None = None

    def gzipped(self) -> bytes:
        if self.compressed is None:
            packer = zlib.compressobj(1, wbits=GZIP)
            self.compressed = packer.compress(self.body) + packer.flush()
        return self.compressed


class MetricsPage:
    """Handler of one registry's page, printed once per form; DELETE calls `reset`."""

    def __init__(self, collect: Collect, reset: Callable[[], object]) -> None:
        self._collect = collect
        self._reset = reset
        self._printed: dict[bool, _Printed] = {}

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "DELETE":
            self._reset()
            self._printed.clear()
            return answers.text("metrics reset\n", headers={})
        content_type = content_type_for(request.headers.get("Accept", ""))
        printed = self._page(protobuf=content_type.startswith(PROTOBUF))
        headers = page_headers(content_type)
        body = printed.body
        if accepts_gzip(request):
            body = printed.gzipped()
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=body, headers=headers)

    def _page(self, *, protobuf: bool) -> _Printed:
        """The page in one form, printed anew if its time is up."""
        kept = self._printed.get(protobuf)
        if kept is not None and time.monotonic() < kept.good_until:
            return kept
        # CPU time of this thread: by wall-clock time, a process that was stopped meanwhile would
        # serve an old page.
        started = time.thread_time()
        body = (as_protobuf if protobuf else as_text)(self._collect())
        worked = time.thread_time() - started
        printed = _Printed(body, good_until(time.monotonic(), worked))
        self._printed[protobuf] = printed
        return printed


def good_until(printed_at: float, worked_seconds: float) -> float:
    """When a page that took so much CPU time should be printed anew."""
    return printed_at + REUSE_FACTOR * worked_seconds


def page_headers(content_type: str) -> dict[str, str]:
    return {"Content-Type": content_type, "Process-Start-Time-Unix": str(STARTED)}


def accepts_gzip(request: web.BaseRequest) -> bool:
    return "gzip" in request.headers.get("Accept-Encoding", "")


def content_type_for(accept: str) -> str:
    """Text unless protobuf is asked for before it; and which characters names may have."""
    escaping = "underscores"
    for wish in wishes(accept):
        if wish.parameters.get("escaping") in ESCAPINGS:
            escaping = wish.parameters["escaping"]
        if (
            f"{wish.type}/{wish.subtype}" == PROTOBUF
            and wish.parameters.get("proto") == FAMILY
            and wish.parameters.get("encoding") == "delimited"
        ):
            return f"{PROTOBUF}; proto={FAMILY}; encoding=delimited; escaping={escaping}"
        if (wish.type, wish.subtype) == ("text", "plain") and (
            wish.parameters.get("version", "") in ("", "0.0.4")
        ):
            break
    return f"text/plain; version=0.0.4; charset=utf-8; escaping={escaping}"
