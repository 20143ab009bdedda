import pytest

from kscheduler import logs
from kscheduler.api.core import (
    Container,
    ContainerImage,
    Node,
    NodeStatus,
    Pod,
    PodSpec,
    ResourceRequirements,
)
from kscheduler.api.meta import ObjectMeta
from kscheduler.state.cache import Cache, CacheError
from kscheduler.state.pod_info import PodInfo
from tests.kit.objects import make_node as kit_node
from tests.kit.objects import make_pod_info

ZONE = "topology.kubernetes.io/zone"


def make_pod(node="n1", *, uid="u", name="p", cpu="100m", claim=None, host_port=0):
    fields = {"requests": {"cpu": cpu} if cpu else {}, "claims": [claim] if claim else ()}
    return make_pod_info(name, uid=uid, namespace="ns", node=node, host_port=host_port, **fields)


def make_node(name="n1", zone=None, **allocatable):
    return kit_node(name, labels={ZONE: zone} if zone else {}, allocatable=allocatable)


@pytest.fixture
def cache():
    cache = Cache()
    cache.add_node(make_node("n1", cpu="4", pods="10"))
    cache.add_node(make_node("n2", cpu="4", pods="10"))
    return cache


@pytest.fixture
def lines():
    written = []

    class Sink:
        def write(self, line):
            written.append(line.decode())

        def flush(self):
            pass

    logs.configure(logs.Logging(), stderr=Sink())
    yield written
    logs.configure(logs.Logging())


def cpu(cache):
    """Requested milli-CPU by node."""
    nodes = cache.snapshot()
    return {
        nodes.name_of(row): int(nodes.requested[row, nodes.resources["cpu"]])
        for row in nodes.order.tolist()
    }


def order(cache):
    nodes = cache.snapshot()
    return [nodes.names[row] for row in nodes.order]


def test_an_assumed_pod_takes_its_place(cache):
    pod = make_pod()
    cache.assume(pod)
    assert cpu(cache) == {"n1": 100, "n2": 0}
    assert cache.is_assumed(pod)
    assert cache.get_pod(pod) is pod
    assert (cache.node_count, cache.pod_count, cache.assumed_pod_count) == (2, 1, 1)


def test_two_assumed_pods_add_up(cache):
    cache.assume(make_pod(uid="a", host_port=80))
    cache.assume(make_pod(uid="b", cpu=None, host_port=443))
    nodes = cache.snapshot()
    assert cpu(cache)["n1"] == 100
    assert nodes.nonzero_requested[0].tolist() == [200, 2 * 200 * 2**20]
    assert nodes.pod_count.tolist() == [2, 0]
    assert [nodes.port_in_use("", "TCP", port)[0] for port in (80, 443, 1)] == [True, True, False]


def test_a_forgotten_pod_gives_its_place_back(cache):
    cache.assume(make_pod())
    cache.forget(make_pod())
    assert cpu(cache) == {"n1": 0, "n2": 0}
    assert (cache.pod_count, cache.assumed_pod_count) == (0, 0)


def test_forgetting_an_unknown_pod_is_fine(cache):
    cache.forget(make_pod())


def test_an_added_pod_confirms_the_assumption(cache):
    cache.assume(make_pod())
    cache.add_pod(make_pod(cpu="200m"))
    assert cpu(cache) == {"n1": 200, "n2": 0}
    assert not cache.is_assumed(make_pod())


def test_an_added_pod_overrules_the_assumption(cache, lines):
    cache.assume(make_pod("n1"))
    cache.add_pod(make_pod("n2"))
    assert cpu(cache) == {"n1": 0, "n2": 100}
    (line,) = lines
    assert '"Pod was added to a different node than it was assumed" podKey="u" pod="ns/p"' in line
    assert 'assumedNode="n2" currentNode="n1"' in line


def test_an_updated_pod_is_counted_anew(cache):
    cache.add_pod(make_pod())
    cache.update_pod(make_pod(), make_pod(cpu="300m"))
    assert cpu(cache) == {"n1": 300, "n2": 0}


