"""Volumes and claims, and the group storage.k8s.io."""

from __future__ import annotations

from typing import Any

from kscheduler.api.quantity import Amount
from kscheduler.rest import fields
from kscheduler.rest.fields import FieldError
from kscheduler.rest.tables import AGE, NAME, Column, at
from kscheduler.sandbox.kinds.merging import CONDITIONS, SET, keyed
from kscheduler.sandbox.kinds.printers import access_modes, bound_claim
from kscheduler.sandbox.kinds.quantities import canonicalise, canonicalise_requirements, decode
from kscheduler.sandbox.kinds.resource import STATUS, Resource, Strategy
from kscheduler.sandbox.metadata import now
from kscheduler.sandbox.store import Object

_GROUP = "storage.k8s.io"
_CLAIM_CHANGES = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName "
    "for bound claims"
)
_CHANGEABLE_IN_CLAIMS = ("resources", "volumeAttributesClassName")


class _VolumeStrategy(Strategy):
    def default(self, item: Object) -> None:
        spec = item.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        canonicalise(spec.get("capacity"))

    def validate(self, item: Object) -> list[FieldError]:
        spec = item["spec"]
        errors = []
        if not spec.get("accessModes"):
            errors.append(fields.required("spec.accessModes"))
        if not spec.get("capacity"):
            errors.append(fields.required("spec.capacity"))
        return errors

    def prepare_for_status_update(self, item: Object, old: Object) -> None:
        state, before = item.setdefault("status", {}), old.get("status") or {}
        if state.get("phase") != before.get("phase"):
            state["lastPhaseTransitionTime"] = now()
        elif "lastPhaseTransitionTime" in before:
            state.setdefault("lastPhaseTransitionTime", before["lastPhaseTransitionTime"])

    def initial_status(self) -> Object:
        return {"phase": "Pending", "lastPhaseTransitionTime": now()}


def default_claim(claim: Object) -> None:
    """Fill in a claim, be it an object or in a StatefulSet's template."""
    default_claim_spec(claim.setdefault("spec", {}))
    state = claim.setdefault("status", {})
    state.setdefault("phase", "Pending")
    canonicalise(state.get("capacity"))
    canonicalise(state.get("allocatedResources"))


def default_claim_spec(spec: dict[str, Any]) -> None:
    """Fill in the spec of a claim, or of an ephemeral volume's template."""
    spec.setdefault("volumeMode", "Filesystem")
    canonicalise_requirements(spec.get("resources"))


class _ClaimStrategy(Strategy):
    def default(self, item: Object) -> None:
        default_claim(item)

    def validate(self, item: Object) -> list[FieldError]:
        spec = item["spec"]
        errors = []
        if not spec.get("accessModes"):
            errors.append(fields.required("spec.accessModes", "at least 1 access mode is required"))
        if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
            errors.append(fields.required("spec.resources[storage]"))
        return errors

    def validate_update(self, item: Object, old: Object) -> list[FieldError]:
        """A claim is bound by setting volumeName once; after that only its size may grow."""
        wanted, had = (
            {name: value for name, value in spec.items() if name not in _CHANGEABLE_IN_CLAIMS}
            for spec in (item["spec"], old["spec"])
        )
        if not had.get("volumeName"):
            had["volumeName"] = wanted.get("volumeName")
            had.setdefault("storageClassName", wanted.get("storageClassName"))
            wanted.setdefault("storageClassName", None)
            wanted.setdefault("volumeName", None)
        return [] if wanted == had else [fields.forbidden("spec", _CLAIM_CHANGES)]

    def initial_status(self) -> Object:
        return {"phase": "Pending"}


class _ClassStrategy(Strategy):
    def default(self, item: Object) -> None:
        item.setdefault("reclaimPolicy", "Delete")
        item.setdefault("volumeBindingMode", "Immediate")


