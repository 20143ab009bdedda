"""Refusals of a PlacementReview; the server answers them with a code of the 400s."""

from __future__ import annotations

from collections.abc import Iterable

from kscheduler.api.field_errors import FieldError, Path, aggregate, shown
from kscheduler.errors import KschedulerError

SPEC = Path("spec")


class ReviewError(KschedulerError):
    """Raised for a spec that cannot be answered; the text names the field."""

    def __init__(self, *errors: FieldError) -> None:
        super().__init__(aggregate(errors))
        self.errors = errors


class ReviewLimitError(ReviewError):
    """Raised for a review that asks for too much."""


def not_found(path: Path | str, value: str) -> FieldError:
    return FieldError(str(path), f"Not found: {shown(value)}")


def raise_any(errors: Iterable[FieldError]) -> None:
    found = tuple(errors)
    if found:
        raise ReviewError(*found)
