"""/metrics/resources: what every pod asks for and is limited to, for capacity planning.

Read from the informer's store when somebody asks. A large cluster has tens of thousands of series,
so they are written down a few milliseconds at a time, with room for other work in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping

from aiohttp import web
from prometheus_client import Metric
from prometheus_client.samples import Sample

from kscheduler.api.core import Pod
from kscheduler.api.quantity import NANO, QuantityError
from kscheduler.api.requests import pod_limits, pod_requests
from kscheduler.api.resource_names import is_attachable_volumes, is_hugepages
from kscheduler.serving.answers import Handler
from kscheduler.serving.metrics_page import MetricsPage

# How long pods are written down without a break.
BUDGET_SECONDS = 0.004
UNITS = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}
REQUEST = "kube_pod_resource_request"
LIMIT = "kube_pod_resource_limit"
ENDED = ("Succeeded", "Failed")

Pods = Callable[[], Collection[Pod]]


def resources_page(pods: Pods, leads: Callable[[], bool]) -> Handler:
    """A standby, whose view nobody should plan by, answers with nothing at all."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if not leads():
            return web.Response(body=b"", headers={})
        families = [] if request.method == "DELETE" else await collect(list(pods()))
        return await MetricsPage(lambda: families, lambda: None)(request)

    return answer


async def collect(pods: Collection[Pod]) -> list[Metric]:
    requested = Metric(REQUEST, "[STABLE] How much of a resource a pod requests.", "gauge")
    limited = Metric(LIMIT, "[STABLE] How much of a resource a pod may use.", "gauge")
    rest_at = time.monotonic() + BUDGET_SECONDS
    for pod in pods:
        if pod.spec.node_name and pod.status.phase in ENDED:
            continue
        try:
            requested.samples.extend(_samples(REQUEST, pod, pod_requests(pod)))
            limited.samples.extend(_samples(LIMIT, pod, pod_limits(pod)))
        except QuantityError:
            continue  # No API server lets such a pod in; it is told where it is scheduled.
        if time.monotonic() >= rest_at:
            await asyncio.sleep(0)
            rest_at = time.monotonic() + BUDGET_SECONDS
    return [requested, limited]


def _samples(name: str, pod: Pod, amounts: Mapping[str, int]) -> Iterator[Sample]:
    priority = pod.spec.priority
    for resource, nanos in sorted(amounts.items()):
        if nanos:
            labels = {
                "namespace": pod.namespace,
                "pod": pod.name,
                "node": pod.spec.node_name,
                "scheduler": pod.spec.scheduler_name,
                "priority": "" if priority is None else str(priority),
                "resource": resource,
                "unit": unit_of(resource),
            }
            yield Sample(name, labels, approximate(nanos))


def unit_of(resource: str) -> str:
    if is_hugepages(resource):
        return "bytes"
    return UNITS.get(resource, "integer" if is_attachable_volumes(resource) else "")


def approximate(nanos: int) -> float:
    """The float Go makes of a quantity: its digits times a power of ten, 700m being 700 x 0.001."""
    for divisor, power in ((NANO, 1.0), (NANO // 1000, 0.001), (1000, 1e-06)):
        if nanos % divisor == 0:
            return nanos // divisor * power
    return nanos * 1e-09
