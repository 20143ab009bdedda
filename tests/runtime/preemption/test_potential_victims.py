"""Budgets find their pods as the definition says, and without asking each pod about each budget."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.decode import convert
from kscheduler.api.labels import SelectorError, compile_selector
from kscheduler.api.small_groups import PodDisruptionBudget
from kscheduler.runtime.preemption.potential_victims import DisruptionBudgets
from tests.adversary.work import work_of
from tests.kit.objects import make_pod_info

POD_NAME = "statefulset.kubernetes.io/pod-name"


def make_pod(name, labels, namespace="ns"):
    return make_pod_info(name, namespace=namespace, uid=f"{namespace}-{name}", labels=labels)


def make_budget(selector, allowed=0, disrupted=(), namespace="ns"):
    return convert(
        {
            "metadata": {"name": "b", "namespace": namespace},
            "spec": {"selector": selector},
            "status": {
                "disruptionsAllowed": allowed,
                "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
            },
        },
        PodDisruptionBudget,
    )


def definition(pods, node, budgets):
    """Pod by pod and budget by budget, as upstream goes through them on each node."""
    allowed = {}
    return [
        _violates(
            pod, budgets, allowed.setdefault(at, [b.status.disruptions_allowed for b in budgets])
        )
        for pod, at in zip(pods, node, strict=True)
    ]


def _violates(pod, budgets, allowed):
    if not pod.labels:
        return False
    for number, budget in enumerate(budgets):
        try:
            selector = compile_selector(budget.spec.selector)
        except SelectorError:
            continue
        if budget.metadata.namespace != pod.namespace or selector.matches_everything:
            continue
        if not selector.matches(pod.labels) or pod.name in budget.status.disrupted_pods:
            continue
        allowed[number] -= 1
        if allowed[number] < 0:
            return True
    return False


keys = st.sampled_from("abc")
values = st.sampled_from("xyz")
namespaces = st.sampled_from(["ns", "ns", "other"])
names = st.sampled_from([f"p{number}" for number in range(12)])
expressions = st.builds(
    lambda key, operator, some: {
        "key": key,
        "operator": operator,
        "values": [] if operator in ("Exists", "DoesNotExist") else sorted(some),
    },
    keys,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "In", "Nonsense"]),
    st.sets(values | st.just("unheard of"), min_size=1),
)
selectors = st.none() | st.fixed_dictionaries(
    {
        "matchLabels": st.dictionaries(keys, values, max_size=2),
        "matchExpressions": st.lists(expressions, max_size=2),
    }
)
budgets = st.builds(
    make_budget, selectors, st.integers(0, 2), st.sets(names, max_size=2), namespaces
)
pods = st.builds(make_pod, names, st.dictionaries(keys, values, max_size=3), namespaces)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(pods, st.integers(0, 3)), max_size=16), st.lists(budgets, max_size=6))
def test_whose_eviction_exceeds_a_budget(placed, listed):
    placed.sort(key=lambda one: one[1])
    pods, node = [pod for pod, _ in placed], [at for _, at in placed]
    found = DisruptionBudgets(listed).violated_by(pods, np.array(node, np.intp))
    assert found.tolist() == definition(pods, node, listed)


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(None, id="none"),
        pytest.param({}, id="empty"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "Nonsense"}]}, id="not understood"
        ),
    ],
)
def test_a_budget_without_a_selector_to_go_by_protects_nobody(selector):
    budgets = DisruptionBudgets([make_budget(selector)])
    assert not budgets
    assert not budgets.violated_by([make_pod("p", {"a": "x"})], np.zeros(1, np.intp)).any()


def labels_in(selector):
    return {"matchLabels": selector}


APART = {
    "by a label of their own": lambda number: labels_in({"app": f"a{number}"}),
    "by the rarer of two labels": lambda number: labels_in({"all": "x", "app": f"a{number}"}),
    "by name, of many": lambda number: {
        "matchExpressions": [
            {"key": "app", "operator": "In", "values": [f"a{number}", f"b{number}"]},
            {"key": "all", "operator": "NotIn", "values": ["y"]},
        ]
    },
}
BROAD = {
    "by what they are not": lambda number: {
        "matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"a{number}"]}]
    },
    "by what all are": lambda number: labels_in({"all": "x"}),
}


def work(selector_of, pods, budgets):
    """Twenty pods of a StatefulSet on each node, no two with equal labels."""
    placed = [
        make_pod(f"p{n}", {"all": "x", "app": f"a{n % budgets}", POD_NAME: f"p{n}"})
        for n in range(pods)
    ]
    listed = [make_budget(selector_of(number), allowed=pods) for number in range(budgets)]
    found, node = DisruptionBudgets(listed), np.arange(pods) // 20
    return work_of(lambda: found.violated_by(placed, node))


@pytest.mark.parametrize("selector_of", APART.values(), ids=APART)
def test_twice_the_pods_under_twice_the_budgets_cost_twice_as_much(selector_of):
    assert work(selector_of, 1600, 80).ratio(work(selector_of, 800, 40)) < 2.5


@pytest.mark.parametrize("selector_of", BROAD.values(), ids=BROAD)
def test_budgets_that_cover_everybody_cost_as_many_array_elements(selector_of):
    small = work(selector_of, 800, 40)
    assert work(selector_of, 1600, 40).ratio(small) < 2.5
    assert work(selector_of, 800, 80).ratio(small) < 2.5
    # The product is one of elements, not of steps.
    assert work(selector_of, 1600, 80).lines < 2.5 * small.lines


def test_disrupted_pods_are_looked_up_once_for_all_budgets():
    def cost(size):
        names = [f"p{number}" for number in range(size)]
        placed = [make_pod(name, {"app": "a", POD_NAME: name}) for name in names]
        listed = [make_budget(labels_in({POD_NAME: name}), 0, [name]) for name in names]
        found, node = DisruptionBudgets(listed), np.arange(size)
        assert not found.violated_by(placed, node).any()
        return work_of(lambda: found.violated_by(placed, node))

    assert cost(400).ratio(cost(200)) < 2.5
