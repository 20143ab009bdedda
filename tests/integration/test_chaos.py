"""An API server that fails in every way it can, and a scheduler that loses nothing over it."""

import asyncio
import random
import time
from collections import Counter

import pytest
from aiohttp import web

from kscheduler.client.throttle import Backoff
from kscheduler.sandbox import ApiServer
from tests.integration.workload import mixed_nodes, mixed_pods
from tests.kit.checker import binding_violations, violations
from tests.kit.polling import until

pytestmark = pytest.mark.slow

SEED = 20261116
PODS = 450
CHAOS_SECONDS = 10.0


class Chaos:
    """Requests go wrong at random; watches and the listener itself do so on time."""

    def __init__(self, api: ApiServer, rng: random.Random) -> None:
        self._api = api
        self._rng = rng
        self._end = 0.0
        self.counts: Counter[str] = Counter()  # how often each thing went wrong

    async def run(self) -> None:
        """For a while; then everything is well again."""
        self._end = time.monotonic() + CHAOS_SECONDS
        self._api.interceptors.append(self.intercept)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._close_watches())
            tasks.create_task(self._restart_listener())
        self._api.interceptors.remove(self.intercept)

    async def _close_watches(self) -> None:
        while time.monotonic() < self._end:
            await asyncio.sleep(1.0)
            self._api.close_watches()
            self._count("watches closed")

    async def _restart_listener(self) -> None:
        while time.monotonic() < self._end:
            await asyncio.sleep(self._rng.uniform(1.5, 3.0))
            await self._api.stop_listening()
            self._count("listener down")
            await asyncio.sleep(self._rng.uniform(0.1, 0.5))
            await self._api.listen()

    async def intercept(self, request: web.BaseRequest) -> web.StreamResponse | None:
        roll = self._rng.random()
        if roll < 0.04:
            return self._refusal(429, "TooManyRequests", {"Retry-After": "1"})
        if roll < 0.08:
            return self._refusal(500, "InternalError")
        if request.method == "GET" and roll < 0.16:
            return self._refusal(410, "Expired")
        if roll < 0.10:
            return self._lost(request, "request lost")
        if roll < 0.14 and request.path.endswith("/binding"):
            await self._api.answer(request)
            return self._lost(request, "reply lost")
        return None

    def _refusal(
        self, code: int, reason: str, headers: dict[str, str] | None = None
    ) -> web.StreamResponse:
        self._count(str(code))
        status = {"kind": "Status", "status": "Failure", "reason": reason, "code": code}
        return web.json_response({**status, "message": "chaos"}, status=code, headers=headers)

    def _lost(self, request: web.BaseRequest, what: str) -> web.StreamResponse:
        self._count(what)
        if request.transport is not None:
            request.transport.close()
        return web.Response(status=499)

    def _count(self, what: str) -> None:
        self.counts[what] += 1


@pytest.fixture
def impatience(monkeypatch):
    """Reflectors come back sooner, so that more can go wrong in the time there is."""
    monkeypatch.setattr(
        "kscheduler.client.informers.reflector.Backoff",
        lambda: Backoff(first_seconds=0.05, cap_seconds=0.5),
    )


async def test_no_pod_is_lost_and_none_bound_twice(cluster, impatience):
    rng = random.Random(SEED)
    cluster.create(*mixed_nodes(30))
    chaos = Chaos(cluster.api, rng)

    async def arrive() -> None:
        for made in mixed_pods(PODS, rng):
            cluster.create(made)
            await asyncio.sleep(0.8 * CHAOS_SECONDS / PODS)

    async with cluster.scheduler():
        arriving = asyncio.create_task(arrive())
        await chaos.run()
        await arriving
        await until(lambda: not cluster.waiting(), seconds=120)
    assert violations(cluster.nodes(), cluster.pods()) == []
    assert binding_violations(cluster.sent, cluster.pods(), ["default-scheduler"]) == []
    assert [name for name in cluster.places() if cluster.complaint(name)] == []
    assert len(chaos.counts) == 7, chaos.counts
