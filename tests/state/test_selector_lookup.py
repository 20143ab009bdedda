from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.labels import NOTHING, Operator, Requirement, Selector, selector_from_labels
from kscheduler.state.selector_lookup import SelectorLookup

keys, values = st.sampled_from("abc"), st.sampled_from("12")
requirements = st.one_of(
    st.builds(
        Requirement,
        keys,
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.frozensets(values, min_size=1),
    ),
    st.builds(Requirement, keys, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
)
selectors = st.lists(requirements, max_size=3).map(Selector) | st.just(NOTHING)
namespaces = st.none() | st.frozensets(st.sampled_from(["x", "y"]))
labels = st.dictionaries(keys, values)


@given(st.lists(st.tuples(namespaces, selectors)), st.sampled_from(["x", "y"]), labels)
def test_every_selector_that_matches_is_found_once(filed, namespace, pod_labels):
    lookup = SelectorLookup()
    for number, (where, selector) in enumerate(filed):
        lookup.add(number, where, selector)
    found = list(lookup.candidates(namespace, pod_labels))
    assert len(found) == len(set(found))
    assert set(found) >= {
        number
        for number, (where, selector) in enumerate(filed)
        if (where is None or namespace in where) and selector.matches(pod_labels)
    }


@given(st.lists(st.tuples(namespaces, selectors)))
def test_nothing_is_left_when_everything_is_removed(filed):
    lookup = SelectorLookup()
    for number, (where, selector) in enumerate(filed):
        lookup.add(number, where, selector)
    for number, (where, selector) in enumerate(filed):
        lookup.remove(number, where, selector)
    assert not lookup._files


def test_a_pod_does_not_see_the_selectors_of_others():
    lookup = SelectorLookup()
    for number in range(100):
        lookup.add(number, frozenset({"x"}), selector_from_labels({"app": f"a{number}"}))
        lookup.add(-number, frozenset({"y"}), selector_from_labels({"app": f"a{number}"}))
    assert list(lookup.candidates("x", {"app": "a7", "tier": "t"})) == [7]


@given(
    st.lists(st.tuples(namespaces, selectors, st.sampled_from(["t", "u", "v"]))),
    st.sampled_from(["x", "y"]),
    labels,
    st.sets(st.sampled_from(["t", "u", "v"])),
)
def test_entries_are_found_by_topic(filed, namespace, pod_labels, topics):
    lookup, plain = SelectorLookup(), SelectorLookup()
    for number, (where, selector, topic) in enumerate(filed):
        lookup.add(number, where, selector, topic)
        plain.add(number, where, selector)
    found = list(lookup.candidates(namespace, pod_labels, topics))
    assert len(found) == len(set(found))
    everything = plain.candidates(namespace, pod_labels)
    assert set(found) == {number for number in everything if filed[number][2] in topics}
    for number, (where, selector, topic) in enumerate(filed):
        lookup.remove(number, where, selector, topic)
    assert not lookup._files
