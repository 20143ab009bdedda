"""Validation of slices: which nodes their devices are on, and what the devices look like.

Mirrors the slice part of pkg/apis/resource/validation. Fields of alpha features are accepted as
they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from kscheduler.api.quantity import Amount, nano_value, parse
from kscheduler.rest import fields
from kscheduler.rest.fields import FieldError
from kscheduler.sandbox.kinds.affinity_validation import node_selector_errors
from kscheduler.sandbox.kinds.device_validation import (
    binding_condition_errors,
    driver_name_errors,
    label_name_errors,
    list_errors,
    map_errors,
    node_name_errors,
    pool_name_errors,
    qualified_name_errors,
    taint_errors,
)
from kscheduler.sandbox.metadata import IMMUTABLE

Json = dict[str, Any]

MAX_DEVICES = 128
MAX_DEVICES_WITH_ADVANCED_FEATURES = 64  # taints, counters or lists among the attributes
_MAX_COUNTER_SETS = 8
_MAX_COUNTERS = 32
_MAX_COUNTER_SETS_CONSUMED = 2
_MAX_ATTRIBUTES_AND_CAPACITIES = 32
_MAX_ATTRIBUTE_VALUES = 48
_MAX_ATTRIBUTE_BYTES = 64
_MAX_TAINTS = 16
_MAX_VALID_VALUES = 10
_LISTS = ("ints", "bools", "strings", "versions")
_VALUES = ("int", "bool", "string", "version", *_LISTS)
_TRUE_OR_UNSET = "must be either unset or set to true"
_SLICE_PLACES = "`nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection`"
_DEVICE_PLACES = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
    "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
)
_NUMBER = r"(0|[1-9]\d*)"
_PRERELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = "[0-9a-zA-Z-]+"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRERELEASE}(\.{_PRERELEASE})*)?"
    rf"(\+{_BUILD}(\.{_BUILD})*)?",
    re.ASCII,
)


def slice_spec_errors(spec: Json) -> list[FieldError]:
    return list(_slice_errors(spec))


def slice_update_errors(spec: Json, old: Json) -> list[FieldError]:
    """A slice stays with its driver, its pool and its node."""
    pool, was = spec.get("pool") or {}, old.get("pool") or {}
    return [
        fields.invalid(f"spec.{path}", new, IMMUTABLE)
        for path, new, before in (
            ("pool.name", pool.get("name", ""), was.get("name", "")),
            ("driver", spec.get("driver", ""), old.get("driver", "")),
            ("nodeName", spec.get("nodeName"), old.get("nodeName")),
        )
        if new != before
    ]


def _slice_errors(spec: Json) -> Iterator[FieldError]:
    yield from driver_name_errors(spec.get("driver", ""), "spec.driver")
    pool = spec.get("pool") or {}
    yield from pool_name_errors(pool.get("name", ""), "spec.pool.name")
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        yield fields.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        detail = "must be greater than or equal to zero"
        yield fields.invalid("spec.pool.generation", generation, detail)
    yield from _slice_place_errors(spec)
    devices, counter_sets = spec.get("devices"), spec.get("sharedCounters")
    if devices is not None and counter_sets is not None:
        detail = "only one of `sharedCounters` or `devices` is allowed"
        yield fields.invalid("spec", "", detail)
    advanced = any(
        device.get("taints")
        or device.get("consumesCounters")
        or any(
            name in value for value in (device.get("attributes") or {}).values() for name in _LISTS
        )
        for device in devices or ()
    )
    per_device = bool(spec.get("perDeviceNodeSelection"))
    yield from list_errors(
        devices or (),
        "spec.devices",
        lambda device, path: _device_errors(device, path, per_device=per_device),
        at_most=MAX_DEVICES_WITH_ADVANCED_FEATURES if advanced else MAX_DEVICES,
        key=lambda device: device.get("name", ""),
        shown=lambda device: device.get("name", ""),
    )
    yield from list_errors(
        counter_sets or (),
        "spec.sharedCounters",
        lambda one, path: _counter_errors(one, path, "name"),
        at_most=_MAX_COUNTER_SETS,
        key=lambda one: one.get("name", ""),
    )


def _slice_place_errors(spec: Json) -> Iterator[FieldError]:
    """Exactly one way to say which nodes the devices of a slice are for."""
    chosen = []
    if (name := spec.get("nodeName")) is not None:
        if name:
            chosen.append("`nodeName`")
            yield from node_name_errors(name, "spec.nodeName")
        else:
            detail = "must be either unset or set to a non-empty string"
            yield fields.invalid("spec.nodeName", name, detail)
    if (selector := spec.get("nodeSelector")) is not None:
        chosen.append("`nodeSelector`")
        yield from node_selector_errors(selector, "spec.nodeSelector")
        terms = selector.get("nodeSelectorTerms") or ()
        if len(terms) != 1:
            path = "spec.nodeSelector.nodeSelectorTerms"
            detail = "must have exactly one node selector term"
            yield fields.invalid(path, [_as_printed(term) for term in terms], detail)
    for flag in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(flag):
            chosen.append(f"`{flag}`")
        elif flag in spec:
            yield fields.invalid(f"spec.{flag}", spec[flag], _TRUE_OR_UNSET)
    if not chosen:
        yield fields.required("spec", f"exactly one of {_SLICE_PLACES} is required")
    elif len(chosen) > 1:
        detail = f"exactly one of {_SLICE_PLACES} is required, but multiple fields are set"
        yield fields.invalid("spec", f"{{{', '.join(chosen)}}}", detail)


def _as_printed(term: Json) -> Json:
    """A node selector term as Go prints its own type: capital letters, and nulls."""
    printed: Json = {}
    for part in ("matchExpressions", "matchFields"):
        rules = [
            {
                "Key": one.get("key", ""),
                "Operator": one.get("operator"),
                "Values": one.get("values"),
            }
            for one in term.get(part) or ()
        ]
        printed[f"M{part[1:]}"] = rules or None
    return printed


def _counter_errors(holder: Json, path: str, name: str) -> Iterator[FieldError]:
    """Errors of a set of counters, or of what a device consumes of one; `name` is its field."""
    if not holder.get(name):
        yield fields.required(f"{path}.{name}")
    else:
        yield from label_name_errors(holder[name], f"{path}.{name}")
    counters = holder.get("counters") or {}
    if not counters:
        yield fields.required(f"{path}.counters")
    elif len(counters) > _MAX_COUNTERS:
        yield fields.too_many(f"{path}.counters", len(counters), _MAX_COUNTERS)
    else:
        for key in counters:
            yield from label_name_errors(key, f"{path}.counters")


def _device_errors(device: Json, path: str, *, per_device: bool) -> Iterator[FieldError]:
    yield from label_name_errors(device.get("name", ""), f"{path}.name")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    total, limit = len(attributes) + len(capacity), _MAX_ATTRIBUTES_AND_CAPACITIES
    if total > limit:
        detail = f"the total number of attributes and capacities must not exceed {limit}"
        yield fields.invalid(path, total, detail)
    values = sum(
        sum(len(one.get(name) or ()) for name in _LISTS) or 1 for one in attributes.values()
    )
    if values > _MAX_ATTRIBUTE_VALUES:
        detail = f"the total number of attribute values must not exceed {_MAX_ATTRIBUTE_VALUES}"
        yield fields.invalid(path, values, detail)
    yield from map_errors(
        attributes, f"{path}.attributes", qualified_name_errors, _attribute_errors
    )
    shareable = bool(device.get("allowMultipleAllocations"))
    yield from map_errors(
        capacity,
        f"{path}.capacity",
        qualified_name_errors,
        _shared_capacity_errors if shareable else _capacity_errors,
    )
    taints = device.get("taints") or ()
    yield from list_errors(taints, f"{path}.taints", taint_errors, at_most=_MAX_TAINTS)
    yield from list_errors(
        device.get("consumesCounters") or (),
        f"{path}.consumesCounters",
        lambda one, at: _counter_errors(one, at, "counterSet"),
        at_most=_MAX_COUNTER_SETS_CONSUMED,
        key=lambda one: one.get("counterSet", ""),
    )
    yield from _device_place_errors(device, path, per_device=per_device)
    yield from binding_condition_errors(device, path)


def _device_place_errors(device: Json, path: str, *, per_device: bool) -> Iterator[FieldError]:
    """Devices say which nodes they are for if their slice leaves that to them, and only then."""
    if not per_device:
        if any(name in device for name in ("nodeName", "nodeSelector", "allNodes")):
            detail = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if "
                "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
            )
            yield fields.invalid(path, None, detail)
        return
    chosen = []
    if (name := device.get("nodeName")) is not None:
        if name:
            chosen.append("`nodeName`")
            yield from node_name_errors(name, f"{path}.nodeName")
        else:
            yield fields.invalid(f"{path}.nodeName", name, "must not be empty")
    if (selector := device.get("nodeSelector")) is not None:
        chosen.append("`nodeSelector`")
        yield from node_selector_errors(selector, f"{path}.nodeSelector")
    if device.get("allNodes"):
        chosen.append("`allNodes`")
    elif "allNodes" in device:
        yield fields.invalid(f"{path}.allNodes", device["allNodes"], _TRUE_OR_UNSET)
    if not chosen:
        yield fields.required(path, _DEVICE_PLACES)
    elif len(chosen) > 1:
        yield fields.invalid(path, f"{{{', '.join(chosen)}}}", _DEVICE_PLACES)


def _attribute_errors(attribute: Json, path: str) -> Iterator[FieldError]:
    for name in ("string", "version"):
        if name in attribute:
            yield from _attribute_text_errors(attribute[name], f"{path}.{name}", name)
    for name in _LISTS:
        if name in attribute and not attribute[name]:
            yield fields.invalid(f"{path}.{name}", [], "must not be empty if specified")
    for name in ("string", "version"):
        for position, text in enumerate(attribute.get(f"{name}s") or ()):
            yield from _attribute_text_errors(text, f"{path}.{name}s[{position}]", name)
    chosen = [name for name in _VALUES if name in attribute]
    listed = ", ".join(f"`{name}`" for name in _VALUES)
    if not chosen:
        yield fields.invalid(path, "", f"must specify one of: {listed}")
    elif len(chosen) > 1:
        shown = f"{{{', '.join(chosen)}}}"
        yield fields.invalid(path, shown, f"must specify exactly one of: {listed}")


def _attribute_text_errors(text: str, path: str, kind: str) -> Iterator[FieldError]:
    if kind == "version" and not _SEMVER.fullmatch(text):
        detail = "must be a string compatible with semver.org spec 2.0.0"
        yield fields.invalid(path, text, detail)
    if len(text.encode()) > _MAX_ATTRIBUTE_BYTES:
        yield fields.too_long(path, _MAX_ATTRIBUTE_BYTES)


def _capacity_errors(capacity: Json, path: str) -> Iterator[FieldError]:
    if "requestPolicy" in capacity:
        detail = "allowMultipleAllocations must be true"
        yield fields.forbidden(f"{path}.requestPolicy", detail)


def _shared_capacity_errors(capacity: Json, path: str) -> Iterator[FieldError]:
    """Errors of the capacity of a device that several claims may share."""
    policy = capacity.get("requestPolicy")
    if policy is None:
        return
    path = f"{path}.requestPolicy"
    values, valid_range = policy.get("validValues") or (), policy.get("validRange")
    if values and valid_range is not None:
        detail = (
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" '
            "at the same time"
        )
        yield fields.forbidden(path, detail)
        return
    default, limit = policy.get("default"), capacity.get("value", "0")
    if values:
        if default is None:
            yield fields.required(f"{path}.default", "required when validValues is defined")
        else:
            yield from _valid_value_errors(default, limit, values, f"{path}.validValues")
    elif valid_range is not None:
        if default is None:
            yield fields.required(f"{path}.default", "required when validRange is defined")
        else:
            yield from _valid_range_errors(default, limit, valid_range, f"{path}.validRange")


def _valid_value_errors(
    default: str, limit: str, values: Sequence[str], path: str
) -> Iterator[FieldError]:
    for position in range(1, len(values)):
        if nano_value(values[position - 1]) > nano_value(values[position]):
            detail = "values must be sorted in ascending order"
            yield fields.invalid(f"{path}[{position}]", values[position], detail)

    def option_errors(option: str, at: str) -> Iterator[FieldError]:
        if nano_value(option) > nano_value(limit):
            detail = f"option is larger than capacity value: {limit}"
            yield fields.invalid(at, option, detail)

    yield from list_errors(values, path, option_errors, at_most=_MAX_VALID_VALUES, key=nano_value)
    if nano_value(default) not in map(nano_value, values):
        detail = "default value is not valid according to the requestPolicy"
        yield fields.invalid(path, default, detail)


def _valid_range_errors(
    default: str, limit: str, valid_range: Json, path: str
) -> Iterator[FieldError]:
    least, most = valid_range.get("min"), valid_range.get("max")
    step = valid_range.get("step")
    if least is None:
        yield fields.required(f"{path}.min", "required when validRange is defined")
        return
    if nano_value(least) > nano_value(limit):
        yield fields.invalid(f"{path}.min", least, f"min is larger than capacity value: {limit}")
    if nano_value(default) < nano_value(least):
        yield fields.invalid(f"{path}.default", default, f"default is less than min: {least}")
    if most is not None:
        if nano_value(least) > nano_value(most):
            yield fields.invalid(f"{path}.max", least, f"min is larger than max: {most}")
        if nano_value(most) > nano_value(limit):
            detail = f"max is larger than capacity value: {limit}"
            yield fields.invalid(f"{path}.max", most, detail)
        if nano_value(default) > nano_value(most):
            yield fields.invalid(f"{path}.default", default, f"default is more than max: {most}")
    if step is None:
        return
    if nano_value(step) <= 0:
        yield fields.invalid(f"{path}.step", step, "must be greater than zero")
        return
    first = Amount(nano_value(least) + nano_value(step), parse(least).format)
    if first.nanos > nano_value(limit):
        detail = f"one step {first} is larger than capacity value: {limit}"
        yield fields.invalid(f"{path}.step", step, detail)
    for value in (default, most):
        if value is not None and (nano_value(value) - nano_value(least)) % nano_value(step):
            detail = f"value is not a multiple of a given step ({step}) from ({least})"
            yield fields.invalid(f"{path}.step", value, detail)
