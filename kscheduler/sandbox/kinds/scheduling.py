"""Scheduling, disruption and coordination: priorities, pod groups, budgets, leases."""

from __future__ import annotations

from kscheduler.rest import fields
from kscheduler.rest.fields import FieldError
from kscheduler.rest.tables import AGE, NAME, Column, at, count
from kscheduler.sandbox.kinds.merging import ATOMIC, CONDITIONS, keyed
from kscheduler.sandbox.kinds.resource import STATUS, Resource, Strategy
from kscheduler.sandbox.metadata import IMMUTABLE
from kscheduler.sandbox.store import Object

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_GROUP = "scheduling.k8s.io"


class _PriorityClassStrategy(Strategy):
    def default(self, item: Object) -> None:
        item.setdefault("preemptionPolicy", "PreemptLowerPriority")
        item.setdefault("value", 0)

    def validate(self, item: Object) -> list[FieldError]:
        name, value = item["metadata"].get("name", ""), item["value"]
        if name.startswith("system-"):
            if SYSTEM_PRIORITIES.get(name) != value:
                detail = (
                    "priority class names with 'system-' prefix are reserved for system use only"
                )
                return [fields.forbidden("metadata.name", detail)]
        elif value > HIGHEST_USER_PRIORITY:
            detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            return [fields.forbidden("value", detail)]
        return []

    def validate_update(self, item: Object, old: Object) -> list[FieldError]:
        errors = []
        if item["value"] != old["value"]:
            errors.append(fields.forbidden("value", "may not be changed in an update."))
        if item["preemptionPolicy"] != old["preemptionPolicy"]:
            wanted = item["preemptionPolicy"]
            errors.append(fields.invalid("preemptionPolicy", wanted, IMMUTABLE))
        return errors


class _PodGroupStrategy(Strategy):
    status_keeps_metadata = True


class _LeaseStrategy(Strategy):
    def validate(self, item: Object) -> list[FieldError]:
        spec = item.get("spec") or {}
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


DISRUPTION_RESOURCES = (
    Resource(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        short_names=("pdb",),
        subresources=(STATUS,),
        counts_generation=True,
        updates_unconditionally=False,
        columns=(
            NAME,
            Column("Min Available", lambda budget: str(at("spec.minAvailable", "N/A")(budget))),
            Column("Max Unavailable", lambda budget: str(at("spec.maxUnavailable", "N/A")(budget))),
            count("Allowed Disruptions", "status.disruptionsAllowed"),
            AGE,
        ),
        merge={
            "PodDisruptionBudgetSpec": {"selector": ATOMIC},
            "PodDisruptionBudgetStatus": CONDITIONS,
        },
    ),
)
RESOURCES = (
    Resource(
        _GROUP,
        "v1",
        "priorityclasses",
        "PriorityClass",
        namespaced=False,
        short_names=("pc",),
        counts_generation=True,
        strategy=_PriorityClassStrategy(),
        columns=(
            NAME,
            count("Value", "value"),
            Column("Global-Default", at("globalDefault", otherwise=False), "boolean"),
            AGE,
            Column("PreemptionPolicy", at("preemptionPolicy")),
        ),
    ),
    Resource(
        _GROUP,
        "v1beta1",
        "podgroups",
        "PodGroup",
        subresources=(STATUS,),
        updates_unconditionally=False,
        strategy=_PodGroupStrategy(),
        merge={
            "PodGroupSpec": {"resourceClaims": keyed("name", retains_keys=True)},
            "PodGroupStatus": CONDITIONS
            | {"resourceClaimStatuses": keyed("name", retains_keys=True)},
        },
    ),
    Resource(
        _GROUP,
        "v1alpha3",
        "compositepodgroups",
        "CompositePodGroup",
        subresources=(STATUS,),
        updates_unconditionally=False,
        merge={"CompositePodGroupStatus": CONDITIONS},
    ),
)
COORDINATION_RESOURCES = (
    Resource(
        "coordination.k8s.io",
        "v1",
        "leases",
        "Lease",
        creates_on_update=True,
        updates_unconditionally=False,
        strategy=_LeaseStrategy(),
        columns=(NAME, Column("Holder", at("spec.holderIdentity")), AGE),
    ),
    Resource("coordination.k8s.io", "v1beta1", "leasecandidates", "LeaseCandidate"),
)
