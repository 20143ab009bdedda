"""Pods: how the API server prepares one for the scheduler, and what may still change after that."""

from __future__ import annotations

from typing import Any

from kscheduler.api.quantity import Amount, parse
from kscheduler.api.resource_names import is_pod_level
from kscheduler.sandbox.kinds.conditions import set_condition
from kscheduler.sandbox.kinds.pod_defaults import default_pod
from kscheduler.sandbox.kinds.pod_updates import status_errors, update_errors
from kscheduler.sandbox.kinds.pod_validation import pod_errors
from kscheduler.sandbox.kinds.qos import qos_class
from kscheduler.sandbox.store import Object
from kscheduler.sandbox.strategy import Strategy

_SPEC_AFFINITIES = ("podAffinity", "podAntiAffinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_KEPT_STATUSES = (
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
    "qosClass",
    "observedGeneration",
)


def _prepare_create(pod: Object) -> None:
    spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
    if spec.get("schedulingGates"):
        set_condition(
            pod["status"],
            "PodScheduled",
            "False",
            reason="SchedulingGated",
            message="Scheduling is blocked due to non-empty scheduling gates",
        )
    _merge_label_keys(spec, labels)
    _default_pod_level_requests(spec)
    pod["status"]["qosClass"] = qos_class(spec)


def _merge_label_keys(spec: dict[str, Any], labels: dict[str, str]) -> None:
    """Write matchLabelKeys and mismatchLabelKeys out as expressions of the selectors."""
    affinity = spec.get("affinity") or {}
    terms = list(spec.get("topologySpreadConstraints") or ())
    for kind in _SPEC_AFFINITIES:
        rules = affinity.get(kind) or {}
        terms += [weighted["podAffinityTerm"] for weighted in rules.get(_PREFERRED) or ()]
        terms += rules.get(_REQUIRED) or ()
    for term in terms:
        selector = term.get("labelSelector")
        if selector is None:  # matches nothing, whatever is added
            continue
        for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            added = [
                {"key": key, "operator": operator, "values": [labels[key]]}
                for key in term.get(keys) or ()
                if key in labels
            ]
            if added:
                selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


def _default_pod_level_requests(spec: dict[str, Any]) -> None:
    """Pod-level limits without requests: ask for what the containers ask, else for the limit."""
    resources = spec.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return
    requests = dict(resources.get("requests") or {})
    for name, amount in _container_totals(spec).items():
        if name in ("cpu", "memory") and name not in requests:
            requests[name] = str(amount)
    for name, limit in limits.items():
        if is_pod_level(name):
            requests.setdefault(name, limit)
    resources["requests"] = requests


def _container_totals(spec: dict[str, Any]) -> dict[str, Amount]:
    running: dict[str, Amount] = {}
    starting: dict[str, Amount] = {}
    for container in spec.get("containers") or ():
        _add(running, container)
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            _add(running, container)
        else:
            for name, quantity in (container["resources"].get("requests") or {}).items():
                starting[name] = max(starting.get(name, Amount(0)), parse(quantity))
    return {
        name: max(running.get(name, Amount(0)), starting.get(name, Amount(0)))
        for name in {*running, *starting}
    }


def _add(total: dict[str, Amount], container: dict[str, Any]) -> None:
    for name, quantity in (container["resources"].get("requests") or {}).items():
        total[name] = total.get(name, Amount(0)) + parse(quantity)


def _prepare_status(pod: Object, old: Object) -> None:
    state, before = pod.setdefault("status", {}), old.get("status") or {}
    if "ownerReferences" in old["metadata"]:
        pod["metadata"]["ownerReferences"] = old["metadata"]["ownerReferences"]
    for name in _KEPT_STATUSES:
        if name in before:
            state.setdefault(name, before[name])
    observed = {
        one["type"]: one.get("observedGeneration") for one in before.get("conditions") or ()
    }
    for condition in state.get("conditions") or ():
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)
        if observed.get(condition["type"]) and not condition.get("observedGeneration"):
            condition["observedGeneration"] = observed[condition["type"]]
    if address := state.get("podIP"):
        if not any(one.get("ip") == address for one in state.get("podIPs") or ()):
            state["podIPs"] = [{"ip": address}]
    elif state.get("podIPs"):
        state["podIP"] = state["podIPs"][0]["ip"]


def _grace(pod: Object, seconds: int | None) -> int:
    """Bound pods get their grace period; others have nothing to shut down."""
    period = seconds
    if period is None:
        period = pod["spec"].get("terminationGracePeriodSeconds", 0)
    finished = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    if not pod["spec"].get("nodeName") or finished:
        return 0
    return 1 if period < 0 else period


def _only_resources(pod: Object, old: Object) -> None:
    """pods/resize: nothing but the containers' and the pod's resources may change."""
    spec = pod["spec"]
    pod["metadata"] = {**old["metadata"], "resourceVersion": pod["metadata"]["resourceVersion"]}
    pod["spec"] = dict(old["spec"])
    for part in ("containers", "initContainers"):
        wanted = {one["name"]: one for one in spec.get(part) or ()}
        if part in old["spec"]:
            pod["spec"][part] = [
                {**one, **_named(wanted.get(one["name"], one), "resources", "resizePolicy")}
                for one in old["spec"][part]
            ]
    if "resources" in spec:
        pod["spec"]["resources"] = spec["resources"]


def _only_ephemeral_containers(pod: Object, old: Object) -> None:
    added = pod["spec"].get("ephemeralContainers")
    pod["spec"] = dict(old["spec"])
    if added:
        pod["spec"]["ephemeralContainers"] = added


def _named(item: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: item[name] for name in names if name in item}


STRATEGY = Strategy(
    default=default_pod,
    prepare_create=_prepare_create,
    prepare_status=_prepare_status,
    validate=pod_errors,
    validate_update=update_errors,
    validate_status=status_errors,
    grace=_grace,
    initial_status=lambda: {"phase": "Pending"},
    parts={"resize": _only_resources, "ephemeralcontainers": _only_ephemeral_containers},
)
