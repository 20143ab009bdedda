"""The pages of the secure port, and the few of them that a plain listener shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec
from aiohttp import web
from prometheus_client import Metric

from kscheduler.api.core import Pod
from kscheduler.config.emulation import Release
from kscheduler.serving import answers, zpages
from kscheduler.serving.answers import NO_SNIFF, Handler
from kscheduler.serving.gate import Pages
from kscheduler.serving.health import Check, HealthMetrics, Report, examine, examine_one
from kscheduler.serving.metrics_page import MetricsPage
from kscheduler.serving.pod_resources import ResourcesPage
from kscheduler.serving.profiling import pages as profiling


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that the pages show.

    `checks` maps healthz, livez and readyz to the checks of each. `flags` and `emulated`
    are None if /flagz and /statusz are switched off.
    """

    checks: Mapping[str, Sequence[Check]]
    collect: Callable[[], Iterable[Metric]]
    reset: Callable[[], object]
    configz: Callable[[], bytes]
    pods: Callable[[], Collection[Pod]]
    leads: Callable[[], bool]
    flags: Mapping[str, str] | None
    emulated: Release | None
    profiles: bool
    health_metrics: HealthMetrics = msgspec.field(default_factory=HealthMetrics)


def all_pages(sources: Sources) -> Pages:
    pages = Pages()
    _install_health(pages, sources)

    async def configz(request: web.BaseRequest) -> web.StreamResponse:
        body = sources.configz()
        return web.Response(body=body, content_type="application/json", headers=NO_SNIFF)

    pages.add("/configz", configz, listed=True)
    _install_metrics(pages, sources)
    if sources.profiles:
        profiling.install(pages)
        zpages.install_debug_flags(pages)
    if sources.flags is not None:
        pages.add("/flagz", zpages.flagz(sources.flags), listed=True)
    if sources.emulated is not None:
        pages.add("/statusz", zpages.statusz(pages.listed, sources.emulated))
    return pages


def health_pages(sources: Sources) -> Pages:
    pages = Pages()
    _install_health(pages, sources)
    return pages


def metrics_pages(sources: Sources) -> Pages:
    """For reading: metrics cannot be reset over a port without authentication."""
    pages = Pages()
    _install_metrics(pages, sources)
    return pages


def _install_health(pages: Pages, sources: Sources) -> None:
    for endpoint, checks in sources.checks.items():
        page = _health(endpoint, checks, sources.health_metrics)
        pages.add(f"/{endpoint}", page, listed=True)
        for check in checks:
            pages.add(f"/{endpoint}/{check.name}", _one_check(check))


def _install_metrics(pages: Pages, sources: Sources) -> None:
    health = sources.health_metrics
    pages.add("/metrics", MetricsPage(sources.collect, sources.reset), listed=True)
    pages.add("/metrics/resources", ResourcesPage(sources.pods, sources.leads))
    pages.add("/metrics/slis", MetricsPage(health.collect, health.reset))


def _health(endpoint: str, checks: Sequence[Check], metrics: HealthMetrics) -> Handler:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked = answers.query_of(request)
        report = examine(
            endpoint,
            checks,
            exclude=frozenset(asked.get("exclude", ())),
            verbose="verbose" in asked,
            metrics=metrics,
        )
        return _report(report, NO_SNIFF)

    return answer


def _one_check(check: Check) -> Handler:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        report = examine_one(check)
        return _report(report, {} if report.healthy else NO_SNIFF)

    return answer


def _report(report: Report, headers: Mapping[str, str]) -> web.Response:
    return answers.text(report.text, status=200 if report.healthy else 500, headers=headers)
