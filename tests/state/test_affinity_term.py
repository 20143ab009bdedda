from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.labels import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    selector_from_labels,
)
from kscheduler.state.affinity_term import FEW_TERMS, AffinityTerm, AffinityTerms

selectors = st.sampled_from(
    [
        EVERYTHING,
        NOTHING,
        selector_from_labels({"app": "web"}),
        selector_from_labels({"app": "db", "tier": "back"}),
        Selector([Requirement("app", Operator.NOT_IN, frozenset({"web"}))]),
        Selector([Requirement("tier", Operator.EXISTS)]),
    ]
)
by_labels = st.sampled_from([None, EVERYTHING, selector_from_labels({"team": "a"})])
namespaces = st.frozensets(st.sampled_from(["x", "y"]), max_size=2)
terms = st.builds(AffinityTerm, namespaces, by_labels, selectors, st.sampled_from(["zone", "host"]))
labels = st.fixed_dictionaries(
    {}, optional={"app": st.sampled_from(["web", "db"]), "tier": st.sampled_from(["back", "front"])}
)


@given(
    st.lists(terms, max_size=3 * FEW_TERMS),
    st.sampled_from("xyz"),
    labels,
    st.sampled_from([{}, {"team": "a"}]),
)
def test_terms_that_mean_a_pod_are_found_as_often_as_they_are_listed(
    listed, namespace, pod_labels, namespace_labels
):
    found = AffinityTerms(listed).meaning(namespace, pod_labels, namespace_labels)
    assert Counter(found) == Counter(
        term for term in listed if term.matches(namespace, pod_labels, namespace_labels)
    )
