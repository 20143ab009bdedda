"""Kinds with a default or a rule or two: classes, claims for devices, leases, secrets."""

from __future__ import annotations

from base64 import b64encode

from kscheduler.api.quantity import Amount
from kscheduler.sandbox import fields
from kscheduler.sandbox.fields import FieldError
from kscheduler.sandbox.kinds.quantities import canonicalise, decode
from kscheduler.sandbox.metadata import IMMUTABLE, now
from kscheduler.sandbox.store import Object
from kscheduler.sandbox.strategy import Strategy

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


def _default_priority_class(item: Object) -> None:
    item.setdefault("preemptionPolicy", "PreemptLowerPriority")
    item.setdefault("value", 0)


def _priority_class_errors(item: Object) -> list[FieldError]:
    name, value = item["metadata"].get("name", ""), item["value"]
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) != value:
            detail = "priority class names with 'system-' prefix are reserved for system use only"
            return [fields.forbidden("metadata.name", detail)]
    elif value > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        return [fields.forbidden("value", detail)]
    return []


def _priority_class_kept(item: Object, old: Object) -> list[FieldError]:
    errors = []
    if item["value"] != old["value"]:
        errors.append(fields.forbidden("value", "may not be changed in an update."))
    if item["preemptionPolicy"] != old["preemptionPolicy"]:
        wanted = item["preemptionPolicy"]
        errors.append(fields.invalid("preemptionPolicy", wanted, IMMUTABLE))
    return errors


def _default_storage_class(item: Object) -> None:
    item.setdefault("reclaimPolicy", "Delete")
    item.setdefault("volumeBindingMode", "Immediate")


def _default_driver(item: Object) -> None:
    spec = item.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("storageCapacity", False)
    spec.setdefault("requiresRepublish", False)
    spec.setdefault("volumeLifecycleModes", ["Persistent"])


def _default_device_requests(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        alternatives = request.get("firstAvailable") or ()
        for one in filter(None, (request.get("exactly"), *alternatives)):
            one.setdefault("allocationMode", "ExactCount")
            if one["allocationMode"] == "ExactCount":
                one.setdefault("count", 1)
            for toleration in one.get("tolerations") or ():
                toleration.setdefault("operator", "Equal")


def _default_claim(claim: Object) -> None:
    _default_device_requests(claim.setdefault("spec", {}))


def _claim_kept(claim: Object, old: Object) -> list[FieldError]:
    wanted = claim["spec"]
    return [] if wanted == old["spec"] else [fields.invalid("spec", wanted, IMMUTABLE)]


def _default_claim_template(template: Object) -> None:
    _default_device_requests(template.setdefault("spec", {}).setdefault("spec", {}))


def _default_slice(item: Object) -> None:
    for device in (item.get("spec") or {}).get("devices") or ():
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", now())


def _default_taint_rule(rule: Object) -> None:
    taint = rule.setdefault("spec", {}).get("taint")
    if taint is not None:
        taint.setdefault("timeAdded", now())


def _default_secret(secret: Object) -> None:
    secret.setdefault("type", "Opaque")
    if text := secret.pop("stringData", None):
        coded = {name: b64encode(value.encode()).decode() for name, value in text.items()}
        secret["data"] = {**(secret.get("data") or {}), **coded}


def _default_limit_range(item: Object) -> None:
    for limit in (item.get("spec") or {}).get("limits") or ():
        for name in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            canonicalise(limit.get(name))


def _default_storage_capacity(item: Object) -> None:
    """Not part of a resource list, and therefore not rounded."""
    for name in ("capacity", "maximumVolumeSize"):
        if item.get(name) is not None:
            amount = decode(item[name])
            item[name] = str(Amount(amount.nanos, amount.format))


def _default_resource_quota(item: Object) -> None:
    canonicalise((item.get("spec") or {}).get("hard"))
    state = item.get("status") or {}
    canonicalise(state.get("hard"))
    canonicalise(state.get("used"))


def _lease_errors(lease: Object) -> list[FieldError]:
    spec = lease.get("spec") or {}
    errors = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        errors.append(
            fields.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
        )
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        detail = "must be greater than or equal to 0"
        errors.append(fields.invalid("spec.leaseTransitions", transitions, detail))
    return errors


STRATEGIES: dict[str, Strategy] = {
    "csistoragecapacities.storage.k8s.io": Strategy(default=_default_storage_capacity),
    "limitranges": Strategy(default=_default_limit_range),
    "resourcequotas": Strategy(default=_default_resource_quota),
    "priorityclasses.scheduling.k8s.io": Strategy(
        default=_default_priority_class,
        validate=_priority_class_errors,
        validate_update=_priority_class_kept,
    ),
    "storageclasses.storage.k8s.io": Strategy(default=_default_storage_class),
    "csidrivers.storage.k8s.io": Strategy(default=_default_driver),
    "csinodes.storage.k8s.io": Strategy(status_keeps_metadata=True),
    "volumeattachments.storage.k8s.io": Strategy(
        status_keeps_metadata=True, initial_status=lambda: {"attached": False}
    ),
    "resourceclaims.resource.k8s.io": Strategy(
        default=_default_claim, validate_update=_claim_kept, status_keeps_metadata=True
    ),
    "resourceclaimtemplates.resource.k8s.io": Strategy(
        default=_default_claim_template, validate_update=_claim_kept
    ),
    "resourceslices.resource.k8s.io": Strategy(default=_default_slice),
    "devicetaintrules.resource.k8s.io": Strategy(
        default=_default_taint_rule, status_keeps_metadata=True
    ),
    "podgroups.scheduling.k8s.io": Strategy(status_keeps_metadata=True),
    "secrets": Strategy(default=_default_secret),
    "leases.coordination.k8s.io": Strategy(validate=_lease_errors),
}
