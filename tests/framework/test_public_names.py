"""Public names of the contract and of the kit for tests: each tells what it is."""

import enum
import inspect
import re
from pathlib import Path

import pytest

from kscheduler import framework, testing
from kscheduler.framework import Action

GUIDE = (Path(__file__).parents[2] / "docs/plugins/README.md").read_text()
# Aliases of numpy's types and constants, which can have no docstring; the guide tells of them.
WITHOUT = {"MAX_NODE_SCORE", "MIN_NODE_SCORE", "SKIP", "Mask", "Scores"}

NAMES = [
    pytest.param(getattr(module, name), id=f"{module.__name__}.{name}")
    for module in (framework, testing)
    for name in module.__all__
    if name not in WITHOUT
]


@pytest.mark.parametrize("public", NAMES)
def test_every_public_name_has_a_docstring(public):
    text = vars(public).get("__doc__") if inspect.isclass(public) else public.__doc__
    assert text
    assert text.strip()[0].isupper() or text.startswith("`")


@pytest.mark.parametrize("public", [one for one in NAMES if inspect.isclass(one.values[0])])
def test_every_public_method_has_a_docstring(public):
    if public.__module__.partition(".")[0] != "kscheduler" or issubclass(public, enum.Flag):
        return
    missing = [
        name
        for name, member in vars(public).items()
        if not name.startswith("_")
        and (
            inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod)
        )
        and not getattr(member, "__func__", member).__doc__
    ]
    assert missing == []


def test_the_guide_names_all_that_is_public():
    words = set(re.findall(r"\w+", GUIDE))
    assert {*framework.__all__, *testing.__all__} <= words


def test_the_guide_names_every_action():
    words = set(re.findall(r"\w+", GUIDE))
    assert set(Action.__members__) - {"NONE"} <= words
