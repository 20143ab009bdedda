"""A pod goes where what it asks for is left."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.node_resources.args import NodeResourcesFitArgs
from kscheduler.plugins.node_resources.fit import NOT_PREPARED, NodeResourcesFit
from tests.adversary.work import work_of
from tests.plugins.machines import (
    UNRESOLVABLE,
    UNSCHEDULABLE,
    container,
    make_node,
    prepared,
    rejected,
)
from tests.plugins.topologies import make_cluster, make_handle, make_pod

# Upstream's table speaks of this node throughout.
TEN_TWENTY = {
    "cpu": "10m",
    "memory": "20",
    "pods": "32",
    "ephemeral-storage": "20",
    "example.com/aaa": "5",
    "hugepages-2Mi": "5",
}


def make_plugin(**args):
    return NodeResourcesFit(NodeResourcesFitArgs.model_validate(args), make_handle())


def asking(*requests, init=(), **spec):
    """A pod with a container for each of `requests`, and init containers."""
    return make_pod(
        containers=[container(one) for one in requests],
        initContainers=[container(one) for one in init],
        **spec,
    )


def cpu_and_memory(cpu, memory):
    return {"cpu": f"{cpu}m", "memory": str(memory)}


def judged(pod, used=None, *, allocatable=TEN_TWENTY, plugin=None):
    """What becomes of the one node there is, on which a pod asks for `used`."""
    there = make_pod("there", nodeName="n", containers=[container(used)])
    nodes = make_cluster([make_node("n", allocatable=allocatable)], [there])
    return rejected(plugin or make_plugin(), pod, nodes).get("n")


def short_of(*resources):
    return (UNSCHEDULABLE, *(f"Insufficient {one}" for one in resources))


def too_small_for(*resources):
    return (UNRESOLVABLE, *(f"Insufficient {one}" for one in resources))


AAA, BBB, HUGE = "example.com/aaa", "example.com/bbb", "hugepages-2Mi"


@pytest.mark.parametrize(
    ("pod", "used", "want"),
    [
        pytest.param(asking(), cpu_and_memory(10, 20), None, id="no request fits a full node"),
        pytest.param(
            asking(cpu_and_memory(1, 1)),
            cpu_and_memory(10, 20),
            short_of("cpu", "memory"),
            id="both are lacking",
        ),
        pytest.param(asking(cpu_and_memory(5, 1)), cpu_and_memory(5, 19), None, id="exact fit"),
        pytest.param(
            asking(cpu_and_memory(1, 1), init=[cpu_and_memory(3, 1)]),
            cpu_and_memory(8, 19),
            short_of("cpu"),
            id="the greatest init container counts",
        ),
        pytest.param(
            asking(cpu_and_memory(1, 1), init=[cpu_and_memory(1, 1), cpu_and_memory(3, 1)]),
            cpu_and_memory(7, 19),
            None,
            id="init containers run one by one",
        ),
        pytest.param(asking({AAA: "10"}), {}, too_small_for(AAA), id="more than the node has"),
        pytest.param(asking({AAA: "1"}), {AAA: "5"}, short_of(AAA), id="all is taken"),
        pytest.param(
            asking({AAA: "3"}, {AAA: "3"}), {}, too_small_for(AAA), id="containers add up"
        ),
        pytest.param(
            asking(init=[{AAA: "3"}, {AAA: "3"}]), {AAA: "2"}, None, id="init containers do not"
        ),
        pytest.param(asking({BBB: "1"}), {}, too_small_for(BBB), id="nobody has it"),
        pytest.param(
            asking({"kubernetes.io/something": "1"}),
            {},
            too_small_for("kubernetes.io/something"),
            id="a native resource with a prefix",
        ),
        pytest.param(asking({HUGE: "1"}), {HUGE: "5"}, short_of(HUGE), id="huge pages"),
        pytest.param(
            asking({"ephemeral-storage": "25"}), {}, too_small_for("ephemeral-storage"), id="disk"
        ),
        pytest.param(asking({AAA: "0"}), {AAA: "6"}, None, id="zero is not looked for"),
        pytest.param(
            asking({"cpu": "0", "memory": "1"}),
            cpu_and_memory(20, 1),
            None,
            id="zero cpu fits where cpu is overcommitted",
        ),
        pytest.param(
            asking(cpu_and_memory(3, 1), overhead={"cpu": "3m"}),
            cpu_and_memory(5, 1),
            short_of("cpu"),
            id="overhead counts",
        ),
        pytest.param(
            make_pod(
                containers=[container({"cpu": "1m"})],
                initContainers=[container({"cpu": "2m"}, restartPolicy="Always")],
            ),
            {"cpu": "8m"},
            short_of("cpu"),
            id="a sidecar counts beside the containers",
        ),
        pytest.param(
            asking(cpu_and_memory(1, 1), resources={"requests": {"cpu": "7m"}}),
            cpu_and_memory(5, 1),
            short_of("cpu"),
            id="a request at pod level replaces the containers'",
        ),
        pytest.param(
            asking({AAA: "1"}, resources={"requests": {HUGE: "10"}}),
            {},
            too_small_for(HUGE),
            id="huge pages at pod level",
        ),
        pytest.param(
            asking({"cpu": "4m"}, init=[{"cpu": "9m"}], resources={"requests": {"cpu": "5m"}}),
            {"cpu": "5m"},
            None,
            id="at pod level init containers do not count either",
        ),
        pytest.param(
            asking({"cpu": "20m", "memory": "1"}),
            cpu_and_memory(1, 20),
            (UNRESOLVABLE, "Insufficient cpu", "Insufficient memory"),
            id="one amount too large for the node is enough",
        ),
    ],
)
def test_filter(pod, used, want):
    assert judged(pod, used) == want


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(asking(), (UNSCHEDULABLE, "Too many pods"), id="nothing"),
        pytest.param(
            asking(cpu_and_memory(11, 1)),
            (UNRESOLVABLE, "Insufficient cpu", "Too many pods"),
            id="more than the node has",
        ),
    ],
)
def test_a_node_takes_so_many_pods(pod, want):
    assert judged(pod, allocatable=TEN_TWENTY | {"pods": "1"}) == want


def test_a_node_that_does_not_say_how_many_takes_none():
    assert judged(asking(), allocatable={}) == (UNSCHEDULABLE, "Too many pods")


@pytest.mark.parametrize(
    ("args", "requests", "want"),
    [
        pytest.param({"ignoredResources": [BBB]}, {BBB: "1"}, None, id="by name"),
        pytest.param({"ignoredResources": [BBB]}, {AAA: "9"}, too_small_for(AAA), id="not others"),
        pytest.param({"ignoredResourceGroups": ["example.com"]}, {BBB: "1"}, None, id="by group"),
        pytest.param(
            {"ignoredResourceGroups": ["example.com", "kubernetes.io"]},
            {BBB: "1", "kubernetes.io/something": "1"},
            too_small_for("kubernetes.io/something"),
            id="native resources cannot be ignored",
        ),
        pytest.param(
            {"ignoredResources": [HUGE, "cpu"]},
            {HUGE: "9", "cpu": "11m"},
            too_small_for("cpu", HUGE),
            id="nor huge pages or cpu",
        ),
    ],
)
def test_extended_resources_can_be_ignored(args, requests, want):
    assert judged(asking(requests), plugin=make_plugin(**args)) == want


def test_what_the_kubelet_reports_counts_on_the_node_but_not_for_the_pod():
    resized = {
        "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "8m"}}],
    }
    there = make_pod("there", nodeName="n", containers=[container({"cpu": "1m"})], status=resized)
    nodes = make_cluster([make_node("n", allocatable=TEN_TWENTY)], [there])
    assert rejected(make_plugin(), asking({"cpu": "3m"}), nodes) == {"n": short_of("cpu")}
    waiting = make_pod(containers=[container({"cpu": "1m"})], status=resized)
    assert rejected(make_plugin(), waiting, nodes) == {}


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param([{"memory": "10E"}], id="one container, beyond 64 bits"),
        pytest.param([{"memory": "9E"}, {"memory": "9E"}], id="two containers, together beyond"),
    ],
)
def test_what_no_64_bits_can_hold_fits_nowhere(requests):
    """Upstream's sums become 0 or negative, and then fit everywhere."""
    assert judged(asking(*requests)) == too_small_for("memory")
    assert judged(asking(*requests), allocatable=TEN_TWENTY | {"memory": "8E"}) == (
        too_small_for("memory")
    )


