"""Every recorded expression of cel-go, and what is easy to get wrong."""

import pytest

from kscheduler.cel import CelError, CompileError, Device, compile, compile_value
from tests.parity import cel as parity

DEVICE = Device(
    "gpu.example.com",
    [
        ("model", "string", "A100"),
        ("cores", "int", 108),
        ("ecc", "bool", True),
        ("driverVersion", "version", "535.104.5"),
        ("fw", "versions", ["1.2.3", "2.0.0"]),
        ("tags", "strings", ["a", "b"]),
        ("other.example.com/rack", "string", "r1"),
    ],
    [("memory", "80Gi")],
)
A = 'device.attributes["gpu.example.com"]'


def test_every_recorded_row_agrees():
    found = ((row["id"], *parity.replay(row)) for row in parity.rows())
    assert [row for row in found if row[2] != row[3]] == []


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


def test_reads_name_the_attributes():
    program = compile(f'{A}.model == "x" && device.capacity[device.driver].exists(k, k == "m")')
    assert program.reads == {
        ("attributes", "gpu.example.com", "model"),
        ("capacity",),
        ("driver",),
    }


def test_values_of_any_type():
    assert compile_value('["b", "a"].sort()').evaluate(DEVICE) == ["a", "b"]


def test_a_device_with_a_bad_attribute_fails_every_expression():
    bad = Device("d", [("x", "version", "1.2")])
    with pytest.raises(CelError) as failed:
        compile("true").matches(bad)
    reason = "parse semantic version: No Major.Minor.Patch elements found"
    assert str(failed.value) == f"attribute x: {reason}"
