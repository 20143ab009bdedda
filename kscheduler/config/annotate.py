"""A configuration shown in full, each line marked as given in the file or filled in.

The lines are YAML in the order of the fields' declaration. Entries of lists are recognised by their
name where they have one, so that a reweighted plugin is distinguished from the defaults around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kscheduler.config.catalog import Catalog
from kscheduler.config.dump import scalar_text, to_tree
from kscheduler.config.load import load_config
from kscheduler.config.plugin_args import Gates
from kscheduler.gotext.document import parse_document
from kscheduler.gotext.json_text import plain

INDENT = "  "
NAME_KEYS = ("name", "schedulerName")


class AnnotatedLine(NamedTuple):
    text: str
    is_default: bool

    def __str__(self) -> str:
        return f"{self.text}  # default" if self.is_default else self.text


def annotated(text: bytes, catalog: Catalog, *, gates: Gates) -> list[AnnotatedLine]:
    """The configuration in `text` with its defaults; ConfigError if it cannot be read."""
    config = load_config(text, catalog, gates=gates)
    given = plain(parse_document(text).node)
    return list(_members(to_tree(config), given, ""))


def _members(tree: Mapping[str, Any], given: object, indent: str) -> Iterator[AnnotatedLine]:
    members = given if isinstance(given, Mapping) else {}
    for key, value in tree.items():
        head, source = f"{indent}{key}:", members.get(key)
        if isinstance(value, Mapping) and value:
            yield AnnotatedLine(head, source is None)
            yield from _members(value, source, indent + INDENT)
        elif isinstance(value, list) and value:
            yield AnnotatedLine(head, source is None)
            yield from _items(value, source, indent)
        else:
            yield AnnotatedLine(f"{head} {scalar_text(value)}", _is_default(value, source))


def _items(items: Sequence[Any], given: object, indent: str) -> Iterator[AnnotatedLine]:
    sources = given if isinstance(given, list) else []
    for i, item in enumerate(items):
        source = _source(item, i, sources)
        if isinstance(item, Mapping) and item:
            # The first member shares the line of the dash.
            lines = list(_members(item, source, indent + INDENT))
            first = lines[0]
            yield first._replace(text=f"{indent}- {first.text.removeprefix(indent + INDENT)}")
            yield from lines[1:]
        else:
            yield AnnotatedLine(f"{indent}- {scalar_text(item)}", _is_default(item, source))


def _source(item: object, index: int, sources: Sequence[object]) -> object:
    """The entry of the file that this one comes from: by name, else by value or position."""
    if not isinstance(item, Mapping):
        return item if item in sources else None
    for key in NAME_KEYS:
        if key in item:
            named = (s for s in sources if isinstance(s, Mapping) and s.get(key) == item[key])
            match = next(named, None)
            if match is not None:
                return match
            # The name itself may have been filled in: a single profile without schedulerName.
            unnamed = sources[index] if index < len(sources) else None
            return unnamed if isinstance(unnamed, Mapping) and not unnamed.get(key) else None
    return sources[index] if index < len(sources) else None


def _is_default(value: object, given: object) -> bool:
    """Null, and the zeroes that count as nothing, are as good as absent."""
    return given is None or (not given and bool(value))
