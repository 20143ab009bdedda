"""One checker of JSON against Go's types, for the three decoders that kube-scheduler uses."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.gotext.json_text import first_value, parse_json
from kscheduler.gotext.unmarshal import (
    BOOL,
    INT64,
    STRING,
    Bytes,
    Interface,
    ListOf,
    MapOf,
    Pointer,
    Raw,
    Scalar,
    Struct,
    StructField,
    Text,
    UnmarshalError,
    format_v,
    type_name,
    unmarshal,
)

INNER = Struct(
    "v1.Inner",
    (StructField("name", STRING, "name"), StructField("count", INT64, "count", "Embedded")),
)
OUTER = Struct(
    "v1.Outer",
    (
        StructField("inner", INNER, "inner"),
        StructField("list", ListOf(INNER), "list"),
        StructField("map", MapOf(Pointer(INNER), "v1.Named"), "map"),
        StructField("data", Bytes(), "data"),
        StructField("size", Text(len, 0), "size"),
        StructField("any", Raw(lambda node: node.raw), "any"),
        StructField("object", Interface("runtime.Object"), "object"),
        StructField("kind", STRING, ""),
    ),
)


def read(text, **options):
    return unmarshal(parse_json(text.encode()), OUTER, **options)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "array into Go value of type v1.Outer"),
        ('{"inner":{"name":1}}', "number into Go struct field Inner.inner.name of type string"),
        (
            '{"list":[{},{"count":1.5}]}',
            "number 1.5 into Go struct field Inner.list.Embedded.count of type int64",
        ),
        ('{"list":{}}', "object into Go struct field Outer.list of type []v1.Inner"),
        ('{"map":{"a":[]}}', "array into Go struct field Outer.map of type v1.Inner"),
        ('{"map":1}', "number into Go struct field Outer.map of type v1.Named"),
        ('{"data":{}}', "object into Go struct field Outer.data of type []uint8"),
        ('{"data":[256]}', "number 256 into Go struct field Outer.data of type uint8"),
        ('{"size":1}', "number into Go struct field Outer.size of type string"),
        ('{"object":{}}', "object into Go struct field Outer.object of type runtime.Object"),
        (
            '{"inner":1,"data":"%"}',
            "number into Go struct field Outer.inner of type v1.Inner",
        ),
    ],
)
def test_the_first_value_of_a_wrong_type_is_told(text, problem):
    with pytest.raises(UnmarshalError) as refused:
        read(text)
    assert str(refused.value) == f"json: cannot unmarshal {problem}"


def test_a_type_that_decodes_itself_ends_decoding_before_anything_else_is_told():
    kind = Struct(
        "v1.S",
        (StructField("n", INT64, "n"), StructField("t", Text(int, 0), "t")),
    )
    with pytest.raises(UnmarshalError, match="invalid literal"):
        unmarshal(parse_json(b'{"n":"x","t":"y"}'), kind)


def test_values_are_found_under_their_keys():
    text = '{"list":[{"name":"a"},null],"map":{"k":null},"data":"aGk=","any":{"x" :1},"kind":"K"}'
    assert read(text).value == {
        "list": ({"name": "a"}, {}),
        "map": {"k": None},
        "data": b"hi",
        "any": '{"x" :1}',
    }


def test_unknown_and_repeated_fields_are_told_with_their_paths():
    text = '{"x":1,"list":[{"y":1}],"map":{"k":{"name":"a","name":"b","z":0},"k":{}}}'
    assert read(text).complaints == [
        'unknown field "x"',
        'unknown field "list[0].y"',
        'duplicate field "map.k.name"',
        'unknown field "map.k.z"',
        'duplicate field "map.k"',
    ]


def test_fields_are_found_in_any_case_only_if_that_is_asked_for():
    text = '{"INNER":{"Name":"a"}}'
    assert read(text).value == {}
    assert read(text, ignores_case=True).value == {"inner": {"name": "a"}}


def test_absent_fields_are_zero_only_if_that_is_asked_for():
    assert read("null").value is None
    assert read('{"inner":{"name":"a"}}', zeroes=True).value == {
        "inner": {"name": "a", "count": 0},
        "list": (),
        "map": {},
        "data": b"",
        "size": 0,
        "any": None,
        "object": None,
    }


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ListOf(Pointer(INNER)), "[]*v1.Inner"),
        (Pointer(ListOf(STRING)), "[]string"),
        (MapOf(ListOf(BOOL)), "map[string][]bool"),
        (Scalar("string", "v1.Mode"), "v1.Mode"),
    ],
)
def test_types_are_named_as_reflection_prints_them(kind, name):
    assert type_name(kind) == name


def test_values_are_printed_as_by_percent_v():
    kind = Struct(
        "v1.S",
        (
            StructField("a", STRING, "a"),
            StructField("b", BOOL, "b"),
            StructField("c", Bytes(), "c"),
            StructField("d", ListOf(STRING), "d"),
            StructField("e", Raw(lambda node: node), "e"),
        ),
    )
    text = b'{"a":"x","c":"aGk=","d":["y","z"],"e":1}'
    assert format_v(parse_json(text), kind) == "{x false [104 105] [y z] {[49] <nil>}}"
    assert format_v(None, kind) == "{ false [] [] {[] <nil>}}"


scalars = st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | st.text("aé<")
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "count", "inner", "list", "map", "x"]), inner)
    ),
    max_leaves=8,
)


@given(values)
def test_a_tree_and_decoded_values_are_read_alike(value):
    text = json.dumps(value).encode()

    def outcome(given):
        try:
            return unmarshal(given, OUTER)
        except UnmarshalError as error:
            return str(error)

    assert outcome(parse_json(text)) == outcome(first_value(text))
