import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.core import Taint, Toleration
from kscheduler.api.taints import (
    HARD_EFFECTS,
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    UNSCHEDULABLE_TAINT,
    TolerationIndex,
    find_untolerated,
    is_tolerated,
    tolerates,
)

TAINT = Taint(key="k", value="v", effect=NO_SCHEDULE)


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param(Toleration(key="k", value="v", effect=NO_SCHEDULE), True, id="all equal"),
        pytest.param(Toleration(key="k", operator="Equal", value="v"), True, id="any effect"),
        pytest.param(Toleration(key="k", value="w"), False, id="other value"),
        pytest.param(Toleration(key="x", value="v"), False, id="other key"),
        pytest.param(Toleration(key="k", operator="Exists"), True, id="any value"),
        pytest.param(Toleration(operator="Exists"), True, id="everything"),
        pytest.param(Toleration(operator="Exists", effect=NO_EXECUTE), False, id="other effect"),
        pytest.param(Toleration(value="v"), True, id="empty key with equal value"),
        pytest.param(Toleration(), False, id="empty"),
        pytest.param(Toleration(key="k", operator="Foo", value="v"), False, id="unknown operator"),
    ],
)
def test_tolerates(toleration, want):
    assert tolerates(toleration, TAINT) is want


@pytest.mark.parametrize(
    ("operator", "bound", "value", "want"),
    [
        pytest.param("Gt", "5", "7", True, id="taint is greater"),
        pytest.param("Gt", "5", "5", False, id="equal is not greater"),
        pytest.param("Lt", "5", "-3", True, id="taint is less"),
        pytest.param("Lt", "5", "5", False, id="equal is not less"),
        pytest.param("Gt", "05", "7", False, id="leading zero"),
        pytest.param("Gt", "+5", "7", False, id="plus sign"),
        pytest.param("Lt", "5", "-0", False, id="minus zero"),
        pytest.param("Gt", "5", "7.5", False, id="fraction"),
        pytest.param("Gt", "5", str(2**63), False, id="beyond 64 bits"),
        pytest.param("Gt", "0", "1", True, id="zero is canonical"),
    ],
)
def test_numbers_compare_when_the_gate_is_on(operator, bound, value, want):
    toleration = Toleration(key="k", operator=operator, value=bound)
    taint = Taint(key="k", value=value, effect=NO_SCHEDULE)
    assert tolerates(toleration, taint, numeric_operators=True) is want
    assert not tolerates(toleration, taint)


def test_the_first_untolerated_taint_is_found():
    soft = Taint(key="soft", effect=PREFER_NO_SCHEDULE)
    other = Taint(key="other", effect=NO_EXECUTE)
    taints = (soft, TAINT, other)
    assert find_untolerated(taints, ()) is TAINT
    assert find_untolerated(taints, [Toleration(key="k", operator="Exists")]) is other
    assert find_untolerated(taints, [Toleration(operator="Exists")]) is None
    assert find_untolerated(taints, (), (PREFER_NO_SCHEDULE,)) is soft
    assert PREFER_NO_SCHEDULE not in HARD_EFFECTS


def test_numeric_operators_reach_every_level():
    toleration = Toleration(key="k", operator="Lt", value="9")
    taint = Taint(key="k", value="3", effect=NO_SCHEDULE)
    assert is_tolerated(taint, [toleration], numeric_operators=True)
    assert find_untolerated([taint], [toleration], numeric_operators=True) is None
    assert find_untolerated([taint], [toleration]) is taint


def test_a_cordoned_node_counts_as_tainted():
    assert UNSCHEDULABLE_TAINT.key == "node.kubernetes.io/unschedulable"
    assert UNSCHEDULABLE_TAINT.effect == NO_SCHEDULE


texts = st.sampled_from(["", "a", "b"])
values = st.sampled_from(["", "a", "5", "7", "05"])
effects = st.sampled_from([NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE])
taints = st.builds(Taint, key=texts, value=values, effect=effects)
tolerations = st.builds(
    Toleration,
    key=texts,
    operator=st.sampled_from(["", "Equal", "Exists", "Gt", "Lt", "Other"]),
    value=values,
    effect=effects | st.just(""),
)


@given(st.lists(taints, max_size=4), st.lists(tolerations, max_size=6), st.booleans())
def test_the_index_says_what_the_tolerations_say_one_by_one(taints, tolerations, numeric):
    index = TolerationIndex(tolerations, numeric_operators=numeric)
    for taint in taints:
        want = is_tolerated(taint, tolerations, numeric_operators=numeric)
        assert index.tolerates(taint) is want
    want = find_untolerated(taints, tolerations, numeric_operators=numeric)
    assert index.first_untolerated(taints) == want