class _DriverStrategy(Strategy):
    def default(self, item: Object) -> None:
        spec = item.setdefault("spec", {})
        spec.setdefault("attachRequired", True)
        spec.setdefault("podInfoOnMount", False)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        spec.setdefault("storageCapacity", False)
        spec.setdefault("requiresRepublish", False)
        spec.setdefault("volumeLifecycleModes", ["Persistent"])


class _CSINodeStrategy(Strategy):
    status_keeps_metadata = True


class _CapacityStrategy(Strategy):
    def default(self, item: Object) -> None:
        # Not part of a resource list, and therefore not rounded to thousandths.
        for name in ("capacity", "maximumVolumeSize"):
            if item.get(name) is not None:
                amount = decode(item[name])
                item[name] = str(Amount(amount.nanos, amount.format))


class _AttachmentStrategy(Strategy):
    status_keeps_metadata = True

    def initial_status(self) -> Object:
        return {"attached": False}


CORE_RESOURCES = (
    Resource(
        "",
        "v1",
        "persistentvolumes",
        "PersistentVolume",
        namespaced=False,
        short_names=("pv",),
        subresources=(STATUS,),
        returns_deleted=True,
        strategy=_VolumeStrategy(),
        columns=(
            NAME,
            Column("Capacity", at("spec.capacity.storage")),
            Column("Access Modes", access_modes),
            Column("Reclaim Policy", at("spec.persistentVolumeReclaimPolicy")),
            Column("Status", at("status.phase")),
            Column("Claim", bound_claim),
            Column("StorageClass", at("spec.storageClassName")),
            AGE,
        ),
    ),
    Resource(
        "",
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        short_names=("pvc",),
        subresources=(STATUS,),
        returns_deleted=True,
        strategy=_ClaimStrategy(),
        columns=(
            NAME,
            Column("Status", at("status.phase")),
            Column("Volume", at("spec.volumeName")),
            Column("Capacity", at("status.capacity.storage")),
            Column("Access Modes", access_modes),
            Column("StorageClass", at("spec.storageClassName")),
            AGE,
        ),
        merge={"PersistentVolumeClaimStatus": CONDITIONS},
    ),
)
RESOURCES = (
    Resource(
        _GROUP,
        "v1",
        "storageclasses",
        "StorageClass",
        namespaced=False,
        short_names=("sc",),
        returns_deleted=True,
        strategy=_ClassStrategy(),
        columns=(
            NAME,
            Column("Provisioner", at("provisioner")),
            Column("ReclaimPolicy", at("reclaimPolicy")),
            Column("VolumeBindingMode", at("volumeBindingMode")),
            AGE,
        ),
    ),
    Resource(
        _GROUP,
        "v1",
        "csinodes",
        "CSINode",
        namespaced=False,
        subresources=(STATUS,),
        updates_unconditionally=False,
        returns_deleted=True,
        strategy=_CSINodeStrategy(),
        merge={
            "CSINodeSpec": {"drivers": keyed("name")},
            "CSINodeStatus": {"storageHealth": keyed("name")},
        },
    ),
    Resource(
        _GROUP,
        "v1",
        "csidrivers",
        "CSIDriver",
        namespaced=False,
        updates_unconditionally=False,
        returns_deleted=True,
        strategy=_DriverStrategy(),
        merge={"CSIDriverSpec": {"volumeLifecycleModes": SET}},
    ),
    Resource(
        _GROUP,
        "v1",
        "csistoragecapacities",
        "CSIStorageCapacity",
        updates_unconditionally=False,
        strategy=_CapacityStrategy(),
    ),
    Resource(
        _GROUP,
        "v1",
        "volumeattachments",
        "VolumeAttachment",
        namespaced=False,
        subresources=(STATUS,),
        updates_unconditionally=False,
        returns_deleted=True,
        strategy=_AttachmentStrategy(),
    ),
    Resource(
        _GROUP,
        "v1",
        "volumeattributesclasses",
        "VolumeAttributesClass",
        namespaced=False,
        short_names=("vac",),
        returns_deleted=True,
    ),
)
