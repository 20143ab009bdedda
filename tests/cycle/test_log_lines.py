"""What a decision says in the log, node by node: upstream's texts, keys and levels."""

import random
from types import SimpleNamespace as Plugin

import numpy as np
import pytest

from kscheduler.cycle.attempt import Attempt, at_once
from kscheduler.cycle.schedule import SchedulingAlgorithm
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import ALL_ZERO, rejected, unschedulable
from kscheduler.metrics import Metrics
from kscheduler.plugins.node_resources.args import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
)
from kscheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from kscheduler.plugins.node_resources.fit import NodeResourcesFit
from kscheduler.plugins.pod_topology_spread.args import PodTopologySpreadArgs
from kscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kscheduler.plugins.taint_toleration import TaintToleration
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from tests.kit.clusters import make_framework, make_handle, snapshot_of
from tests.kit.log import captured_log
from tests.kit.objects import make_node, make_pod_info

HANDLE = make_handle()


def messages(verbosity, *plugins, nodes, pods=(), pod=None, weights=None):
    """What one decision logs, without headers."""
    pod = pod or make_pod_info("p", namespace="ns")
    framework = make_framework(HANDLE, plugins, weights=weights)
    attempt = Attempt(
        QueuedPodInfo(pod, timestamp=0.0), framework, CycleState(), snapshot_of(nodes, pods)
    )
    algorithm = SchedulingAlgorithm(Metrics(), rng=random.Random(7))
    with captured_log(verbosity) as log:
        at_once(algorithm.schedule_pod(attempt))
    return log.messages


def scoring(name, scores):
    given = scores if scores is ALL_ZERO else np.array(scores)
    return Plugin(name=name, score=lambda cycle, pod, nodes: given)


def named(*names):
    return [make_node(name) for name in names]


PLUGINS = scoring("Silent", ALL_ZERO), scoring("A", [1, 2, 3]), scoring("B", [50, 0, 100])


def test_scores_of_every_plugin_and_node_then_totals():
    got = messages(10, *PLUGINS, nodes=named("n1", "n2", "n3"), weights={"A": 2})

    def scored(plugin, node, score):
        return (
            f'"Plugin scored node for pod" pod="ns/p" plugin="{plugin}" node="{node}" score={score}'
        )

    def total(node, score):
        return f'"Calculated node\'s final score for pod" pod="ns/p" node="{node}" score={score}'

    assert got == [
        scored("Silent", "n1", 0),
        scored("A", "n1", 2),
        scored("B", "n1", 50),
        scored("Silent", "n2", 0),
        scored("A", "n2", 4),
        scored("B", "n2", 0),
        scored("Silent", "n3", 0),
        scored("A", "n3", 6),
        scored("B", "n3", 100),
        total("n1", 52),
        total("n2", 4),
        total("n3", 106),
    ]


@pytest.mark.parametrize("verbosity", [4, 9])
def test_no_scores_below_level_10(verbosity):
    assert messages(verbosity, *PLUGINS, nodes=named("n1", "n2", "n3")) == []


def test_one_feasible_node_is_not_scored():
    assert messages(10, *PLUGINS, nodes=named("n1")) == []


def test_pre_filter_that_rejects_the_pod():
    plugin = Plugin(name="A", pre_filter=lambda cycle, pod, nodes: rejected("not today"))
    line = '"Status after running PreFilter plugins for pod" pod="ns/p" status="not today"'
    assert messages(5, plugin, nodes=named("n1")) == [line]
    assert messages(4, plugin, nodes=named("n1")) == []


