"""Promised pods, all joined at once, show what a fork shows to which they were added one by one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.state.fork import fork
from kscheduler.state.nominated import Promised
from kscheduler.state.pod_info import PodInfo
from tests.plugins.evictions import make_pod
from tests.state.test_eviction import cluster, pods, shown


@settings(max_examples=80, deadline=None)
@given(pods, st.lists(pods, min_size=1, max_size=3))
def test_joined_nodes_show_what_a_fork_shows(running, steps):
    nodes = cluster(running)
    promised = Promised(len(nodes))
    for step, newcomers in enumerate(steps):
        by_row = {row: [] for row in range(len(nodes))}
        for number, (row, parts) in enumerate(newcomers):
            by_row[row].append(PodInfo(make_pod(f"new-{step}-{number}", node="", **parts)))
        overlay = fork(nodes)
        for row, there in by_row.items():
            promised.put(row, there)
            for pod in there:
                overlay.add(pod, row)
        assert shown(promised.join(nodes)) == shown(overlay.nodes)
        assert promised.marked.tolist() == [bool(there) for there in by_row.values()]


def test_the_base_stays_as_it_is():
    nodes = cluster([(0, {"cpu": "1", "port": 80})])
    before = shown(nodes)
    promised = Promised(len(nodes))
    promised.put(1, [PodInfo(make_pod("new", node="", cpu="1", port=80))])
    joined = promised.join(nodes)
    assert shown(joined) != before
    assert shown(nodes) == before
    assert joined.generation != nodes.generation
    assert joined.take([1]).pod_count.tolist() == [1]


def test_sums_wrap_around_like_the_columns_they_are_added_to():
    nodes = cluster([(0, {"cpu": "1"})])
    much = str(2**60)
    newcomers = [PodInfo(make_pod(f"new-{number}", node="", cpu=much)) for number in range(3)]
    overlay = fork(nodes)
    for pod in newcomers:
        overlay.add(pod, 0)
    promised = Promised(len(nodes))
    promised.put(0, newcomers)
    assert shown(promised.join(nodes)) == shown(overlay.nodes)


def test_what_no_node_has_costs_no_column():
    nodes = cluster([])
    promised = Promised(len(nodes))
    devices = {f"vendor{number}.io/device": "1" for number in range(100)} | {"a.io/none": "0"}
    container = {"name": "c", "resources": {"requests": devices}}
    promised.put(0, [PodInfo(make_pod("new", containers=[container]))])
    assert promised.join(nodes).requested.tolist() == nodes.requested.tolist()
    assert not promised._columns
    promised.put(0, [])
    assert not promised._requests
