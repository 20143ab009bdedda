"""Pods with gates stay out of the queue until the last gate is gone."""

import pytest

from kscheduler.framework.cluster_event import TARGET_POD, Action, ClusterEvent
from kscheduler.plugins.scheduling_gates import SchedulingGates
from tests.plugins.machines import hint, told
from tests.plugins.topologies import make_pod


@pytest.mark.parametrize(
    ("gates", "want"),
    [
        pytest.param([], None, id="no gate"),
        pytest.param(["foo"], "waiting for scheduling gates: [foo]", id="one gate"),
        pytest.param(
            ["foo", "example.com/bar"],
            "waiting for scheduling gates: [foo example.com/bar]",
            id="two gates, in the order of the spec",
        ),
    ],
)
def test_gates_hold_a_pod_back(gates, want):
    status = SchedulingGates().pre_enqueue(make_pod(schedulingGates=[{"name": g} for g in gates]))
    assert (status and told(status)) == (want and ("UnschedulableAndUnresolvable", want))


def test_a_pod_whose_gates_are_gone_is_queued():
    gone = ClusterEvent(TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    assert hint(SchedulingGates(), gone, make_pod(), make_pod(), make_pod()) == "Queue"


def test_nothing_else_wakes_a_gated_pod():
    labelled = ClusterEvent(TARGET_POD, Action.UPDATE_POD_LABEL)
    assert hint(SchedulingGates(), labelled, make_pod(), make_pod(), make_pod()) is None
