import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PreferredSchedulingTerm,
)
from kscheduler.api.labels import SelectorError
from kscheduler.api.node_selector import (
    compile_node_selector,
    compile_preferred,
    required_node_affinity,
)


def need(key, operator, *values):
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def term(*expressions, fields=()):
    return NodeSelectorTerm(match_expressions=expressions, match_fields=tuple(fields))


def selector(*terms):
    return NodeSelector(node_selector_terms=terms)


KEYS = st.sampled_from(["a", "b"])
VALUES = st.sampled_from(["x", "y", "5", "10"])
label_sets = st.dictionaries(KEYS, VALUES)
node_names = st.sampled_from(["n1", "n2"])
expression_lists = st.lists(
    st.one_of(
        st.builds(
            lambda key, operator, values: need(key, operator, *values),
            KEYS,
            st.sampled_from(["In", "NotIn"]),
            st.lists(VALUES, min_size=1, max_size=2),
        ),
        st.builds(need, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
        st.builds(need, KEYS, st.sampled_from(["Gt", "Lt"]), st.sampled_from(["4", "7"])),
    ),
    max_size=2,
)
field_lists = st.lists(
    st.builds(need, st.just("metadata.name"), st.sampled_from(["In", "NotIn"]), node_names),
    max_size=2,
)
terms = st.builds(lambda items, fields: term(*items, fields=fields), expression_lists, field_lists)
selectors = st.lists(terms, max_size=3).map(lambda items: selector(*items))


def naive_requirement(item, value):
    match item.operator:
        case "In":
            return value in item.values
        case "NotIn":
            return value not in item.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    if value is None or not value.isdigit():
        return False
    bound = int(item.values[0])
    return int(value) > bound if item.operator == "Gt" else int(value) < bound


def naive_term(item, labels, name):
    if not item.match_expressions and not item.match_fields:
        return False
    return all(naive_requirement(e, labels.get(e.key)) for e in item.match_expressions) and all(
        naive_requirement(f, name) for f in item.match_fields
    )


@given(selectors, label_sets, node_names)
def test_terms_are_ored_and_their_parts_anded(node_selector, labels, name):
    want = any(naive_term(item, labels, name) for item in node_selector.node_selector_terms)
    assert compile_node_selector(node_selector).matches(labels, name) == want


@given(st.lists(st.tuples(st.integers(0, 9), terms), max_size=4), label_sets, node_names)
def test_a_preference_scores_the_weights_that_match(weighted, labels, name):
    preferred = [PreferredSchedulingTerm(weight=w, preference=t) for w, t in weighted]
    want = sum(weight for weight, item in weighted if naive_term(item, labels, name))
    assert compile_preferred(preferred).score(labels, name) == want


@pytest.mark.parametrize(
    ("node_selector", "want"),
    [
        pytest.param(selector(), False, id="no terms match nothing"),
        pytest.param(selector(term()), False, id="an empty term matches nothing"),
        pytest.param(selector(term(), term(need("a", "Exists"))), True, id="second term"),
        pytest.param(selector(term(need("n", "Gt", "0204"))), True, id="leading zeros"),
        pytest.param(selector(term(need("gone", "NotIn", "x"))), True, id="NotIn, absent"),
        pytest.param(selector(term(need("gone", "Lt", "9"))), False, id="Lt, absent"),
        pytest.param(
            selector(term(fields=[need("metadata.name", "In", "n1")])), True, id="by name"
        ),
        pytest.param(
            selector(term(fields=[need("metadata.name", "NotIn", "n1")])), False, id="not by name"
        ),
        pytest.param(selector(term(fields=[need("other", "In", "")])), True, id="unknown field"),
        pytest.param(
            selector(term(need("a", "NotIn", "invalid value: ___@#$%^"))),
            False,
            id="unparsable value",
        ),
        pytest.param(
            selector(term(need("a", "Bogus")), term(need("a", "In", "x"))),
            True,
            id="a broken term beside a matching one",
        ),
    ],
)
def test_matching_a_node(node_selector, want):
    assert compile_node_selector(node_selector).matches({"a": "x", "n": "0206"}, "n1") is want


def test_fields_are_not_looked_at_without_a_name():
    compiled = compile_node_selector(selector(term(fields=[need("metadata.name", "In", "n1")])))
    assert compiled.matches({}, "")
    assert not compiled.matches({}, "n2")


@pytest.mark.parametrize(
    ("item", "want"),
    [
        pytest.param(
            term(need("a", "X")),
            'nodeSelectorTerms[1].matchExpressions[0].operator: Unsupported value: "X": '
            'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
            id="operator",
        ),
        pytest.param(
            term(fields=[need("metadata.name", "In", "a", "b")]),
            'nodeSelectorTerms[1].matchFields[0].values: Invalid value: ["a","b"]: '
            "must have one element",
            id="two names",
        ),
        pytest.param(
            term(fields=[need("metadata.name", "Exists")]),
            'nodeSelectorTerms[1].matchFields[0].operator: Unsupported value: "Exists": '
            'supported values: "In", "NotIn"',
            id="field operator",
        ),
        pytest.param(
            term(need("a", "Gt", "1", "2"), need("a", "In")),
            "[nodeSelectorTerms[1].matchExpressions[0].values: Invalid value: "
            "[\"1\",\"2\"]: for 'Gt', 'Lt' operators, exactly one value is required, "
            "nodeSelectorTerms[1].matchExpressions[1].values: Invalid value: null: "
            "for 'in', 'notin' operators, values set can't be empty]",
            id="several",
        ),
    ],
)
def test_parse_errors_are_worded_as_upstream(item, want):
    compiled = compile_node_selector(selector(term(), item))
    assert compiled.error == want
    assert not compiled.matches({"a": "5"}, "n1")


def test_a_valid_selector_has_no_error():
    assert compile_node_selector(selector(term(need("a", "Exists")))).error is None


def test_errors_start_at_the_path_given():
    compiled = compile_node_selector(selector(term(need("a", "X"))), "required")
    assert compiled.error.startswith("required.nodeSelectorTerms[0].matchExpressions[0].operator:")


def test_a_broken_preference_is_an_error_only_if_it_has_weight():
    broken = term(need("invalid key", "Exists"))
    assert compile_preferred([PreferredSchedulingTerm(weight=0, preference=broken)]).terms == ()
    with pytest.raises(SelectorError) as caught:
        compile_preferred([PreferredSchedulingTerm(weight=1, preference=broken)])
    assert str(caught.value).startswith(
        '[0].matchExpressions[0].key: Invalid value: "invalid key": name part must consist of'
    )


def pod_with(node_selector=None, required=None):
    affinity = Affinity(node_affinity=NodeAffinity(required=required))
    return Pod(spec=PodSpec(node_selector=node_selector, affinity=affinity))


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(Pod(), True, id="nothing asked"),
        pytest.param(pod_with({"a": "x"}), True, id="selector"),
        pytest.param(pod_with({"a": "y"}), False, id="selector, other value"),
        pytest.param(
            pod_with({"a": "x"}, selector(term(need("b", "Exists")))), False, id="affinity fails"
        ),
        pytest.param(
            pod_with({"a": "y"}, selector(term(need("a", "Exists")))), False, id="selector fails"
        ),
        pytest.param(pod_with(None, selector()), False, id="affinity without terms"),
    ],
)
def test_a_pod_needs_its_selector_and_its_affinity(pod, want):
    assert required_node_affinity(pod).matches({"a": "x"}, "n1") is want
