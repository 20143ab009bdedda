"""Field errors: which field is wrong, how, and what would be right, in the API server's words."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_TITLES = {
    "FieldValueRequired": "Required value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueTypeInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueNotFound": "Not found",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
}
_WITHOUT_VALUE = frozenset({"FieldValueRequired", "FieldValueForbidden", "FieldValueTooLong"})


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong field; `str()` is the line a user reads, `cause` what a Status carries."""

    reason: str
    path: str
    value: Any = None
    detail: str = ""

    @property
    def body(self) -> str:
        text = _TITLES[self.reason]
        if self.reason not in _WITHOUT_VALUE:
            text = f"{text}: {shown(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"

    @property
    def cause(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.body, "field": self.path}


def shown(value: Any) -> str:
    """A value as field errors print it: JSON without the escaping of non-ASCII text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def required(path: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", path, detail=detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", path, value, detail)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", path, detail=detail)


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError("FieldValueDuplicate", path, value)


def not_found(path: str, value: Any) -> FieldError:
    return FieldError("FieldValueNotFound", path, value)


def too_long(path: str, limit: int) -> FieldError:
    return FieldError("FieldValueTooLong", path, detail=f"may not be more than {limit} bytes")


def too_many(path: str, count: int, limit: int) -> FieldError:
    items = "item" if limit == 1 else "items"
    return FieldError("FieldValueTooMany", path, count, f"must have at most {limit} {items}")


def not_supported(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    listed = ", ".join(shown(one) for one in sorted(supported))
    return FieldError("FieldValueNotSupported", path, value, f"supported values: {listed}")
