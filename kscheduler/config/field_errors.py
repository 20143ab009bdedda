"""Violated rules, each with the path of the field to fix, in kube-scheduler's wording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kscheduler.api import field_errors as api
from kscheduler.gotext.duration import Duration
from kscheduler.gotext.json_text import json_string, marshal
from kscheduler.gotext.strconv import quote


class Named(str):
    """A string whose Go type has a name of its own: Go shows these as JSON, plain ones quoted."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Path:
    """Position of a field: `profiles[0].schedulerName`."""

    text: str = ""

    def __truediv__(self, name: str) -> Path:
        return Path(api.child(self.text, name))

    def __getitem__(self, key: int | str) -> Path:
        return Path(api.index(self.text, key))


@dataclass(frozen=True, slots=True)
class FieldError:
    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


def invalid(path: Path, value: object, detail: str) -> FieldError:
    return FieldError(path.text, f"Invalid value: {shown(value)}: {detail}")


def required(path: Path, detail: str = "") -> FieldError:
    return FieldError(path.text, f"Required value: {detail}" if detail else "Required value")


def duplicate(path: Path, value: object) -> FieldError:
    return FieldError(path.text, f"Duplicate value: {shown(value)}")


def unsupported(path: Path, value: str, supported: Sequence[str]) -> FieldError:
    known = ", ".join(map(quote, supported))
    return FieldError(
        path.text, f"Unsupported value: {json_string(value)}: supported values: {known}"
    )


def forbidden(path: Path, detail: str) -> FieldError:
    return FieldError(path.text, f"Forbidden: {detail}")


def aggregate(errors: Iterable[FieldError]) -> str:
    """One error plain, several as `[e1, e2]`; what is said twice is said once."""
    return api.aggregate(map(str, errors))


def shown(value: object) -> str:
    match value:
        case Named():
            return json_string(value)
        case str():
            return quote(value)
        case Duration():
            return json_string(str(value))
        case _:
            return marshal(value)
