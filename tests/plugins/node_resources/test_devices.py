"""NodeResourcesFit and NodeResourcesBalancedAllocation beside devices that serve resources."""

import pytest

from kscheduler.config.feature_gates import FeatureGates
from kscheduler.framework.cluster_event import DEVICE_CLASS, Hint
from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.node_resources.args import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
)
from kscheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from kscheduler.plugins.node_resources.fit import NodeResourcesFit
from tests.kit.objects import make_node
from tests.plugins.dynamic_resources.stage import Stage, Totals, make_class, make_slice
from tests.plugins.topologies import make_pod

GPU = "example.com/gpu"
OWN = "deviceclass.resource.kubernetes.io/gpu"
GATES = FeatureGates.defaults()


def asking(**amounts):
    """A pod of one container that asks for `gpu`, `own` (the class by its own name) and cpu."""
    names = {"gpu": GPU, "own": OWN, "cpu": "cpu"}
    requests = {names[short]: str(amount) for short, amount in amounts.items()}
    return make_pod(containers=[{"name": "c", "resources": {"requests": requests}}])


def stage_of(*classes, slices=()):
    """n1 and n2 have no such resource; n3 has four."""
    stage = Stage(classes=classes or [make_class("gpu")], slices=slices)
    stage.add_node("n3", allocatable={"cpu": "4", "memory": "16Gi", "pods": "10", GPU: "4"})
    return stage


def backed():
    return make_class("gpu", extendedResourceName=GPU)


def fit(stage, resources=()):
    strategy = {
        "type": "LeastAllocated",
        "resources": [{"name": r, "weight": 1} for r in resources],
    }
    args = {"scoringStrategy": strategy} if resources else {}
    return NodeResourcesFit(
        NodeResourcesFitArgs.model_validate(args).with_defaults(GATES), stage.handle
    )


def refused(stage, pod):
    plugin, cycle = fit(stage), CycleState()
    plugin.pre_filter(cycle, pod, stage.nodes)
    return {
        stage.nodes.name_of(row): reason
        for mask, _, reason in plugin.filter(cycle, pod, stage.nodes)
        for row in (mask & stage.nodes.valid).nonzero()[0].tolist()
    }


def test_a_resource_without_a_class_must_be_the_nodes_own():
    lacks = f"Insufficient {GPU}"
    assert refused(stage_of(), asking(gpu=1)) == {"n1": lacks, "n2": lacks}


def test_a_resource_with_a_class_is_left_to_devices_where_nodes_have_none():
    assert refused(stage_of(backed()), asking(gpu=1)) == {}
    assert refused(stage_of(backed()), asking(gpu=5)) == {"n3": f"Insufficient {GPU}"}


def test_a_class_by_its_own_name_is_left_to_devices():
    assert refused(stage_of(), asking(own=3)) == {}


def test_other_resources_are_looked_for_as_ever():
    assert set(refused(stage_of(backed()), asking(gpu=1, cpu=9))) == {"n1", "n2", "n3"}


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, backed(), Hint.QUEUE),
        (None, make_class("other"), Hint.SKIP),
        (make_class("gpu"), backed(), Hint.QUEUE),
        (backed(), backed(), Hint.SKIP),
    ],
)
def test_classes_that_wake_a_pod(old, new, hint):
    (registered,) = [
        one for one in fit(stage_of()).events_to_register() if one.event.resource == DEVICE_CLASS
    ]
    assert registered.hint(asking(gpu=1), old, new) is hint


def test_a_new_class_is_meant_by_its_own_name():
    plugin = fit(stage_of())
    assert plugin._class_changed(asking(own=1), None, make_class("gpu")) is Hint.QUEUE
    assert plugin._class_changed(asking(own=1), make_class("gpu"), backed()) is Hint.SKIP


def test_a_node_wakes_a_pod_that_devices_may_serve_there():
    small, large = (make_node("n1", allocatable={"cpu": n, "pods": "9"}) for n in ("2", "4"))
    for stage, hint in ((stage_of(backed()), Hint.QUEUE), (stage_of(), Hint.SKIP)):
        assert fit(stage)._node_changed(asking(gpu=1), None, large) is hint
        assert fit(stage)._node_changed(asking(gpu=1), small, large) is hint
    assert fit(stage_of(backed()))._node_changed(asking(gpu=1, cpu=9), None, large) is Hint.SKIP


def test_a_pod_that_devices_may_serve_shares_no_decision():
    text = "signature disabled when dra extended resources are used in the cluster"
    stage = stage_of(backed())
    args = NodeResourcesBalancedAllocationArgs().with_defaults(GATES)
    for plugin in (fit(stage), NodeResourcesBalancedAllocation(args, stage.handle)):
        assert plugin.sign(asking(gpu=1)).message == text
        assert isinstance(plugin.sign(asking(cpu=1)), dict)


def scores(plugin, stage, pod):
    cycle = CycleState()
    plugin.pre_score(cycle, pod, stage.nodes)
    return plugin.score(cycle, pod, stage.nodes).tolist()


def test_a_resource_is_scored_by_devices_where_nodes_have_none():
    slices = [make_slice("n1", devices=4), make_slice("n2", devices=2)]
    stage = stage_of(backed(), slices=slices)
    assert scores(fit(stage, [GPU]), stage, asking(gpu=1)) == [75, 50, 75]


def test_scores_follow_devices_that_are_taken():
    stage = Totals(make_slice("n1", devices=4), make_slice("n2", devices=4), of=backed())
    plugin, pod = fit(stage, [GPU]), asking(gpu=1)
    assert scores(plugin, stage, pod) == [75, 75]
    assert scores(plugin, stage, pod) == [75, 75]
    stage.take("a", "gpu-0", "gpu-1")
    assert scores(plugin, stage, pod) == [25, 75]


def test_balance_takes_devices_into_account():
    slices = [make_slice("n1", devices=4), make_slice("n2", devices=1)]
    stage = stage_of(backed(), slices=slices)
    args = NodeResourcesBalancedAllocationArgs.model_validate(
        {"resources": [{"name": "cpu", "weight": 1}, {"name": GPU, "weight": 1}]}
    )
    plugin = NodeResourcesBalancedAllocation(args, stage.handle)
    # A quarter of each on n1 and n3; on n2 all devices and a quarter of the cpus.
    assert scores(plugin, stage, asking(gpu=1, cpu=1)) == [75, 56, 75]
