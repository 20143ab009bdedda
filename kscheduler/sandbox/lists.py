"""Lists: one consistent moment, whole or in pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kscheduler.api.fields import FieldRequirement
from kscheduler.api.labels import EVERYTHING, Selector
from kscheduler.rest import status
from kscheduler.rest.lists import (
    ListOptions,
    continue_token,
    list_metadata,
    parse_selectors,
    parse_token,
)
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.store import Collection, ExpiredError, Key, Stored

_LIST_EXPIRED = "The resourceVersion for the provided list is too old."
_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
_LATEST = -1  # in a token: the rest as it is now


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list, with what the client needs to fetch the rest."""

    items: list[Stored]
    version: int
    token: str = ""
    remaining: int | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        return list_metadata(self.version, self.token, self.remaining)


def list_page(
    collection: Collection, current: int, selection: Selection, options: ListOptions
) -> Page:
    """The objects of a selection, at the version the options ask for."""
    start: Key | None = None
    if options.token:
        start, version = parse_token(options.token)
        version = current if version == _LATEST else version
    elif options.match == "Exact" or (options.limit and options.version and not options.match):
        version = options.version
    else:
        version = max(current, options.version)
    if version > current:
        raise status.too_large_resource_version(version, current)
    if version >= collection.changed_at:
        keys = collection.keys(selection.namespace, start)
        return _cut(keys, collection, version, selection, options)
    try:
        items = collection.rewound(version)
    except ExpiredError as error:
        if start is None:
            raise status.expired(_LIST_EXPIRED) from error
        raise _ContinueExpiredError(continue_token(start, _LATEST)) from error
    keys = sorted(
        key
        for key in items
        if (not selection.namespace or key[0] == selection.namespace)
        and (start is None or key > start)
    )
    return _cut(keys, items, version, selection, options)


class _ContinueExpiredError(status.StatusError):
    """410 for a paged list, with a token that goes on inconsistently."""

    def __init__(self, token: str) -> None:
        super().__init__(410, "Expired", _CONTINUE_EXPIRED)
        self._token = token

    @property
    def body(self) -> dict[str, Any]:
        return {**super().body, "metadata": {"continue": self._token}}


def _cut(
    keys: list[Key],
    source: Collection | Mapping[Key, Stored],
    version: int,
    selection: Selection,
    options: ListOptions,
) -> Page:
    # A client that is content with any state gets it whole, from memory.
    if not options.limit or options.resource_version == "0":
        found = (source.get(key) for key in keys)
        return Page([one for one in found if one is not None and selection.matches(one)], version)
    page: list[Stored] = []
    for position, key in enumerate(keys):
        stored = source.get(key)
        if stored is not None and selection.matches(stored):
            page.append(stored)
        left = len(keys) - position - 1
        if len(page) == options.limit and left:
            remaining = None if selection.has_selectors else left
            return Page(page, version, continue_token(key, version), remaining)
    return Page(page, version)


@dataclass(frozen=True, slots=True)
class Selection:
    """A namespace (empty: all), labels and fields."""

    namespace: str = ""
    labels: Selector = EVERYTHING
    fields: tuple[FieldRequirement, ...] = ()

    @property
    def has_selectors(self) -> bool:
        return bool(self.fields) or self.labels is not EVERYTHING

    def matches(self, stored: Stored) -> bool:
        if self.namespace and stored.key[0] != self.namespace:
            return False
        if self.labels is not EVERYTHING and not self.labels.matches(stored.labels):
            return False
        # A plain loop: this runs for every change and every watcher.
        for wanted in self.fields:  # noqa: SIM110
            if not wanted.matches(stored.fields):
                return False
        return True


def parse_selection(resource: Resource, namespace: str, query: Mapping[str, str]) -> Selection:
    """The selection a query string asks for; 400 when it cannot be understood."""
    labels, wanted = parse_selectors(resource, query)
    # What is shown in another version is selected by the fields of the one that is stored.
    paths = resource.field_labels if resource.shows else {}
    stored = tuple(
        FieldRequirement(paths.get(one.field, one.field), one.value, one.negated) for one in wanted
    )
    return Selection(namespace if resource.namespaced else "", labels, stored)
