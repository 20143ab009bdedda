"""Affinity over columns equals affinity by its definition: one node, pod and term at a time."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.core import Namespace
from kscheduler.api.decode import convert
from kscheduler.api.labels import compile_selector
from kscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity, InterPodAffinityArgs
from kscheduler.state import namespace_sets
from tests.plugins.topologies import (
    HOST,
    PREFERRED,
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

AFFINITY = ("UnschedulableAndUnresolvable", "node(s) didn't match pod affinity rules")
ANTI_AFFINITY = ("Unschedulable", "node(s) didn't match pod anti-affinity rules")
EXISTING = ("Unschedulable", "node(s) didn't satisfy existing pods anti-affinity rules")

NAMESPACES = {"default": {"team": "1"}, "other": {"team": "2"}, "third": {}}
# One that no Namespace object is known for.
UNKNOWN = "unknown"

namespaces = st.sampled_from(["default", "default", "default", *NAMESPACES, UNKNOWN])
label_sets = st.fixed_dictionaries(
    {}, optional={"app": st.sampled_from("xy"), "rev": st.sampled_from("12")}
)
selectors = st.sampled_from(
    [
        None,
        {},
        {"matchLabels": {"app": "x"}},
        {"matchLabels": {"app": "x"}},
        {"matchLabels": {"app": "y", "rev": "1"}},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["y"]}]},
        {"matchExpressions": [{"key": "rev", "operator": "Exists"}]},
    ]
)
namespace_selectors = st.sampled_from(
    [
        None,
        None,
        {},
        {"matchLabels": {"team": "2"}},
        {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["1"]}]},
    ]
)
terms = st.fixed_dictionaries(
    {
        "topologyKey": st.sampled_from([ZONE, HOST, "rack"]),
        "labelSelector": selectors,
        "namespaces": st.lists(st.sampled_from(["default", "other", UNKNOWN]), max_size=2),
        "namespaceSelector": namespace_selectors,
    }
)
some_terms = st.just([]) | st.lists(terms, max_size=2)
weighted = st.just([]) | st.lists(
    st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": terms}), max_size=2
)
affinities = st.just({}) | st.builds(
    lambda near, away, likes, dislikes: {
        "podAffinity": {REQUIRED: near, PREFERRED: likes},
        "podAntiAffinity": {REQUIRED: away, PREFERRED: dislikes},
    },
    some_terms,
    some_terms,
    weighted,
    weighted,
)
node_labels = st.fixed_dictionaries(
    {},
    optional={
        ZONE: st.sampled_from(["a", "b", ""]),
        HOST: st.sampled_from(["h1", "h2", "h3", "h4"]),
        "rack": st.sampled_from(["r", "s"]),
    },
)
pod_shapes = st.tuples(label_sets, namespaces, affinities, st.booleans())


def pod_of(name, shape, **spec):
    labels, namespace, affinity, deleted = shape
    return make_pod(name, labels, namespace=namespace, affinity=affinity, deleted=deleted, **spec)


class World:
    """Nodes and pods, as lists."""

    def __init__(self, nodes, pods, gone):
        self.all_nodes, self.pods = nodes, pods
        self.nodes = [node for node in nodes if node not in gone]
        self.snapshot = make_cluster(nodes, pods, gone)

    def on(self, node):
        return [pod for pod in self.pods if pod.node_name == node.name]


@st.composite
def worlds(draw):
    shapes = draw(st.lists(node_labels, min_size=1, max_size=6))
    nodes = [make_node(f"n{i}", labels) for i, labels in enumerate(shapes)]
    places = st.sampled_from([node.name for node in nodes])
    pods = [
        pod_of(f"p{i}", shape, nodeName=place)
        for i, (shape, place) in enumerate(
            draw(st.lists(st.tuples(pod_shapes, places), max_size=8))
        )
    ]
    gone = draw(st.lists(st.sampled_from(nodes[:-1]), max_size=1)) if len(nodes) > 1 else []
    return World(nodes, pods, gone)


def lists_of(pod):
    """The pod's terms as written: required near and away, preferred near and away."""
    affinity = pod.pod.spec.affinity
    near, away = affinity and affinity.pod_affinity, affinity and affinity.pod_anti_affinity
    return (
        near.required if near else (),
        away.required if away else (),
        near.preferred if near else (),
        away.preferred if away else (),
    )


def means(term, owner, pod):
    """Whether a term of the owner means the pod."""
    selected = set(term.namespaces)
    if not term.namespaces and term.namespace_selector is None:
        selected = {owner.namespace}
    in_namespace = pod.namespace in selected or (
        term.namespace_selector is not None
        and means_namespace(term.namespace_selector, pod.namespace)
    )
    return in_namespace and compile_selector(term.label_selector).matches(pod.labels)


