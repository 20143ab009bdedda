"""Disruption budgets: how many pods may be evicted now.

Mirrors pkg/controller/disruption: pods are counted by the budget's selector, expected ones by the
scale of their controllers. An eviction that is granted counts for two minutes, until the pod is
seen to go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kscheduler.api.decode import convert
from kscheduler.api.labels import Selector, compile_selector
from kscheduler.api.meta import LabelSelector, OwnerReference
from kscheduler.api.timestamps import parse_time
from kscheduler.sandbox.controllers.controller import (
    Controller,
    percent_of,
    seconds_since,
    with_condition,
)
from kscheduler.sandbox.controllers.owned_pods import PodIndex, PodRecord
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import BY_KIND, POD_DISRUPTION_BUDGETS, PODS
from kscheduler.sandbox.store import Change, Key, Listener, Object

EVICTION_SECONDS = 120.0
_SCALABLE = ("ReplicaSet", "Deployment", "StatefulSet", "ReplicationController")


class DisruptionController(Controller):
    """Keeps the status of PodDisruptionBudgets."""

    name = "disruption-controller"

    def __init__(self, registry: Registry, pods: PodIndex) -> None:
        super().__init__(registry)
        self._pods = pods
        self._selectors: defaultdict[str, dict[Key, Selector]] = defaultdict(dict)

    def listeners(self) -> Iterable[tuple[Resource, Listener]]:
        scalable = [BY_KIND["apps/v1", kind] for kind in _SCALABLE[:3]]
        return (
            (POD_DISRUPTION_BUDGETS, self._budget_changed),
            (PODS, self._pod_changed),
            *((resource, self._scale_changed) for resource in scalable),
        )

    def _budget_changed(self, change: Change) -> None:
        key = change.stored.key
        if change.type == "DELETED":
            self._selectors[key[0]].pop(key, None)
            return
        selector = (change.stored.decode().get("spec") or {}).get("selector")
        # An empty selector is matched by all pods of the namespace, none by no pod.
        wanted = None if selector is None else convert(selector, LabelSelector)
        self._selectors[key[0]][key] = compile_selector(wanted)
        self.mark(key)

    def _pod_changed(self, change: Change) -> None:
        for key, selector in self._selectors.get(change.stored.key[0], {}).items():
            before = change.previous
            if selector.matches(change.stored.labels) or (
                before is not None and selector.matches(before.labels)
            ):
                self.mark(key)

    def _scale_changed(self, change: Change) -> None:
        for key in self._selectors.get(change.stored.key[0], ()):
            self.mark(key)

    def sync(self, key: Key) -> None:
        budget = self.find(POD_DISRUPTION_BUDGETS, key)
        if budget is None:
            return
        selector = self._selectors[key[0]][key]
        pods = [
            pod
            for stored in self._registry.collection(PODS).keys(key[0])
            if (pod := self._pods.pods[stored]) and selector.matches(pod.labels)
        ]
        pods = [pod for pod in pods if pod.phase not in ("Succeeded", "Failed")]
        before = budget.get("status") or {}
        evicted = self._evictions(key, before.get("disruptedPods") or {})
        healthy = [
            pod for pod in pods if pod.is_ready and not pod.deleting and pod.key[1] not in evicted
        ]
        try:
            expected, desired = self._expected(budget, pods)
        except LookupError as error:
            why = str(error.args[0])
            conditions = with_condition(
                before.get("conditions") or (), _ALLOWED, "False", "SyncFailed", why
            )
            status = {**before, "disruptionsAllowed": 0, "conditions": conditions}
            self.write_status(POD_DISRUPTION_BUDGETS, budget, status)
            return
        allowed = max(len(healthy) - desired, 0) if expected > 0 else 0
        word = "SufficientPods" if allowed else "InsufficientPods"
        generation = budget["metadata"].get("generation", 0)
        conditions = with_condition(
            before.get("conditions") or (), _ALLOWED, "True" if allowed else "False", word, ""
        )
        for one in conditions:
            one["observedGeneration"] = generation
        status = {
            "observedGeneration": generation,
            "disruptionsAllowed": allowed,
            "currentHealthy": len(healthy),
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": conditions,
            **({"disruptedPods": evicted} if evicted else {}),
        }
        self.write_status(POD_DISRUPTION_BUDGETS, budget, status)

    def _evictions(self, key: Key, known: dict[str, str]) -> dict[str, str]:
        """Evictions granted lately, of pods that are not seen to go yet."""
        left = {}
        for name, moment in known.items():
            pod = self._pods.pods.get((key[0], name))
            if pod is None or pod.deleting:
                continue
            age = seconds_since(moment) if parse_time(moment) else EVICTION_SECONDS
            if age < EVICTION_SECONDS:
                left[name] = moment
                self.mark_later(key, EVICTION_SECONDS - age)
        return left

    def _expected(self, budget: Object, pods: list[PodRecord]) -> tuple[int, int]:
        """Pods that should exist, and how many of them have to be healthy."""
        spec = budget["spec"]
        most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
        if most is not None:
            expected = self._scale_of(pods)
            return expected, max(expected - percent_of(most, expected, round_up=True), 0)
        if isinstance(least, str):
            expected = self._scale_of(pods)
            return expected, percent_of(least, expected, round_up=True)
        return len(pods), int(least or 0)

    def _scale_of(self, pods: list[PodRecord]) -> int:
        """The sum of the replicas of all controllers of these pods."""
        scales: dict[str, int] = {}
        for pod in pods:
            owner = pod.owner
            if owner is None:
                raise LookupError(f'found no controller ref for pod "{pod.key[1]}"')
            if owner.uid not in scales:
                uid, replicas = self._replicas(pod.key[0], owner)
                scales[owner.uid] = 0
                scales[uid] = replicas
        return sum(scales.values())

    def _replicas(self, namespace: str, owner: OwnerReference) -> tuple[str, int]:
        """Uid and replicas of an owner; a Deployment answers for its ReplicaSets."""
        resource = BY_KIND.get((owner.api_version, owner.kind))
        item = self.find(resource, (namespace, owner.name)) if resource is not None else None
        if item is None or owner.kind not in _SCALABLE:
            raise LookupError(f"{owner.kind.lower()}s do not implement the scale subresource")
        for above in item["metadata"].get("ownerReferences") or ():
            if above.get("controller") and above["kind"] == "Deployment":
                deployment = self.find(BY_KIND["apps/v1", "Deployment"], (namespace, above["name"]))
                if deployment is not None:
                    return above["uid"], deployment["spec"].get("replicas", 1)
        return owner.uid, item["spec"].get("replicas", 1)


_ALLOWED = "DisruptionAllowed"
