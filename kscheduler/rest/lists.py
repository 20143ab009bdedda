"""Options of lists and watches: paging, versions, selectors, as a query spells them.

What is wrong with them is said in the API server's words. A continue token names the last key of a
page and the version that the list is of.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kscheduler.api.fields import FieldRequirement, parse_field_selector
from kscheduler.api.labels import Selector, SelectorError, parse_selector
from kscheduler.errors import ConfigError
from kscheduler.gotext.strconv import parse_int, parse_uint, quote
from kscheduler.rest import fields, status
from kscheduler.rest.fields import FieldError
from kscheduler.rest.resources import ServedResource

_TOKEN_VERSION = "meta.k8s.io/v1"

Key = tuple[str, str]  # namespace, name


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


def list_metadata(version: int, token: str = "", remaining: int | None = None) -> dict[str, Any]:
    """Metadata of a list, or of a part of one that can be continued by the token."""
    about: dict[str, Any] = {"resourceVersion": str(version)}
    if token:
        about["continue"] = token
    if remaining is not None:
        about["remainingItemCount"] = remaining
    return about


def parse_list_options(query: Mapping[str, str], *, streaming: bool) -> ListOptions:
    """Options of a GET on a collection; `streaming` says whether watch lists are served."""
    try:
        options = ListOptions(
            watch=_is_true(query.get("watch")),
            limit=parse_int(query.get("limit") or "0", base=10),
            token=query.get("continue", ""),
            resource_version=query.get("resourceVersion", ""),
            match=query.get("resourceVersionMatch", ""),
            bookmarks=_is_true(query.get("allowWatchBookmarks")),
            initial_events=None
            if (initial := query.get("sendInitialEvents")) is None
            else _is_true(initial),
            timeout_seconds=_seconds(timeout) if (timeout := query.get("timeoutSeconds")) else None,
        )
    except ConfigError as error:
        raise status.bad_request(str(error)) from error
    try:
        parse_uint(options.resource_version or "0", base=10)
    except ConfigError as error:
        wrong = fields.invalid("resourceVersion", options.resource_version, str(error))
        raise status.invalid("", "", [wrong]) from error
    errors = _watch_errors(options, streaming=streaming) if options.watch else _errors(options)
    if errors:
        raise status.invalid("ListOptions", "", errors, group="meta.k8s.io")
    return options


def continue_token(key: Key, version: int) -> str:
    start = "/".join(part for part in key if part) + "\0"
    body = msgspec.json.encode({"v": _TOKEN_VERSION, "rv": version, "start": start})
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


def parse_token(token: str) -> tuple[Key, int]:
    try:
        body = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        start, version = body["start"].rstrip("\0"), int(body["rv"])
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise status.bad_request(f"continue key is not valid: {error}") from error
    namespace, _, name = start.rpartition("/")
    return (namespace, name), version


def parse_selectors(
    resource: ServedResource, query: Mapping[str, str]
) -> tuple[Selector, tuple[FieldRequirement, ...]]:
    """The selectors of a query; 400 when they cannot be understood, or name an unknown field."""
    try:
        labels = parse_selector(query.get("labelSelector", ""))
        wanted = parse_field_selector(query.get("fieldSelector", "")).requirements
    except SelectorError as error:
        raise status.bad_request(str(error)) from error
    known = {"metadata.name", "metadata.namespace", *resource.field_labels}
    for one in wanted:
        if one.field not in known:
            raise status.bad_request(f"field label not supported: {one.field}")
    return labels, wanted


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


def _seconds(text: str) -> float:
    """Fractions are taken as well, unlike upstream's whole seconds."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise status.bad_request(f"timeoutSeconds {quote(text)} is not a number of seconds")
    return seconds


def _is_true(text: str | None) -> bool:
    """As Go reads a flag in a query: present and not a word for no."""
    return text is not None and text.lower() not in ("false", "0")
