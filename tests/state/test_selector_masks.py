import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kscheduler.api.labels import EVERYTHING, NOTHING, Selector, selector_from_labels
from kscheduler.api.node_selector import (
    NodeSelectorMatcher,
    PreferredTerms,
    RequiredNodeAffinity,
    compile_node_selector,
    compile_term,
)
from kscheduler.state.label_columns import LabelColumns
from kscheduler.state.selector_masks import mask_of_query, weights_of_terms


class NamedRows:
    def __init__(self, nodes):
        self.nodes = nodes
        self.labels = LabelColumns()
        self.labels.resize(len(nodes))
        for row, (_, labels) in enumerate(nodes):
            self.labels.put(row, labels)

    def row_of(self, name):
        return next((row for row, (known, _) in enumerate(self.nodes) if known == name), None)


NODES = [
    ("n0", {}),
    ("n1", {"disk": "ssd", "gen": "0206"}),
    ("n2", {"disk": "hdd", "gen": "7"}),
    ("n3", {"disk": "", "gen": "x"}),
]


def expression(key, operator, *values):
    return NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key, operator, values),))


def field(operator, *values, key="metadata.name"):
    return NodeSelectorTerm(match_fields=(NodeSelectorRequirement(key, operator, values),))


@pytest.mark.parametrize(
    ("term", "want"),
    [
        pytest.param(expression("disk", "In", "ssd"), "0100", id="in"),
        pytest.param(expression("disk", "In", "ssd", "hdd"), "0110", id="in, two values"),
        pytest.param(expression("disk", "In", "tape"), "0000", id="in, a value nobody has"),
        pytest.param(expression("disk", "In", ""), "0001", id="in, the empty value"),
        pytest.param(expression("disk", "NotIn", "ssd"), "1011", id="notin takes absent keys"),
        pytest.param(expression("disk", "Exists"), "0111", id="exists"),
        pytest.param(expression("disk", "DoesNotExist"), "1000", id="does not exist"),
        pytest.param(expression("gen", "Gt", "0204"), "0100", id="gt"),
        pytest.param(expression("gen", "Lt", "0204"), "0010", id="lt"),
        pytest.param(expression("gen", "Gt", "x"), "0000", id="an unparsable term"),
        pytest.param(field("In", "n2"), "0010", id="by name"),
        pytest.param(field("NotIn", "n2"), "1101", id="not by name"),
        pytest.param(field("In", "n9"), "0000", id="by a name nobody has"),
        pytest.param(field("In", "n1", "n2"), "0000", id="by two names, which is no valid term"),
        pytest.param(field("In", "", key="spec.x"), "1111", id="other fields read as empty"),
        pytest.param(NodeSelectorTerm(), "1111", id="an empty term by itself"),
    ],
)
def test_terms(term, want):
    rows = NamedRows(NODES)
    mask = mask_of_query(rows, compile_term(term))
    assert "".join(str(int(bit)) for bit in mask) == want


SSD, HDD = expression("disk", "In", "ssd"), expression("disk", "In", "hdd")


@pytest.mark.parametrize(
    ("query", "want"),
    [
        pytest.param(EVERYTHING, "1111", id="everything"),
        pytest.param(NOTHING, "0000", id="nothing"),
        pytest.param(NodeSelectorMatcher(), "0000", id="no terms"),
        pytest.param(
            compile_node_selector(NodeSelector((SSD, HDD))), "0110", id="terms are alternatives"
        ),
        pytest.param(RequiredNodeAffinity(), "1111", id="no affinity at all"),
        pytest.param(
            RequiredNodeAffinity(
                selector_from_labels({"gen": "7"}), compile_node_selector(NodeSelector((SSD, HDD)))
            ),
            "0010",
            id="labels and terms both hold",
        ),
    ],
)
def test_queries(query, want):
    mask = mask_of_query(NamedRows(NODES), query)
    assert "".join(str(int(bit)) for bit in mask) == want


labels = st.dictionaries(st.sampled_from("ab"), st.sampled_from(["1", "2", "x"]))
requirements = st.builds(
    NodeSelectorRequirement,
    st.sampled_from("abc"),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Odd"]),
    st.lists(st.sampled_from(["1", "2", "x"]), max_size=2).map(tuple),
)
fields = st.builds(
    NodeSelectorRequirement,
    st.sampled_from(["metadata.name", "other"]),
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from([("n0",), ("n1",), ("",)]),
)
terms = st.builds(
    NodeSelectorTerm,
    st.lists(requirements, max_size=2).map(tuple),
    st.lists(fields, max_size=2).map(tuple),
)


@given(
    st.lists(labels, max_size=4),
    st.lists(terms, max_size=8).map(tuple),
    st.dictionaries(st.sampled_from("ab"), st.sampled_from("12")),
)
def test_masks_say_what_is_said_node_by_node(all_labels, listed, node_selector):
    rows = NamedRows([(f"n{row}", row_labels) for row, row_labels in enumerate(all_labels)])
    affinity = compile_node_selector(NodeSelector(listed))
    either = [
        any(term.matches(row_labels, name) for term in affinity.terms)
        for name, row_labels in rows.nodes
    ]
    assert mask_of_query(rows, affinity).tolist() == either
    assert [affinity.matches(row_labels, name) for name, row_labels in rows.nodes] == either
    required = RequiredNodeAffinity(selector_from_labels(node_selector), affinity)
    assert mask_of_query(rows, required).tolist() == [
        required.matches(row_labels, name) for name, row_labels in rows.nodes
    ]
    preferred = PreferredTerms(tuple(enumerate(affinity.terms, 1)))
    assert weights_of_terms(rows, preferred).tolist() == [
        preferred.score(row_labels, name) for name, row_labels in rows.nodes
    ]
    for term in affinity.terms:
        selector: Selector = term.expressions
        assert mask_of_query(rows, selector).tolist() == [
            selector.matches(row_labels) for _, row_labels in rows.nodes
        ]
