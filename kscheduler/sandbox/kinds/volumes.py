"""Volumes and claims: their defaults, and the phases they start in."""

from __future__ import annotations

from typing import Any

from kscheduler.sandbox import fields
from kscheduler.sandbox.fields import FieldError
from kscheduler.sandbox.kinds.quantities import canonicalise, canonicalise_requirements
from kscheduler.sandbox.metadata import now
from kscheduler.sandbox.store import Object
from kscheduler.sandbox.strategy import Strategy

_CLAIM_CHANGES = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName "
    "for bound claims"
)


def _default_volume(volume: Object) -> None:
    spec = volume.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    canonicalise(spec.get("capacity"))


def _volume_errors(volume: Object) -> list[FieldError]:
    spec = volume["spec"]
    errors = []
    if not spec.get("accessModes"):
        errors.append(fields.required("spec.accessModes"))
    if not spec.get("capacity"):
        errors.append(fields.required("spec.capacity"))
    return errors


def _prepare_volume_status(volume: Object, old: Object) -> None:
    state, before = volume.setdefault("status", {}), old.get("status") or {}
    if state.get("phase") != before.get("phase"):
        state["lastPhaseTransitionTime"] = now()
    elif "lastPhaseTransitionTime" in before:
        state.setdefault("lastPhaseTransitionTime", before["lastPhaseTransitionTime"])


def default_claim(claim: Object) -> None:
    default_claim_spec(claim.setdefault("spec", {}))
    state = claim.setdefault("status", {})
    state.setdefault("phase", "Pending")
    canonicalise(state.get("capacity"))
    canonicalise(state.get("allocatedResources"))


def default_claim_spec(spec: dict[str, Any]) -> None:
    """Of a claim, or of a template for claims."""
    spec.setdefault("volumeMode", "Filesystem")
    canonicalise_requirements(spec.get("resources"))


def _claim_errors(claim: Object) -> list[FieldError]:
    spec = claim["spec"]
    errors = []
    if not spec.get("accessModes"):
        errors.append(fields.required("spec.accessModes", "at least 1 access mode is required"))
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        errors.append(fields.required("spec.resources[storage]"))
    return errors


def _claim_update_errors(claim: Object, old: Object) -> list[FieldError]:
    """A claim is bound by setting volumeName once; after that only its size may grow."""
    wanted, had = _comparable(claim["spec"]), _comparable(old["spec"])
    if not had.get("volumeName"):
        had["volumeName"] = wanted.get("volumeName")
        had.setdefault("storageClassName", wanted.get("storageClassName"))
        wanted.setdefault("storageClassName", None)
        wanted.setdefault("volumeName", None)
    return [] if wanted == had else [fields.forbidden("spec", _CLAIM_CHANGES)]


def _comparable(spec: dict[str, Any]) -> dict[str, Any]:
    changeable = ("resources", "volumeAttributesClassName")
    return {name: value for name, value in spec.items() if name not in changeable}


STRATEGIES: dict[str, Strategy] = {
    "persistentvolumes": Strategy(
        default=_default_volume,
        validate=_volume_errors,
        prepare_status=_prepare_volume_status,
        initial_status=lambda: {"phase": "Pending", "lastPhaseTransitionTime": now()},
    ),
    "persistentvolumeclaims": Strategy(
        default=default_claim,
        validate=_claim_errors,
        validate_update=_claim_update_errors,
        initial_status=lambda: {"phase": "Pending"},
    ),
}
