"""Lists: one consistent moment, whole or in pages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kscheduler.api.fields import FieldRequirement, parse_field_selector
from kscheduler.api.labels import EVERYTHING, Selector, SelectorError, parse_selector
from kscheduler.sandbox import fields, status
from kscheduler.sandbox.fields import FieldError
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.store import Collection, ExpiredError, Key, Stored

_TOKEN_VERSION = "meta.k8s.io/v1"
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
class ListOptions:
    """Paging and version of a list, or of the list that begins a watch."""

    watch: bool = False
    limit: int = 0
    token: str = ""
    resource_version: str = ""
    match: str = ""
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout_seconds: float | None = None

    @property
    def version(self) -> int:
        return int(self.resource_version or 0)


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list, with what the client needs to fetch the rest."""

    items: list[Stored]
    version: int
    token: str = ""
    remaining: int | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        about: dict[str, Any] = {"resourceVersion": str(self.version)}
        if self.token:
            about["continue"] = self.token
        if self.remaining is not None:
            about["remainingItemCount"] = self.remaining
        return about


def parse_list_options(query: Mapping[str, str], *, streaming: bool) -> ListOptions:
    """Options of a GET on a collection; `streaming` says whether watch lists are served."""
    try:
        options = ListOptions(
            watch=_is_true(query.get("watch")),
            limit=int(query.get("limit") or 0),
            token=query.get("continue", ""),
            resource_version=query.get("resourceVersion", ""),
            match=query.get("resourceVersionMatch", ""),
            bookmarks=_is_true(query.get("allowWatchBookmarks")),
            initial_events=None
            if (initial := query.get("sendInitialEvents")) is None
            else _is_true(initial),
            timeout_seconds=float(timeout) if (timeout := query.get("timeoutSeconds")) else None,
        )
    except ValueError as error:
        raise status.bad_request(str(error)) from error
    if options.resource_version and not options.resource_version.isdigit():
        wrong = fields.invalid("resourceVersion", options.resource_version, "invalid syntax")
        raise status.invalid("", "", [wrong])
    errors = _watch_errors(options, streaming=streaming) if options.watch else _errors(options)
    if errors:
        raise status.invalid("ListOptions", "", errors, group="meta.k8s.io")
    return options


def list_page(
    collection: Collection, current: int, selection: Selection, options: ListOptions
) -> Page:
    """The objects of a selection, at the version the options ask for."""
    start: Key | None = None
    if options.token:
        start, version = _parse_token(options.token)
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
        raise _ContinueExpiredError(_token(start, _LATEST)) from error
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
            return Page(page, version, _token(key, version), remaining)
    return Page(page, version)


def _token(key: Key, version: int) -> str:
    start = "/".join(part for part in key if part) + "\0"
    body = msgspec.json.encode({"v": _TOKEN_VERSION, "rv": version, "start": start})
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


def _parse_token(token: str) -> tuple[Key, int]:
    try:
        body = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        start, version = body["start"].rstrip("\0"), int(body["rv"])
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise status.bad_request(f"continue key is not valid: {error}") from error
    namespace, _, name = start.rpartition("/")
    return (namespace, name), version


def _errors(options: ListOptions) -> list[FieldError]:
    errors = []
    path = "resourceVersionMatch"
    if options.match:
        if not options.resource_version:
            detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            errors.append(fields.forbidden(path, detail))
        if options.token:
            detail = "resourceVersionMatch is forbidden when continue is provided"
            errors.append(fields.forbidden(path, detail))
        if options.match not in ("Exact", "NotOlderThan"):
            supported = ("Exact", "NotOlderThan", "")
            errors.append(fields.not_supported(path, options.match, supported))
        if options.match == "Exact" and options.resource_version == "0":
            detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errors.append(fields.forbidden(path, detail))
    if options.initial_events is not None:
        detail = "sendInitialEvents is forbidden for list"
        errors.append(fields.forbidden("sendInitialEvents", detail))
    return errors


def _watch_errors(options: ListOptions, *, streaming: bool) -> list[FieldError]:
    errors = []
    path = "resourceVersionMatch"
    if options.initial_events is not None:
        if options.match != "NotOlderThan":
            detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            errors.append(fields.forbidden(path, detail))
        if not streaming:
            detail = (
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate "
                "is enabled"
            )
            errors.append(fields.forbidden("sendInitialEvents", detail))
    elif options.match:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        errors.append(fields.forbidden(path, detail))
    if options.match not in ("", "NotOlderThan"):
        errors.append(fields.not_supported(path, options.match, ("NotOlderThan",)))
    return errors


def _is_true(text: str | None) -> bool:
    """As Go reads a flag in a query: present and not a word for no."""
    return text is not None and text.lower() not in ("false", "0")


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
    try:
        labels = parse_selector(query.get("labelSelector", ""))
        fields = parse_field_selector(query.get("fieldSelector", ""))
    except SelectorError as error:
        raise status.bad_request(str(error)) from error
    known = {"metadata.name": "metadata.name", "metadata.namespace": "metadata.namespace"}
    known |= {
        label: path if resource.shows else label for label, path in resource.field_labels.items()
    }
    for wanted in fields.requirements:
        if wanted.field not in known:
            raise status.bad_request(f"field label not supported: {wanted.field}")
    stored = tuple(
        FieldRequirement(known[wanted.field], wanted.value, wanted.negated)
        for wanted in fields.requirements
    )
    return Selection(namespace if resource.namespaced else "", labels, stored)
