"""An eviction shows what a fork shows from which the same pods were taken one by one."""

import gc
import weakref

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.labels import selector_from_labels
from kscheduler.state.cache import Cache
from kscheduler.state.disks import DiskUse
from kscheduler.state.eviction import Eviction
from kscheduler.state.fork import fork
from kscheduler.state.pod_info import PodInfo
from tests.plugins.evictions import make_node, make_pod

NODES = ("n0", "n1", "n2")


def cluster(pods):
    cache = Cache()
    for name in NODES:
        cache.add_node(make_node(name))
    for number, (row, parts) in enumerate(pods):
        cache.add_pod(PodInfo(make_pod(f"p{number}", node=NODES[row], **parts)))
    return cache.snapshot()


def shown(nodes):
    """Everything a plugin can ask about pods."""
    namespace, selector = frozenset({"ns"}), selector_from_labels({"app": "x"})
    matching = nodes.index.matching(namespace, selector, terminating=True)
    return {
        "requested": nodes.requested.tolist(),
        "nonzero": nodes.nonzero_requested.tolist(),
        "count": nodes.pod_count.tolist(),
        "ports": nodes.port_in_use("", "", 80).tolist(),
        "disks": nodes.disk_in_use(DiskUse(("gce", "d"), writes=False)).tolist(),
        "matching": matching.tolist(),
        "claimed": nodes.pvc_in_use("ns/claim"),
        "pods": [{pod.uid for pod in nodes.pods(row)} for row in range(len(nodes))],
    }


CLAIM = [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]
DISK = [{"name": "d", "gcePersistentDisk": {"pdName": "d"}}]
READ_DISK = [{"name": "d", "gcePersistentDisk": {"pdName": "d", "readOnly": True}}]
pods = st.lists(
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


@settings(max_examples=80, deadline=None)
@given(pods, st.data())
def test_pods_leave_and_return(pods, data):
    nodes = cluster(pods)
    before = shown(nodes)
    evicted = {row: list(nodes.pods(row)) for row in range(3) if nodes.pods(row)}
    eviction, overlay = Eviction(nodes, evicted), fork(nodes)
    for row, gone in evicted.items():
        for pod in gone:
            overlay.remove(pod, row)
    assert shown(eviction.nodes) == shown(overlay.nodes)
    back = data.draw(st.sets(st.sampled_from(range(len(eviction.rows)))))
    which = eviction.first_of_row[sorted(back)]
    eviction.bring_back(which)
    for number in which.tolist():
        overlay.add(eviction.pods[number], int(eviction.row_of_pod[number]))
    assert shown(eviction.nodes) == shown(overlay.nodes)
    eviction.take_away(which[:1])
    for number in which[:1].tolist():
        overlay.remove(eviction.pods[number], int(eviction.row_of_pod[number]))
    assert shown(eviction.nodes) == shown(overlay.nodes)
    assert shown(nodes) == before


def test_amounts_beyond_the_machine_s_integers_wrap_around():
    nodes = cluster([(0, {"cpu": "1"})])
    (pod,) = nodes.pods(0)
    pod.requests["cpu"] += 1 << 64
    assert Eviction(nodes, {0: [pod]}).nodes.requested[0, 0] == 0


def test_a_row_without_evicted_pods_keeps_its_own():
    nodes = cluster([(0, {}), (1, {})])
    eviction = Eviction(nodes, {0: list(nodes.pods(0))})
    assert [len(eviction.nodes.pods(row)) for row in range(3)] == [0, 1, 0]
    assert eviction.nodes.generation != nodes.generation
    assert np.array_equal(eviction.nodes.take([1]).pod_count, [1])


def test_what_an_eviction_leaves_does_not_wait_for_the_garbage_collector():
    nodes = cluster([(0, {}), (1, {})])
    gc.disable()
    try:
        eviction = Eviction(nodes, {0: nodes.pods(0)})
        columns = weakref.ref(eviction.nodes.occupancy)
        del eviction
        assert columns() is None
    finally:
        gc.enable()
