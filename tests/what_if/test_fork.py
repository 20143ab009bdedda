"""What a fork does and does not share with the living scheduler."""

import json
from random import Random
from typing import ClassVar

import pytest
from msgspec import structs

from kscheduler.api.core import Node
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.scheduling import PriorityClass
from kscheduler.config.load import load_config
from kscheduler.config.profiles import complete
from kscheduler.errors import KschedulerError
from kscheduler.framework.listers import FixedListers
from kscheduler.framework.status import rejected
from kscheduler.metrics import Metrics
from kscheduler.plugins import catalog, factories
from kscheduler.runtime.out_of_tree.registration import register_class
from kscheduler.slices import Slices
from kscheduler.state.pod_info import PodInfo
from kscheduler.what_if import Reviewer, ReviewError
from kscheduler.what_if.fork import Fork, ReadOnlyClient
from kscheduler.what_if.listers import ForkListers
from tests.kit.manifests import pod_manifest
from tests.kit.objects import make_node, make_pod
from tests.what_if.conftest import CONFIG, nodes_of


class NotA:
    """Rejects the node `a`, and notes what it is asked."""

    name = "NotA"
    calls: ClassVar[list[str]] = []

    def __init__(self, args, handle):
        pass

    def filter_node(self, state, pod, node):
        self.calls.append("filter")
        return rejected("is a") if node.name == "a" else None

    def reserve(self, state, pod, node):
        self.calls.append("reserve")

    def unreserve(self, state, pod, node):
        self.calls.append("unreserve")


async def test_out_of_tree_plugins_judge_nodes_and_reserve_nothing(world):
    cluster = world([make_node("a"), make_node("b")])
    plugin = register_class(NotA, "NotA")
    known = catalog().including([plugin])
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "NotA"}]}}}
    config = load_config(
        json.dumps({**CONFIG, "profiles": [profile]}).encode(), known, gates=cluster.gates
    )
    live = structs.replace(
        cluster.live,
        completed=complete(config, known, gates=cluster.gates),
        catalog=known,
        registry={**factories(), "NotA": plugin},
    )
    NotA.calls.clear()
    status = await cluster.review(pod_manifest(), reviewer=Reviewer(live))
    assert nodes_of(status) == ["b"]
    assert set(NotA.calls) == {"filter"}


async def test_extenders_are_not_asked_and_that_is_told(world):
    extender = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}
    status = await world([make_node("a")], extenders=[extender]).review(pod_manifest())
    assert status.fits
    assert status.message == "Extenders are configured and were not asked."


async def test_a_priority_class_gives_the_priority_to_preempt(world):
    high = PriorityClass(ObjectMeta(name="high"), value=1000)
    low = make_pod("low", node="a", requests={"cpu": "3"})
    cluster = world([make_node("a")], [low], [high])
    pod = pod_manifest(cpu="4", priorityClassName="high")
    status = await cluster.review(pod, allow_preemption=True)
    assert status.summary == (
        "It fits, on 1 node, if 1 pod is evicted, which does not fit anywhere else."
    )
    with pytest.raises(ReviewError, match=r"priorityClassName: Not found: \"higher\"$"):
        await cluster.review(pod_manifest(priorityClassName="higher"))


async def test_a_node_can_be_drained_and_removed_at_once(world):
    pod = make_pod("p", node="a", owner={"kind": "ReplicaSet"})
    status = await world([make_node("a"), make_node("b")], [pod]).review(
        drain_nodes=("a",), remove_nodes=("a",)
    )
    assert (nodes_of(status), status.message) == (["b"], "")


async def test_the_client_refuses_every_call():
    with pytest.raises(KschedulerError, match="makes no API calls, not even delete_pod"):
        await ReadOnlyClient().delete_pod(make_pod())


def test_handlers_are_told_of_objects_later_and_one_by_one():
    listers = ForkListers(FixedListers([make_node("a"), make_node("b")]))
    told = []

    class Handler:
        def on_add(self, item, *, is_initial):
            told.append(item.name)

    listers.lister(Node).add_handler(Handler())
    steps = listers.deliveries()
    assert told == []
    next(steps)
    assert told == ["a"]
    assert [*steps, *told] == [None, "a", "b"]


def test_an_index_that_the_live_lister_lacks_is_searched():
    lister = ForkListers(FixedListers([make_node("a"), make_node("b")])).lister(Node)
    lister.add_index("by-name", lambda node: (node.name,))
    assert [node.name for node in lister.by_index("by-name", "b")] == ["b"]


def test_objects_of_the_review_stand_in_for_live_ones():
    listers = ForkListers(FixedListers([make_node("a"), make_node("b")]))
    lister = listers.lister(Node)
    lister.add_index("by-label", lambda node: node.metadata.labels.values())

    def labelled(label):
        return sorted(node.name for node in lister.by_index("by-label", label))

    listers.put(make_node("a", labels={"x": "red"}))
    listers.put(make_node("c", labels={"x": "red"}))
    assert labelled("red") == ["a", "c"]
    listers.put(make_node("a", labels={"x": "blue"}))
    assert (labelled("red"), labelled("blue")) == (["c"], ["a"])
    listers.remove(make_node("c"))
    listers.remove(make_node("b"))
    assert (labelled("red"), [node.name for node in lister.items()]) == ([], ["a"])
    assert (lister.get("b"), lister.get("c")) == (None, None)


async def test_a_copy_tries_nodes_in_the_order_of_the_original(world):
    zone = "topology.kubernetes.io/zone"
    nodes = [make_node(f"n{i}", labels={zone: f"z{i * i % 3}"}) for i in range(12)]
    cluster = world(nodes)
    for gone in (nodes[0], nodes[4], nodes[7]):
        cluster.cache.remove_node(gone)
    cluster.cache.add_node(nodes[4])
    fork = Fork(cluster.live, cluster.completed, Metrics(), Random(0))
    await fork.fill(cluster.cache.contents(), Slices())
    original, copy = cluster.cache.snapshot(), fork.cache.snapshot()
    assert [copy.name_of(row) for row in copy.order] == [
        original.name_of(row) for row in original.order
    ]


async def test_a_copy_has_the_pods_of_a_node_in_the_order_of_the_original(world):
    """Of equally important pods, preemption evicts the last: it must be the same one."""
    pods = [make_pod(name, node="a", requests={"cpu": "1"}) for name in ("p", "q", "r")]
    cluster = world([make_node("a")], pods)
    # Any update of a pod, as in upstream's list, lets the last one take its place.
    first = cluster.cache.get_pod(PodInfo(pods[0]))
    cluster.cache.update_pod(first, first)
    fork = Fork(cluster.live, cluster.completed, Metrics(), Random(0))
    await fork.fill(cluster.cache.contents(), Slices())
    for cache in (cluster.cache, fork.cache):
        assert [pod.name for pod in cache.snapshot().pods(0)] == ["r", "q", "p"]


async def test_a_copy_has_pods_of_nodes_that_are_not_there(world):
    cluster = world([make_node("a")], [make_pod("p", node="gone")])
    assert [pod.name for pod in cluster.cache.contents().pods] == ["p"]
