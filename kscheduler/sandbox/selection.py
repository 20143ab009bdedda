"""Selections: which objects a list or watch is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kscheduler.api.fields import FieldRequirement, FieldSelector, parse_field_selector
from kscheduler.api.labels import EVERYTHING, Selector, SelectorError, parse_selector
from kscheduler.sandbox import status
from kscheduler.sandbox.resources import Resource
from kscheduler.sandbox.store import Stored


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
    return _selection(resource, namespace, labels, fields)


def _selection(
    resource: Resource, namespace: str, labels: Selector, fields: FieldSelector
) -> Selection:
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
