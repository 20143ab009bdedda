"""Taints forbid nodes to pods, or make them less attractive."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.errors import KschedulerError
from kscheduler.framework.cluster_event import NODE, TARGET_POD, Action, ClusterEvent
from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.taint_toleration import NOT_PREPARED, TaintToleration
from kscheduler.state import nodes as node_table
from kscheduler.state.cache import Cache
from tests.adversary.work import work_of
from tests.plugins.machines import UNRESOLVABLE, hint, make_node, raw_scores, rejected, scores
from tests.plugins.topologies import make_cluster, make_handle, make_pod

REASON = (UNRESOLVABLE, "node(s) had untolerated taint(s)")
NUMERIC = frozenset({"TaintTolerationComparisonOperators"})


def make_plugin(gates=frozenset()):
    return TaintToleration(None, make_handle(gates=gates))


def taint(key, value="", effect="NoSchedule"):
    return {"key": key, "value": value, "effect": effect}


def soft(key, value=""):
    return taint(key, value, "PreferNoSchedule")


def tainted(name, *taints):
    return make_node(name, taints=list(taints))


def tolerating(*tolerations):
    return make_pod(tolerations=list(tolerations))


EVERYTHING = {"operator": "Exists"}


@pytest.mark.parametrize(
    ("tolerations", "taints", "passes"),
    [
        pytest.param([], [], True, id="no taint"),
        pytest.param([], [taint("a", "b")], False, id="no toleration"),
        pytest.param([{"key": "a", "value": "b"}], [taint("a", "b")], True, id="equal by default"),
        pytest.param([{"key": "a", "value": "c"}], [taint("a", "b")], False, id="another value"),
        pytest.param(
            [{"key": "a", "operator": "Exists"}], [taint("a", "b")], True, id="any value of a key"
        ),
        pytest.param(
            [EVERYTHING], [taint("a"), taint("b", "", "NoExecute")], True, id="everything"
        ),
        pytest.param([{"value": ""}], [taint("a")], True, id="any key with an empty value"),
        pytest.param([{"value": "x"}], [taint("a", "y")], False, id="any key, another value"),
        pytest.param(
            [{"key": "a", "operator": "Exists"}],
            [taint("a"), taint("b")],
            False,
            id="one of two taints is tolerated",
        ),
        pytest.param([], [soft("a")], True, id="PreferNoSchedule forbids nothing"),
        pytest.param([], [taint("a", "", "NoExecute")], False, id="NoExecute forbids too"),
        pytest.param(
            [{"key": "a", "operator": "Exists", "effect": "NoExecute"}],
            [taint("a")],
            False,
            id="another effect",
        ),
        pytest.param([], [taint("a", "", "Other")], True, id="an effect nobody knows"),
        pytest.param(
            [{"key": "a", "operator": "Odd"}], [taint("a")], False, id="an operator nobody knows"
        ),
        pytest.param(
            [{"key": "a", "operator": "Gt", "value": "1"}],
            [taint("a", "5")],
            False,
            id="numeric operators are off",
        ),
    ],
)
def test_filter(tolerations, taints, passes):
    nodes = make_cluster([tainted("n", *taints), make_node("free")])
    want = {} if passes else {"n": REASON}
    assert rejected(make_plugin(), tolerating(*tolerations), nodes) == want


@pytest.mark.parametrize(
    ("operator", "bound", "value", "passes"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Gt", "-5", "-4", True),
        ("Lt", "5", "4", True),
        ("Lt", "5", "5", False),
        pytest.param("Gt", "5", "six", False, id="the taint is no number"),
        pytest.param("Gt", "05", "6", False, id="leading zero"),
        pytest.param("Gt", "+5", "6", False, id="plus sign"),
        pytest.param("Lt", "-0", "-1", False, id="minus zero"),
        pytest.param("Lt", "9223372036854775808", "1", False, id="beyond 64 bits"),
        pytest.param("Lt", "9223372036854775807", "1", True, id="the greatest of 64 bits"),
    ],
)
def test_numeric_operators_with_their_gate_on(operator, bound, value, passes):
    pod = tolerating({"key": "a", "operator": operator, "value": bound})
    nodes = make_cluster([tainted("n", taint("a", value))])
    assert rejected(make_plugin(NUMERIC), pod, nodes) == ({} if passes else {"n": REASON})


@pytest.mark.parametrize(
    ("tolerations", "taint_lists", "want"),
    [
        pytest.param(
            [{"key": "foo", "value": "bar", "effect": "PreferNoSchedule"}],
            [[soft("foo", "bar")], [soft("foo", "blah")]],
            ([0, 1], [100, 0]),
            id="the tolerated taint does not count",
        ),
        pytest.param(
            [{"key": "foo", "value": "bar"}],
            [[], [soft("x")], [soft("x"), soft("y")]],
            ([0, 1, 2], [100, 50, 0]),
            id="the more taints the worse",
        ),
        pytest.param(
            [EVERYTHING],
            [[], [soft("x")], [soft("x"), soft("y")]],
            ([0, 0, 0], [100, 100, 100]),
            id="all tolerated",
        ),
        pytest.param([], [[taint("x")], []], ([0, 0], [100, 100]), id="hard taints do not count"),
        pytest.param(
            [{"key": "x", "operator": "Exists", "effect": "NoSchedule"}],
            [[soft("x")], []],
            ([1, 0], [0, 100]),
            id="a toleration of another effect does not help",
        ),
    ],
)
def test_score(tolerations, taint_lists, want):
    nodes = make_cluster([tainted(f"n{i}", *taints) for i, taints in enumerate(taint_lists)])
    assert scores(make_plugin(), tolerating(*tolerations), nodes) == want


def test_scoring_needs_what_pre_score_prepares():
    with pytest.raises(KschedulerError, match=NOT_PREPARED):
        raw_scores(make_plugin(), make_pod(), make_cluster([make_node()]), CycleState())


def test_taints_that_come_later_are_judged_too():
    cache, plugin, pod = Cache(), make_plugin(), make_pod()
    cache.add_node(tainted("a"))
    assert rejected(plugin, pod, cache.snapshot()) == {}
    cache.add_node(tainted("b", taint("new")))
    cache.update_node(tainted("a", soft("new")))
    assert rejected(plugin, pod, cache.snapshot()) == {"b": REASON}
    assert scores(plugin, pod, cache.snapshot())[0] == [1, 0]


def test_taints_are_judged_again_when_their_numbers_change(monkeypatch):
    monkeypatch.setattr(node_table, "SPARE_TAINT_LISTS", 0)
    cache, plugin, pod = Cache(), make_plugin(), make_pod()
    cache.add_node(tainted("a", taint("first")))
    rejected(plugin, pod, cache.snapshot())
    # More lists than nodes: the table forgets "first" and numbers the others anew.
    cache.update_node(tainted("a", soft("second")))
    assert rejected(plugin, pod, cache.snapshot()) == {}
    assert scores(plugin, pod, cache.snapshot())[0] == [1]


PLAIN = make_node()


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(None, PLAIN, "Queue", id="an open node is added"),
        pytest.param(None, tainted("n", taint("x")), "QueueSkip", id="a closed node is added"),
        pytest.param(None, tainted("n", taint("ok")), "Queue", id="a tolerated node is added"),
        pytest.param(tainted("n", taint("x")), PLAIN, "Queue", id="the taint is gone"),
        pytest.param(
            tainted("n", taint("x"), taint("y")),
            tainted("n", taint("y")),
            "QueueSkip",
            id="another taint remains",
        ),
        pytest.param(tainted("n", soft("x")), PLAIN, "QueueSkip", id="it was open before"),
        pytest.param(PLAIN, tainted("n", taint("x")), "QueueSkip", id="it is closed"),
    ],
)
def test_hint_for_nodes(old, new, want):
    event = ClusterEvent(NODE, Action.ADD if old is None else Action.UPDATE_NODE_TAINT)
    pod = tolerating({"key": "ok", "operator": "Exists"})
    assert hint(make_plugin(), event, pod, old, new) == want


def test_any_change_of_tolerations_queues_the_pod():
    event = ClusterEvent(TARGET_POD, Action.UPDATE_POD_TOLERATION)
    assert hint(make_plugin(), event, make_pod(), make_pod(), make_pod()) == "Queue"


def test_signs_tolerations_in_an_order_of_their_own():
    one, other = {"key": "b", "operator": "Exists"}, {"key": "a", "value": "1"}
    plugin = make_plugin()
    signed = plugin.sign(tolerating(one, other))
    assert signed == plugin.sign(tolerating(other, one))
    assert [item["key"] for item in signed["v1.Pod.Spec.Tolerations"]] == ["a", "b"]


effects = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
values = st.sampled_from(["", "1", "2", "-3", "x"])
taint_lists = st.lists(st.builds(taint, st.sampled_from("ab"), values, effects), max_size=3)
tolerations = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["", "a", "b"]),
        "operator": st.sampled_from(["", "Equal", "Exists", "Gt", "Lt"]),
        "value": values,
        "effect": st.just("") | effects,
    },
)


def is_tolerated(taint, tolerations, *, numeric):
    """By the definition, one toleration at a time."""

    def tolerates(key="", operator="", value="", effect=""):
        if effect not in ("", taint["effect"]) or key not in ("", taint["key"]):
            return False
        if operator in ("Gt", "Lt"):
            if not numeric or not value.lstrip("-").isdigit():
                return False
            if not taint["value"].lstrip("-").isdigit():
                return False
            have, bound = int(taint["value"]), int(value)
            return have > bound if operator == "Gt" else have < bound
        return operator == "Exists" or value == taint["value"]

    return any(tolerates(**toleration) for toleration in tolerations)


@settings(deadline=None)
@given(
    lists=st.lists(taint_lists, min_size=1, max_size=5),
    pod_tolerations=st.lists(tolerations, max_size=3),
    numeric=st.booleans(),
)
def test_equals_its_definition(lists, pod_tolerations, numeric):
    nodes = make_cluster([tainted(f"n{i}", *taints) for i, taints in enumerate(lists)])
    plugin = make_plugin(NUMERIC if numeric else frozenset())
    pod = tolerating(*pod_tolerations)

    def untolerated(taints, *among):
        return [
            one
            for one in taints
            if one["effect"] in among and not is_tolerated(one, pod_tolerations, numeric=numeric)
        ]

    closed = {
        f"n{i}": REASON
        for i, taints in enumerate(lists)
        if untolerated(taints, "NoSchedule", "NoExecute")
    }
    assert rejected(plugin, pod, nodes) == closed
    raw = [len(untolerated(taints, "PreferNoSchedule")) for taints in lists]
    worst = max(raw)
    normal = [100 - one * 100 // worst if worst else 100 for one in raw]
    assert scores(plugin, pod, nodes) == (raw, normal)


def test_many_tolerations_meet_many_lists_of_taints_in_time_linear_in_both():
    def work(count):
        plugin = make_plugin()
        nodes = make_cluster([tainted(f"n{i}", taint(f"k{i}")) for i in range(count)])
        pod = tolerating(*[{"key": f"k{i}", "operator": "Exists"} for i in range(count)])
        return work_of(lambda: plugin._verdicts(pod, nodes))

    small = work(100)
    assert work(200).ratio(small) < 2.5