def test_a_removed_pod_gives_back_what_was_cached(cache):
    cache.add_pod(make_pod(cpu="300m"))
    cache.remove_pod(make_pod(cpu="1m"))
    assert cpu(cache) == {"n1": 0, "n2": 0}
    assert cache.pod_count == 0


def assumed(cache):
    cache.assume(make_pod())


def added(cache):
    cache.add_pod(make_pod())


def nothing(cache):
    pass


@pytest.mark.parametrize(
    ("before", "step", "text"),
    [
        pytest.param(
            assumed,
            lambda cache: cache.assume(make_pod()),
            "pod u(ns/p) is in the cache, so can't be assumed",
            id="assume twice",
        ),
        pytest.param(
            added,
            lambda cache: cache.assume(make_pod()),
            "pod u(ns/p) is in the cache, so can't be assumed",
            id="assume an added pod",
        ),
        pytest.param(
            assumed,
            lambda cache: cache.forget(make_pod("n2")),
            "pod u(ns/p) was assumed on n2 but assigned to n1",
            id="forget elsewhere",
        ),
        pytest.param(
            added,
            lambda cache: cache.forget(make_pod()),
            "pod u(ns/p) is not assumed, so it cannot be removed or forgotten",
            id="forget an added pod",
        ),
        pytest.param(
            added,
            lambda cache: cache.add_pod(make_pod()),
            "pod u(ns/p) was already in added state",
            id="add twice",
        ),
        pytest.param(
            nothing,
            lambda cache: cache.update_pod(make_pod(), make_pod()),
            "pod u(ns/p) is not added to scheduler cache, so cannot be updated",
            id="update an unknown pod",
        ),
        pytest.param(
            assumed,
            lambda cache: cache.update_pod(make_pod(), make_pod()),
            "assumed pod u(ns/p) should not be updated",
            id="update an assumed pod",
        ),
        pytest.param(
            nothing,
            lambda cache: cache.remove_pod(make_pod()),
            "pod u(ns/p) is not found in scheduler cache, so cannot be removed from it",
            id="remove an unknown pod",
        ),
        pytest.param(
            nothing,
            lambda cache: cache.get_pod(make_pod()),
            "pod u(ns/p) does not exist in scheduler cache",
            id="get an unknown pod",
        ),
        pytest.param(
            nothing,
            lambda cache: cache.assume(make_pod(uid="")),
            "cannot get cache key for pod with empty UID",
            id="a pod without uid",
        ),
        pytest.param(
            nothing,
            lambda cache: cache.remove_node(make_node("n9")),
            "node n9 is not found",
            id="remove an unknown node",
        ),
        pytest.param(
            lambda cache: cache.add_pod(make_pod("n9")),
            lambda cache: cache.remove_node(make_node("n9", zone="z")),
            'node "n9" in group ":\\x00:z" was not found',
            id="remove a ghost",
        ),
    ],
)
def test_steps_that_are_not_allowed(cache, before, step, text):
    before(cache)
    state = (cpu(cache), cache.pod_count, cache.assumed_pod_count, cache.node_count)
    with pytest.raises(CacheError) as error:
        step(cache)
    assert str(error.value) == text
    assert (cpu(cache), cache.pod_count, cache.assumed_pod_count, cache.node_count) == state


CORRUPTED = "Scheduler cache is corrupted and can badly affect scheduling decisions"


def test_a_pod_updated_on_another_node_moves_there(cache, lines):
    cache.add_pod(make_pod("n1"))
    cache.update_pod(make_pod("n1"), make_pod("n2"))
    assert cpu(cache) == {"n1": 0, "n2": 100}
    (line,) = lines
    assert CORRUPTED in line
    assert 'podKey="u" pod="ns/p"' in line


