"""A what-if shows what a cluster shows in which the same pods really came and left."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.labels import EVERYTHING, selector_from_labels
from kscheduler.state.cache import Cache
from kscheduler.state.disks import DiskUse
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.what_if import NominatedPods, PodsByRow, WhatIf
from tests.plugins.evictions import make_node, make_pod

NODES = ("n0", "n1", "n2")
CLAIM = [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]
DISK = [{"name": "d", "gcePersistentDisk": {"pdName": "d"}}]
READ_DISK = [{"name": "d", "gcePersistentDisk": {"pdName": "d", "readOnly": True}}]

# (row, what the pod is about)
pods_on_rows = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.fixed_dictionaries(
            {"cpu": st.sampled_from(["1", "250m"])},
            optional={
                "port": st.sampled_from([80, 81]),
                "labels": st.sampled_from([{"app": "x"}, {"app": "y"}]),
                "volumes": st.sampled_from([CLAIM, DISK, READ_DISK]),
            },
        ),
    ),
    min_size=1,
    max_size=8,
)


def pod_on(name, row, parts):
    return PodInfo(make_pod(name, node=NODES[row], **parts))


def cluster(pods):
    """A cluster with these pods, added in this order."""
    cache = Cache()
    for name in NODES:
        cache.add_node(make_node(name))
    for pod in pods:
        cache.add_pod(pod)
    return cache.snapshot()


def numbered(pods_on_rows, name="p"):
    return [pod_on(f"{name}{n}", row, parts) for n, (row, parts) in enumerate(pods_on_rows)]


def by_row(pods):
    return {
        row: there
        for row, name in enumerate(NODES)
        if (there := [pod for pod in pods if pod.node_name == name])
    }


def shown(nodes):
    """Everything a plugin can ask about pods, but for ports, which are a set: see `ports`."""
    namespace, selector = frozenset({"ns"}), selector_from_labels({"app": "x"})
    matching = nodes.index.matching(namespace, selector, terminating=True)
    return {
        "requested": nodes.requested.tolist(),
        "nonzero": nodes.nonzero_requested.tolist(),
        "count": nodes.pod_count.tolist(),
        "disks": nodes.disk_in_use(DiskUse(("gce", "d"), writes=False)).tolist(),
        "matching": matching.tolist(),
        "claimed": nodes.pvc_in_use("ns/claim"),
        "pods": [{pod.uid for pod in nodes.pods(row)} for row in range(len(nodes))],
    }


def ports(nodes):
    return nodes.port_in_use("", "", 80).tolist()


@settings(max_examples=80, deadline=None)
@given(pods_on_rows, st.booleans(), st.data())
def test_pods_leave_and_return(running, asked_before, data):
    pods = numbered(running)
    nodes = cluster(pods)
    before = shown(nodes), ports(nodes)
    evicted, what_if = PodsByRow(by_row(pods)), WhatIf(nodes)
    if asked_before:
        shown(what_if.nodes)
    what_if.remove(evicted)
    assert shown(what_if.nodes) == shown(cluster([]))
    assert ports(what_if.nodes) == [False] * 3
    back = data.draw(st.sets(st.sampled_from(range(len(evicted.rows)))))
    which = evicted.first_of_row[sorted(back)]
    what_if.add(evicted.some(which))
    returned = [evicted.pods[number] for number in which]
    assert shown(what_if.nodes) == shown(cluster(returned))
    assert ports(what_if.nodes) == ports(cluster(returned))
    what_if.remove(evicted.some(which[:1]))
    assert shown(what_if.nodes) == shown(cluster(returned[1:]))
    assert (shown(nodes), ports(nodes)) == before


@settings(max_examples=80, deadline=None)
@given(pods_on_rows, st.lists(pods_on_rows, min_size=1, max_size=3))
def test_nominated_pods_are_added(running, steps):
    pods = numbered(running)
    nodes = cluster(pods)
    nominated = NominatedPods(len(nodes))
    for step, newcomers in enumerate(steps):
        new = numbered(newcomers, f"new-{step}-")
        there = by_row(new)
        for row in range(len(nodes)):
            nominated.put(row, there.get(row, ()))
        what_if = WhatIf(nodes)
        what_if.add(nominated)
        assert shown(what_if.nodes) == shown(cluster([*pods, *new]))
        assert ports(what_if.nodes) == ports(cluster([*pods, *new]))
        assert nominated.marked.tolist() == [row in there for row in range(len(nodes))]


@settings(max_examples=80, deadline=None)
@given(pods_on_rows, pods_on_rows, st.data())
def test_pods_come_and_leave_one_at_a_time(running, newcomers, data):
    there = numbered(running)
    what_if = WhatIf(cluster(there))
    for new in numbered(newcomers, "new"):
        what_if.add_pod(new, NODES.index(new.node_name))
        there.append(new)
        if data.draw(st.booleans()):
            gone = there.pop(data.draw(st.integers(0, len(there) - 1)))
            what_if.remove_pod(gone, NODES.index(gone.node_name))
        assert shown(what_if.nodes) == shown(cluster(there))


def test_the_first_of_two_pods_with_one_port_frees_it_when_it_leaves():
    one, other = pod_on("a", 0, {"port": 80}), pod_on("b", 0, {"port": 80})
    what_if = WhatIf(cluster([one, other]))
    what_if.remove_pod(one, 0)
    assert ports(what_if.nodes) == [False, False, False]


def test_a_what_if_of_a_what_if_changes_neither():
    nodes = cluster([pod_on("a", 0, {})])
    first = WhatIf(nodes)
    first.add_pod(pod_on("b", 1, {}), 1)
    second = WhatIf(first.nodes)
    second.remove_pod(first.nodes.pods(1)[0], 1)
    second.add_pod(pod_on("b", 2, {}), 2)
    counts = [view.nodes.pod_count.tolist() for view in (first, second)]
    assert [nodes.pod_count.tolist(), *counts] == [[1, 0, 0], [1, 1, 0], [1, 0, 1]]
    everything = second.nodes.index.matching(None, EVERYTHING, terminating=True)
    assert everything.tolist() == [1, 0, 1]


def test_another_version_of_a_pod_takes_back_what_was_added():
    nodes = cluster([pod_on("a", 0, {"cpu": "2"})])
    what_if = WhatIf(nodes)
    what_if.remove_pod(pod_on("a", 0, {"cpu": "1"}), 0)
    assert what_if.nodes.requested[0, 0] == 0


def test_a_what_if_about_some_nodes_shows_the_same_nodes():
    what_if = WhatIf(cluster([pod_on("a", 0, {})]).take([2, 0]))
    before = what_if.nodes.pod_count.tolist()
    what_if.add_pod(pod_on("b", 2, {}), 2)
    assert what_if.nodes.names == ["n2", "n0"]
    assert (before, what_if.nodes.pod_count.tolist()) == ([0, 1], [1, 1])


def test_counts_already_shown_do_not_change():
    what_if = WhatIf(cluster([pod_on("a", 0, {})]))
    what_if.add_pod(pod_on("b", 1, {}), 1)
    before = what_if.nodes.index.matching(None, EVERYTHING, terminating=True)
    what_if.add_pod(pod_on("c", 1, {}), 1)
    assert before.tolist() == [1, 1, 0]
    assert not before.flags.writeable


def test_every_change_has_a_generation_of_its_own():
    nodes = cluster([])
    one, other = WhatIf(nodes), WhatIf(nodes)
    generations = {nodes.generation, one.nodes.generation, other.nodes.generation}
    one.add_pod(pod_on("b", 1, {}), 1)
    assert len(generations | {one.nodes.generation}) == 4


def test_a_row_without_changes_keeps_its_own_pods():
    one, other = pod_on("a", 0, {}), pod_on("b", 1, {})
    what_if = WhatIf(cluster([one, other]))
    what_if.remove(PodsByRow({0: [one]}))
    assert [len(what_if.nodes.pods(row)) for row in range(3)] == [0, 1, 0]
    assert np.array_equal(what_if.nodes.take([1]).pod_count, [1])


HUGE = str(2**60)


@pytest.mark.parametrize("nominates", [False, True])
def test_sums_wrap_around_like_the_columns_they_are_added_to(nominates):
    running = [pod_on("a", 0, {"cpu": "1"})]
    new = numbered([(0, {"cpu": HUGE})] * 3, "new")
    what_if = WhatIf(cluster(running))
    batch = NominatedPods(3) if nominates else PodsByRow({0: new})
    if nominates:
        batch.put(0, new)
    what_if.add(batch)
    assert shown(what_if.nodes) == shown(cluster([*running, *new]))


def test_one_amount_beyond_the_machine_s_integers_wraps_around():
    pod = pod_on("a", 0, {"cpu": "1"})
    what_if = WhatIf(cluster([pod]))
    pod.requests["cpu"] += 1 << 64
    what_if.remove(PodsByRow({0: [pod]}))
    assert what_if.nodes.requested[0, 0] == 0


def test_resources_that_no_node_has_cost_no_column():
    nodes = cluster([])
    devices = {f"vendor{number}.io/device": "1" for number in range(100)} | {"a.io/none": "0"}
    container = {"name": "c", "resources": {"requests": devices}}
    pod = PodInfo(make_pod("new", containers=[container]))
    nominated = NominatedPods(len(nodes))
    nominated.put(0, [pod])
    for batch in (nominated, PodsByRow({0: [pod]})):
        what_if = WhatIf(nodes)
        what_if.add(batch)
        assert what_if.nodes.requested.tolist() == nodes.requested.tolist()
    assert not nominated._columns
    nominated.put(0, [])
    assert not nominated._requests


def test_the_columns_of_a_what_if_do_not_wait_for_the_garbage_collector():
    pod = pod_on("a", 0, {})
    nodes = cluster([pod])
    gc.disable()
    try:
        what_if = WhatIf(nodes)
        what_if.remove(PodsByRow({0: [pod]}))
        shown(what_if.nodes)
        columns = weakref.ref(what_if.nodes.occupancy)
        del what_if
        assert columns() is None
    finally:
        gc.enable()
