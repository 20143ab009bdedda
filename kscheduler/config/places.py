"""Places in a configuration file: the line and column at which a field or an entry stands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import yaml

from kscheduler.gotext.json_text import Node, json_string
from kscheduler.gotext.yaml_text import LOADER

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_REPEATED = re.compile(r'line (?P<line>\d+): key "?(?P<key>.*?)"? already set in map')


class Place(NamedTuple):
    """Line and column, both counted from 1."""

    line: int
    column: int


def steps(path: str) -> Iterator[str | int]:
    """The steps of `profiles[0].schedulerName`: profiles, 0, schedulerName."""
    for name, index in _STEP.findall(path):
        yield name or int(index)


class Places:
    """The places of everything in one document of YAML or JSON that can be parsed."""

    def __init__(self, text: bytes) -> None:
        loader = LOADER(text or b"\n")
        try:
            # JSON in which a tab stands where YAML has none is left without places.
            self._root = loader.get_node() if loader.check_node() else None
        except yaml.YAMLError:
            self._root = None
        finally:
            loader.dispose()
        self._lines = text.decode("utf-8", "replace").splitlines()

    def of(self, path: str) -> Place | None:
        """Where the path leads, or the last of its steps that are in the file."""
        if self._root is None:
            return None
        node: yaml.Node = self._root
        mark = node.start_mark
        for step in steps(path):
            if isinstance(step, int) and isinstance(node, yaml.SequenceNode):
                if step >= len(node.value):
                    break
                node = node.value[step]
                mark = node.start_mark
            elif isinstance(step, str) and isinstance(node, yaml.MappingNode):
                # Error texts have some names in the spelling of Go's fields: `queueSort.Enabled`.
                named = [pair for pair in node.value if _is_named(pair[0], step)]
                if not named:
                    break
                key, node = named[-1]
                mark = key.start_mark
            else:
                break
        return Place(mark.line + 1, mark.column + 1)

    def of_repeated(self, complaint: str) -> Place | None:
        """Where the second of two equal keys stands, of which go-yaml tells the line."""
        found = _REPEATED.search(complaint)
        if found is None or int(found["line"]) > len(self._lines):
            return None
        line = self._lines[int(found["line"]) - 1]
        column = line.find(found["key"])
        return Place(int(found["line"]), column + 1 if column >= 0 else 1)


def _is_named(key: yaml.Node, name: str) -> bool:
    return isinstance(key.value, str) and key.value.casefold() == name.casefold()


def place_of_syntax_error(text: bytes, error: BaseException) -> Place | None:
    """Where a text stops being YAML or JSON; `error` is what reading it has raised."""
    cause: BaseException | None = error
    while cause is not None:
        mark = getattr(cause, "problem_mark", None)
        if mark is not None:
            return Place(mark.line + 1, mark.column + 1)
        cause = cause.__cause__
    if text.lstrip().startswith(b"{"):
        try:
            json.loads(text)
        except json.JSONDecodeError as found:
            return Place(found.lineno, found.colno)
        except (ValueError, RecursionError):
            return None
    return None


def without(node: Node, path: str) -> str:
    """The JSON of a document without the value at a path; the same if there is none."""
    return _without(node, list(steps(path)))


def _without(node: Node, left: list[str | int]) -> str:
    if not left:
        return node.raw
    first, rest = left[0], left[1:]
    if node.kind == "object":
        members = [
            f"{json_string(key)}:{_without(value, rest) if key == first else value.raw}"
            for key, value in node.members
            if key != first or rest
        ]
        return f"{{{','.join(members)}}}"
    if node.kind == "array":
        # An entry that goes leaves null behind, so that the others keep their indexes.
        items = [
            (_without(item, rest) if rest else "null") if i == first else item.raw
            for i, item in enumerate(node.items)
        ]
        return f"[{','.join(items)}]"
    return node.raw
