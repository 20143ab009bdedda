"""Spreading over columns equals spreading by its definition: one node, one pod at a time."""

from collections import Counter
from math import floor, log

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.core import Service
from kscheduler.api.decode import convert
from kscheduler.api.labels import compile_selector
from kscheduler.api.node_selector import required_node_affinity
from kscheduler.api.taints import find_untolerated
from kscheduler.plugins.pod_topology_spread.args import PodTopologySpreadArgs
from kscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from tests.plugins.topologies import (
    HOST,
    REQUIRED,
    ZONE,
    make_cluster,
    make_handle,
    make_node,
    make_pod,
    pre_filter,
    rejections,
    scores,
)

REASON = "node(s) didn't match pod topology spread constraints"
SKEWED = ("Unschedulable", REASON)
UNLABELLED = ("UnschedulableAndUnresolvable", f"{REASON} (missing required label)")

KEYS = (ZONE, HOST, "rack")


def maybe(strategy):
    return st.none() | strategy


label_sets = st.fixed_dictionaries(
    {}, optional={"app": st.sampled_from("xy"), "rev": st.sampled_from("12")}
)
selectors = st.sampled_from(
    [
        None,
        {},
        {"matchLabels": {"app": "x"}},
        {"matchLabels": {"app": "x"}},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["y"]}]},
        {"matchExpressions": [{"key": "rev", "operator": "Exists"}]},
    ]
)
node_labels = st.fixed_dictionaries(
    {},
    optional={
        ZONE: st.sampled_from(["a", "b", "c", ""]),
        HOST: st.sampled_from(["h1", "h2", "h3", "h4", "h5"]),
        "rack": st.sampled_from(["r", "s"]),
        "disk": st.sampled_from(["ssd", "hdd"]),
    },
)
taints = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from("kl"),
            "effect": st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"]),
        }
    ),
    max_size=1,
)
constraints = st.fixed_dictionaries(
    {
        "topologyKey": st.sampled_from(KEYS),
        "maxSkew": st.integers(1, 3),
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": selectors,
        "minDomains": maybe(st.integers(1, 4)),
        "nodeAffinityPolicy": maybe(st.sampled_from(["Honor", "Ignore"])),
        "nodeTaintsPolicy": maybe(st.sampled_from(["Honor", "Ignore"])),
        "matchLabelKeys": st.lists(
            st.sampled_from(["rev", "app", "none"]), max_size=2, unique=True
        ),
    }
)
REQUIRED_NODES = {
    "nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]},
        {"matchExpressions": [{"key": "disk", "operator": "Near"}]},
    ]
}
whereabouts = st.sampled_from(
    [
        {},
        {},
        {"nodeSelector": {"disk": "ssd"}},
        {"affinity": {"nodeAffinity": {REQUIRED: REQUIRED_NODES}}},
        {"tolerations": [{"key": "k", "operator": "Exists"}]},
    ]
)


class World:
    """Nodes and pods, as lists."""

    def __init__(self, nodes, pods, gone):
        self.all_nodes, self.pods, self.gone = nodes, pods, gone
        self.nodes = [node for node in nodes if node not in gone]
        self.snapshot = make_cluster(nodes, pods, gone)

    def on(self, node):
        return [pod for pod in self.pods if pod.node_name == node.name]


@st.composite
def worlds(draw):
    shapes = draw(st.lists(st.tuples(node_labels, taints), min_size=1, max_size=7))
    nodes = [make_node(f"n{i}", labels, taints=t) for i, (labels, t) in enumerate(shapes)]
    places = st.sampled_from([node.name for node in nodes])
    kinds = st.tuples(label_sets, places, st.sampled_from(["default", "default", "other"]))
    pods = [
        make_pod(f"p{i}", labels, namespace=namespace, nodeName=place, deleted=deleted)
        for i, ((labels, place, namespace), deleted) in enumerate(
            draw(st.lists(st.tuples(kinds, st.sampled_from([False, False, True])), max_size=14))
        )
    ]
    gone = draw(st.lists(st.sampled_from(nodes[:-1]), max_size=1)) if len(nodes) > 1 else []
    return World(nodes, pods, gone)