def test_amounts_behind_the_scores_of_resources():
    fit = NodeResourcesFit(NodeResourcesFitArgs().with_defaults(HANDLE.gates), HANDLE)
    balanced = NodeResourcesBalancedAllocation(
        NodeResourcesBalancedAllocationArgs().with_defaults(HANDLE.gates), HANDLE
    )
    nodes = [
        make_node("n1", allocatable={"cpu": "4", "memory": "1000", "pods": "9"}),
        make_node("n2", allocatable={"cpu": "2", "memory": "2000", "pods": "9"}),
    ]
    pod = make_pod_info("p", namespace="ns", requests={"cpu": "1", "memory": "500"})
    got = messages(10, fit, balanced, nodes=nodes, pod=pod)
    what = '"Listed internal info for allocatable resources, requested resources and score"'

    def listed(plugin, node, scorer, allocatable, requested, score):
        return (
            f'{what} logger="Score.{plugin}" pod="ns/p" node="{node}" '
            f'resourceAllocationScorer="{scorer}" allocatableResource={allocatable} '
            f"requestedResource={requested} resourceScore={score}"
        )

    name = "NodeResourcesBalancedAllocation"
    assert [line for line in got if line.startswith(what)] == [
        listed("NodeResourcesFit", "n1", "LeastAllocated", "[4000,1000]", "[1000,500]", 62),
        listed("NodeResourcesFit", "n2", "LeastAllocated", "[2000,2000]", "[1000,500]", 62),
        listed(name, "n1", name, "[4000,1000]", "[1000,500]", 68),
        listed(name, "n2", name, "[2000,2000]", "[1000,500]", 68),
    ]
    assert messages(9, fit, balanced, nodes=nodes, pod=pod) == []


def test_taints_of_nodes_that_no_other_plugin_rejected_before():
    nodes = [
        make_node("n1", taints=[{"key": "a", "effect": "NoSchedule"}]),
        make_node("n2", taints=[{"key": "a", "value": "b", "effect": "NoExecute"}]),
        make_node("n3"),
        make_node("n4", taints=[{"key": "c", "effect": "NoSchedule"}]),
    ]
    first = Plugin(
        name="A",
        filter=lambda cycle, pod, nodes: [unschedulable(np.array(nodes.names) == "n4", "no")],
    )
    taints = TaintToleration(None, HANDLE)
    head = '"node had untolerated taints" logger="FilterWithNominatedPods.Filter.TaintToleration" '
    assert messages(4, first, taints, nodes=nodes) == [
        head + 'node="n1" pod="ns/p" untoleratedTaint={"key":"a","effect":"NoSchedule"}',
        head + 'node="n2" pod="ns/p" untoleratedTaint={"key":"a","value":"b","effect":"NoExecute"}',
    ]
    assert messages(3, first, taints, nodes=nodes) == []


def test_constraints_that_nodes_fail():
    spread = PodTopologySpread(PodTopologySpreadArgs(), HANDLE)
    constraint = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    labels = {"app": "a"}
    pod = make_pod_info("p", namespace="ns", labels=labels, topologySpreadConstraints=[constraint])
    nodes = [
        make_node("n1", labels={"zone": "z1"}),
        make_node("n2", labels={"zone": "z2"}),
        make_node("n3"),
    ]
    pods = [make_pod_info(name, namespace="ns", labels=labels, node="n1") for name in ("q", "r")]
    logger = 'logger="FilterWithNominatedPods.Filter.PodTopologySpread" pod="ns/p"'
    assert messages(5, spread, nodes=nodes, pods=pods, pod=pod) == [
        '"Node failed spreadConstraint: matchNum + selfMatchNum - minMatchNum > maxSkew" '
        f'{logger} node="n1" topologyKey="zone" '
        "matchNum=2 selfMatchNum=1 minMatchNum=0 maxSkew=1",
        '"Node doesn\'t have required topology label for spread constraint" '
        f'{logger} node="n3" topologyKey="zone"',
    ]
    assert messages(4, spread, nodes=nodes, pods=pods, pod=pod) == []


def test_a_label_that_no_node_has():
    spread = PodTopologySpread(PodTopologySpreadArgs(), HANDLE)
    constraint = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
    }
    pod = make_pod_info("p", namespace="ns", topologySpreadConstraints=[constraint])
    assert messages(5, spread, nodes=named("n1"), pod=pod) == [
        '"Node doesn\'t have required topology label for spread constraint" '
        'logger="FilterWithNominatedPods.Filter.PodTopologySpread" pod="ns/p" node="n1" '
        'topologyKey="zone"'
    ]
