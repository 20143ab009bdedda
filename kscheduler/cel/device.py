"""Device: what an expression sees of a device, built from attributes and capacities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kscheduler.cel import quantities, versions
from kscheduler.cel.errors import EvaluationError
from kscheduler.cel.values import DefaultMap, Value

# Fields of resource.k8s.io's DeviceAttribute in the order in which a set one is taken.
ATTRIBUTE_FIELDS = ("ints", "bools", "strings", "versions", "int", "bool", "string", "version")


class Device:
    """A device with its driver, attributes and capacities by qualified name.

    Attributes are (name, field, value) as the API has them, for example
    `("model", "string", "A100")`; a name without a domain belongs to the driver's. Maps are built
    on first use and kept, so a device costs little until an expression reads it.
    """

    __slots__ = (*("_attributes", "_capacity", "_fields", "allow_multiple_allocations", "driver"),)

    def __init__(
        self,
        driver: str,
        attributes: Iterable[tuple[str, str, Any]] = (),
        capacity: Iterable[tuple[str, str]] = (),
        *,
        allow_multiple_allocations: bool = False,
    ) -> None:
        self.driver = driver
        self.allow_multiple_allocations = allow_multiple_allocations
        self._attributes = attributes
        self._capacity = capacity
        self._fields: dict[str, Value] | None = None

    @property
    def fields(self) -> dict[str, Value]:
        """The device as a map; raises EvaluationError for an attribute that has no value."""
        if self._fields is None:
            self._fields = self._build()
        return self._fields

    def _build(self) -> dict[str, Value]:
        attributes, capacity = DefaultMap(), DefaultMap()
        driver = self.driver
        own: dict[str, Value] = {}
        for name, field, value in self._attributes:
            if field in ("version", "versions"):
                value = _versions(name, field, value)
            elif not field:
                raise EvaluationError(f"attribute {name}: unsupported attribute value")
            if "/" not in name:
                own[name] = value
            else:
                domain, _, identifier = name.partition("/")
                attributes.setdefault(domain, {})[identifier] = value
        if own:
            attributes[driver] = {**attributes.get(driver, {}), **own}
        for name, text in self._capacity:
            domain, slash, identifier = name.partition("/")
            amount = quantities.parse(text)
            if slash:
                capacity.setdefault(domain, {})[identifier] = amount
            else:
                capacity.setdefault(driver, {})[name] = amount
        return {
            "driver": driver,
            "allowMultipleAllocations": self.allow_multiple_allocations,
            "attributes": attributes,
            "capacity": capacity,
        }


def _versions(name: str, field: str, value: Any) -> Value:
    try:
        if field == "version":
            return versions.parse(value)
        return [versions.parse(text) for text in value]
    except EvaluationError as error:
        raise EvaluationError(f"attribute {name}: parse semantic version: {error}") from None


def device_from_json(document: Mapping[str, Any]) -> Device:
    """A device from its fields as the API's JSON has them."""
    attributes = []
    for name, attribute in (document.get("attributes") or {}).items():
        field = next((f for f in ATTRIBUTE_FIELDS if attribute.get(f) is not None), "")
        attributes.append((name, field, attribute.get(field)))
    capacity = [(n, c["value"]) for n, c in (document.get("capacity") or {}).items()]
    return Device(
        document["driver"],
        attributes,
        capacity,
        allow_multiple_allocations=bool(document.get("allowMultipleAllocations")),
    )
