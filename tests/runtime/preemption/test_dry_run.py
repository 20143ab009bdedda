"""Dry runs: many nodes together decide as each of them would alone, and as the definition says."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import failed
from kscheduler.plugins.pod_topology_spread.args import PodTopologySpreadArgs
from kscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kscheduler.runtime.preemption.dry_run import DryRun
from kscheduler.runtime.preemption.potential_victims import DisruptionBudgets
from kscheduler.state.pod_info import PodInfo
from tests.plugins.evictions import REQUIRED, Stage, make_budget, make_node, make_pod, summary_of

NOW_NS = 1_800_000_000 * 10**9
NAMES = ("n0", "n1", "n2")


class Following:
    """Follows pods from node to node; without objections, so that it changes no decision."""

    name = "Following"

    def __init__(self, add=None, remove=None):
        self._add, self._remove = add, remove

    def pre_filter(self, cycle, pod, nodes):
        return None

    def add_pod(self, cycle, pod, added, row, nodes):
        return self._add

    def remove_pod(self, cycle, pod, removed, row, nodes):
        return self._remove

    def filter(self, cycle, pod, nodes):
        return ()


def rehearse(stage, pod, rows=None, wanted=100, cycle=None):
    """`cycle`: what plugins prepared, if the pod need not be refused first."""
    cycle = cycle or stage.refused(pod)[0]
    budgets = DisruptionBudgets(stage.listers.lister(type(make_budget())).items())
    nodes = stage.cache.snapshot()
    dry_run = DryRun(stage.framework, cycle, PodInfo(pod), nodes, budgets=budgets, now_ns=NOW_NS)
    return dry_run.run(np.arange(len(nodes)) if rows is None else rows, wanted)


pods = st.lists(
    st.builds(
        lambda node, cpu, priority, start, port, app: {
            "node": node,
            "cpu": str(cpu),
            "priority": priority,
            "start": start,
            "labels": {"app": app} if app else {},
            **({"port": port} if port else {}),
        },
        node=st.sampled_from(NAMES),
        cpu=st.integers(1, 3),
        priority=st.integers(-1, 6),
        start=st.one_of(st.none(), st.integers(0, 59)),
        port=st.sampled_from([0, 0, 80, 81]),
        app=st.sampled_from(["", "x", "y"]),
    ),
    max_size=10,
)
clusters = st.fixed_dictionaries(
    {
        "pods": pods,
        "budgets": st.lists(
            st.builds(
                lambda app, allowed: make_budget(f"b-{app}", allowed, app=app),
                app=st.sampled_from(["x", "y"]),
                allowed=st.integers(0, 2),
            ),
            max_size=2,
        ),
        "nominated": st.dictionaries(
            st.sampled_from(NAMES),
            st.lists(st.tuples(st.integers(4, 6), st.sampled_from(["", "x", "y"])), max_size=2),
        ),
    }
)


def build(cluster, plugins=(), zones=("", "", ""), affinity=None):
    """`affinity`: of nominated pods."""
    bound = [make_pod(f"v{number}", **parts) for number, parts in enumerate(cluster["pods"])]
    # So that the pod fits nowhere to begin with: whom it cannot evict fills each node.
    guards = [make_pod(f"guard-{name}", "2", priority=9, node=name) for name in NAMES]
    nominated_pods = {
        node: [
            PodInfo(
                make_pod(
                    f"nominated-{node}-{number}",
                    priority=priority,
                    labels={"app": app} if app else {},
                    affinity=affinity,
                )
            )
            for number, (priority, app) in enumerate(some)
        ]
        for node, some in cluster["nominated"].items()
        if some
    }
    nodes = [
        make_node(name, "8", **({"zone": zone} if zone else {}))
        for name, zone in zip(NAMES, zones, strict=True)
    ]
    return Stage(
        nodes,
        [*bound, *guards],
        budgets=cluster["budgets"],
        plugins=plugins,
        nominated_pods=nominated_pods,
    )


def fits(pod, others, nominated_pods):
    """The definition, in plain words: cpu of 8 and free ports, with and without the nominated."""

    def has_room(them):
        cpu = sum(int(one.spec.containers[0].resources.requests["cpu"]) for one in (*them, pod))
        ports = {port.host_port for one in them for port in one.spec.containers[0].ports}
        wanted = {port.host_port for port in pod.spec.containers[0].ports}
        return cpu <= 8 and not (ports & wanted)

    return has_room(others) and has_room([*others, *nominated_pods])


def importance(pod):
    start = pod.status.start_time
    return -pod.priority, start is None, start or ""


def expected(stage, pod, name):
    """Victims by the definition, for budgets of one label each; None if there are none."""
    there = [one for one in stage.listers.pods.values() if one.spec.node_name == name]
    lower = sorted((one for one in there if one.priority < pod.priority), key=importance)
    stay = [one for one in there if one.priority >= pod.priority]
    nominated_pods = [
        one.pod
        for one in stage.handle.nominator.pods_for_node(name)
        if one.priority >= pod.priority
    ]
    if not lower or not fits(pod, stay, nominated_pods):
        return None
    left = {
        tuple(budget.spec.selector.match_labels.items()): budget.status.disruptions_allowed
        for budget in reversed(list(stage.listers.lister(type(make_budget())).items()))
    }
    violating = []
    for one in lower:
        for selector in left:
            if set(selector) <= set(one.metadata.labels.items()):
                left[selector] -= 1
                if left[selector] < 0:
                    violating.append(one)
    victims = []
    for one in [*violating, *(one for one in lower if one not in violating)]:
        if fits(pod, [*stay, one], nominated_pods):
            stay.append(one)
        else:
            victims.append(one)
    names = [victim.name for victim in sorted(victims, key=importance)]
    return (names, sum(one in violating for one in victims)) if names else None


PREEMPTOR = make_pod("p", "6", priority=5, port=80)


def is_refused_everywhere(cluster):
    """Guards and pods must leave no node with 6 CPUs."""
    used = dict.fromkeys(NAMES, 2)
    for parts in cluster["pods"]:
        used[parts["node"]] += int(parts["cpu"])
    return all(amount > 2 for amount in used.values())


crowded = clusters.filter(is_refused_everywhere)


@settings(max_examples=60, deadline=None)
@given(crowded)
def test_together_as_alone(cluster):
    together = summary_of(rehearse(build(cluster), PREEMPTOR))
    alone = summary_of(rehearse(build(cluster, [Following()]), PREEMPTOR))
    assert together == alone


@settings(max_examples=60, deadline=None)
@given(
    crowded.filter(
        lambda cluster: len({b.name for b in cluster["budgets"]}) == len(cluster["budgets"])
    )
)
def test_victims_are_those_of_the_definition(cluster):
    ports = [(parts["node"], parts["port"]) for parts in cluster["pods"] if "port" in parts]
    if len(set(ports)) < len(ports):
        return  # Two pods with one port on a node is what ports cannot express.
    stage = build(cluster)
    candidates, _, _ = summary_of(rehearse(stage, PREEMPTOR))
    want = {name: expected(stage, PREEMPTOR, name) for name in NAMES}
    assert candidates == {name: one for name, one in want.items() if one}


def term(app, key):
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


apps = st.sampled_from(["x", "y"])
keys = st.sampled_from(["host", "zone"])
terms = st.lists(st.builds(term, apps, keys), max_size=2)
spreads = st.lists(
    st.fixed_dictionaries(
        {
            "maxSkew": st.integers(1, 3),
            "topologyKey": keys,
            "whenUnsatisfiable": st.just("DoNotSchedule"),
            "labelSelector": st.builds(lambda app: {"matchLabels": {"app": app}}, apps),
        },
        optional={
            "minDomains": st.integers(1, 4),
            "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
        },
    ),
    max_size=2,
)
# Where pods are matters to the pod that comes, or where it goes matters to them.
relations = st.fixed_dictionaries(
    {
        "near": terms,
        "far": terms,
        "spread": spreads,
        "app": st.sampled_from(["", "x", "y"]),
        "selector": st.sampled_from([{}, {"zone": "a"}]),
        "shunning": st.lists(st.integers(0, 9), max_size=3),
        "shunned": st.builds(term, apps, keys),
        "zones": st.tuples(*[st.sampled_from(["a", "b", ""])] * len(NAMES)),
    }
)


def related(cluster, relation, plugins):
    affinity = {"podAntiAffinity": {REQUIRED: [relation["shunned"]]}}
    pods = [
        {**parts, **({"affinity": affinity} if number in relation["shunning"] else {})}
        for number, parts in enumerate(cluster["pods"])
    ]
    stage = build({**cluster, "pods": pods}, zones=relation["zones"], affinity=affinity)
    spread = PodTopologySpread(PodTopologySpreadArgs(), stage.handle)
    stage.framework = stage._framework([spread, *plugins])
    return stage


def relating(relation):
    affinity = {
        "podAffinity": {REQUIRED: relation["near"]},
        "podAntiAffinity": {REQUIRED: relation["far"]},
    }
    return make_pod(
        "p",
        "2",
        priority=5,
        labels={"app": relation["app"]} if relation["app"] else {},
        affinity=affinity,
        nodeSelector=relation["selector"],
        topologySpreadConstraints=relation["spread"],
    )


@settings(max_examples=100, deadline=None)
@given(clusters, relations)
def test_together_as_alone_where_nodes_matter_to_each_other(cluster, relation):
    pod = relating(relation)
    answers = []
    for more in ([], [Following()]):
        stage, cycle = related(cluster, relation, more), CycleState()
        stage.framework.run_pre_filter(cycle, PodInfo(pod), stage.cache.snapshot())
        answers.append(summary_of(rehearse(stage, pod, cycle=cycle)))
    together, alone = answers
    assert together == alone


def full_nodes(count):
    nodes = [make_node(f"n{i}") for i in range(count)]
    return nodes, [make_pod(f"v{i}", "2", node=f"n{i}") for i in range(count)]


def test_only_as_many_nodes_are_tried_as_needed():
    nodes, pods = full_nodes(40)
    found = rehearse(Stage(nodes, pods), make_pod("p", "3", priority=1), wanted=3)
    assert [one.node for one in found.candidates] == ["n0", "n1", "n2"]


def test_the_order_of_rows_is_kept():
    nodes, pods = full_nodes(40)
    rows = np.arange(40)[::-1]
    found = rehearse(Stage(nodes, pods), make_pod("p", "3", priority=1), rows, wanted=20)
    assert [one.node for one in found.candidates] == [f"n{i}" for i in range(39, 19, -1)]


def test_a_node_that_fits_with_everybody_back_is_an_error():
    nodes, pods = full_nodes(1)
    stage = Stage(nodes, pods)
    stage.cache.update_node(make_node("n0", "2"))
    cycle, _ = stage.refused(pod := make_pod("p", "1", priority=1))
    stage.cache.update_node(make_node("n0", "8"))
    nodes = stage.cache.snapshot()
    dry_run = DryRun(
        stage.framework, cycle, PodInfo(pod), nodes, budgets=DisruptionBudgets(()), now_ns=NOW_NS
    )
    found = dry_run.run(np.arange(1), 1)
    assert found.errors == ['expected at least one victim pod on node "n0"']
    assert found.candidates == []


def test_a_plugin_that_cannot_follow_spoils_the_node():
    nodes, pods = full_nodes(1)
    for following, what in (
        (Following(remove=failed("lost")), "RemovePod"),
        (Following(add=failed("lost")), "AddPod"),
    ):
        stage = Stage(nodes, pods, plugins=[following])
        found = rehearse(stage, make_pod("p", "3", priority=1))
        assert found.errors == [f'running {what} on PreFilter plugin "Following": lost']


@settings(max_examples=150, deadline=None)
@given(clusters, relations)
def test_promised_pods_are_seen_together_as_alone(cluster, relation):
    pod = PodInfo(relating(relation))
    answers = []
    for more in ([], [Following()]):
        stage, cycle = related(cluster, relation, more), CycleState()
        nodes = stage.cache.snapshot()
        stage.framework.run_pre_filter(cycle, pod, nodes)
        filtered = stage.framework.filter_with_nominated(cycle, pod, nodes)
        charges = {
            (row, charge.plugin, charge.code, charge.reason)
            for charge in filtered.charges
            for row in charge.rows.tolist()
        }
        answers.append((sorted(filtered.feasible.tolist()), charges))
    together, alone = answers
    assert together == alone


def test_pods_that_leave_and_pods_that_come_are_counted_in_one_world():
    spread = {
        "maxSkew": 1,
        "topologyKey": "host",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    x = {"app": "x"}
    pods = [
        *(make_pod(f"v{number}", "2", node="n0", labels=x) for number in range(2)),
        *(make_pod(f"g-{name}", "4", node=name, priority=9, labels=x) for name in NAMES[1:]),
    ]
    nominated_pods = {"n0": [PodInfo(make_pod("nominated", "1", priority=6, labels=x))]}
    stage = Stage([make_node(name) for name in NAMES], pods, nominated_pods=nominated_pods)
    plugin = PodTopologySpread(PodTopologySpreadArgs(), stage.handle)
    stage.framework = stage._framework([plugin])
    pod = make_pod("p", "3", priority=5, labels=x, topologySpreadConstraints=[spread])
    # Without both, and with the nominated one, there is one on each node.
    assert summary_of(rehearse(stage, pod))[0] == {"n0": (["v0", "v1"], 0)}
