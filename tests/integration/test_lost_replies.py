"""Bindings whose answer gets lost: carried out or not, the scheduler must find out."""

import pytest
from aiohttp import web

from tests.integration.cluster import pod
from tests.kit.checker import violations
from tests.kit.manifests import node_manifest
from tests.kit.polling import until

pytestmark = pytest.mark.slow


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
    cluster.create(node_manifest("n1", cpu="1"))
    network = DeafWhileItMatters(cluster.api, carries_out=True)
    async with cluster.scheduler() as running:
        cluster.create(pod("first", cpu="1"), pod("second", cpu="1"))
        await until(lambda: network.deaf)
        await until(lambda: "Insufficient cpu" in cluster.complaint("second"))
        network.deaf = False
        pods = running.daemon.scheduler.informers.pods
        await until(lambda: pods.get("default/first").spec.node_name)
        await until(lambda: cluster.events("first"))
    assert cluster.places() == {"first": "n1", "second": None}
    assert violations(cluster.nodes(), cluster.pods()) == []
    assert not cluster.complaint("first")
    assert [reason for reason, _ in cluster.events("first")] == ["Scheduled"]


@pytest.mark.parametrize("losses", [1, 3])
async def test_binding_that_was_not_carried_out_is_tried_again(cluster, losses):
    cluster.create(node_manifest("n1", cpu="1"))
    DeafWhileItMatters(cluster.api, carries_out=False, losses=losses).deaf = False
    async with cluster.scheduler(podMaxBackoffSeconds=1):
        cluster.create(pod("p1", cpu="1"))
        await until(lambda: "EOF" in cluster.complaint("p1"))
        cluster.api.interceptors.clear()
        await until(lambda: cluster.place("p1") == "n1")


# Renewed several times while one binding is under way.
ELECTED = {
    "leaderElect": True,
    "leaseDuration": "2s",
    "renewDeadline": "1s",
    "retryPeriod": "200ms",
}


async def test_binding_may_take_longer_than_the_lease_that_is_renewed_meanwhile(cluster):
    cluster.create(node_manifest("n1", cpu="1"))
    renewals = []

    async def slow(request):
        if "/leases/" in request.path and request.method == "PUT":
            renewals.append(request)
        if request.path.endswith("/binding"):
            enough = len(renewals) + 10
            await until(lambda: len(renewals) >= enough)

    cluster.api.interceptors.append(slow)
    async with cluster.scheduler(leaderElection=ELECTED) as running:
        cluster.create(pod("first", cpu="1"))
        await until(lambda: cluster.place("first"))
        cluster.create(pod("second", cpu="1"))
        await until(lambda: "Insufficient cpu" in cluster.complaint("second"))
        assert not running.task.done()
    assert cluster.places() == {"first": "n1", "second": None}
    assert not cluster.complaint("first")
    bindings = [sent for sent in cluster.sent if sent.path.endswith("/binding")]
    assert [sent.status for sent in bindings] == [201]


async def test_room_of_a_binding_that_is_carried_out_late_is_not_given_away(cluster):
    """Its connection ends, the pod is read and is on no node; and then it is bound after all."""
    cluster.create(node_manifest("n1", cpu="1"))
    lost, read = [], []

    async def lose(request):
        if request.path.endswith("/first/binding"):
            lost.append(request)
            request.transport.close()
            return web.Response(status=499)
        if request.path.endswith("/pods/first") and request.method == "GET":
            read.append(request)
        return None

    cluster.api.interceptors.append(lose)
    async with cluster.scheduler(podMaxBackoffSeconds=1) as running:
        cluster.create(pod("first", cpu="1"), pod("second", cpu="1"))
        await until(lambda: "EOF" in cluster.complaint("first"))
        assert read
        await until(lambda: "Insufficient cpu" in cluster.complaint("second"))
        await until(lambda: len(lost) == 2)
        assert running.daemon.scheduler.cache.assumed_pod_count == 1
        cluster.api.objects.bind("first", "n1")
        await until(lambda: "Scheduled" in [reason for reason, _ in cluster.events("first")])
        assert running.daemon.scheduler.cache.assumed_pod_count == 0
    assert cluster.places() == {"first": "n1", "second": None}
    assert violations(cluster.nodes(), cluster.pods()) == []


async def test_a_pod_that_is_deleted_while_nobody_knows_gives_its_room_back(cluster):
    cluster.create(node_manifest("n1", cpu="1"))
    lost = []

    async def lose(request):
        if request.path.endswith("/first/binding") and not lost:
            lost.append(request)
            request.transport.close()
            return web.Response(status=499)
        return None

    cluster.api.interceptors.append(lose)
    async with cluster.scheduler(podMaxBackoffSeconds=1):
        cluster.create(pod("first", cpu="1"), pod("second", cpu="1"))
        await until(lambda: "EOF" in cluster.complaint("first"))
        cluster.api.objects.delete("pods", "first")
        await until(lambda: cluster.place("second") == "n1")
