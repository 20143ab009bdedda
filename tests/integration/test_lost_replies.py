"""Bindings whose answer gets lost: carried out or not, the scheduler must find out."""

import pytest
from aiohttp import web

from tests.integration.checker import violations
from tests.integration.cluster import node, pod, until


class DeafWhileItMatters:
    """Loses the answers to `losses` bindings; from the first on, no news of pods get through."""

    def __init__(self, api, *, carries_out, losses=1):
        self._api = api
        self._carries_out = carries_out
        self._losses = losses
        self.deaf = False
        api.interceptors.append(self)

    async def __call__(self, request):
        if request.path == "/api/v1/pods" and self.deaf:
            return web.Response(status=503)
        if request.path.endswith("/binding") and self._losses:
            self._losses -= 1
            self.deaf = True
            self._api.close_watches("pods")
            if self._carries_out:
                await self._api.answer(request)
            request.transport.close()
            return web.Response(status=499)
        return None


async def test_room_that_an_unanswered_binding_took_is_not_given_away(cluster):
    cluster.create(node("n1", cpu="1"))
    network = DeafWhileItMatters(cluster.api, carries_out=True)
    async with cluster.scheduler() as running:
        cluster.create(pod("first", cpu="1"), pod("second", cpu="1"))
        await until(lambda: network.deaf)
        await until(lambda: "Insufficient cpu" in cluster.complaint("second"))
        network.deaf = False
        pods = running.daemon.scheduler.following.pods
        await until(lambda: pods.get("default/first").spec.node_name)
        await until(lambda: cluster.events("first"))
    assert cluster.places() == {"first": "n1", "second": None}
    assert violations(cluster.nodes(), cluster.pods()) == []
    assert not cluster.complaint("first")
    assert [reason for reason, _ in cluster.events("first")] == ["Scheduled"]


@pytest.mark.parametrize("losses", [1, 3])
async def test_binding_that_was_not_carried_out_is_tried_again(cluster, losses):
    cluster.create(node("n1", cpu="1"))
    DeafWhileItMatters(cluster.api, carries_out=False, losses=losses).deaf = False
    async with cluster.scheduler(podMaxBackoffSeconds=1):
        cluster.create(pod("p1", cpu="1"))
        await until(lambda: "EOF" in cluster.complaint("p1"))
        cluster.api.interceptors.clear()
        await until(lambda: cluster.place("p1") == "n1")