def test_a_pod_removed_from_another_node_is_removed_from_its_own(cache, lines):
    cache.add_pod(make_pod("n1"))
    cache.remove_pod(make_pod("n2"))
    assert cpu(cache) == {"n1": 0, "n2": 0}
    assert len(lines) == 2
    assert CORRUPTED in lines[1]


def test_a_pod_last_known_as_unbound_can_be_removed(cache, lines):
    cache.add_pod(make_pod("n1"))
    cache.remove_pod(make_pod(""))
    assert cpu(cache) == {"n1": 0, "n2": 0}
    assert len(lines) == 1


def test_a_pod_may_precede_its_node():
    cache = Cache()
    cache.add_pod(make_pod("n1", claim="c"))
    assert (len(cache.snapshot()), cache.node_count) == (0, 1)
    assert not cache.snapshot().pvc_in_use("ns/c")
    cache.add_node(make_node("n1"))
    assert cpu(cache) == {"n1": 100}
    assert cache.node_count == 1
    assert cache.snapshot().pvc_in_use("ns/c")


def test_pods_stay_behind_their_node_until_they_go(cache):
    cache.add_pod(make_pod(uid="a", claim="c"))
    cache.add_pod(make_pod(uid="b"))
    cache.remove_node(make_node("n1"))
    assert cpu(cache) == {"n2": 0}
    assert not cache.snapshot().pvc_in_use("ns/c")
    assert cache.node_count == 2
    cache.remove_pod(make_pod(uid="a"))
    cache.remove_pod(make_pod(uid="b"))
    assert cache.node_count == 1


def test_a_node_that_comes_back_finds_its_pods(cache):
    cache.add_pod(make_pod(uid="a", claim="c"))
    cache.remove_node(make_node("n1"))
    cache.update_pod(make_pod(uid="a"), make_pod(uid="a", cpu="1"))
    cache.add_node(make_node("n1"))
    assert cpu(cache) == {"n2": 0, "n1": 1000}
    assert order(cache) == ["n2", "n1"]


def test_a_node_added_removed_and_added_appears_once(cache):
    cache.add_node(make_node("n3"))
    cache.remove_node(make_node("n3"))
    cache.add_node(make_node("n3"))
    assert order(cache) == ["n1", "n2", "n3"]
    assert cache.snapshot().total == 3


def test_a_node_added_twice_or_updated_first_is_stored_once(cache):
    cache.add_node(make_node("n1", cpu="8"))
    cache.update_node(make_node("n3", cpu="1"))
    nodes = cache.snapshot()
    assert order(cache) == ["n1", "n2", "n3"]
    assert nodes.allocatable[:, 0].tolist() == [8000, 4000, 1000]


def test_new_nodes_interleave_the_order_anew():
    cache = Cache()
    cache.add_node(make_node("n0", zone="b"))
    cache.add_node(make_node("n1", zone="a"))
    cache.remove_node(make_node("n0", zone="b"))
    cache.remove_node(make_node("n1", zone="a"))
    for name, zone in [("n2", "a"), ("n0", "b"), ("n3", "a"), ("n4", "a")]:
        cache.add_node(make_node(name, zone=zone))
    assert order(cache) == ["n2", "n0", "n3", "n4"]


def test_a_node_that_changes_zone_keeps_its_place_until_nodes_come_or_go():
    cache = Cache()
    for name, zone in [("n0", "a"), ("n1", "a"), ("n2", "b")]:
        cache.add_node(make_node(name, zone=zone))
    assert order(cache) == ["n0", "n2", "n1"]
    cache.update_node(make_node("n0", zone="b"))
    assert order(cache) == ["n0", "n2", "n1"]
    cache.add_node(make_node("n3", zone="a"))
    assert order(cache) == ["n1", "n2", "n3", "n0"]


def test_a_claim_is_in_use_while_a_pod_on_a_node_names_it(cache):
    cache.add_pod(make_pod("n1", uid="a", claim="c"))
    cache.add_pod(make_pod("n2", uid="b", claim="c"))
    cache.remove_pod(make_pod("n1", uid="a"))
    assert cache.snapshot().pvc_in_use("ns/c")
    cache.update_pod(make_pod("n2", uid="b"), make_pod("n2", uid="b", claim="d"))
    nodes = cache.snapshot()
    assert (nodes.pvc_in_use("ns/c"), nodes.pvc_in_use("ns/d")) == (False, True)


