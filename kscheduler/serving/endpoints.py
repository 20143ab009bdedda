"""The paths of the serving port."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import parse_qs

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from kscheduler.serving.health import Check, Report, examine, examine_one

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

PLAIN_TEXT = "text/plain; charset=utf-8"
METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
STARTED = str(int(time.time()))
NO_SNIFF = {"X-Content-Type-Options": "nosniff"}


def build(
    *,
    checks: Mapping[str, Sequence[Check]],
    registry: CollectorRegistry,
    configz: Callable[[], bytes],
) -> web.Application:
    """`checks` maps healthz, livez and readyz to what each of them looks at."""
    app = web.Application(middlewares=[_like_an_api_server])
    for endpoint, of_endpoint in checks.items():
        app.router.add_route("*", f"/{endpoint}", _health(endpoint, of_endpoint))
        for check in of_endpoint:
            app.router.add_route("*", f"/{endpoint}/{check.name}", _one_check(check))
    app.router.add_route("*", "/metrics", _metrics(registry))
    app.router.add_route("*", "/configz", _configz(configz))
    return app


@web.middleware
async def _like_an_api_server(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        response = await handler(request)
    except web.HTTPNotFound:
        response = _text(404, "404 page not found\n", NO_SNIFF)
    response.headers["Cache-Control"] = "no-cache, private"
    return response


def _health(endpoint: str, checks: Sequence[Check]) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        # Not request.query: in a request a # starts no fragment.
        asked = parse_qs(request.raw_path.partition("?")[2], keep_blank_values=True)
        report = examine(
            endpoint,
            checks,
            exclude=frozenset(asked.get("exclude", ())),
            verbose="verbose" in asked,
        )
        return _report(report, NO_SNIFF)

    return answer


def _one_check(check: Check) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        report = examine_one(check)
        return _report(report, {} if report.healthy else NO_SNIFF)

    return answer


def _metrics(registry: CollectorRegistry) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(
            body=generate_latest(registry),
            headers={"Content-Type": METRICS_TEXT, "Process-Start-Time-Unix": STARTED},
        )

    return answer


def _configz(configz: Callable[[], bytes]) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=configz(), content_type="application/json", headers=NO_SNIFF)

    return answer


def _report(report: Report, headers: Mapping[str, str]) -> web.Response:
    return _text(200 if report.healthy else 500, report.text, headers)


def _text(status: int, text: str, headers: Mapping[str, str]) -> web.Response:
    return web.Response(
        status=status, body=text.encode(), headers={"Content-Type": PLAIN_TEXT, **headers}
    )
