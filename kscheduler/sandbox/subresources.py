"""Subresources that are not parts of an object: pods/binding, pods/eviction and scale.

Eviction believes disruption budgets as their status says: the sandbox has no controller that keeps
them up to date.
"""

from __future__ import annotations

from typing import Any

from kscheduler.api.decode import convert
from kscheduler.api.labels import compile_selector, selector_from_labels
from kscheduler.api.meta import LabelSelector
from kscheduler.api.validation import dns_subdomain_errors
from kscheduler.rest import fields, status
from kscheduler.rest.fields import FieldError
from kscheduler.sandbox.admission import topology_labels
from kscheduler.sandbox.deletion import DeleteOptions, delete, parse_delete_options
from kscheduler.sandbox.metadata import find_condition, now, set_condition
from kscheduler.sandbox.registry import Registry, wrong_uid
from kscheduler.sandbox.resources import POD_DISRUPTION_BUDGETS, PODS
from kscheduler.sandbox.store import Key, Object, Stored


def bind(
    registry: Registry,
    namespace: str,
    name: str,
    binding: Object,
    *,
    copies_topology: bool = True,
    dry_run: bool = False,
) -> None:
    """Assign a pod to a node for good. Raises what the API server would answer."""
    about = binding.get("metadata") or {}
    if about.get("name", name) != name:
        raise status.bad_request("name in URL does not match name in Binding object")
    target = binding.get("target") or {}
    if errors := _target_errors(target):
        listed = ", ".join(map(str, errors))
        raise status.StatusError(500, "", listed if len(errors) == 1 else f"[{listed}]")
    key = (namespace, name)
    stored = registry.get(PODS, namespace, name)
    pod = stored.decode()
    _check_identity(key, about, pod)
    if why := _bind_refusal(pod):
        raise status.conflict(PODS, name, why, kind="pods/binding")
    labels = dict(about.get("labels") or {})
    if copies_topology:
        labels |= topology_labels(registry.store, target["name"])
    if not dry_run:
        pod["spec"]["nodeName"] = target["name"]
        metadata = pod["metadata"]
        for part, added in (("annotations", about.get("annotations")), ("labels", labels)):
            if added:
                metadata[part] = {**(metadata.get(part) or {}), **added}
        # A nomination ends with the binding, whichever node it was for.
        pod["status"].pop("nominatedNodeName", None)
        set_condition(pod["status"], "PodScheduled", "True")
        registry.replace(PODS, key, pod)


def _target_errors(target: dict[str, Any]) -> list[FieldError]:
    kind, name = target.get("kind") or "", target.get("name") or ""
    errors = []
    if kind not in ("", "Node"):
        errors.append(fields.not_supported("target.kind", kind, ("Node", "<empty>")))
    if not name:
        errors.append(fields.required("target.name"))
    elif kind in ("", "Node"):
        errors += [fields.invalid("target.name", name, why) for why in dns_subdomain_errors(name)]
    return errors


def _check_identity(key: Key, about: dict[str, Any], pod: Object) -> None:
    found = pod["metadata"]
    wanted = about.get("uid")
    if wanted and wanted != found["uid"]:
        raise status.conflict(PODS, key[1], wrong_uid(PODS, key, wanted, found["uid"]))
    version = about.get("resourceVersion")
    if version and version != found["resourceVersion"]:
        why = (
            f"StorageError: invalid object, Code: 4, Key: /registry/pods/{'/'.join(key)}, "
            "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: ResourceVersion in "
            f"precondition: {version}, ResourceVersion in object meta: {found['resourceVersion']}"
        )
        raise status.conflict(PODS, key[1], why)