pods_to_place = st.builds(
    lambda labels, own, where: make_pod("new", labels, topologySpreadConstraints=own, **where),
    label_sets,
    st.lists(constraints, min_size=1, max_size=3),
    whereabouts,
)


def matches(constraint, pod, labels):
    """Whether pods with these labels are spread by a constraint of the pod."""
    if constraint.label_selector is None:
        return False
    return compile_selector(constraint.label_selector).matches(labels) and all(
        labels.get(key) == pod.labels[key]
        for key in constraint.match_label_keys
        if key in pod.labels
    )


def counted(constraint, pod, others):
    keys = set(constraint.match_label_keys) & set(pod.labels)
    selector = constraint.label_selector
    if selector is not None and compile_selector(selector).matches_everything and not keys:
        return 0
    return sum(
        other.namespace == pod.namespace
        and not other.terminating
        and matches(constraint, pod, other.labels)
        for other in others
    )


def takes_part(constraint, pod, node):
    if constraint.node_affinity_policy != "Ignore" and not required_node_affinity(pod.pod).matches(
        node.metadata.labels, node.name
    ):
        return False
    tolerations = pod.pod.spec.tolerations
    return constraint.node_taints_policy != "Honor" or not find_untolerated(
        node.spec.taints, tolerations
    )


def of_kind(pod, when):
    own = pod.pod.spec.topology_spread_constraints
    return [constraint for constraint in own if constraint.when_unsatisfiable == when]


def has_all(node, constraints):
    return all(constraint.topology_key in node.metadata.labels for constraint in constraints)


class PlainFilter:
    """The definition of the filter, with pods that come and go."""

    def __init__(self, pod, world):
        self.pod, self.world = pod, world
        self.constraints = of_kind(pod, "DoNotSchedule")
        self.domains = [Counter() for _ in self.constraints]
        for node in world.nodes:
            for constraint, domains in self.counting(node):
                value = node.metadata.labels[constraint.topology_key]
                domains[value] += counted(constraint, pod, world.on(node))

    def counting(self, node):
        if has_all(node, self.constraints):
            for constraint, domains in zip(self.constraints, self.domains, strict=True):
                if takes_part(constraint, self.pod, node):
                    yield constraint, domains

    def change(self, other, node, by):
        if other.namespace == self.pod.namespace:
            for constraint, domains in self.counting(node):
                if matches(constraint, self.pod, other.labels):
                    domains[node.metadata.labels[constraint.topology_key]] += by

    def rejections(self):
        if not self.constraints:
            return "Skip"
        verdicts = {node.name: self.verdict(node) for node in self.world.nodes}
        return {name: verdict for name, verdict in verdicts.items() if verdict}

    def verdict(self, node):
        for constraint, domains in zip(self.constraints, self.domains, strict=True):
            value = node.metadata.labels.get(constraint.topology_key)
            if value is None:
                return UNLABELLED
            enough = len(domains) >= (constraint.min_domains or 1)
            fewest = min(domains.values()) if enough else 0
            itself = matches(constraint, self.pod, self.pod.labels)
            if domains.get(value, 0) + itself - fewest > constraint.max_skew:
                return SKEWED
        return None


def plain_scores(pod, world, feasible, constraints, every_label=True):
    if not constraints:
        return "Skip"
    ignored = [every_label and not has_all(node, constraints) for node in feasible]
    scored = [node for node, out in zip(feasible, ignored, strict=True) if not out]
    everyone = [node for node in world.nodes if not every_label or has_all(node, constraints)]
    raw = [
        0 if out else plain_score(pod, world, node, scored, everyone, constraints)
        for node, out in zip(feasible, ignored, strict=True)
    ]
    kept = [score for score, out in zip(raw, ignored, strict=True) if not out]
    highest = max(kept, default=0)
    return raw, [
        0 if out else 100 if not highest else 100 * (highest + min(kept) - score) // highest
        for score, out in zip(raw, ignored, strict=True)
    ]


