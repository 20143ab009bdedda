"""What an expression reads of a device, and that nothing else decides its outcome."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api import resource
from kscheduler.api.resource import DeviceAttribute, DeviceCapacity
from kscheduler.cel import CelError, Device, compile, compile_value, device_of
from kscheduler.cel.display import notation
from tests.cel.test_fuzz import expressions

DOMAIN = "gpu.example.com"
A = f'device.attributes["{DOMAIN}"]'
C = f'device.capacity["{DOMAIN}"]'


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        pytest.param("true", [], id="nothing"),
        pytest.param(f'{A}.model == "x"', [("attributes", DOMAIN, "model")], id="an attribute"),
        pytest.param(f"has({A}.model)", [("attributes", DOMAIN, "model")], id="its presence"),
        pytest.param(
            f"{A}[?'model'].hasValue()", [("attributes", DOMAIN, "model")], id="optional index"
        ),
        pytest.param(
            f"{A}.?model.orValue('') == ''", [("attributes", DOMAIN, "model")], id="optional field"
        ),
        pytest.param(
            f"{A}.tags[0] == 'x'", [("attributes", DOMAIN, "tags")], id="an element of a list"
        ),
        pytest.param(
            f"cel.bind(a, {A}, a.cores > 1 && a.ecc)",
            [("attributes", DOMAIN, "cores"), ("attributes", DOMAIN, "ecc")],
            id="through a bound variable",
        ),
        pytest.param(
            f"cel.bind(d, device, cel.bind(a, d.attributes, a['{DOMAIN}'].ecc))",
            [("attributes", DOMAIN, "ecc")],
            id="through two bound variables",
        ),
        pytest.param(f"cel.bind(a, {A}, true)", [], id="bound but never read"),
        pytest.param(
            f"cel.bind(a, {A}, a == {{}})", [("attributes", DOMAIN)], id="bound and passed along"
        ),
        pytest.param(
            "cel.bind(a, device.attributes[device.driver], a.model == '')",
            [("attributes",), ("driver",)],
            id="bound to a computed domain",
        ),
        pytest.param(
            f"{A}[device.driver] == 1", [("attributes", DOMAIN), ("driver",)], id="computed name"
        ),
        pytest.param(f"{A}.exists(k, k == 'x')", [("attributes", DOMAIN)], id="macro on a map"),
        pytest.param("'x' in device.attributes", [("attributes",)], id="a domain's presence"),
        pytest.param("has(device.attributes.x)", [("attributes", "x")], id="default of a domain"),
        pytest.param(f"{C}.memory.isInteger()", [("capacity", DOMAIN, "memory")], id="a capacity"),
        pytest.param("device == device", [()], id="the device as a whole"),
        pytest.param(f"[device][0].attributes['{DOMAIN}'].ecc", [()], id="the device in a list"),
        pytest.param("device.allowMultipleAllocations", [("allowMultipleAllocations",)], id="flag"),
        pytest.param(
            f"{A}.model == 'x' || {A}.exists(k, true)", [("attributes", DOMAIN)], id="part of all"
        ),
        pytest.param(
            "google.protobuf.NullValue.NULL_VALUE == 0 && type(1) == google.protobuf.Int64Value",
            [],
            id="qualified names",
        ),
    ],
)
def test_reads(expression, want):
    assert compile(expression).reads == tuple(sorted(want))


VALUES = (
    *(DeviceAttribute(string_value=v) for v in ("A100", "H100")),
    *(DeviceAttribute(int_value=v) for v in (0, 1)),
    DeviceAttribute(bool_value=True),
    *(DeviceAttribute(version_value=v) for v in ("1.2.3", "1.2.3+b", "bad")),
    DeviceAttribute(string_values=("a",)),
    DeviceAttribute(),
)
NAMES = ("model", "cores", f"{DOMAIN}/model", "other.example.com/model", "other.example.com/cores")
DEVICES = st.builds(
    Device,
    st.sampled_from((DOMAIN, "other.example.com")),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=4),
    st.dictionaries(
        st.sampled_from(("memory", f"{DOMAIN}/memory")),
        st.sampled_from([DeviceCapacity(v) for v in ("1", "1000m", 1, 1.0)]),
    ),
    allow_multiple_allocations=st.booleans(),
)
PARTS = (
    *("device", "device.driver", "device.attributes", "device.allowMultipleAllocations"),
    *(A, f"{A}.model", f"{A}.cores", f"{A}[?'model']", f"has({A}.model)", f"{A}.?cores"),
    *('device.attributes["other.example.com"].model', "device.attributes[device.driver].model"),
    *(C, f"{C}.memory", "device.capacity.all(d, device.capacity[d].all(n, n != 'x'))"),
    *(f"{A}.map(k, k)", f"{A}.exists(k, {A}[k] == 1)", "'x' in device.attributes", "x", "1"),
)


def outcome(program, device):
    try:
        return notation(program.evaluate(device))
    except CelError as error:
        return str(error)


@settings(max_examples=400, deadline=None)
@given(expressions(PARTS), st.lists(DEVICES, min_size=8, max_size=8))
def test_devices_with_equal_projections_have_equal_outcomes(expression, devices):
    try:
        program = compile_value(f"dyn({expression})")
    except CelError:
        return
    outcomes = {}
    for device in devices:
        found = outcome(program, device)
        assert outcomes.setdefault(program.projection(device), found) == found


def gpu(driver, name, value):
    return device_of(driver, resource.Device("d", {name: DeviceAttribute(string_value=value)}))


def test_a_name_without_domain_projects_as_one_with_the_drivers():
    program = compile(f'{A}.model == "x"')
    bare, qualified = gpu(DOMAIN, "model", "x"), gpu("other", f"{DOMAIN}/model", "x")
    assert program.projection(bare) == program.projection(qualified)
    assert program.projection(bare) != program.projection(gpu("other", "model", "x"))


def test_an_attribute_that_is_not_read_does_not_count():
    program = compile(f"has({A}.model)")
    assert program.projection(gpu(DOMAIN, "uuid", "1")) == program.projection(
        gpu(DOMAIN, "uuid", "2")
    )


def test_a_bad_attribute_counts_for_every_expression():
    bad = Device(DOMAIN, {"x": DeviceAttribute(version_value="1.2")})
    program = compile("true")
    assert program.projection(bad) != program.projection(Device(DOMAIN))