def test_rows_are_reused_and_the_table_shrinks(cache):
    cache.add_node(make_node("n3"))
    cache.remove_node(make_node("n1"))
    assert cache.snapshot().names == ["", "n2", "n3"]
    cache.add_node(make_node("n4"))
    assert cache.snapshot().names == ["n4", "n2", "n3"]
    for name in ("n2", "n3"):
        cache.remove_node(make_node(name))
    assert cache.snapshot().names == ["n4"]


def test_a_quantity_that_is_none_costs_only_that_resource(cache, lines):
    cache.add_node(make_node("n3", cpu="lots", memory="1Ki"))
    nodes = cache.snapshot()
    assert nodes.allocatable[2].tolist() == [0, 1024, 0]
    assert len(lines) == 1


def test_a_malformed_pod_counts_as_one_that_asks_for_nothing(cache):
    cache.add_pod(make_pod(cpu="lots"))
    assert cpu(cache) == {"n1": 0, "n2": 0}
    assert cache.snapshot().pod_count.tolist() == [1, 0]
    cache.remove_pod(make_pod())


def test_a_node_that_alone_has_an_image_decides_its_size(cache):
    def with_image(name, size):
        return Node(
            ObjectMeta(name=name), status=NodeStatus(images=(ContainerImage(("a",), size),))
        )

    cache.update_node(with_image("n1", 5))
    cache.update_node(with_image("n2", 6))
    cache.remove_node(with_image("n1", 5))
    assert cache.snapshot().image("a").size == 5
    cache.update_node(with_image("n2", 6))
    assert cache.snapshot().image("a").size == 6


def test_a_resource_nobody_names_any_more_has_no_column(cache):
    pod = PodInfo(
        Pod(
            ObjectMeta(name="g", namespace="ns", uid="g"),
            PodSpec(
                "n1",
                containers=(
                    Container("c", resources=ResourceRequirements(requests={"x.io/gpu": "1"})),
                ),
            ),
        )
    )
    cache.add_pod(pod)
    cache.update_node(make_node("n2", **{"x.io/gpu": "2", "y.io/gpu": "3"}))
    nodes = cache.snapshot()
    assert nodes.requested[:, nodes.resources["x.io/gpu"]].tolist() == [1, 0]
    assert nodes.allocatable[:, nodes.resources["y.io/gpu"]].tolist() == [0, 3]
    cache.remove_pod(pod)
    assert "x.io/gpu" in cache.snapshot().resources
    cache.update_node(make_node("n2"))
    assert set(cache.snapshot().resources) == {"cpu", "memory", "ephemeral-storage"}
    cache.update_node(make_node("n2", **{"z.io/gpu": "4"}))
    nodes = cache.snapshot()
    assert nodes.allocatable.shape == (2, 5)
    assert nodes.allocatable[:, nodes.resources["z.io/gpu"]].tolist() == [0, 4]


def test_pods_of_a_node_are_listed_as_upstream_lists_them(cache):
    for uid in "abcd":
        cache.add_pod(make_pod(uid=uid))
    cache.remove_pod(make_pod(uid="b"))
    assert [pod.uid for pod in cache.snapshot().pods(0)] == ["a", "d", "c"]


def test_a_node_with_many_pods_goes_without_searching_for_each(cache, monkeypatch):
    for number in range(500):
        cache.add_pod(make_pod(uid=f"u{number}", name=f"p{number}", cpu=""))
    compared = []

    def equal(one, other):
        compared.append(1)
        return one is other

    monkeypatch.setattr(PodInfo, "__eq__", equal)
    cache.remove_node(make_node("n1"))
    assert len(compared) == 0
    assert len(cache.ghosts["n1"]) == 500