def test_a_pod_that_asks_for_thousands_of_resources_costs_what_it_asks_for():
    def work(count):
        nodes = make_cluster([make_node(f"n{i}", allocatable=TEN_TWENTY) for i in range(20)])
        pod, plugin = asking({f"vendor{i}.io/device": "1" for i in range(count)}), make_plugin()

        def judge():
            cycle = prepared(plugin, pod, nodes)
            assert len(list(plugin.filter(cycle, pod, nodes))) == count

        return work_of(judge)

    small = work(150)
    assert work(300).ratio(small) < 2.5


def test_filter_needs_what_pre_filter_prepares():
    nodes = make_cluster([make_node("n")])
    got = rejected(make_plugin(), asking(), nodes, CycleState())
    assert got == {"n": ("Error", NOT_PREPARED)}


def test_every_pod_is_looked_at():
    assert isinstance(prepared(make_plugin(), asking(), make_cluster([])), CycleState)


def test_signs_what_the_pod_asks_for():
    pod = asking({"memory": "1Gi", "cpu": "1"}, {AAA: "2"}, overhead={"cpu": "1m"})
    key = "v1.Pod.Spec.ContainerRequestsAndOverheads()"
    assert make_plugin().sign(pod) == {key: {"cpu": 1001, AAA: 2, "memory": 1 << 30}}


