"""An API server that was away: what was missed is found out at once, not after the last pause."""

import pytest

from kscheduler.client.throttle import Backoff
from tests.integration.cluster import pod
from tests.kit.manifests import node_manifest
from tests.kit.polling import PATIENCE_SECONDS, until


@pytest.fixture
def long_pauses(monkeypatch):
    """From the second failure on a reflector pauses for longer than any test waits."""
    monkeypatch.setattr(
        "kscheduler.client.informers.reflector.Backoff",
        lambda: Backoff(first_seconds=0.05, factor=100 * PATIENCE_SECONDS, cap_seconds=1e6),
    )


async def test_all_watches_are_back_when_one_request_was_served(cluster, long_pauses):
    cluster.create(node_manifest("n1"))
    async with cluster.scheduler() as running:
        await until(lambda: running.daemon.scheduler.informers.pods.has_synced)
        watches = cluster.api.open_watches
        await cluster.api.stop_listening()
        pausing = running.daemon.cc.clients.reachability._waiting
        await until(lambda: len(pausing) == watches)
        cluster.create(pod("p1"))
        await cluster.api.listen()
        await running.daemon.cc.clients.scheduling.request("GET", "/version")
        await until(lambda: cluster.place("p1") == "n1")
        await until(lambda: cluster.api.open_watches == watches)
