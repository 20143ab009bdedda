"""StatefulSets: numbered pods, one after the other, with claims of their own.

Mirrors pkg/controller/statefulset: OrderedReady and Parallel, claims from volumeClaimTemplates,
rolling updates from the last ordinal down to the partition, OnDelete. Differs: maxUnavailable is
1, and claims stay when pods and sets go, whatever persistentVolumeClaimRetentionPolicy says.
"""

from __future__ import annotations

import time
from typing import ClassVar

from kscheduler.rest.status import StatusError
from kscheduler.sandbox.controllers.controller import is_deleting
from kscheduler.sandbox.controllers.owned_pods import BURST, PodController, PodIndex, PodRecord
from kscheduler.sandbox.controllers.revisions import (
    REVISION_LABEL,
    current_revision,
    hash_label,
)
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import CLAIMS, CONTROLLER_REVISIONS, STATEFUL_SETS
from kscheduler.sandbox.store import Key, Object

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
# Between claims and the pod that uses them. On a real cluster each takes a request, so a scheduler,
# which watches both, hears of the claims first; made in one step, the pod may be the faster one.
CLAIM_LEAD_SECONDS = 0.02


class StatefulSetController(PodController):
    """Creates, replaces and deletes pods of StatefulSets in the order of their numbers."""

    name = "statefulset-controller"
    resource: ClassVar[Resource] = STATEFUL_SETS

    def __init__(self, registry: Registry, pods: PodIndex) -> None:
        super().__init__(registry, pods)
        # When the latest claims of a set were created, on the monotonic clock.
        self._claims_created_at: dict[Key, float] = {}

    def sync(self, key: Key) -> None:
        owner = self.find(self.resource, key)
        if owner is None:
            self._claims_created_at.pop(key, None)
            return
        pods = {
            ordinal: pod
            for pod in self.claim(owner)
            if (ordinal := _ordinal(key[1], pod.key[1])) is not None
        }
        update = current_revision(self._registry, self.resource, owner)
        current = self._current(owner, update)
        if not is_deleting(owner):
            try:
                self._advance(owner, pods, current, update)
            finally:
                self._write_status(owner, current, update)
        else:
            self._write_status(owner, current, update)

    def _current(self, owner: Object, update: Object) -> Object:
        """The revision of pods that are not updated yet."""
        name = (owner.get("status") or {}).get("currentRevision", "")
        key = (owner["metadata"]["namespace"], name)
        return self.find(CONTROLLER_REVISIONS, key) or update

    def _advance(
        self, owner: Object, pods: dict[int, PodRecord], current: Object, update: Object
    ) -> None:
        """All that can be done now: with OrderedReady, up to the first pod that is not ready."""
        spec = owner["spec"]
        first = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(first, first + spec.get("replicas", 1))
        ordered = spec.get("podManagementPolicy") != "Parallel"
        min_ready = spec.get("minReadySeconds", 0)
        # Pods that were created, or have got their claims and wait a moment.
        begun = 0
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is not None and pod.phase in ("Succeeded", "Failed") and not pod.deleting:
                self.delete_pod(owner, pod)
                pod = self.pods.pods.get(pod.key)
            if pod is None:
                if begun == BURST:
                    self.mark_later(_key(owner), self._claim_lead_seconds(owner))
                    return
                if self._create_claims(owner, ordinal):
                    self._claims_created_at[_key(owner)] = time.monotonic()
                if lead := self._claim_lead_seconds(owner):
                    self.mark_later(_key(owner), lead)
                else:
                    self._create(owner, ordinal, current, update)
                begun += 1
                if ordered:
                    return
            elif ordered and not self._is_healthy(owner, pod, min_ready):
                return
            else:
                self._create_claims(owner, ordinal)
        condemned = [pod for ordinal, pod in sorted(pods.items()) if ordinal not in wanted]
        for pod in reversed(condemned):
            if not pod.deleting:
                self.delete_pod(owner, pod)
            if ordered:
                return
        strategy = spec.get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        for ordinal in reversed(wanted):
            pod = pods.get(ordinal)
            if ordinal < partition or pod is None:
                return
            if pod.labels.get(REVISION_LABEL) != hash_label(update) and not pod.deleting:
                self.delete_pod(owner, pod)
                return
            if not self._is_healthy(owner, pod, min_ready):
                return

    def _is_healthy(self, owner: Object, pod: PodRecord, min_ready: float) -> bool:
        if pod.is_ready and not pod.is_available(min_ready):
            self.mark_later(_key(owner), min_ready)
        return pod.is_available(min_ready) and not pod.deleting

    def _create(self, owner: Object, ordinal: int, current: Object, update: Object) -> None:
        about, spec = owner["metadata"], owner["spec"]
        name = f"{about['name']}-{ordinal}"
        rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
        revision = current if ordinal < rolling.get("partition", 0) else update

        def prepare(pod: Object) -> None:
            metadata, pod_spec = pod["metadata"], pod["spec"]
            metadata["labels"] = {
                **(metadata.get("labels") or {}),
                REVISION_LABEL: hash_label(revision),
                POD_NAME_LABEL: name,
                POD_INDEX_LABEL: str(ordinal),
            }
            pod_spec["hostname"] = name
            if service := spec.get("serviceName"):
                pod_spec["subdomain"] = service
            mounted = [
                {
                    "name": volume,
                    "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]},
                }
                for volume, claim in _claims(owner, ordinal)
            ]
            names = {one["name"] for one in mounted}
            others = [one for one in pod_spec.get("volumes") or () if one["name"] not in names]
            if mounted:
                pod_spec["volumes"] = [*others, *mounted]

        template = {**revision["data"]["spec"]["template"]}
        template.pop("$patch", None)
        self.create_pod(owner, template, name=name, prepare=prepare)

    def _create_claims(self, owner: Object, ordinal: int) -> bool:
        """Creates the claims of a pod that are missing; whether there were any."""
        created = False
        for _, claim in _claims(owner, ordinal):
            key = (owner["metadata"]["namespace"], claim["metadata"]["name"])
            if self._registry.collection(CLAIMS).get(key) is not None:
                continue
            try:
                self._registry.create(CLAIMS, key[0], claim)
            except StatusError as error:
                message = f"create Claim {key[1]} failed error: {error}"
                self.report(self.resource, owner, "FailedCreate", message)
                raise
            message = f"create Claim {key[1]} Pod {owner['metadata']['name']}-{ordinal} success"
            self.report(self.resource, owner, "SuccessfulCreate", message)
            created = True
        return created

    def _claim_lead_seconds(self, owner: Object) -> float:
        """How long the pods of a set still have to wait, because claims of it are so new."""
        created_at = self._claims_created_at.get(_key(owner))
        if created_at is None:
            return 0.0
        return max(created_at + CLAIM_LEAD_SECONDS - time.monotonic(), 0.0)

    def _write_status(self, owner: Object, current: Object, update: Object) -> None:
        spec, before = owner["spec"], owner.get("status") or {}
        pods = self.pods.owned_by(owner["metadata"]["uid"])
        min_ready = spec.get("minReadySeconds", 0)
        ready = [pod for pod in pods if pod.is_ready and not pod.deleting]
        updated = [
            pod
            for pod in pods
            if pod.labels.get(REVISION_LABEL) == hash_label(update) and not pod.deleting
        ]
        same = current["metadata"]["name"] == update["metadata"]["name"]
        old = [
            pod
            for pod in pods
            if pod.labels.get(REVISION_LABEL) == hash_label(current) and not pod.deleting
        ]
        name = current["metadata"]["name"]
        wanted = spec.get("replicas", 1)
        # Once all pods are updated, the update is what is current.
        partition = ((spec.get("updateStrategy") or {}).get("rollingUpdate") or {}).get(
            "partition", 0
        )
        if not same and not partition and len(updated) == len(ready) == len(pods) == wanted:
            name, old = update["metadata"]["name"], updated
        status: Object = {
            "observedGeneration": owner["metadata"].get("generation", 0),
            "replicas": len(pods),
            "readyReplicas": len(ready),
            "currentReplicas": len(old),
            "updatedReplicas": len(updated),
            "availableReplicas": sum(pod.is_available(min_ready) for pod in ready),
            "currentRevision": name,
            "updateRevision": update["metadata"]["name"],
            "collisionCount": before.get("collisionCount", 0),
        }
        zero = ("readyReplicas", "currentReplicas", "updatedReplicas")
        for part in zero:
            if not status[part]:
                del status[part]
        self.write_status(self.resource, owner, status)


def _claims(owner: Object, ordinal: int) -> list[tuple[str, Object]]:
    """The claims of one pod, each with the name of the volume it is for."""
    spec = owner["spec"]
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    found = []
    for template in spec.get("volumeClaimTemplates") or ():
        about = template["metadata"]
        name = f"{about['name']}-{owner['metadata']['name']}-{ordinal}"
        metadata = {
            "name": name,
            "labels": {**(about.get("labels") or {}), **labels},
            **({"annotations": about["annotations"]} if about.get("annotations") else {}),
        }
        claim = {"metadata": metadata, "spec": template.get("spec") or {}}
        found.append((about["name"], claim))
    return found


def _ordinal(owner: str, pod: str) -> int | None:
    number = pod.removeprefix(f"{owner}-")
    return int(number) if pod.startswith(f"{owner}-") and number.isdigit() else None


def _key(owner: Object) -> Key:
    return owner["metadata"]["namespace"], owner["metadata"]["name"]