RESOURCES = ("cpu", "memory", "ephemeral-storage", AAA, HUGE)
amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 8))


def quantities(amounts):
    return {name: f"{n}m" if name == "cpu" else str(n) for name, n in amounts.items()}


@settings(deadline=None)
@given(
    wanted=amounts,
    nodes=st.lists(
        st.tuples(amounts, st.integers(0, 3), st.lists(amounts, max_size=3)),
        min_size=1,
        max_size=5,
    ),
)
def test_equals_its_definition(wanted, nodes):
    """Nodes: what they have, how many pods they take, and what each pod there asks for."""
    cluster = make_cluster(
        [
            make_node(f"n{i}", allocatable=quantities(has) | {"pods": str(most)})
            for i, (has, most, _) in enumerate(nodes)
        ],
        [
            make_pod(f"p{i}-{j}", nodeName=f"n{i}", containers=[container(quantities(one))])
            for i, (_, _, there) in enumerate(nodes)
            for j, one in enumerate(there)
        ],
    )

    def verdict(has, most, there):
        reasons = ["Too many pods"] if len(there) + 1 > most else []
        code = UNSCHEDULABLE
        for name, amount in wanted.items():
            taken = sum(one.get(name, 0) for one in there)
            if amount > 0 and amount > has.get(name, 0) - taken:
                reasons.append(f"Insufficient {name}")
                if amount > has.get(name, 0):
                    code = UNRESOLVABLE
        return (code, *sorted(reasons)) if reasons else None

    verdicts = {f"n{i}": verdict(*node) for i, node in enumerate(nodes)}
    want = {name: one for name, one in verdicts.items() if one is not None}
    assert rejected(make_plugin(), asking(quantities(wanted)), cluster) == want
