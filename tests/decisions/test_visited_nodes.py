"""Records of searches that looked at some of the nodes only."""

import pytest

from kscheduler.cycle.attempt import Attempt, at_once
from kscheduler.cycle.node_sampling import rotated
from kscheduler.decisions.explain import attempt_of
from kscheduler.decisions.record import NodeNames, record_of
from kscheduler.framework.cycle_state import CycleState
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.state.pod_info import PodInfo
from tests.kit.objects import make_node, make_pod

NODES = 900
TAINTED, SMALL = 13, 17
TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
POD = {"requests": {"cpu": "2"}}
ZONES = {"nodeSelector": {"zone": "z1"}, "requests": {"cpu": "2"}}


def cluster(mixed):
    return [
        make_node(
            f"node-{number:03d}",
            labels={"zone": f"z{number % 2}"},
            allocatable={"cpu": "1" if mixed and number % SMALL == 0 else "64", "pods": "110"},
            taints=[TAINT] if mixed and number % TAINTED == 0 else [],
        )
        for number in range(NODES)
    ]


def decide(core, pod):
    queued = QueuedPodInfo(PodInfo(pod), timestamp=1.0, attempts=1)
    attempt = Attempt(queued, core.framework, CycleState(), core.cache.snapshot())
    return attempt, at_once(core.algorithm.schedule_pod(attempt))


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("fields", [POD, ZONES])
def test_only_nodes_that_were_visited_are_told_of(decider, mixed, fields):
    core = decider(cluster(mixed))
    for number in range(12):  # Each search begins where the last one ended, and wraps around.
        attempt, outcome = decide(core, make_pod(f"pod-{number}", **fields))
        told = attempt_of(record_of(attempt, outcome, NodeNames(attempt.nodes), now=1.0))
        filtered, candidates, start, visited = attempt.search
        assert visited < NODES
        names = attempt.nodes.names
        seen = {names[row] for row in rotated(candidates, start, visited)}
        wanted = {
            (charge.plugin, charge.reason): {names[row] for row in charge.rows} & seen
            for charge in filtered.charges
        }
        found = {(one.plugin, one.reason): {*one.nodes} for one in told.rejections}
        assert found == {key: nodes for key, nodes in wanted.items() if nodes}
        assert all(one.count == len(one.nodes) for one in told.rejections)
        board = outcome.scores
        totals = dict(zip((names[row] for row in board.rows), board.total.tolist(), strict=True))
        assert {one.node: one.total for one in told.scores.nodes} == totals
        assert len(totals) == told.nodes.feasible
        assert told.nodes.evaluated == visited