def means_namespace(selector, name):
    return compile_selector(selector).matches(NAMESPACES.get(name, {}))


def means_resolved(term, owner, pod):
    """The same for terms of the pod being placed: only namespaces that exist can be selected."""
    selector = term.namespace_selector
    everywhere = selector is not None and compile_selector(selector).matches_everything
    if pod.namespace in NAMESPACES or everywhere or pod.namespace in term.namespaces:
        return means(term, owner, pod)
    return (
        selector is None
        and not term.namespaces
        and owner.namespace == pod.namespace
        and means(term, owner, pod)
    )


class PlainFilter:
    """The definition of the filter, with pods that come and go."""

    def __init__(self, pod, world):
        self.pod, self.world = pod, world
        self.near, self.away, _, _ = lists_of(pod)
        self.wanted, self.unwanted, self.avoiding = Counter(), Counter(), Counter()
        for node in world.nodes:
            for other in world.on(node):
                self.change(other, node, 1)
        self.skipped = not self.near and not self.away and not self.avoiding

    def change(self, other, node, by):
        labels = node.metadata.labels

        def count(pairs, key):
            if key in labels:
                pairs[key, labels[key]] += by
                if not pairs[key, labels[key]]:
                    del pairs[key, labels[key]]

        for term in lists_of(other)[1]:
            if means(term, other, self.pod):
                count(self.avoiding, term.topology_key)
        if self.near and all(means_resolved(term, self.pod, other) for term in self.near):
            for term in self.near:
                count(self.wanted, term.topology_key)
        for term in self.away:
            if means_resolved(term, self.pod, other):
                count(self.unwanted, term.topology_key)

    def rejections(self):
        if self.skipped:
            return "Skip"
        verdicts = {node.name: self.verdict(node.metadata.labels) for node in self.world.nodes}
        return {name: verdict for name, verdict in verdicts.items() if verdict}

    def verdict(self, labels):
        if not self.is_near_enough(labels):
            return AFFINITY
        if any(self.unwanted[t.topology_key, labels.get(t.topology_key)] for t in self.away):
            return ANTI_AFFINITY
        return EXISTING if any(self.avoiding[pair] for pair in labels.items()) else None

    def is_near_enough(self, labels):
        if any(term.topology_key not in labels for term in self.near):
            return False
        if all(self.wanted[t.topology_key, labels[t.topology_key]] for t in self.near):
            return True
        return not self.wanted and all(means_resolved(t, self.pod, self.pod) for t in self.near)


class PlainFastFilter(PlainFilter):
    """The definition with InterPodAffinityHostnameFastPath: a hostname is the node itself."""

    def __init__(self, pod, world):
        self.on = {node.name: [] for node in world.nodes}
        self.matching = 0
        super().__init__(pod, world)
        carried = [term for node in world.nodes for pod in world.on(node) for term in away(pod)]
        if any(term.topology_key == HOST for term in carried):
            self.skipped = False

    def change(self, other, node, by):
        super().change(other, node, by)
        for pairs in (self.unwanted, self.avoiding):
            for key, value in list(pairs):
                if key == HOST:
                    del pairs[key, value]
        if by > 0:
            self.on[node.name].append(other)
        else:
            self.on[node.name].remove(other)
        if self.near and self.is_wanted(other):
            self.matching += by

    def is_wanted(self, other):
        return all(means_resolved(term, self.pod, other) for term in self.near)

    def rejections(self):
        if self.skipped:
            return "Skip"
        verdicts = {
            node.name: self.verdict_of(node.name, node.metadata.labels) for node in self.world.nodes
        }
        return {name: verdict for name, verdict in verdicts.items() if verdict}

    def verdict_of(self, name, labels):
        here = self.on[name] if HOST in labels else []
        if self.near and all(term.topology_key == HOST for term in self.near):
            alone = self.matching <= 0 and self.is_wanted(self.pod)
            if HOST not in labels or not (alone or any(map(self.is_wanted, here))):
                return AFFINITY
        elif not self.is_near_enough(labels):
            return AFFINITY
        unwanted = [term for term in self.away if term.topology_key == HOST]
        if any(means_resolved(term, self.pod, pod) for term in unwanted for pod in here):
            return ANTI_AFFINITY
        if any(self.unwanted[t.topology_key, labels.get(t.topology_key)] for t in self.away):
            return ANTI_AFFINITY
        shunned = any(
            term.topology_key == HOST and means(term, pod, self.pod)
            for pod in here
            for term in away(pod)
        )
        return EXISTING if shunned or any(self.avoiding[pair] for pair in labels.items()) else None


def away(pod):
    return lists_of(pod)[1]


