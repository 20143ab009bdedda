"""The rows of a selector are those of its mask, however they are found."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.labels import EVERYTHING, NOTHING, Operator, Requirement, Selector
from kscheduler.state.nodes_view import SelectedRows
from tests.plugins.topologies import make_cluster, make_node

labels = st.dictionaries(st.sampled_from("kl"), st.sampled_from("abc"))
requirements = st.builds(
    Requirement,
    st.sampled_from("klm"),
    st.sampled_from([Operator.IN, Operator.NOT_IN]),
    st.frozensets(st.sampled_from("abcd"), min_size=1),
)
selectors = st.one_of(
    st.just(EVERYTHING), st.just(NOTHING), st.builds(Selector, st.lists(requirements, max_size=2))
)


@given(st.lists(labels, max_size=6), st.lists(selectors))
@settings(deadline=None)
def test_rows_are_those_of_the_mask(nodes_labels, asked):
    made = [make_node(f"n{row}", own) for row, own in enumerate(nodes_labels)]
    nodes = make_cluster(made, gone=made[:1])
    selected = SelectedRows(nodes)
    for selector in asked:
        want = nodes.selector_mask(selector).nonzero()[0].tolist()
        assert sorted(selected.of(selector)) == want
