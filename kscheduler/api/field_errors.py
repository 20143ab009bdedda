"""Field errors in upstream's wording: `<path>: Invalid value: <value>: <detail>`.

Configuration and selectors report all violated rules at once: as a list of `FieldError`, which
`aggregate` joins to one text. Mirrors apimachinery/pkg/util/validation/field. Differs: nothing.

A path is a `Path`, or a plain string that `child` and `index` lengthen: selectors are compiled for
each pod and nearly never wrong, and a string costs a third of a `Path`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kscheduler.gotext.duration import Duration
from kscheduler.gotext.json_text import json_string, marshal
from kscheduler.gotext.strconv import quote


def child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def index(path: str, key: int | str) -> str:
    return f"{path}[{key}]"


class Path(msgspec.Struct, frozen=True):
    """Position of a field: `profiles[0].schedulerName`."""

    text: str = ""

    def __truediv__(self, name: str) -> Path:
        return Path(child(self.text, name))

    def __getitem__(self, key: int | str) -> Path:
        return Path(index(self.text, key))

    def __str__(self) -> str:
        return self.text


class FieldError(msgspec.Struct, frozen=True):
    path: str
    problem: str

    def __str__(self) -> str:
        # A nil *Path prints so in Go: labels are validated without one.
        return f"{self.path or '<nil>'}: {self.problem}"


class Named(str):
    """A string whose Go type has a name of its own: Go shows these as JSON, plain ones quoted."""

    __slots__ = ()


def invalid(path: Path | str, value: object, detail: str) -> FieldError:
    return FieldError(str(path), f"Invalid value: {shown(value)}: {detail}")


def required(path: Path | str, detail: str = "") -> FieldError:
    return FieldError(str(path), f"Required value: {detail}" if detail else "Required value")


def duplicate(path: Path | str, value: object) -> FieldError:
    return FieldError(str(path), f"Duplicate value: {shown(value)}")


def unsupported(path: Path | str, value: str, supported: Iterable[str]) -> FieldError:
    # Shown as JSON: wherever upstream says this, the value is of a named type.
    known = ", ".join(map(quote, supported))
    problem = f"Unsupported value: {json_string(value)}: supported values: {known}"
    return FieldError(str(path), problem)


def forbidden(path: Path | str, detail: str) -> FieldError:
    return FieldError(str(path), f"Forbidden: {detail}")


def aggregate(errors: Iterable[FieldError | str]) -> str:
    """One error plain, several as `[e1, e2]`; of equal ones the first, as upstream's Aggregate."""
    distinct = list(dict.fromkeys(map(str, errors)))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def shown(value: object) -> str:
    """A value as Go's field errors show it; None is nil, and so is a list that was never set."""
    match value:
        case Named():
            return json_string(value)
        case str():
            return quote(value)
        case Duration():
            return json_string(str(value))
        case _:
            return marshal(value)