def plain_scores(pod, world, feasible, hard_weight):
    worth = Counter()
    opinions = 0
    for node in world.nodes:
        for other in world.on(node):
            for term, weight in plain_opinions(pod, other, hard_weight):
                if term.topology_key in node.metadata.labels:
                    opinions += 1
                    worth[term.topology_key, node.metadata.labels[term.topology_key]] += weight
    if not opinions:
        return "Skip"
    raw = [sum(worth[pair] for pair in node.metadata.labels.items()) for node in feasible]
    lowest, highest = min(raw), max(raw)
    spread = highest - lowest
    return raw, [int(100.0 * ((r - lowest) / spread)) if spread else 0 for r in raw]


def plain_opinions(pod, other, hard_weight):
    _, _, likes, dislikes = lists_of(pod)
    required, _, liked_by, disliked_by = lists_of(other)
    for sign, own, theirs in ((1, likes, liked_by), (-1, dislikes, disliked_by)):
        for one in own:
            if means_resolved(one.pod_affinity_term, pod, other):
                yield one.pod_affinity_term, sign * one.weight
        for one in theirs:
            if means(one.pod_affinity_term, other, pod):
                yield one.pod_affinity_term, sign * one.weight
    for term in required:
        if hard_weight and means(term, other, pod):
            yield term, hard_weight


def plugin(gates=frozenset(), **args):
    objects = [
        convert({"metadata": {"name": name, "labels": labels}}, Namespace)
        for name, labels in NAMESPACES.items()
    ]
    return InterPodAffinity(InterPodAffinityArgs(**args), make_handle(objects, gates))


PLUGIN = plugin()
FAST = plugin(gates={"InterPodAffinityHostnameFastPath"})

by_default_and_with_the_gate = pytest.mark.parametrize(
    ("plugin", "definition"),
    [
        pytest.param(PLUGIN, PlainFilter, id="by default"),
        pytest.param(FAST, PlainFastFilter, id="with the gate"),
    ],
)


@by_default_and_with_the_gate
@settings(max_examples=150, deadline=None)
@given(world=worlds(), shape=pod_shapes)
def test_filter_is_what_it_is_defined_to_be(plugin, definition, world, shape):
    pod = pod_of("new", shape)
    assert rejections(plugin, pod, world.snapshot) == definition(pod, world).rejections()


@settings(max_examples=50, deadline=None)
@given(worlds(), pod_shapes)
def test_large_sets_of_namespaces_are_like_small_ones(world, shape):
    pod = pod_of("new", shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(namespace_sets, "FEW_NAMES", 0)
        found = rejections(plugin(), pod, world.snapshot)
    assert found == PlainFilter(pod, world).rejections()


@by_default_and_with_the_gate
@settings(max_examples=100, deadline=None)
@given(world=worlds(), shape=pod_shapes, arrivals=st.lists(pod_shapes, max_size=2), data=st.data())
def test_pods_that_come_and_go_change_what_the_definition_says(
    plugin, definition, world, shape, arrivals, data
):
    pod = pod_of("new", shape)
    plain = definition(pod, world)
    cycle = pre_filter(plugin, pod, world.snapshot)
    if cycle == "Skip":
        return
    untouched, cycle = cycle, cycle.clone()
    before = plain.rejections()
    node = data.draw(st.sampled_from(world.nodes))
    row = world.all_nodes.index(node)
    added = [pod_of(f"x{i}", arrival) for i, arrival in enumerate(arrivals)]
    for other in added:
        plugin.add_pod(cycle, pod, other, row, world.snapshot)
        plain.change(other, node, 1)
    there = [*world.on(node), *added]
    leaving = data.draw(st.lists(st.sampled_from(there), unique=True)) if there else []
    for other in leaving:
        plugin.remove_pod(cycle, pod, other, row, world.snapshot)
        plain.change(other, node, -1)
    assert rejections(plugin, pod, world.snapshot, cycle) == plain.rejections()
    assert rejections(plugin, pod, world.snapshot.take([row]), cycle) == {
        name: verdict for name, verdict in plain.rejections().items() if name == node.name
    }
    assert rejections(plugin, pod, world.snapshot, untouched) == before


@settings(max_examples=150, deadline=None)
@given(worlds(), pod_shapes, st.sampled_from([0, 1, 30]), st.data())
def test_scores_are_what_they_are_defined_to_be(world, shape, hard_weight, data):
    pod = pod_of("new", shape)
    feasible = data.draw(
        st.lists(st.sampled_from(world.nodes), min_size=1, unique_by=lambda node: node.name)
    )
    view = world.snapshot.take([world.all_nodes.index(node) for node in feasible])
    found = scores(plugin(hard_pod_affinity_weight=hard_weight), pod, view)
    assert found == plain_scores(pod, world, feasible, hard_weight)
