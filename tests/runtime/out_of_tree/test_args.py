"""Arguments as plugins declare them, and what is wrong with them in the file's own words."""

from dataclasses import dataclass, field

import msgspec
import pydantic
import pytest

from kscheduler.api.field_errors import Path
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.load import load_config
from kscheduler.config.plugin_args import RawArgs
from kscheduler.plugins import catalog
from kscheduler.runtime.out_of_tree.args import ArgsError, check_all, decoded


class Inner(msgspec.Struct, frozen=True):
    weight: int


class AsStruct(msgspec.Struct, frozen=True, rename="camel"):
    half_life: float = 60.0
    inner: list[Inner] = []


@dataclass(frozen=True)
class AsDataclass:
    limit: int
    names: list[str] = field(default_factory=list)


class AsModel(pydantic.BaseModel):
    limit: int = pydantic.Field(gt=0)
    zones: list[str] = []


def read(kind, text, path="args"):
    return decoded(kind, None if text is None else RawArgs(text=text), Path(path))


@pytest.mark.parametrize(
    ("kind", "text", "want"),
    [
        pytest.param(None, '{"a": [1, "b"]}', {"a": [1, "b"]}, id="raw"),
        pytest.param(None, None, None, id="raw, none given"),
        pytest.param(AsStruct, None, AsStruct(), id="struct, none given"),
        pytest.param(AsStruct, '{"halfLife": 5}', AsStruct(5.0), id="struct"),
        pytest.param(
            AsStruct,
            '{"apiVersion": "v1", "kind": "X", "inner": [{"weight": 2}]}',
            AsStruct(inner=[Inner(2)]),
            id="struct with kind and version",
        ),
        pytest.param(AsDataclass, '{"limit": 3, "names": ["a"]}', AsDataclass(3, ["a"]), id="data"),
        pytest.param(AsModel, '{"limit": 3}', AsModel(limit=3), id="model"),
    ],
)
def test_arguments(kind, text, want):
    assert read(kind, text) == want


class Outer(msgspec.Struct):
    limit: int
    inner: Inner
    mode: str = ""


class Checked(msgspec.Struct):
    table: str = ""

    def __post_init__(self):
        {}[self.table]


@pytest.mark.parametrize(
    ("kind", "text", "want"),
    [
        pytest.param(
            Outer,
            '{"inner": {"weight": "a"}, "mode": 5, "more": 1}',
            [
                'args: unknown field "more"',
                "args.limit: Required value",
                'args.inner.weight: Invalid value: "a": Expected int, got str',
                "args.mode: Invalid value: 5: Expected str, got int",
            ],
            id="struct",
        ),
        pytest.param(
            AsDataclass,
            '{"names": [1], "more": 1}',
            [
                'args: unknown field "more"',
                "args.limit: Required value",
                "args.names[0]: Invalid value: 1: Expected str, got int",
            ],
            id="data",
        ),
        pytest.param(
            AsModel,
            '{"limit": 0, "zones": "a", "more": 1}',
            [
                'args: unknown field "more"',
                "args.limit: Invalid value: 0: Input should be greater than 0",
                'args.zones: Invalid value: "a": Input should be a valid list',
            ],
            id="model",
        ),
        pytest.param(
            Checked,
            '{"table": "a"}',
            ['args: Invalid value: {"table":"a"}: KeyError: \'a\''],
            id="a type that fails at checking itself",
        ),
    ],
)
def test_all_that_is_wrong_is_told_at_once(kind, text, want):
    with pytest.raises(ArgsError) as caught:
        read(kind, text)
    assert [str(error) for error in caught.value.errors] == want


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        pytest.param(
            AsStruct,
            '{"halfLife": "long"}',
            'args.halfLife: Invalid value: "long": Expected float, got str',
            id="type",
        ),
        pytest.param(
            AsStruct,
            '{"inner": [{"weight": 1}, {"weight": 1.5}]}',
            "args.inner[1].weight: Invalid value: 1.5: Expected int, got float",
            id="type, deep inside",
        ),
        pytest.param(
            AsStruct, '{"inner": [{}]}', "args.inner[0].weight: Required value", id="missing"
        ),
        pytest.param(AsStruct, '{"halflife": 5}', 'args: unknown field "halflife"', id="unknown"),
        pytest.param(
            AsStruct, "[1]", "args: Invalid value: [1]: Expected object, got array", id="a list"
        ),
        pytest.param(AsDataclass, "{}", "args.limit: Required value", id="dataclass, missing"),
        pytest.param(
            AsModel,
            '{"limit": 0, "zones": [1]}',
            "[args.limit: Invalid value: 0: Input should be greater than 0, "
            "args.zones[0]: Invalid value: 1: Input should be a valid string]",
            id="model, all at once",
        ),
        pytest.param(AsModel, '{"limit": 1, "x": 2}', 'args: unknown field "x"', id="model, more"),
        pytest.param(AsModel, "{}", "args.limit: Required value", id="model, missing"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(kind, text, message):
    with pytest.raises(ArgsError) as caught:
        read(kind, text)
    assert str(caught.value) == message


def test_all_profiles_are_looked_at():
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: a
  pluginConfig:
  - {name: Mine, args: {limit: 0}}
- schedulerName: b
  pluginConfig:
  - {name: Other, args: {limit: 0}}
  - {name: Mine, args: {limit: no}}
"""
    config = load_config(text.encode(), catalog(), gates=FeatureGates.defaults())
    places = [error.path for error in check_all(config, {"Mine": AsModel})]
    indexes = [
        next(j for j, entry in enumerate(profile.plugin_config) if entry.name == "Mine")
        for profile in config.profiles
    ]
    assert places == [f"profiles[{i}].pluginConfig[{j}].args.limit" for i, j in enumerate(indexes)]
