"""The group resource.k8s.io: device classes, claims, slices and taint rules."""

from __future__ import annotations

from kscheduler.sandbox import fields
from kscheduler.sandbox.fields import FieldError
from kscheduler.sandbox.kinds.merging import CONDITIONS, keyed, keyed_for_apply
from kscheduler.sandbox.kinds.printers import AGE, NAME, Column, claim_state
from kscheduler.sandbox.kinds.resource import STATUS, Resource, Strategy
from kscheduler.sandbox.metadata import IMMUTABLE, now
from kscheduler.sandbox.store import Object

_GROUP = "resource.k8s.io"


def _default_device_requests(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        alternatives = request.get("firstAvailable") or ()
        for one in filter(None, (request.get("exactly"), *alternatives)):
            one.setdefault("allocationMode", "ExactCount")
            if one["allocationMode"] == "ExactCount":
                one.setdefault("count", 1)
            for toleration in one.get("tolerations") or ():
                toleration.setdefault("operator", "Equal")


class _ClaimTemplateStrategy(Strategy):
    def default(self, item: Object) -> None:
        _default_device_requests(item.setdefault("spec", {}).setdefault("spec", {}))

    def validate_update(self, item: Object, old: Object) -> list[FieldError]:
        wanted = item["spec"]
        return [] if wanted == old["spec"] else [fields.invalid("spec", wanted, IMMUTABLE)]


class _ClaimStrategy(_ClaimTemplateStrategy):
    status_keeps_metadata = True

    def default(self, item: Object) -> None:
        _default_device_requests(item.setdefault("spec", {}))


class _SliceStrategy(Strategy):
    def default(self, item: Object) -> None:
        for device in (item.get("spec") or {}).get("devices") or ():
            for taint in device.get("taints") or ():
                taint.setdefault("timeAdded", now())


class _TaintRuleStrategy(Strategy):
    status_keeps_metadata = True

    def default(self, item: Object) -> None:
        taint = item.setdefault("spec", {}).get("taint")
        if taint is not None:
            taint.setdefault("timeAdded", now())


RESOURCES = (
    Resource(
        _GROUP,
        "v1",
        "deviceclasses",
        "DeviceClass",
        namespaced=False,
        counts_generation=True,
        returns_deleted=True,
    ),
    Resource(
        _GROUP,
        "v1",
        "devicetaintrules",
        "DeviceTaintRule",
        namespaced=False,
        subresources=(STATUS,),
        counts_generation=True,
        returns_deleted=True,
        strategy=_TaintRuleStrategy(),
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
    ),
)