def _bind_refusal(pod: Object) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if node := spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{node}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(
    registry: Registry, namespace: str, name: str, eviction: Object, *, dry_run: bool = False
) -> None:
    """Evict a pod, or raise 429 when a budget forbids it."""
    if (eviction.get("metadata") or {}).get("name", name) != name:
        raise status.bad_request("name in URL does not match name in Eviction object")
    stored = registry.get(PODS, namespace, name)
    body = eviction.get("deleteOptions") or {}
    options = parse_delete_options(body, {"dryRun": "All"} if dry_run else {})
    pod = stored.decode()
    finished = pod["status"].get("phase") in ("Succeeded", "Failed", "Pending")
    if not finished and "deletionTimestamp" not in pod["metadata"]:
        _spend_budget(registry, stored, dry_run=options.dry_run)
    if not options.dry_run:
        set_condition(
            pod["status"],
            "DisruptionTarget",
            "True",
            reason="EvictionByEvictionAPI",
            message="Eviction API: evicting",
        )
        registry.replace(PODS, stored.key, pod)
    # The condition has just made a new version, so a precondition on the old one cannot hold.
    unversioned = DeleteOptions(options.grace_period_seconds, options.uid, "", options.dry_run)
    delete(registry, PODS, namespace, name, unversioned)


def _spend_budget(registry: Registry, pod: Stored, *, dry_run: bool) -> None:
    """Take one disruption from the budget that covers the pod, if one does. Raises 429."""
    budgets = []
    for one in registry.collection(POD_DISRUPTION_BUDGETS):
        selector = one.decode()["spec"].get("selector") if one.key[0] == pod.key[0] else None
        if selector is not None and compile_selector(convert(selector, LabelSelector)).matches(
            pod.labels
        ):
            budgets.append(one)
    if len(budgets) > 1:
        message = (
            "This pod has more than one PodDisruptionBudget, "
            "which the eviction subresource does not support."
        )
        raise status.StatusError(500, "", message)
    if not budgets:
        return
    budget = budgets[0].decode()
    if _is_unhealthy_and_free(pod.decode(), budget):
        return
    _check_budget(budget)
    state = budget["status"]
    state["disruptionsAllowed"] -= 1
    state["disruptedPods"] = {**(state.get("disruptedPods") or {}), pod.key[1]: now()}
    if not dry_run:
        registry.replace(POD_DISRUPTION_BUDGETS, budgets[0].key, budget)


def _is_unhealthy_and_free(pod: Object, budget: Object) -> bool:
    """A pod that is not ready may go when that costs its application nothing."""
    ready = find_condition(pod["status"], "Ready")
    if ready is not None and ready["status"] == "True":
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    state = budget.get("status") or {}
    wanted = state.get("desiredHealthy", 0)
    return bool(wanted > 0 and state.get("currentHealthy", 0) >= wanted)


def _check_budget(budget: Object) -> None:
    name, state = budget["metadata"]["name"], budget.setdefault("status", {})
    if state.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        detail = f"The disruption budget {name} is still being processed by the server."
        raise status.too_many_requests(_REFUSED, _cause(detail), retry_after=10)
    if state.get("disruptionsAllowed", 0) <= 0:
        wanted, healthy = state.get("desiredHealthy", 0), state.get("currentHealthy", 0)
        detail = f"The disruption budget {name} does not allow evicting pods currently"
        if healthy <= wanted:
            detail = (
                f"The disruption budget {name} needs {wanted} healthy pods "
                f"and has {healthy} currently"
            )
        raise status.too_many_requests(_REFUSED, _cause(detail))


def _cause(message: str) -> dict[str, str]:
    return {"reason": "DisruptionBudget", "message": message}


_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(workload: Object) -> Object:
    """The Scale of a workload: its replicas without the rest of it."""
    about, spec = workload["metadata"], workload["spec"]
    state: Object = {"replicas": (workload.get("status") or {}).get("replicas", 0)}
    selector = spec.get("selector")
    if selector is not None:
        if "matchLabels" in selector or "matchExpressions" in selector:
            text = str(compile_selector(convert(selector, LabelSelector)))
        else:  # of a ReplicationController
            text = str(selector_from_labels(selector))
        if text:
            state["selector"] = text
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: about[name] for name in _METADATA if name in about},
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": state,
    }


def with_scale(workload: Object, scale: Object) -> Object:
    """The workload with the replicas a Scale asks for, if it is the version that was seen."""
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version:
        workload["metadata"]["resourceVersion"] = version
    workload["spec"]["replicas"] = (scale.get("spec") or {}).get("replicas", 0)
    return workload
