"""Every recorded expression of cel-go, and what is easy to get wrong."""

import pytest

from kscheduler.api.resource import DeviceAttribute, DeviceCapacity
from kscheduler.cel import CelError, CompileError, Device, compile, compile_value
from tests.parity import cel as parity

DEVICE = Device(
    "gpu.example.com",
    {
        "model": DeviceAttribute(string_value="A100"),
        "cores": DeviceAttribute(int_value=108),
        "ecc": DeviceAttribute(bool_value=True),
        "driverVersion": DeviceAttribute(version_value="535.104.5"),
        "fw": DeviceAttribute(version_values=("1.2.3", "2.0.0")),
        "tags": DeviceAttribute(string_values=("a", "b")),
        "other.example.com/rack": DeviceAttribute(string_value="r1"),
    },
    {"memory": DeviceCapacity("80Gi")},
)
A = 'device.attributes["gpu.example.com"]'


def test_every_recorded_row_agrees():
    found = ((row["id"], *parity.replay(row)) for row in parity.rows())
    assert [row for row in found if row[2] != row[3]] == []


# Upstream does not evaluate the second operand of containsIP after an error in the first.
OTHER_COSTS = {"r-04433"}


def test_what_matches_costs_as_recorded():
    found = {}
    for row in parity.rows():
        recorded = row["outcome"]
        if "cost" in recorded and "match" in recorded:
            program, device = compile(row["expression"]), parity.device_from_json(row["device"])
            if program.evaluate_with_cost(device)[1] != recorded["cost"]:
                found[row["id"]] = recorded["cost"]
    assert found.keys() == OTHER_COSTS


def outcome(expression):
    try:
        return compile(expression).matches(DEVICE)
    except CelError as error:
        return str(error)


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        pytest.param(f"{A}.missing == 1", "no such key: missing", id="missing attribute"),
        pytest.param(f"{A}.missing == 1 || true", True, id="or absorbs an error"),
        pytest.param(f"{A}.missing == 1 && false", False, id="and absorbs an error"),
        pytest.param(f"{A}.model && true", "no such overload", id="no bool in logic"),
        pytest.param('has(device.attributes.nope)', True, id="unknown domain is an empty map"),
        pytest.param('"nope" in device.attributes', False, id="unknown domain is not in it"),
        pytest.param(f'{A}.driverVersion == "x"', "no such overload", id="version on the left"),
        pytest.param(f'"x" == {A}.driverVersion', False, id="version on the right"),
        pytest.param(f'{A}.driverVersion != "x"', True, id="version unequal"),
        pytest.param(f'{A}.fw == ["1.2.3", "x"]', True, id="error counts as equal in a list"),
        pytest.param(f"{A}.missing in []", False, id="in an empty list"),
        pytest.param(
            f'{A}.driverVersion in ["1.2.3"]',
            "internal error: runtime error: hash of unhashable type cel.Semver",
            id="version in a constant list",
        ),
        pytest.param(f"{A}.cores + 1.0 > 0.0", "no such overload", id="mixed arithmetic"),
        pytest.param(f"{A}.tags.x == 1", "unsupported index type 'string' in list", id="tag"),
        pytest.param("[1, 2][dyn(1u)] == 2", True, id="uint index"),
        pytest.param("dyn(9007199254740993) == 9007199254740992.0", True, id="as doubles"),
        pytest.param('quantity("1000m").isInteger()', False, id="scaled quantity"),
        pytest.param('quantity("1Pi").isInteger()', False, id="big quantity"),
        pytest.param('duration("1.5s").getMilliseconds() == 1500', True, id="all milliseconds"),
        pytest.param('cel.bind(x, 1 / 0, true)', True, id="bound variable never read"),
        pytest.param('true || int("x") == 1', "program instantiation failed: type conversion error "
                     "from 'string' to 'int'", id="constants are folded"),
        pytest.param(
            '[dyn(1), dyn("a")].exists_one(x, x / 0 == 1)', "no such overload", id="last error wins"
        ),
        pytest.param('[dyn(1), dyn("a")].map(x, x / 0) == []', "division by zero", id="first wins"),
        pytest.param("1 + 2", "must evaluate to bool or the unknown type, not int", id="no bool"),
        pytest.param(
            "lists.range(100000).all(x, lists.range(100000).all(y, true))",
            "operation cancelled: actual cost limit exceeded",
            id="cost limit",
        ),
    ],
)  # fmt: skip
def test_outcome(expression, want):
    assert outcome(expression) == want


def test_a_refusal_shows_the_place():
    with pytest.raises(CompileError) as refused:
        compile('1 + "a" == 2')
    assert str(refused.value) == (
        "compilation failed: ERROR: <input>:1:3: found no matching overload for '_+_' applied to "
        "'(int, string)'\n | 1 + \"a\" == 2\n | ..^"
    )


def test_what_a_macro_evaluates_twice_is_refused_twice():
    with pytest.raises(CompileError) as refused:
        compile("x.optMap(o, o).hasValue()")
    assert str(refused.value).count("undeclared reference to 'x'") == 2


def test_values_of_any_type():
    assert compile_value('["b", "a"].sort()').evaluate(DEVICE) == ["a", "b"]


def test_a_device_with_a_bad_attribute_fails_every_expression():
    bad = Device("d", {"x": DeviceAttribute(version_value="1.2")})
    with pytest.raises(CelError) as failed:
        compile("true").matches(bad)
    reason = "parse semantic version: No Major.Minor.Patch elements found"
    assert str(failed.value) == f"attribute x: {reason}"
