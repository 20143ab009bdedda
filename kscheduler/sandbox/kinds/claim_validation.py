"""Validation of claims: what they ask for, and what their status says they got.

Mirrors the claim, template and class parts of pkg/apis/resource/validation. Derived attributes,
which are alpha, are accepted as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kscheduler.api.validation import label_key_errors
from kscheduler.rest import fields
from kscheduler.rest.fields import FieldError
from kscheduler.sandbox.kinds.affinity_validation import node_selector_errors
from kscheduler.sandbox.kinds.device_validation import (
    MAX_CONFIGS,
    binding_condition_errors,
    class_name_errors,
    condition_errors,
    configuration_errors,
    declared_driver_name_errors,
    declared_pool_name_errors,
    driver_name_errors,
    fully_qualified_name_errors,
    label_name_errors,
    list_errors,
    pool_name_errors,
    raw_object_errors,
    selector_list_errors,
    share_id_errors,
    toleration_errors,
)
from kscheduler.sandbox.store import Object

Json = dict[str, Any]
DeviceId = tuple[str, str, str, str]  # driver, pool, device, share

MAX_RESULTS = 32
MAX_CONSUMERS = 256
_MAX_REQUESTS = MAX_RESULTS
_MAX_ALTERNATIVES = 8
_MAX_CONSTRAINTS = 32
_MAX_CONDITIONS = 8
_MAX_STATUS_DATA = 10 * 1024
_MODES = ("All", "ExactCount")
_SOURCES = ("FromClaim", "FromClass")
_ONE_OF_REQUESTS = "exactly one of `exactly` or `firstAvailable` is required"
_ONE_OF_ATTRIBUTES = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields '
    "are set"
)
_REQUEST_REFERENCE = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)


def claim_spec_errors(spec: Json, path: str) -> list[FieldError]:
    """Errors of what a claim or a template asks for."""
    devices = spec.get("devices") or {}
    requests, where = devices.get("requests") or (), f"{path}.devices"
    names = _request_names(requests)

    def constraint_errors(constraint: Json, at: str) -> Iterator[FieldError]:
        yield from _reference_list_errors(constraint.get("requests") or (), at, names)
        if (attribute := constraint.get("matchAttribute")) is not None:
            yield from fully_qualified_name_errors(attribute, f"{at}.matchAttribute")
        elif (attribute := constraint.get("distinctAttribute")) is not None:
            yield from fully_qualified_name_errors(attribute, f"{at}.distinctAttribute")
        else:
            yield fields.required(at, _ONE_OF_ATTRIBUTES)

    def config_errors(config: Json, at: str) -> Iterator[FieldError]:
        yield from _reference_list_errors(config.get("requests") or (), at, names)
        yield from configuration_errors(config, at)

    constraints, config = devices.get("constraints") or (), devices.get("config") or ()
    return [
        *list_errors(
            requests, f"{where}.requests", _request_errors, at_most=_MAX_REQUESTS, key=_name
        ),
        *list_errors(
            constraints, f"{where}.constraints", constraint_errors, at_most=_MAX_CONSTRAINTS
        ),
        *list_errors(config, f"{where}.config", config_errors, at_most=MAX_CONFIGS),
    ]


def class_spec_errors(spec: Json) -> list[FieldError]:
    """Errors of a device class."""
    config, path = spec.get("config") or (), "spec.config"
    errors = [
        *selector_list_errors(spec.get("selectors") or (), "spec.selectors"),
        *list_errors(config, path, configuration_errors, at_most=MAX_CONFIGS),
    ]
    if (resource := spec.get("extendedResourceName")) is not None:
        errors += _extended_resource_errors(resource, "spec.extendedResourceName")
    return errors


def _extended_resource_errors(name: str, path: str) -> Iterator[FieldError]:
    if "/" not in name:
        detail = "a name must be a domain-prefixed path, such as 'example.com/my-prop'"
        yield fields.invalid(path, name, detail)
    elif "kubernetes.io/" in name:
        yield fields.invalid(path, name, 'must not have "kubernetes.io/" domain')
    if name.startswith("requests."):
        yield fields.invalid(path, name, 'must not have "requests." prefix')
    # Quotas count it under this name, which has to be a label key.
    for why in label_key_errors(f"requests.{name}"):
        yield fields.invalid(path, name, why)


def _name(item: Json) -> str:
    return str(item.get("name", ""))


def _request_names(requests: Sequence[Json]) -> set[str]:
    """Names that constraints and results may refer to: requests, and alternatives within them."""
    names = set()
    for request in requests:
        names.add(_name(request))
        names |= {f"{_name(request)}/{_name(one)}" for one in request.get("firstAvailable") or ()}
    return names


def _request_errors(request: Json, path: str) -> Iterator[FieldError]:
    yield from label_name_errors(_name(request), f"{path}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or ()
    if exactly is None and not alternatives:
        yield fields.required(path, _ONE_OF_REQUESTS)
    elif exactly is not None and alternatives:
        detail = f"{_ONE_OF_REQUESTS}, but multiple fields are set"
        yield fields.invalid(path, None, detail)
    elif exactly is not None:
        yield from _one_request_errors(exactly, f"{path}.exactly")
    else:
        yield from list_errors(
            alternatives,
            f"{path}.firstAvailable",
            _alternative_errors,
            at_most=_MAX_ALTERNATIVES,
            key=_name,
        )


def _alternative_errors(request: Json, path: str) -> Iterator[FieldError]:
    yield from label_name_errors(_name(request), f"{path}.name")
    yield from _one_request_errors(request, path)


def _one_request_errors(request: Json, path: str) -> Iterator[FieldError]:
    """Errors of one kind of devices, asked for exactly or as an alternative."""
    yield from class_name_errors(request.get("deviceClassName", ""), f"{path}.deviceClassName")
    yield from selector_list_errors(request.get("selectors") or (), f"{path}.selectors")
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode not in _MODES:
        yield fields.not_supported(f"{path}.allocationMode", mode, _MODES)
    elif mode == "All" and count:
        detail = "must not be specified when allocationMode is 'All'"
        yield fields.invalid(f"{path}.count", count, detail)
    elif mode == "ExactCount" and count <= 0:
        yield fields.invalid(f"{path}.count", count, "must be greater than zero")
    yield from list_errors(
        request.get("tolerations") or (), f"{path}.tolerations", toleration_errors
    )


def _reference_list_errors(
    references: Sequence[str], path: str, names: set[str]
) -> Iterator[FieldError]:
    """Errors of the requests that a constraint or a configuration is about."""
    yield from list_errors(
        references,
        f"{path}.requests",
        lambda name, at: _reference_errors(name, at, names),
        at_most=_MAX_REQUESTS,
        key=str,
    )


def _reference_errors(name: str, path: str, names: set[str]) -> Iterator[FieldError]:
    parts = name.split("/")
    if len(parts) <= 2:
        for part in parts:
            yield from label_name_errors(part, path)
    if name not in names:
        yield fields.invalid(path, name, _REQUEST_REFERENCE)


def claim_status_errors(claim: Object, old: Object) -> list[FieldError]:
    """Errors of a changed status: consumers, devices, and an allocation that may not change."""
    state, before = claim.get("status") or {}, old.get("status") or {}
    allocation, was = state.get("allocation"), before.get("allocation")
    consumers = state.get("reservedFor") or ()
    path = "status.reservedFor"
    errors = list(
        list_errors(
            consumers,
            path,
            _consumer_errors,
            at_most=MAX_CONSUMERS,
            key=lambda one: one.get("uid", ""),
        )
    )
    allocated = allocated_devices(allocation)
    errors += list_errors(
        state.get("devices") or (),
        "status.devices",
        lambda device, at: _device_status_errors(device, at, allocated),
        key=device_id,
    )
    if consumers and allocation is None:
        detail = "may not be specified when `allocated` is not set"
        errors.append(fields.forbidden(path, detail))
    elif "deletionTimestamp" in claim["metadata"]:
        known = before.get("reservedFor") or ()
        if any(one not in known for one in consumers):
            detail = (
                "new entries may not be added while `deallocationRequested` or "
                "`deletionTimestamp` are set"
            )
            errors.append(fields.forbidden(path, detail))
    if allocation is not None and was is not None:
        if allocation != was:
            detail = "field cannot be modified once set"
            errors.append(fields.invalid("status.allocation", None, detail))
    elif allocation is not None:
        names = _request_names((claim["spec"].get("devices") or {}).get("requests") or ())
        errors += _allocation_errors(allocation, "status.allocation", names)
    return errors


def device_id(device: Json) -> DeviceId:
    """The identity of an allocated device, in a result or in the status of a device."""
    driver, pool = device.get("driver", ""), device.get("pool", "")
    return driver, pool, device.get("device", ""), device.get("shareID") or ""


def allocated_devices(allocation: Json | None) -> set[DeviceId]:
    results = ((allocation or {}).get("devices") or {}).get("results") or ()
    return {device_id(result) for result in results}


def _consumer_errors(consumer: Json, path: str) -> Iterator[FieldError]:
    for name in ("resource", "name", "uid"):
        if not consumer.get(name):
            yield fields.required(f"{path}.{name}")


def _allocation_errors(allocation: Json, path: str, names: set[str]) -> Iterator[FieldError]:
    def result_errors(result: Json, at: str) -> Iterator[FieldError]:
        yield from _reference_errors(result.get("request", ""), f"{at}.request", names)
        yield from declared_driver_name_errors(result.get("driver", ""), f"{at}.driver")
        yield from declared_pool_name_errors(result.get("pool", ""), f"{at}.pool")
        yield from label_name_errors(result.get("device", ""), f"{at}.device")
        yield from binding_condition_errors(result, at)
        tolerations = result.get("tolerations") or ()
        yield from list_errors(tolerations, f"{at}.tolerations", toleration_errors)
        if (share_id := result.get("shareID")) is not None:
            yield from share_id_errors(share_id, f"{at}.shareID")

    def config_errors(config: Json, at: str) -> Iterator[FieldError]:
        source = config.get("source", "")
        if not source:
            yield fields.required(f"{at}.source")
        elif source not in _SOURCES:
            yield fields.not_supported(f"{at}.source", source, _SOURCES)
        yield from _reference_list_errors(config.get("requests") or (), at, names)
        yield from configuration_errors(config, at)

    devices, where = allocation.get("devices") or {}, f"{path}.devices"
    results, config = devices.get("results") or (), devices.get("config") or ()
    yield from list_errors(results, f"{where}.results", result_errors, at_most=MAX_RESULTS)
    # Configuration comes from the claim and from the classes.
    yield from list_errors(config, f"{where}.config", config_errors, at_most=2 * MAX_CONFIGS)
    if (selector := allocation.get("nodeSelector")) is not None:
        yield from node_selector_errors(selector, f"{path}.nodeSelector")


def _device_status_errors(
    device: Json, path: str, allocated: set[DeviceId]
) -> Iterator[FieldError]:
    yield from driver_name_errors(device.get("driver", ""), f"{path}.driver")
    yield from pool_name_errors(device.get("pool", ""), f"{path}.pool")
    yield from label_name_errors(device.get("device", ""), f"{path}.device")
    if (share_id := device.get("shareID")) is not None:
        yield from share_id_errors(share_id, f"{path}.shareID")
    if device_id(device) not in allocated:
        names = ("Driver", "Pool", "Device", "ShareID")
        identity = dict(zip(names, device_id(device), strict=True))
        yield fields.invalid(path, identity, "must be an allocated device in the claim")
    conditions, where = device.get("conditions") or (), f"{path}.conditions"
    if len(conditions) > _MAX_CONDITIONS:
        yield fields.too_many(where, len(conditions), _MAX_CONDITIONS)
    yield from condition_errors(conditions, where)
    if (data := device.get("data")) is not None:
        yield from raw_object_errors(data, f"{path}.data", at_most=_MAX_STATUS_DATA)