def plain_score(pod, world, node, scored, everyone, constraints):
    total = 0.0
    for constraint in constraints:
        key = constraint.topology_key
        value = node.metadata.labels.get(key)
        if value is None:
            continue
        if key == HOST:
            size, count = len(scored), counted(constraint, pod, world.on(node))
        else:
            size = len({other.metadata.labels.get(key, "") for other in scored})
            count = sum(
                counted(constraint, pod, world.on(other))
                for other in everyone
                if other.metadata.labels.get(key, "") == value
                if takes_part(constraint, pod, other)
            )
        total += float(count) * log(size + 2) + float(constraint.max_skew - 1)
    return floor(total) + (total - floor(total) >= 0.5)


PLUGIN = PodTopologySpread(PodTopologySpreadArgs(), make_handle())


@settings(max_examples=150, deadline=None)
@given(worlds(), pods_to_place)
def test_filter_is_what_it_is_defined_to_be(world, pod):
    assert rejections(PLUGIN, pod, world.snapshot) == PlainFilter(pod, world).rejections()


@settings(max_examples=100, deadline=None)
@given(worlds(), pods_to_place, st.data())
def test_pods_that_come_and_go_change_what_the_definition_says(world, pod, data):
    plain = PlainFilter(pod, world)
    cycle = pre_filter(PLUGIN, pod, world.snapshot)
    if cycle == "Skip":
        return
    untouched, cycle = cycle, cycle.clone()
    before = plain.rejections()
    assert rejections(PLUGIN, pod, world.snapshot, cycle) == before
    node = data.draw(st.sampled_from(world.nodes))
    row = world.all_nodes.index(node)
    arrivals = [
        make_pod(f"x{i}", labels, namespace=namespace, deleted=deleted)
        for i, (labels, namespace, deleted) in enumerate(
            data.draw(
                st.lists(
                    st.tuples(label_sets, st.sampled_from(["default", "other"]), st.booleans()),
                    max_size=3,
                )
            )
        )
    ]
    for other in arrivals:
        PLUGIN.add_pod(cycle, pod, other, row, world.snapshot)
        plain.change(other, node, 1)
    there = [*world.on(node), *arrivals]
    leaving = data.draw(st.lists(st.sampled_from(there), unique=True)) if there else []
    for other in leaving:
        PLUGIN.remove_pod(cycle, pod, other, row, world.snapshot)
        plain.change(other, node, -1)
    assert rejections(PLUGIN, pod, world.snapshot, cycle) == plain.rejections()
    assert rejections(PLUGIN, pod, world.snapshot.take([row]), cycle) == {
        name: verdict for name, verdict in plain.rejections().items() if name == node.name
    }
    assert rejections(PLUGIN, pod, world.snapshot, untouched) == before


@settings(max_examples=150, deadline=None)
@given(worlds(), pods_to_place, st.data())
def test_scores_are_what_they_are_defined_to_be(world, pod, data):
    feasible = data.draw(
        st.lists(st.sampled_from(world.nodes), min_size=1, unique_by=lambda node: node.name)
    )
    view = world.snapshot.take([world.all_nodes.index(node) for node in feasible])
    soft = of_kind(pod, "ScheduleAnyway")
    assert scores(PLUGIN, pod, view) == plain_scores(pod, world, feasible, soft)


SERVICE = convert(
    {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "x"}}}, Service
)
WITH_SERVICE = PodTopologySpread(PodTopologySpreadArgs(), make_handle([SERVICE]))
SYSTEM = make_pod(
    topologySpreadConstraints=[
        {"topologyKey": key, "maxSkew": skew, "labelSelector": {"matchLabels": {"app": "x"}}}
        for key, skew in ((HOST, 3), (ZONE, 5))
    ]
).pod.spec.topology_spread_constraints


@settings(max_examples=100, deadline=None)
@given(worlds(), whereabouts, st.data())
def test_default_scores_are_what_they_are_defined_to_be(world, where, data):
    pod = make_pod("new", {"app": "x"}, **where)
    feasible = data.draw(
        st.lists(st.sampled_from(world.nodes), min_size=1, unique_by=lambda node: node.name)
    )
    view = world.snapshot.take([world.all_nodes.index(node) for node in feasible])
    want = plain_scores(pod, world, feasible, SYSTEM, every_label=False)
    assert scores(WITH_SERVICE, pod, view) == want
