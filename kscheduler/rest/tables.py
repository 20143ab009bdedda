"""Tables: columns of `kubectl get`, ages as it prints them, and the Table object itself.

Mirrors the server-side printing of apiserver and pkg/printers. A cell is made of an item by a
function; what an item is, a JSON object or a struct, is the server's business.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kscheduler.api.timestamps import parse_time

Json = dict[str, Any]
Cell = Callable[[Any], Any]

META_VERSION = "meta.k8s.io/v1"
NONE = "<none>"


@dataclass(frozen=True, slots=True)
class Column:
    """A heading and the function of its cells; `wide` columns appear with `-o wide` only."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    wide: bool = False

    @property
    def definition(self) -> Json:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": "",
            "priority": 1 if self.wide else 0,
        }


def at(path: str, otherwise: Any = "") -> Cell:
    """Cells with the value at a dotted path."""
    steps = path.split(".")

    def cell(item: Json) -> Any:
        value: Any = item
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        return otherwise if value is None else value

    return cell


NAME = Column("Name", lambda item: item["metadata"]["name"], format="name")
AGE = Column("Age", lambda item: age(item["metadata"].get("creationTimestamp")))


def count(name: str, path: str) -> Column:
    return Column(name, at(path, 0), "integer")


_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY
UNKNOWN = "<unknown>"


def age(timestamp: str | None) -> str:
    if not timestamp:
        return UNKNOWN
    return human_duration(time.time() - parse_time(timestamp))


def human_duration(seconds: float) -> str:
    """At most two units, the second one only while it matters."""
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(whole: int, big: int, big_unit: str, small: int, small_unit: str) -> str:
    rest = whole % big // small
    return f"{whole // big}{big_unit}" + (f"{rest}{small_unit}" if rest else "")


def table(columns: Sequence[Column], metadata: Mapping[str, Any], rows: Iterable[Json]) -> Json:
    """A Table without kind and apiVersion, which only the outermost object has."""
    definitions = [column.definition for column in columns]
    return {"metadata": metadata, "columnDefinitions": definitions, "rows": list(rows)}


def row(columns: Sequence[Column], item: Any, shown: Json | None) -> Json:
    """One row; `shown` is the object that comes with it, or None."""
    cells = [column.cell(item) for column in columns]
    return {"cells": cells} if shown is None else {"cells": cells, "object": shown}


def metadata_of(metadata: Any) -> Json:
    """The PartialObjectMetadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": META_VERSION,
        "metadata": metadata,
    }
