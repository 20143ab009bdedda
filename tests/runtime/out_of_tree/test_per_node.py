"""A plugin that judges one node at a time gives the verdicts its columnar twin gives."""

from types import SimpleNamespace as Plugin

import numpy as np
import pytest

from kscheduler.api.core import Node, NodeStatus
from kscheduler.api.meta import ObjectMeta
from kscheduler.extension_points import points_of
from kscheduler.framework.status import (
    Status,
    rejected,
    rejected_for_good,
    unresolvable,
    unschedulable,
)
from kscheduler.framework.views import Views
from kscheduler.metrics import Metrics
from kscheduler.runtime.filter import Filtering
from kscheduler.runtime.out_of_tree.per_node import adapted
from kscheduler.state.cache import Cache

RACKS = {"n0": "a", "n1": "b", "n2": "a", "n3": ""}


@pytest.fixture
def racks(make_pod):
    cache = Cache()
    for name, rack in RACKS.items():
        labels = {"rack": rack} if rack else {}
        status = NodeStatus(allocatable={"cpu": "4", "memory": "8Gi", "pods": "10"})
        cache.add_node(Node(metadata=ObjectMeta(name=name, labels=labels), status=status))
    cache.add_pod(make_pod("there", node="n1", requests={"cpu": "500m"}))
    return cache.snapshot()


class Shown:
    """A plugin that is asked node by node, shown views as the guard shows them."""

    per_node = True

    def __init__(self, plugin):
        self.name = plugin.name
        self._plugin = adapted(plugin)
        self._views = Views()

    def filter(self, cycle, pod, nodes):
        return self._plugin.filter(cycle, self._views.pod(pod), self._views.nodes(nodes))

    def score(self, cycle, pod, nodes):
        return self._plugin.score(cycle, self._views.pod(pod), self._views.nodes(nodes))


class OneByOne:
    name = "Racks"

    def filter_node(self, cycle, pod, node):
        rack = node.labels.get("rack")
        if rack is None:
            return rejected_for_good("node(s) without rack")
        if rack != pod.labels["rack"]:
            return rejected("node(s) in another rack")
        return None

    def score_node(self, cycle, pod, node):
        return 10 * len(node.pods) + len(node.name)


class AllAtOnce:
    name = "Racks"

    def filter(self, cycle, pod, nodes):
        codes = nodes.label("rack")
        wanted = nodes.label_values("rack")[pod.labels["rack"]]
        yield unresolvable(codes < 0, "node(s) without rack")
        yield unschedulable((codes >= 0) & (codes != wanted), "node(s) in another rack")

    def score(self, cycle, pod, nodes):
        return 10 * nodes.pod_count + np.array([len(name) for name in nodes.names])


def verdicts(plugin, cycle, pod, nodes):
    result = Filtering("p", Metrics(), [plugin]).run_filter(cycle, pod, nodes)
    charges = sorted((one.reason, one.code, one.rows.tolist()) for one in result.charges)
    return result.feasible.tolist(), charges


@pytest.mark.parametrize("rack", ["a", "b"])
def test_filter(rack, cycle, make_pod, racks):
    pod = make_pod(labels={"rack": rack})
    one_by_one, all_at_once = Shown(OneByOne()), AllAtOnce()
    assert verdicts(one_by_one, cycle, pod, racks) == verdicts(all_at_once, cycle, pod, racks)


def test_score(cycle, pod, racks):
    one_by_one, all_at_once = Shown(OneByOne()), AllAtOnce()
    for nodes in (racks, racks.take([1, 3])):
        slow, fast = (plugin.score(cycle, pod, nodes) for plugin in (one_by_one, all_at_once))
        assert slow.tolist() == fast.tolist()


def test_what_a_node_shows(cycle, pod, racks):
    seen = {}

    def score_node(cycle, pod, node):
        seen[node.name] = (
            node.node.name,
            dict(node.labels),
            [one.name for one in node.pods],
            node.allocatable,
            node.requested,
        )
        return 0

    Shown(Plugin(name="A", score_node=score_node)).score(cycle, pod, racks.take([1]))
    capacity = {"cpu": 4000, "memory": 8 << 30, "ephemeral-storage": 0, "pods": 10}
    used = {"cpu": 500, "memory": 0, "ephemeral-storage": 0, "pods": 1}
    assert seen == {"n1": ("n1", {"rack": "b"}, ["there"], capacity, used)}


def test_only_nodes_still_in_play_are_shown(cycle, pod, racks):
    shown = []
    first = Plugin(name="A", filter=lambda c, p, nodes: [unschedulable(nodes.rows < 2, "r")])
    second = Shown(Plugin(name="B", filter_node=lambda c, p, node: shown.append(node.name)))
    Filtering("p", Metrics(), [first, second]).run_filter(cycle, pod, racks)
    assert shown == ["n2", "n3"]


def test_several_reasons_for_one_node(cycle, pod, racks):
    status = Status(rejected("x").code, ("x", "y"))
    plugin = Shown(Plugin(name="A", filter_node=lambda *_: status))
    _, charges = verdicts(plugin, cycle, pod, racks)
    assert [reason for reason, _, rows in charges if rows == [0, 1, 2, 3]] == ["x", "y"]


def test_the_adapter_keeps_the_plugins_other_methods():
    class Both(OneByOne):
        def pre_filter(self, cycle, pod, nodes):
            return self.name

        def _private(self):
            raise AssertionError

    plugin = adapted(Both())
    assert points_of(plugin) == {"preFilter", "filter", "score"} == points_of(Both)
    assert (plugin.name, plugin.pre_filter(None, None, None)) == ("Racks", "Racks")


def test_a_plugin_that_works_on_columns_is_left_as_it_is():
    plugin = AllAtOnce()
    assert adapted(plugin) is plugin


def test_the_adapter_extends_only_the_points_the_plugin_does():
    assert points_of(adapted(Plugin(name="A", filter_node=None))) == {"filter"}
    assert points_of(adapted(Plugin(name="A", score_node=None))) == {"score"}


def test_a_property_is_read_when_it_is_asked_for():
    class Counting(OneByOne):
        reads = 0

        @property
        def limit(self):
            self.reads += 1
            return self.reads

    plugin = adapted(Counting())
    assert plugin.reads == 0
    assert (plugin.limit, plugin.limit) == (1, 2)
