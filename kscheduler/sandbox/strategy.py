"""Strategies: what is special about writing one kind, as a handful of functions.

The registry calls them in the API server's order: defaults, admission, preparation, validation. A
kind without a strategy of its own keeps every field it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kscheduler.sandbox.fields import FieldError
from kscheduler.sandbox.store import Object


def _nothing(item: Object) -> None:
    del item


def _nothing_changed(item: Object, old: Object) -> None:
    del item, old


def _no_errors(item: Object) -> list[FieldError]:
    del item
    return []


def _no_update_errors(item: Object, old: Object) -> list[FieldError]:
    del item, old
    return []


def _not_graceful(item: Object, seconds: int | None) -> int | None:
    del item, seconds
    return None


@dataclass(frozen=True, slots=True)
class Strategy:
    """The hooks of one kind; every default does nothing."""

    # Fill in what a client may leave out; runs on every write.
    default: Callable[[Object], None] = _nothing
    # Before a create is stored: drop what only the server may set, derive what it derives.
    prepare_create: Callable[[Object], None] = _nothing
    prepare_update: Callable[[Object, Object], None] = _nothing_changed
    prepare_status: Callable[[Object, Object], None] = _nothing_changed
    validate: Callable[[Object], list[FieldError]] = _no_errors
    validate_update: Callable[[Object, Object], list[FieldError]] = _no_update_errors
    validate_status: Callable[[Object, Object], list[FieldError]] = _no_update_errors
    # Seconds between asking for deletion and its end, None when deletion is not graceful.
    grace: Callable[[Object, int | None], int | None] = _not_graceful
    keeps_status_on_create: bool = False
    # A status write leaves labels, annotations, finalizers and owners alone.
    status_keeps_metadata: bool = False
    initial_status: Callable[[], Object] = dict
    # Subresources that write one part of the object: reduce a new state to that part.
    parts: Mapping[str, Callable[[Object, Object], None]] = field(default_factory=dict)
