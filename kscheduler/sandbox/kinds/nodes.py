"""Nodes: allocatable from capacity, well-formed taints."""

from __future__ import annotations

from kscheduler.api.validation import label_key_errors, label_value_errors
from kscheduler.sandbox import fields
from kscheduler.sandbox.fields import FieldError
from kscheduler.sandbox.kinds.quantities import canonicalise, quantity_errors
from kscheduler.sandbox.store import Object
from kscheduler.sandbox.strategy import Strategy

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

# Fields that Go never leaves out, so that clients see them even of a node nobody reported on.
_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
_TIMES = ("lastHeartbeatTime", "lastTransitionTime")


def _default(node: Object) -> None:
    node.setdefault("spec", {})
    state = node.setdefault("status", {})
    canonicalise(state.get("capacity"))
    if "capacity" in state:
        state.setdefault("allocatable", dict(state["capacity"]))
    canonicalise(state.get("allocatable"))
    _show_zeros(state)


def _show_zeros(state: Object) -> None:
    for condition in state.get("conditions") or ():
        for time in _TIMES:
            condition.setdefault(time, None)
    endpoints = state.get("daemonEndpoints") or {}
    kubelet = {"Port": 0} | (endpoints.get("kubeletEndpoint") or {})
    state["daemonEndpoints"] = endpoints | {"kubeletEndpoint": kubelet}
    state["nodeInfo"] = dict.fromkeys(_NODE_INFO, "") | (state.get("nodeInfo") or {})


def _errors(node: Object) -> list[FieldError]:
    return _taint_errors(node) + _quantity_errors(node)


def _quantity_errors(node: Object) -> list[FieldError]:
    return [
        error
        for part in ("capacity", "allocatable")
        for name, quantity in (node["status"].get(part) or {}).items()
        for error in quantity_errors(name, quantity, f"status.{part}.{name}")
    ]


def _taint_errors(node: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for position, taint in enumerate(node["spec"].get("taints") or ()):
        path = f"metadata.taints[{position}]"  # upstream's path, not the field's
        key, value = taint.get("key", ""), taint.get("value", "")
        errors += [fields.invalid(f"{path}.key", key, why) for why in label_key_errors(key)]
        if why := label_value_errors(value):
            errors.append(fields.invalid(f"{path}.value", value, ";".join(why)))
        effect = taint.get("effect", "")
        if not effect:
            errors.append(fields.required(f"{path}.effect"))
        elif effect not in _EFFECTS:
            errors.append(fields.not_supported(f"{path}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            detail = "taints must be unique by key and effect pair"
            errors.append(fields.FieldError("FieldValueDuplicate", path, taint, detail))
        seen.add((key, effect))
    return errors


def _update_errors(node: Object, old: Object) -> list[FieldError]:
    had, wanted = old["spec"].get("providerID"), node["spec"].get("providerID")
    if had and not wanted:
        return [fields.invalid("spec.providerID", None, "field cannot be cleared once set")]
    if had and had != wanted:
        return [fields.invalid("spec.providerID", None, "field cannot be modified once set")]
    return []


def _status_errors(node: Object, old: Object) -> list[FieldError]:
    del old
    return _quantity_errors(node)


STRATEGY = Strategy(
    default=_default,
    validate=_errors,
    validate_update=_update_errors,
    validate_status=_status_errors,
    keeps_status_on_create=True,
)
