"""The group resource.k8s.io: device classes, claims, slices and taint rules.

Mirrors the strategies of pkg/registry/resource, with DRAResourceClaimGranularStatusAuthorization:
whoever allocates or reserves a claim needs a permission of its own besides that to write its
status. Differs: there are no feature gates, so the fields of alpha features are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kscheduler.api.quantity import Amount
from kscheduler.rest import fields
from kscheduler.rest.fields import FieldError
from kscheduler.rest.tables import AGE, NAME, Column, age, at
from kscheduler.sandbox.access.authorization import Attributes
from kscheduler.sandbox.kinds.claim_validation import (
    allocated_devices,
    claim_spec_errors,
    claim_status_errors,
    class_spec_errors,
    device_id,
)
from kscheduler.sandbox.kinds.device_validation import (
    condition_errors,
    driver_name_errors,
    label_name_errors,
    pool_name_errors,
    taint_errors,
)
from kscheduler.sandbox.kinds.merging import CONDITIONS, keyed, keyed_for_apply
from kscheduler.sandbox.kinds.printers import claim_state
from kscheduler.sandbox.kinds.quantities import decode
from kscheduler.sandbox.kinds.resource import STATUS, Caller, Resource, Scope, Strategy
from kscheduler.sandbox.kinds.slice_validation import slice_spec_errors, slice_update_errors
from kscheduler.sandbox.metadata import IMMUTABLE, now
from kscheduler.sandbox.store import Object

_GROUP = "resource.k8s.io"
_CLAIMS = "resourceclaims"
_ADMIN_LABEL = "resource.kubernetes.io/admin-access"
_ADMIN_ACCESS = (
    f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing namespace"
)


def _default_device_requests(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        alternatives = request.get("firstAvailable") or ()
        for one in filter(None, (request.get("exactly"), *alternatives)):
            one["allocationMode"] = one.get("allocationMode") or "ExactCount"
            if one["allocationMode"] == "ExactCount":
                one["count"] = one.get("count") or 1
            for toleration in one.get("tolerations") or ():
                toleration.setdefault("operator", "Equal")
            _canonicalise((one.get("capacity") or {}).get("requests"))


def _canonicalise(quantities: dict[str, Any] | None) -> None:
    """Rewrite quantities as they are stored; other than in resource lists, nothing is rounded."""
    for name, quantity in (quantities or {}).items():
        assert quantities is not None
        quantities[name] = _canonical(quantity)


def _canonical(quantity: Any) -> str:
    amount = decode(quantity)
    return str(Amount(amount.nanos, amount.format))


def _admin_access_errors(requests: Sequence[Object], scope: Scope) -> list[FieldError]:
    if scope.namespace_labels.get(_ADMIN_LABEL) == "true":
        return []
    for position, request in enumerate(requests):
        if (request.get("exactly") or {}).get("adminAccess"):
            path = f"spec.devices.requests[{position}].adminAccess"
            return [fields.forbidden(path, _ADMIN_ACCESS)]
    return []


class _ClaimTemplateStrategy(Strategy):
    revalidates_updates = False  # the spec is immutable, whatever was allowed when it was written

    def default(self, item: Object) -> None:
        _default_device_requests(item.setdefault("spec", {}).setdefault("spec", {}))

    def authorize(self, item: Object, scope: Scope) -> list[FieldError]:
        devices = item["spec"]["spec"].get("devices") or {}
        return _admin_access_errors(devices.get("requests") or (), scope)

    def validate(self, item: Object) -> list[FieldError]:
        return claim_spec_errors(item["spec"]["spec"], "spec.spec")

    def validate_update(self, item: Object, old: Object) -> list[FieldError]:
        wanted = item["spec"]
        return [] if wanted == old["spec"] else [fields.invalid("spec", wanted, IMMUTABLE)]


class _ClaimStrategy(_ClaimTemplateStrategy):
    status_keeps_metadata = True

    def default(self, item: Object) -> None:
        _default_device_requests(item.setdefault("spec", {}))
        allocation = (item.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            _canonicalise(result.get("consumedCapacity"))
            for toleration in result.get("tolerations") or ():
                toleration.setdefault("operator", "Equal")

    def authorize(self, item: Object, scope: Scope) -> list[FieldError]:
        devices = item["spec"].get("devices") or {}
        return _admin_access_errors(devices.get("requests") or (), scope)

    def validate(self, item: Object) -> list[FieldError]:
        return claim_spec_errors(item["spec"], "spec")

    def validate_update(self, item: Object, old: Object) -> list[FieldError]:
        changed = item["spec"] != old["spec"]
        return [fields.invalid("spec", None, IMMUTABLE)] if changed else []

    def prepare_for_status_update(self, item: Object, old: Object) -> None:
        """Drop what drivers said about devices that are no longer allocated."""
        state, before = item.setdefault("status", {}), old.get("status") or {}
        freed = allocated_devices(before.get("allocation"))
        freed -= allocated_devices(state.get("allocation"))
        told = [one for one in state.pop("devices", ()) if device_id(one) not in freed]
        if told:
            state["devices"] = told

    def authorize_status_update(self, item: Object, old: Object, scope: Scope) -> list[FieldError]:
        state, before = item["status"], old.get("status") or {}
        errors = []
        position = _admin_result(state)
        labelled = scope.namespace_labels.get(_ADMIN_LABEL) == "true"
        if position is not None and _admin_result(before) is None and not labelled:
            path = f"status.allocation.devices.results[{position}].adminAccess"
            errors.append(fields.forbidden(path, _ADMIN_ACCESS))
        if scope.caller is None:
            return errors
        errors += _binding_errors(state, before, scope.caller)
        if state.get("allocation") is not None:
            errors += _device_status_errors(state, before, scope.caller, scope.namespace)
        return errors

    def validate_status_update(self, item: Object, old: Object) -> list[FieldError]:
        return claim_status_errors(item, old)


def _admin_result(state: Object) -> int | None:
    """The position of the first result with admin access, if there is one."""
    results = ((state.get("allocation") or {}).get("devices") or {}).get("results") or ()
    granted = (position for position, one in enumerate(results) if one.get("adminAccess"))
    return next(granted, None)


def _binding_errors(state: Object, before: Object, caller: Caller) -> list[FieldError]:
    """Allocating and reserving need the virtual subresource `binding`, in all namespaces."""
    if all(
        (state.get(part) or None) == (before.get(part) or None)
        for part in ("allocation", "reservedFor")
    ):
        return []
    refusal = caller.refusal(Attributes(caller.verb, _GROUP, _CLAIMS, "binding"))
    if not refusal:
        return []
    detail = (
        "changing status.allocation or status.reservedFor requires "
        f'resource="{_CLAIMS}/binding", verb="{caller.verb}" permission: {refusal}'
    )
    return [fields.forbidden("status.allocation", detail)]


def _device_status_errors(
    state: Object, before: Object, caller: Caller, namespace: str
) -> list[FieldError]:
    """Errors for callers without the right to a device's status: the virtual subresource
    `driver`, by name of its driver.

    Users of the sandbox belong to no node, so only the right for arbitrary nodes counts.
    """
    new = {device_id(one): one for one in state.get("devices") or ()}
    old = {device_id(one): one for one in before.get("devices") or ()}
    drivers = {key[0] for key in {*new, *old} if new.get(key) != old.get(key)}
    verb, errors = f"arbitrary-node:{caller.verb}", []
    for driver in sorted(drivers):
        wanted = Attributes(verb, _GROUP, _CLAIMS, "driver", namespace, driver)
        if refusal := caller.refusal(wanted):
            detail = (
                f'changing status.devices requires resource="{_CLAIMS}/driver", '
                f'verb="[{verb}]" permission: {refusal}'
            )
            errors.append(fields.forbidden("status.devices", detail))
    return errors


class _ClassStrategy(Strategy):
    def validate(self, item: Object) -> list[FieldError]:
        return class_spec_errors(item.get("spec") or {})


class _SliceStrategy(Strategy):
    def default(self, item: Object) -> None:
        spec = item.get("spec") or {}
        for device in spec.get("devices") or ():
            for taint in device.get("taints") or ():
                taint.setdefault("timeAdded", now())
            for capacity in (device.get("capacity") or {}).values():
                _default_capacity(capacity)
            for consumption in device.get("consumesCounters") or ():
                _canonicalise_counters(consumption)
        for counters in spec.get("sharedCounters") or ():
            _canonicalise_counters(counters)

    def validate(self, item: Object) -> list[FieldError]:
        return slice_spec_errors(item.get("spec") or {})

    def validate_update(self, item: Object, old: Object) -> list[FieldError]:
        return slice_update_errors(item.get("spec") or {}, old.get("spec") or {})


def _default_capacity(capacity: Object) -> None:
    capacity["value"] = _canonical(capacity.get("value", "0"))
    policy = capacity.get("requestPolicy") or {}
    if "default" in policy:
        policy["default"] = _canonical(policy["default"])
    if "validValues" in policy:
        policy["validValues"] = [_canonical(value) for value in policy["validValues"]]
    _canonicalise(policy.get("validRange"))


def _canonicalise_counters(holder: Object) -> None:
    for counter in (holder.get("counters") or {}).values():
        counter["value"] = _canonical(counter.get("value", "0"))


class _TaintRuleStrategy(Strategy):
    status_keeps_metadata = True

    def default(self, item: Object) -> None:
        taint = item.setdefault("spec", {}).setdefault("taint", {})
        taint.setdefault("timeAdded", now())

    def prepare_for_update(self, item: Object, old: Object) -> None:
        """The time of a taint follows its effect, unless the client says otherwise."""
        taint, before = item["spec"]["taint"], old["spec"]["taint"]
        same_time = taint["timeAdded"] == before.get("timeAdded")
        if taint.get("effect") != before.get("effect") and same_time:
            taint["timeAdded"] = now()

    def validate(self, item: Object) -> list[FieldError]:
        spec = item["spec"]
        selector, path = spec.get("deviceSelector") or {}, "spec.deviceSelector"
        errors = list[FieldError]()
        for name, check in (
            ("driver", driver_name_errors),
            ("pool", pool_name_errors),
            ("device", label_name_errors),
        ):
            if name in selector:
                errors += check(selector[name], f"{path}.{name}")
        return errors + list(taint_errors(spec["taint"], "spec.taint"))

    def validate_status_update(self, item: Object, old: Object) -> list[FieldError]:
        conditions = (item.get("status") or {}).get("conditions") or ()
        return list(condition_errors(conditions, "status.conditions"))


RESOURCES = (
    Resource(
        _GROUP,
        "v1",
        "deviceclasses",
        "DeviceClass",
        namespaced=False,
        counts_generation=True,
        returns_deleted=True,
        strategy=_ClassStrategy(),
    ),
    Resource(
        _GROUP,
        "v1",
        "devicetaintrules",
        "DeviceTaintRule",
        namespaced=False,
        subresources=(STATUS,),
        counts_generation=True,
        strategy=_TaintRuleStrategy(),
        columns=(
            NAME,
            Column("Key", at("spec.taint.key")),
            Column("Value", at("spec.taint.value")),
            Column("Effect", at("spec.taint.effect")),
            Column("TimeAdded", lambda rule: age(rule["spec"]["taint"].get("timeAdded"))),
            AGE,
        ),
        merge={"DeviceTaintRuleStatus": CONDITIONS},
    ),
    Resource(
        _GROUP,
        "v1",
        "resourceclaims",
        "ResourceClaim",
        subresources=(STATUS,),
        returns_deleted=True,
        strategy=_ClaimStrategy(),
        columns=(NAME, Column("State", claim_state), AGE),
        merge={
            "ResourceClaimStatus": {
                "devices": keyed_for_apply(
                    "driver", "device", "pool", "shareID", type="AllocatedDeviceStatus"
                ),
                "reservedFor": keyed("uid"),
            },
            "AllocatedDeviceStatus": {"conditions": keyed_for_apply("type")},
        },
    ),
    Resource(
        _GROUP,
        "v1",
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
        returns_deleted=True,
        strategy=_ClaimTemplateStrategy(),
    ),
    Resource(
        _GROUP,
        "v1",
        "resourceslices",
        "ResourceSlice",
        namespaced=False,
        field_labels={"spec.nodeName": "spec.nodeName", "spec.driver": "spec.driver"},
        counts_generation=True,
        returns_deleted=True,
        strategy=_SliceStrategy(),
        columns=(
            NAME,
            Column("Node", at("spec.nodeName")),
            Column("Driver", at("spec.driver")),
            Column("Pool", at("spec.pool.name")),
            AGE,
        ),
    ),
)
