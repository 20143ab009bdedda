"""Hostile expressions: only this package's errors come out, in bounded time."""

import inspect
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.cel import AbortedError, CelError, compile_value
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


def expressions(leaves):
    """Expressions of a few operators, calls and macros over these."""
    return st.recursive(st.sampled_from(leaves), _extended, max_leaves=12)


def foreign_cause(expression):
    """The exception behind an internal error, if the evaluator itself failed."""
    try:
        compile_value(expression).evaluate(DEVICE)
    except CelError as error:
        return error.__cause__
    return None


@settings(max_examples=300, deadline=None)
@given(expressions(LEAVES))
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


def bound(step, first, last, depth=60):
    """Variables of which each is made from the one before it, `@`."""
    text = f"cel.bind(v0, {first}, "
    for i in range(1, depth):
        text += f"cel.bind(v{i}, {step.replace('@', f'v{i - 1}')}, "
    return text + last.replace("@", f"v{depth - 1}") + ")" * depth


def looped(body, size=200_000):
    return f"lists.range({size}).all(i, {body})"


def doubled(last, first="[1]"):
    """A list of lists, exponentially larger than what it takes of memory."""
    return bound("[@, @]", first, last)


LONG = f'cel.bind(a, "{"a" * 3000}", '
DEEP = {
    "brackets": "(" * 5000 + "true" + ")" * 5000,
    "brackets within the limit": "(" * 240 + "true" + ")" * 240,
    "lists": "[" * 240 + "]" * 240 + " == []",
    "lists that are no constants": "[" * 190 + "device.driver" + "]" * 190 + " == []",
    "sum": "+".join(["1"] * 5000) + " > 0",
    "sum within the limit": "+".join(["1"] * 240) + " > 0",
    "conjunction": " && ".join(["true"] * 5000),
    "equalities": " || ".join(["optional.none() == optional.none()"] * 250),
    "conditions": "true ? true : " * 3000 + "true",
    "selections": "dyn(device)" + ".a" * 240 + " == 1",
    "negations": "!" * 5001 + "true",
    "optMap": "optional.of(1)" + ".optMap(x, x)" * 200 + ".hasValue()",
    "optMap side by side": " || ".join(
        ["optional.of(1)" + ".optMap(x, x)" * 5 + ".hasValue()"] * 99
    ),
    "types": bound("{@: @}", "{1: 1}", "true", 200),
    "digits": "9" * 9000 + " == 1",
    "length": "true" + " " * 999_999,
    "open quotes": "'''" + '"""a' * 3000,
    "issues": "||".join(["x"] * 3000),
    "large patterns": "||".join([r'"".matches("\\pL{99}")'] * 400),
}
HEAVY = {
    "texts that replace grow": f'{LONG}cel.bind(b, a.replace("a", a), '
    'b.replace("a", b).size() > 0))',
    "many grown texts": f"{LONG}lists.range(1000).map(x, a.replace('a', a)) == [])",
    "texts that add up": bound("@ + @", '"aaaaaaaaaaaaaaaa"', "@ == ''"),
    "texts that join": bound("[@, @].join()", '"aaaaaaaaaaaaaaaa"', "@ == ''"),
    "texts that format": bound("'%s%s'.format([@, @])", '"aaaaaaaaaaaaaaaa"', "@ == ''"),
    "texts that split": f"{LONG}lists.range(10000).map(x, a.split('')) == [])",
    "text searched backwards": f"{LONG}cel.bind(b, a.substring(1500) + 'b' + a.substring(1500), "
    f"{looped('(a + a).lastIndexOf(b) < 0')}))",
    "lists that add up": bound("@ + @", "[1, 2, 3, 4]", "@ == []"),
    "equality of all pairs": doubled("@ == @"),
    "equality of maps": bound("{1: @, 2: @}", "1", "@ == @"),
    "membership": doubled("@ in [@]"),
    "flattening of nothing": doubled("@.flatten(100) == []", "[]"),
    "text of a list": doubled("'%s'.format([@]) == ''"),
    "list in an error": doubled("[?dyn(@)] == []"),
    "traversal": doubled("@.indexOf(@) == 1"),
    "sets": doubled("sets.equivalent(@, @)"),
    "in a dyn list": "cel.bind(r, dyn(lists.range(90000)), r.all(x, x in r))",
    "equal lists": "cel.bind(r, dyn([lists.range(90000)]), lists.range(9000).all(x, r == r))",
    "kept sums of lists": "cel.bind(r, lists.range(400000), lists.range(9).map(x, r + r) == [])",
    "nested loops": "lists.range(99999).all(x, lists.range(99999).all(y, true))",
    "loops without cost": "[1, 2, 3, 4, 5, 6, 7, 8, 9].exists_one(x, " * 8 + "false" + ")" * 8,
    "backtracking pattern": f'"{"a" * 3000}".matches("{"(a+)+" * 50}b")',
    "pattern without automaton": LONG + looped(r"!a.matches('(\\pL?){90}$')", 1000) + ")",
    "computed patterns": looped("!'a'.matches('b' + string(i))"),
    "large computed patterns": looped(r"!'a'.matches('\\pL{99}' + string(i))", 2000),
    "empty matches": LONG + looped("a.findAll('').size() > 0", 10000) + ")",
    "time zones": looped("timestamp(i).getHours('x' + string(i)) > 0 || true"),
    "precision": '"%.100000000f".format([1.0]) == ""',
    "flattening by no number": "dyn([[1]]).flatten(dyn(0.0 / 0.0)) == []",
    "flattening by infinity": "dyn([[1]]).flatten(dyn(1.0 / 0.0)) == []",
    "quantity beyond doubles": f"quantity('{'9' * 999}E').asApproximateFloat() > 1.0",
}


@pytest.mark.parametrize("expression", [*DEEP.values(), *HEAVY.values()], ids=[*DEEP, *HEAVY])
def test_an_attack_ends_in_time(expression):
    started = time.thread_time()
    assert foreign_cause(expression) is None
    assert time.thread_time() - started < 5


def test_a_deep_caller_leaves_room_for_an_evaluation():
    program = compile_value("[" * 39 + "device.driver" + "]" * 39)

    def called(depth):
        return called(depth - 1) if depth else program.evaluate(DEVICE)

    assert called(sys.getrecursionlimit() - len(inspect.stack()) - 200)


def test_an_evaluation_leaves_the_next_one_its_budget():
    heavy, light = compile_value(HEAVY["membership"]), compile_value("[1, 2] == [1, 2]")
    with pytest.raises(AbortedError):
        heavy.evaluate(DEVICE)
    assert light.evaluate(DEVICE) is True
