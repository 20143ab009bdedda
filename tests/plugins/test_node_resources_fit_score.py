"""How full a node would be with the pod, as three strategies see it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.config.feature_gates import FeatureGates
from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.node_resources.args import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
)
from kscheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from kscheduler.plugins.node_resources.fit import NodeResourcesFit
from tests.plugins.machines import container, make_node, raw_scores
from tests.plugins.topologies import make_cluster, make_handle, make_pod

MIB = 1024 * 1024
GPU = "example.com/gpu"
GATES = FeatureGates.defaults()


def fit(kind="LeastAllocated", resources=(), shape=()):
    strategy = {"type": kind, "resources": [{"name": n, "weight": w} for n, w in resources]}
    if shape:
        points = [{"utilization": x, "score": y} for x, y in shape]
        strategy["requestedToCapacityRatio"] = {"shape": points}
    args = NodeResourcesFitArgs.model_validate({"scoringStrategy": strategy})
    return NodeResourcesFit(args.with_defaults(GATES), make_handle())


def balance(*resources):
    given_args = {"resources": [{"name": name, "weight": 1} for name in resources]}
    args = NodeResourcesBalancedAllocationArgs.model_validate(given_args if resources else {})
    return NodeResourcesBalancedAllocation(args.with_defaults(GATES), make_handle())


def asking(*requests, init=(), **spec):
    return make_pod(
        containers=[container(one) for one in requests],
        initContainers=[container(one) for one in init],
        **spec,
    )


def node_of(name="n", **amounts):
    """`gpu` stands for an extended resource."""
    names = {"gpu": GPU, "disk": "ephemeral-storage"}
    return make_node(name, allocatable={names.get(k, k): str(v) for k, v in amounts.items()})


def scored(plugin, pod, node, *there, cycle=None):
    """Of the one node there is, with pods on it that ask for these."""
    pods = [
        make_pod(f"there-{i}", nodeName=node.name, containers=[container(one)])
        for i, one in enumerate(there)
    ]
    return raw_scores(plugin, pod, make_cluster([node], pods), cycle)


USED = {"cpu": "2", "memory": "4000"}
POD = asking({"cpu": "1", "memory": "2000"})


@pytest.mark.parametrize(
    ("plugin", "node", "want"),
    [
        pytest.param(fit(), node_of(cpu=4, memory=10000), 32, id="least"),
        pytest.param(fit("MostAllocated"), node_of(cpu=4, memory=10000), 67, id="most"),
        pytest.param(
            fit("RequestedToCapacityRatio", shape=[(0, 10), (100, 0)]),
            node_of(cpu=4, memory=10000),
            33,
            id="ratio, 25 and 40 rounded up",
        ),
        pytest.param(
            fit(resources=[("memory", 2), ("cpu", 1)]),
            node_of(cpu=4, memory=12000),
            41,
            id="least, weighted",
        ),
        pytest.param(fit(), node_of(memory=10000), 40, id="a node without cpu"),
        pytest.param(fit(), node_of(gpu=1), 0, id="a node without either"),
        pytest.param(
            fit(resources=[("cpu", 0), ("memory", 0)]),
            node_of(cpu=4, memory=10000),
            32,
            id="no weight is one",
        ),
        pytest.param(
            fit(resources=[("cpu", 1), ("cpu", 1), ("memory", 1)]),
            node_of(cpu=4, memory=10000),
            30,
            id="a resource named twice counts twice",
        ),
        pytest.param(
            fit(resources=[("cpu", 1), (GPU, 8)]),
            node_of(cpu=4, memory=10000, gpu=8),
            25,
            id="a resource the pod does not ask for is left out",
        ),
        pytest.param(
            fit(resources=[("cpu", 1), ("ephemeral-storage", 1)]),
            node_of(cpu=4, disk=10),
            62,
            id="but disk is counted all the same",
        ),
        pytest.param(
            fit(resources=[("cpu", 1), ("nobody/has", 9), ("pods", 5), ("odd", 3)]),
            node_of(cpu=4, pods=110),
            25,
            id="names nobody has",
        ),
        pytest.param(
            fit(resources=[("nobody/has", 9)]), node_of(cpu=4), 0, id="only names nobody has"
        ),
    ],
)
def test_strategies(plugin, node, want):
    assert scored(plugin, POD, node, USED) == [want]


def test_who_names_no_request_counts_as_asking_for_some():
    node = node_of(cpu="250m", memory=1000 * MIB)
    most = fit("MostAllocated")
    assert scored(most, asking({}), node, {}, {}) == [80]
    assert scored(most, asking({}), node) == [30]


@pytest.mark.parametrize(
    ("pod", "cpu", "memory_mib"),
    [
        pytest.param(asking({}), 100, 200, id="one container"),
        pytest.param(asking({}, {}), 200, 400, id="each container"),
        pytest.param(asking({"cpu": "0", "memory": "0"}), 0, 0, id="an explicit zero stays"),
        pytest.param(asking({"cpu": "1"}), 1000, 200, id="what is missing is assumed"),
        pytest.param(asking({"cpu": "3m"}, init=[{}]), 100, 200, id="init containers too"),
        pytest.param(asking({}, overhead={"cpu": "5m"}), 105, 200, id="overhead is added"),
        pytest.param(asking(), 0, 0, id="no container"),
        pytest.param(
            asking({"cpu": "1", "memory": "1Mi"}, resources={"requests": {"cpu": "7"}}),
            1000,
            1,
            id="pod level is not looked at",
        ),
        pytest.param(
            asking({"cpu": "1", "memory": "1Mi"}, status={"resources": {"requests": {"cpu": "7"}}}),
            1000,
            1,
            id="neither is the status",
        ),
    ],
)
def test_what_a_pod_counts_for(pod, cpu, memory_mib):
    node = node_of(cpu=10, memory=1000 * MIB)
    by_cpu, by_memory = (fit("MostAllocated", [(name, 1)]) for name in ("cpu", "memory"))
    assert scored(by_cpu, pod, node) == [cpu // 100]
    assert scored(by_memory, pod, node) == [memory_mib // 10]


def test_pods_on_nodes_count_with_their_requests_at_pod_level():
    there = asking({"cpu": "1"}, nodeName="n", resources={"requests": {"cpu": "5"}})
    nodes = make_cluster([node_of(cpu=10)], [there])
    plugin = fit("MostAllocated", [("cpu", 1)])
    assert raw_scores(plugin, make_pod("new", containers=[]), nodes) == [50]


def test_scores_without_pre_score_as_well():
    node = node_of(cpu=4, memory=10000)
    assert scored(fit(), POD, node, USED, cycle=CycleState()) == [32]
    assert scored(balance(), POD, node, USED, cycle=CycleState()) == scored(
        balance(), POD, node, USED
    )


@pytest.mark.parametrize(
    ("pod", "node", "used", "want"),
    [
        pytest.param(
            asking({"cpu": "3", "memory": "5000"}),
            node_of(cpu=10, memory=20000),
            {"cpu": "3", "memory": "0"},
            73,
            id="a little worse",
        ),
        pytest.param(
            asking({"memory": "5000"}),
            node_of(cpu=3, memory=5000),
            {"cpu": "3", "memory": "0"},
            100,
            id="perfectly improved",
        ),
        pytest.param(
            asking({"memory": "5000"}), node_of(cpu=3, memory=5000), {}, 50, id="utterly spoilt"
        ),
        pytest.param(asking({"cpu": "1"}), node_of(cpu=4), {}, 75, id="a node with one resource"),
        pytest.param(
            asking({}, resources={"requests": {"memory": "5000"}}),
            node_of(cpu=3, memory=5000),
            {},
            50,
            id="pod level counts here",
        ),
    ],
)
def test_balance(pod, node, used, want):
    assert scored(balance(), pod, node, used) == [want]


def test_real_requests_count_for_balance():
    node = node_of(cpu="250m", memory=1000 * MIB)
    pod = asking({"cpu": "50m", "memory": str(200 * MIB)})
    assert scored(balance(), pod, node, {}, {}) == [75]


@pytest.mark.parametrize(
    ("plugin", "pod"),
    [
        pytest.param(balance(), asking({}), id="no request"),
        pytest.param(balance(), asking({"cpu": "0", GPU: "1"}), id="none of what is balanced"),
        pytest.param(balance(GPU), asking({"cpu": "1"}), id="another resource is balanced"),
    ],
)
def test_who_asks_for_nothing_is_not_balanced(plugin, pod):
    node = node_of(cpu=4, memory=10000, gpu=1)
    assert scored(plugin, pod, node) == "Skip"
    assert scored(plugin, pod, node, cycle=CycleState()) == [0]


def test_a_resource_the_pod_does_not_ask_for_is_left_out_of_the_balance():
    node = node_of(cpu=4, memory=8, gpu=8)
    pod = asking({"cpu": "2", "memory": "4"})
    assert scored(balance("cpu", "memory", GPU), pod, node, {GPU: "7"}) == [75]


def test_signs_like_fit():
    assert balance().sign(POD) == fit().sign(POD)


RESOURCES = ("cpu", "memory", "ephemeral-storage", GPU)
amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 9))


def quantities(some):
    return {name: str(amount) for name, amount in some.items()}


@settings(deadline=None)
@given(
    wanted=amounts,
    nodes=st.lists(st.tuples(amounts, st.lists(amounts, max_size=2)), min_size=1, max_size=4),
    order=st.permutations(RESOURCES),
    count=st.integers(1, 4),
    weights=st.lists(st.integers(1, 9), min_size=4, max_size=4),
)
def test_fit_equals_its_definition(wanted, nodes, order, count, weights):
    """Whichever resources are looked at in whichever order; cpu is counted in thousandths."""
    cluster = make_cluster(
        [make_node(f"n{i}", allocatable=quantities(has)) for i, (has, _) in enumerate(nodes)],
        [
            make_pod(f"p{i}-{j}", nodeName=f"n{i}", containers=[container(quantities(one))])
            for i, (_, there) in enumerate(nodes)
            for j, one in enumerate(there)
        ],
    )
    assumed = {"cpu": 100, "memory": 200 * MIB}

    def counted(some, name):
        if name not in some:
            return assumed.get(name, 0)
        return some[name] * (1000 if name == "cpu" else 1)

    resources = list(zip(order, weights, strict=True))[:count]

    def score(has, there):
        total = weight_sum = 0
        for name, weight in resources:
            capacity = has.get(name, 0) * (1000 if name == "cpu" else 1)
            if not capacity or (name == GPU and not wanted.get(name)):
                continue
            requested = counted(wanted, name) + sum(counted(one, name) for one in there)
            total += weight * (max(capacity - requested, 0) * 100 // capacity)
            weight_sum += weight
        return total // weight_sum if weight_sum else 0

    plugin = fit(resources=resources)
    assert raw_scores(plugin, asking(quantities(wanted)), cluster) == [score(*n) for n in nodes]
