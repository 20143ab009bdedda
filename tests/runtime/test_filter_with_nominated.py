"""Filter with nominated pods: a node must suit the pod with them and without them."""

from types import SimpleNamespace as Plugin

import numpy as np
import pytest

from kscheduler.framework.status import Code, failed, unschedulable


class Seats:
    """Rejects nodes with `seats` pods or more, and remembers what it was shown."""

    name = "Seats"

    def __init__(self, seats=1):
        self.seats = seats
        self.shown = []

    def filter(self, cycle, pod, nodes):
        self.shown.append((list(nodes.names), nodes.pod_count.tolist()))
        yield unschedulable(nodes.pod_count >= self.seats, "full")


class Company:
    """Wants a pod on the node, real or nominated; keeps count through the extensions."""

    name = "Company"

    def pre_filter(self, cycle, pod, nodes):
        cycle.put(Counted({}))

    def add_pod(self, cycle, pod, added, row, nodes):
        cycle[Counted].on[row] = cycle[Counted].on.get(row, 0) + 1

    def remove_pod(self, cycle, pod, removed, row, nodes):
        cycle[Counted].on[row] -= 1

    def filter(self, cycle, pod, nodes):
        alone = [not cycle[Counted].on.get(row) for row in nodes.rows.tolist()]
        yield unschedulable(np.array(alone), "lonely")


class Counted:
    def __init__(self, on):
        self.on = on

    def clone(self):
        return Counted(dict(self.on))


def judged(framework, cycle, pod, nodes):
    framework.run_pre_filter(cycle, pod, nodes)
    result = framework.filter_with_nominated(cycle, pod, nodes)
    charged = {
        nodes.name_of(row): (charge.plugin, charge.reason)
        for charge in result.charges
        for row in charge.rows.tolist()
    }
    return [nodes.name_of(row) for row in result.feasible.tolist()], charged


@pytest.mark.parametrize(
    ("priority", "feasible"),
    [
        pytest.param(5, ["n0", "n2"], id="higher priority"),
        pytest.param(0, ["n0", "n2"], id="same priority"),
        pytest.param(-1, ["n0", "n1", "n2"], id="lower priority does not count"),
    ],
)
def test_the_pod_yields_to_promised_pods(
    priority, feasible, make_framework, make_pod, cycle, nodes
):
    framework = make_framework(Seats(), nominated_pods={"n1": [make_pod("vip", priority=priority)]})
    found, charged = judged(framework, cycle, make_pod(), nodes)
    assert found == feasible
    assert charged == {name: ("Seats", "full") for name in nodes.names if name not in feasible}


def test_a_promise_to_the_pod_itself_does_not_count(make_framework, cycle, pod, nodes):
    framework = make_framework(Seats(), nominated_pods={"n1": [pod]})
    assert judged(framework, cycle, pod, nodes) == (["n0", "n1", "n2"], {})


def test_a_promise_of_an_unknown_node_is_ignored(make_framework, make_pod, cycle, pod, nodes):
    framework = make_framework(Seats(), nominated_pods={"elsewhere": [make_pod("vip")]})
    assert judged(framework, cycle, pod, nodes) == (["n0", "n1", "n2"], {})


def test_only_nodes_with_promised_pods_are_judged_twice(
    make_framework, make_pod, cycle, pod, nodes
):
    seats = Seats(2)
    judged(make_framework(seats, nominated_pods={"n1": [make_pod("vip")]}), cycle, pod, nodes)
    assert seats.shown == [(["n1"], [1]), (["n0", "n1", "n2"], [0, 0, 0])]


def test_a_node_must_suit_without_the_promised_pods_too(
    make_framework, make_pod, cycle, pod, nodes
):
    framework = make_framework(Company(), nominated_pods={"n1": [make_pod("vip")]})
    found, charged = judged(framework, cycle, pod, nodes)
    assert (found, charged["n1"]) == ([], ("Company", "lonely"))


def test_promises_leave_the_attempts_own_memory_alone(make_framework, make_pod, cycle, pod, nodes):
    judged(make_framework(Company(), nominated_pods={"n1": [make_pod("vip")]}), cycle, pod, nodes)
    assert cycle[Counted].on == {}


def test_promises_to_one_node_are_not_seen_while_judging_another(
    make_framework, make_pod, cycle, pod, nodes
):
    seen = []

    class Watcher(Company):
        name = "Watcher"

        def filter(self, cycle, pod, nodes):
            seen.append((nodes.rows.tolist(), dict(cycle[Counted].on)))
            return []

    nominated_pods = {"n0": [make_pod("a")], "n2": [make_pod("b"), make_pod("c")]}
    judged(make_framework(Watcher(), nominated_pods=nominated_pods), cycle, pod, nodes)
    assert seen == [([0], {0: 1}), ([2], {2: 2}), ([0, 1, 2], {})]


def test_promised_nodes_share_one_fork_when_nobody_looks_beyond_a_node(
    make_framework, make_pod, cycle, pod, nodes
):
    seats = Seats(1)
    nominated_pods = {"n0": [make_pod("a")], "n2": [make_pod("b")]}
    found, charged = judged(make_framework(seats, nominated_pods=nominated_pods), cycle, pod, nodes)
    assert found == ["n1"]
    assert charged == {"n0": ("Seats", "full"), "n2": ("Seats", "full")}
    assert seats.shown[0] == (["n0", "n2"], [1, 1])


def test_a_plugin_that_cannot_follow_a_promised_pod_could_not_judge_the_node(
    make_framework, make_pod, cycle, pod, nodes
):
    plugin = Plugin(
        name="A",
        pre_filter=lambda *_: None,
        add_pod=lambda *_: failed("lost"),
        remove_pod=lambda *_: None,
    )
    framework = make_framework(plugin, nominated_pods={"n1": [make_pod("vip")]})
    result = framework.filter_with_nominated(cycle, pod, nodes)
    (error,) = result.errors
    assert result.feasible.tolist() == [0, 2]
    assert (error.rows.tolist(), error.code) == ([1], Code.ERROR)
    assert error.reason == 'running AddPod on PreFilter plugin "A": lost'


def test_a_single_node_is_judged_with_its_promises_only(
    make_framework, make_pod, cycle, pod, nodes
):
    nominated_pods = {"n0": [make_pod("a")], "n1": [make_pod("b")]}
    framework = make_framework(Seats(), nominated_pods=nominated_pods)
    assert framework.filter_with_nominated(cycle, pod, nodes.take([2])).feasible.tolist() == [2]
    assert framework.filter_with_nominated(cycle, pod, nodes.take([0])).feasible.tolist() == []
