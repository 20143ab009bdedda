"""Hostile expressions: only this package's errors come out, in bounded time."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.cel import CelError, compile_value
from kscheduler.cel.declarations import FUNCTIONS
from tests.cel.test_recorded import DEVICE, A

LEAVES = (
    *("1", "-7", "2u", "1.5", "0.0 / 0.0", '"abc"', '"é😀"', 'b"a"', "true", "null", "[]", "{}"),
    *("device", "device.driver", A, f"{A}.model", f"{A}.cores", f"{A}.fw", f"{A}.tags", "x"),
    *('quantity("1.5Gi")', 'semver("1.2.3")', 'ip("::1")', 'cidr("10.0.0.1/8")', 'duration("1h")'),
    *("timestamp(0)", "optional.none()", "optional.of(1)", 'url("/a?b=c")', "int", "[1, 2, 3]"),
)
NAMES = sorted(name for name in FUNCTIONS if name[0].isalpha() and "@" not in name)
MACROS = ("all", "exists", "exists_one", "map", "filter", "optMap", "optFlatMap", "sortBy")
OPERATORS = ("+", "-", "*", "/", "%", "<", "<=", "==", "!=", "in", "&&", "||")


def _extended(inner):
    pair = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(pair, st.sampled_from(OPERATORS)).map(lambda p: f"({p[0][0]} {p[1]} {p[0][1]})"),
        st.tuples(inner, st.sampled_from(NAMES), st.lists(inner, max_size=3)).map(
            lambda p: f"dyn({p[0]}).{p[1]}({', '.join(f'dyn({a})' for a in p[2])})"
        ),
        st.tuples(st.sampled_from(NAMES), st.lists(inner, max_size=3)).map(
            lambda p: f"{p[0]}({', '.join(f'dyn({a})' for a in p[1])})"
        ),
        st.tuples(inner, st.sampled_from(MACROS), inner).map(
            lambda p: f"dyn({p[0]}).{p[1]}(x, {p[2]})"
        ),
        st.tuples(inner, inner, inner).map(lambda p: f"(dyn({p[0]}) ? dyn({p[1]}) : {p[2]})"),
        pair.map(lambda p: f"dyn({p[0]})[dyn({p[1]})]"),
        pair.map(lambda p: f"dyn({p[0]})[?dyn({p[1]})]"),
        inner.map(lambda e: f"dyn({e}).?field"),
        inner.map(lambda e: f"-dyn({e})"),
        inner.map(lambda e: f"!dyn({e})"),
        pair.map(lambda p: f"cel.bind(x, {p[0]}, {p[1]})"),
        pair.map(lambda p: f"{{dyn({p[0]}): dyn({p[1]})}}"),
    )


EXPRESSIONS = st.recursive(st.sampled_from(LEAVES), _extended, max_leaves=12)


def foreign_cause(expression):
    """The exception behind an internal error, if the evaluator itself failed."""
    try:
        compile_value(expression).evaluate(DEVICE)
    except CelError as error:
        return error.__cause__
    return None


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS)
def test_expressions_by_grammar(expression):
    assert foreign_cause(f"dyn({expression})") is None


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60) | st.text("()[]{}.?:'\"\\`abx01ue+-*/!<>=&|, \n", max_size=60))
def test_expressions_by_characters(expression):
    assert foreign_cause(expression) is None


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_expressions_by_bytes(raw):
    assert foreign_cause(raw.decode("utf-8", "surrogateescape")) is None


DEEP = {
    "brackets": "(" * 5000 + "true" + ")" * 5000,
    "brackets within the limit": "(" * 240 + "true" + ")" * 240,
    "lists": "[" * 240 + "]" * 240 + " == []",
    "sum": "+".join(["1"] * 5000) + " > 0",
    "sum within the limit": "+".join(["1"] * 240) + " > 0",
    "conjunction": " && ".join(["true"] * 5000),
    "conditions": "true ? true : " * 3000 + "true",
    "selections": "dyn(device)" + ".a" * 240 + " == 1",
    "negations": "!" * 5001 + "true",
    "copies of a macro": "optional.of(1)" + ".optMap(x, x)" * 40 + ".hasValue()",
    "digits": "9" * 9000 + " == 1",
    "length": "true" + " " * 999_999,
}
HEAVY = {
    "texts that replace grow": f'cel.bind(a, "{"a" * 3000}", cel.bind(b, a.replace("a", a), '
    'b.replace("a", b).size() > 0))',
    "in a dyn list": "cel.bind(r, dyn(lists.range(90000)), r.all(x, x in r))",
    "equal lists": "cel.bind(r, dyn([lists.range(90000)]), lists.range(9000).all(x, r == r))",
    "kept sums of lists": "cel.bind(r, lists.range(400000), lists.range(9).map(x, r + r) == [])",
    "nested loops": "lists.range(99999).all(x, lists.range(99999).all(y, true))",
    "backtracking pattern": f'"{"a" * 3000}".matches("{"(a+)+" * 50}b")',
    "precision": '"%.100000000f".format([1.0]) == ""',
}


@pytest.mark.parametrize("expression", [*DEEP.values(), *HEAVY.values()], ids=[*DEEP, *HEAVY])
def test_an_attack_ends_in_time(expression):
    started = time.monotonic()
    assert foreign_cause(expression) is None
    assert time.monotonic() - started < 10
