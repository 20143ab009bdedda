"""Pods found by their labels are those whom the selector selects, one by one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.labels import EVERYTHING, NOTHING, Operator, Requirement, Selector
from kscheduler.state.labelled_pods import LabelledPods
from tests.adversary.work import work_of
from tests.kit.objects import make_pod_info


def make_pod(labels, name="p"):
    return make_pod_info(name, uid=name, namespace="ns", labels=labels)


keys, values = st.sampled_from("abc"), st.sampled_from("xyz")
requirements = st.builds(
    lambda key, operator, some: Requirement(
        key, operator, some if operator in (Operator.IN, Operator.NOT_IN) else frozenset()
    ),
    keys,
    st.sampled_from([Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST]),
    st.frozensets(values | st.just("unheard of"), min_size=1),
)
selectors = st.lists(requirements, max_size=3).map(Selector) | st.sampled_from(
    [EVERYTHING, NOTHING]
)
label_sets = st.dictionaries(keys, values, max_size=3)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(label_sets, min_size=1, max_size=5),
    st.lists(st.integers(0, 4), max_size=20),
    selectors,
    st.data(),
)
def test_the_pods_that_a_selector_selects(known, chosen, selector, data):
    # As in a cluster: equal labels are one object.
    known = [make_pod(labels) for labels in known]
    pods = [known[number % len(known)] for number in chosen]
    numbers = sorted(data.draw(st.sets(st.integers(0, len(pods) - 1)))) if pods else []
    labelled = LabelledPods(pods, numbers, frozenset(one.key for one in selector))
    want = [number for number in numbers if selector.matches(pods[number].labels)]
    assert labelled.selected(selector).tolist() == want


def test_pods_can_be_left_out_by_name():
    pods = [make_pod({"a": "x"}, name) for name in ("p", "q", "r")]
    labelled = LabelledPods(pods, range(3), frozenset("a"))
    numbers = labelled.selected(Selector([Requirement("a", Operator.EXISTS)]))
    assert labelled.without(numbers, {"q": None, "s": None}).tolist() == [0, 2]


@pytest.mark.parametrize("operator", [Operator.IN, Operator.NOT_IN])
def test_twice_the_pods_and_twice_the_questions_cost_twice_as_many_steps(operator):
    def cost(size):
        pods = [make_pod({"a": f"x{number}", "b": "y"}, f"p{number}") for number in range(size)]
        asked = [
            Selector(
                [
                    Requirement("a", operator, frozenset({f"x{number}"})),
                    Requirement("b", Operator.IN, frozenset({"y"})),
                ]
            )
            for number in range(size)
        ]

        def ask():
            labelled = LabelledPods(pods, range(size), frozenset("ab"))
            for selector in asked:
                labelled.selected(selector)

        return work_of(ask)

    assert cost(400).lines / cost(200).lines < 2.5
