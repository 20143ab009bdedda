"""The names that others may rely on."""

import inspect
from pathlib import Path

import kscheduler
from kscheduler import framework
from kscheduler.extension_points import EXTENSION_POINTS, METHODS
from kscheduler.framework import plugin as contract


def test_what_is_promised_is_there():
    assert [name for name in framework.__all__ if not hasattr(framework, name)] == []
    assert len(set(framework.__all__)) == len(framework.__all__)


def test_every_name_is_in_the_guide():
    guide = (Path(__file__).parents[2] / "docs" / "plugins" / "README.md").read_text()
    missing = [name for name in framework.__all__ if f"`{name}`" not in guide]
    missing += [method for method in METHODS if method not in guide]
    assert missing == []


def test_type_checkers_may_look_inside():
    assert (Path(kscheduler.__file__).parent / "py.typed").exists()


def test_every_extension_point_is_in_the_contract_and_is_checked():
    methods = {one.name for point in EXTENSION_POINTS.values() for one in point.methods}
    promised = {
        name: method
        for _, protocol in inspect.getmembers(contract, inspect.isclass)
        if protocol.__module__ == contract.__name__
        for name, method in vars(protocol).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }
    assert methods <= promised.keys() <= METHODS.keys()
    for name, method in promised.items():
        assert tuple(inspect.signature(method).parameters)[1:] == METHODS[name].arguments
