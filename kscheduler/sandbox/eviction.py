"""Eviction: a deletion that asks the disruption budgets first.

Budgets are believed as their status says; the sandbox has no controller that keeps it up to date.
"""

from __future__ import annotations

from kscheduler.api.decode import convert
from kscheduler.api.labels import compile_selector
from kscheduler.api.meta import LabelSelector
from kscheduler.sandbox import status
from kscheduler.sandbox.deletion import DeleteOptions, delete, parse_delete_options
from kscheduler.sandbox.metadata import find_condition, now, set_condition
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import POD_DISRUPTION_BUDGETS, PODS
from kscheduler.sandbox.store import Object, Stored

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
    if not _needs_no_budget(stored.decode()):
        _spend_budget(registry, stored, dry_run=options.dry_run)
    _mark_and_delete(registry, namespace, name, options)


def _needs_no_budget(pod: Object) -> bool:
    phase = pod["status"].get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _spend_budget(registry: Registry, pod: Stored, *, dry_run: bool) -> None:
    budgets = [one for one in registry.collection(POD_DISRUPTION_BUDGETS) if _covers(one, pod)]
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
    _check(budget)
    state = budget["status"]
    state["disruptionsAllowed"] -= 1
    state["disruptedPods"] = {**(state.get("disruptedPods") or {}), pod.key[1]: now()}
    if not dry_run:
        registry.replace(POD_DISRUPTION_BUDGETS, budgets[0].key, budget)


def _covers(budget: Stored, pod: Stored) -> bool:
    if budget.key[0] != pod.key[0]:
        return False
    selector = budget.decode()["spec"].get("selector")
    return selector is not None and compile_selector(convert(selector, LabelSelector)).matches(
        pod.labels
    )


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


def _check(budget: Object) -> None:
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


def _mark_and_delete(registry: Registry, namespace: str, name: str, options: DeleteOptions) -> None:
    stored = registry.get(PODS, namespace, name)
    if not options.dry_run:
        pod = stored.decode()
        set_condition(
            pod["status"],
            "DisruptionTarget",
            "True",
            reason="EvictionByEvictionAPI",
            message="Eviction API: evicting",
        )
        registry.replace(PODS, stored.key, pod)
    unversioned = DeleteOptions(options.grace_period_seconds, options.uid, "", options.dry_run)
    delete(registry, PODS, namespace, name, unversioned)
