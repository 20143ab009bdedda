"""A search for victims grows with the pods that may go and with what the preemptor says, once each:
twice as much of either costs about twice as much.
"""

import numpy as np
import pytest

from kscheduler.plugins.pod_topology_spread.args import PodTopologySpreadArgs
from kscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kscheduler.runtime.preemption.dry_run import DryRun
from kscheduler.runtime.preemption.potential_victims import DisruptionBudgets
from kscheduler.state.pod_info import PodInfo
from tests.adversary.work import work_of
from tests.plugins.evictions import REQUIRED, Stage, make_node, make_pod

NOW_NS = 1_800_000_000 * 10**9


def make_stage(victims, *, nodes=1, nominated_pods=None):
    size = len(victims) // nodes
    known = [make_node(f"n{number}", cpu=str(size)) for number in range(nodes)]
    stage = Stage(known, victims, nominated_pods=nominated_pods)
    spread = PodTopologySpread(PodTopologySpreadArgs(), stage.handle)
    stage.framework = stage._framework([spread])
    return stage


def victims_on(nodes, each, **parts):
    return [
        make_pod(f"v{node}-{number}", node=f"n{node}", labels={"app": f"a{number}"}, **parts)
        for node in range(nodes)
        for number in range(each)
    ]


def work(stage, preemptor):
    cycle, _ = stage.refused(preemptor)
    nodes = stage.cache.snapshot()

    def search():
        dry_run = DryRun(
            stage.framework,
            cycle,
            PodInfo(preemptor),
            nodes,
            budgets=DisruptionBudgets(),
            now_ns=NOW_NS,
        )
        found = dry_run.run(np.arange(len(nodes)), len(nodes))
        assert found.candidates

    search()
    return work_of(search)


def many_pods_on_one_node(size):
    return work(make_stage(victims_on(1, size)), make_pod("vip", str(size // 2), priority=9))


def many_spread_constraints(size):
    constraints = [
        {
            "maxSkew": 1000,
            "topologyKey": "host",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": f"a{number}"}},
        }
        for number in range(size)
    ]
    vip = make_pod("vip", "2", priority=9, topologySpreadConstraints=constraints)
    return work(make_stage(victims_on(8, 4), nodes=8), vip)


def victims_with_many_terms(size):
    terms = [
        {"labelSelector": {"matchLabels": {"app": f"x{number}"}}, "topologyKey": "host"}
        for number in range(size)
    ]
    shunning = {"podAntiAffinity": {REQUIRED: terms}}
    vip = make_pod("vip", "2", priority=9, labels={"app": "x0"})
    return work(make_stage(victims_on(8, 4, affinity=shunning), nodes=8), vip)


def many_pods_promised_to_one_node(size):
    nominated_pods = [PodInfo(make_pod(f"q{number}", "0", priority=9)) for number in range(size)]
    stage = make_stage(victims_on(1, 8), nominated_pods={"n0": nominated_pods})
    return work(stage, make_pod("vip", "4", priority=9))


@pytest.mark.parametrize(
    "cost",
    [
        many_pods_on_one_node,
        many_spread_constraints,
        victims_with_many_terms,
        many_pods_promised_to_one_node,
    ],
)
def test_the_search_grows_as_its_input_does(cost):
    assert cost(80).ratio(cost(40)) < 2.5
