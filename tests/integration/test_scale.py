"""A thousand nodes, five thousand pods of every kind, and a checker that trusts nobody."""

import random

import pytest

from tests.integration.cluster import pod
from tests.integration.workload import mixed_nodes, mixed_pods
from tests.kit.checker import binding_violations, violations
from tests.kit.polling import until

pytestmark = pytest.mark.slow

SEED = 37
NODES, PODS = 1000, 5000
IMPOSSIBLE = {
    "too-large": ({"cpu": "1000"}, "Insufficient cpu"),
    "too-choosy": ({"nodeSelector": {"disk": "tape"}}, "didn't match Pod's node affinity/selector"),
}


async def test_five_thousand_mixed_pods_find_places_that_break_no_rule(cluster):
    cluster.create(*mixed_nodes(NODES))
    cluster.create(*(pod(name, **fields) for name, (fields, _) in IMPOSSIBLE.items()))
    async with cluster.scheduler():
        cluster.create(*mixed_pods(PODS, random.Random(SEED), group=20))
        await until(lambda: cluster.bindings >= PODS, seconds=180)
        await until(lambda: all(map(cluster.complaint, IMPOSSIBLE)))
    assert sorted(cluster.waiting()) == sorted(IMPOSSIBLE)
    assert violations(cluster.nodes(), cluster.pods()) == []
    assert binding_violations(cluster.sent, cluster.pods(), ["default-scheduler"]) == []
    for name, (_, why) in IMPOSSIBLE.items():
        assert why in cluster.complaint(name)
