"""Lists: what a query selects, pages in the order of their keys, and their pieces.

A page that is continued shows the objects as they are then: nothing keeps the state of the moment
of the first page.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from kscheduler.api.fields import FieldRequirement
from kscheduler.api.labels import EVERYTHING, Selector
from kscheduler.api.meta import ApiObject
from kscheduler.decisions.decision_log import Entry
from kscheduler.rest import status
from kscheduler.rest.lists import (
    Key,
    ListOptions,
    continue_token,
    list_metadata,
    parse_list_options,
    parse_selectors,
    parse_token,
)
from kscheduler.serving.explanation.resources import Served
from kscheduler.serving.explanation.responses import CLOSING, Form
from kscheduler.slices import Slices

# Selectors are tried on every object.
MAX_SELECTOR_CHARACTERS = 4096
DETAILS = ("Summary", "All")


class Selection(msgspec.Struct, frozen=True):
    """The objects that a list or a watch is about; without a namespace, those of all."""

    namespace: str = ""
    labels: Selector = EVERYTHING
    fields: tuple[FieldRequirement, ...] = ()

    @property
    def selects(self) -> bool:
        return bool(self.fields) or self.labels is not EVERYTHING

    def matches(self, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        if self.labels is not EVERYTHING and not self.labels.matches(labels):
            return False
        return all(one.matches(fields) for one in self.fields)

    def matches_entry(self, entry: Entry) -> bool:
        if self.namespace and entry.namespace != self.namespace:
            return False
        return not self.selects or self.matches(entry.labels, decision_fields(entry))


def decision_fields(entry: Entry) -> Mapping[str, str]:
    """Values that field selectors of decisions compare with."""
    last = entry.last
    return {
        "metadata.name": entry.name,
        "metadata.namespace": entry.namespace,
        "outcome": last.outcome,
        "node": decided_node(entry),
        "schedulerName": entry.profile,
    }


def decided_node(entry: Entry) -> str:
    return entry.last.node if entry.last.outcome == "Scheduled" else ""


class Listing(msgspec.Struct, frozen=True):
    """A list that is ready to be streamed."""

    pieces: AsyncGenerator[bytes, None]
    warnings: tuple[str, ...] = ()


def read_query(
    served: Served, namespace: str, query: Mapping[str, str]
) -> tuple[ListOptions, Selection]:
    """400 or 422 for a query that cannot be understood."""
    for name in ("labelSelector", "fieldSelector"):
        if len(query.get(name, "")) > MAX_SELECTOR_CHARACTERS:
            raise status.bad_request(
                f"{name} is too long: {MAX_SELECTOR_CHARACTERS} characters are read"
            )
    options = parse_list_options(query, streaming=False)
    if options.limit < 0:
        raise status.bad_request("limit must not be negative")
    return options, Selection(namespace, *parse_selectors(served, query))


def wants_all(query: Mapping[str, str]) -> bool:
    """Whether lists per node are wanted in lists of decisions."""
    detail = query.get("detail", DETAILS[0])
    if detail not in DETAILS:
        known = " or ".join(DETAILS)
        raise status.bad_request(f'detail "{detail}" is not known: it is {known}')
    return detail == "All"


def check_version(options: ListOptions, current: int) -> int:
    if options.version > current:
        raise status.too_large_resource_version(options.version, current)
    if options.match == "Exact" and options.version != current:
        raise status.expired(
            "The resourceVersion for the provided list is too old: only the present state is kept."
        )
    return current


async def matching(items: Iterable[Any], matches: Callable[[Any], bool]) -> list[Any]:
    slices, found = Slices(), []
    for one in items:
        if matches(one):
            found.append(one)
        if slices.due():
            await slices.rest()
    return found


def page(
    items: list[Any], key: Callable[[Any], Key], options: ListOptions, version: int
) -> tuple[list[Any], dict[str, Any]]:
    """The items in order, or as many as were asked for, with the metadata of the list."""
    if options.token:
        start, _ = parse_token(options.token)
        items = [one for one in items if key(one) > start]
    if not options.limit or options.limit >= len(items):
        return sorted(items, key=key), list_metadata(version)
    page = heapq.nsmallest(options.limit, items, key=key)
    token = continue_token(key(page[-1]), version)
    return page, list_metadata(version, token, len(items) - len(page))


async def pieces(
    form: Form, metadata: dict[str, Any], items: Iterator[Callable[[], ApiObject | None]]
) -> AsyncGenerator[bytes, None]:
    """A list, item by item, each made when the client has taken those before it."""
    yield form.opening(metadata)
    slices, between = Slices(), b""
    for make in items:
        item = make()
        if item is None:
            continue
        yield between + form.item(item)
        between = b","
        if slices.due():
            await slices.rest()
    yield CLOSING


def warnings(served: Served, left_out: Collection[str]) -> tuple[str, ...]:
    if not left_out:
        return ()
    where = "1 namespace is" if len(left_out) == 1 else f"{len(left_out)} namespaces are"
    return (f'{served.plural} of {where} left out: the right "get" on "pods" is needed there',)
