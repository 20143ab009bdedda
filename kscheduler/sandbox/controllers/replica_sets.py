"""ReplicaSets and ReplicationControllers: as many pods as wanted.

Mirrors pkg/controller/replicaset. Differs: pods of other ReplicaSets of one Deployment do not count
when pods to delete are ranked by how many share their node.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from typing import ClassVar

from kscheduler.api.labels import Selector, selector_from_labels
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.controllers.controller import is_deleting, with_condition
from kscheduler.sandbox.controllers.owned_pods import BURST, PodController, PodRecord
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.metadata import find_condition
from kscheduler.sandbox.resources import REPLICA_SETS, REPLICATION_CONTROLLERS
from kscheduler.sandbox.store import Key, Object

_PHASE_RANK = {"Pending": 0, "Unknown": 1, "Running": 2}


class ReplicaSetController(PodController):
    """Creates and deletes pods of ReplicaSets, and counts them."""

    name = "replicaset-controller"
    resource: ClassVar[Resource] = REPLICA_SETS

    def sync(self, key: Key) -> None:
        owner = self.find(self.resource, key)
        if owner is None:
            return
        active = [pod for pod in self.claim(owner) if pod.is_active]
        wanted = owner["spec"].get("replicas", 1)
        failure: StatusError | None = None
        surplus = len(active) - wanted
        if not is_deleting(owner):
            if surplus > 0:
                for pod in pods_to_delete(active)[: min(surplus, BURST)]:
                    self.delete_pod(owner, pod)
            try:
                for _ in range(min(-surplus, BURST)):
                    self.create_pod(owner, owner["spec"].get("template") or {})
            except StatusError as error:
                failure = error
        self.write_status(self.resource, owner, self._status(owner, surplus, failure))
        if failure is not None:
            raise failure

    def _status(self, owner: Object, surplus: int, failure: StatusError | None) -> Object:
        pods = self.pods.owned_by(owner["metadata"]["uid"])
        active = [pod for pod in pods if pod.is_active]
        spec, before = owner["spec"], owner.get("status") or {}
        min_ready = spec.get("minReadySeconds", 0)
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        ready = [pod for pod in active if pod.is_ready]
        available = [pod for pod in ready if pod.is_available(min_ready)]
        if len(available) < len(ready):
            self.mark_later(_key(owner), min_ready)
        counts = {
            "fullyLabeledReplicas": sum(labels.items() <= pod.labels.items() for pod in active),
            "readyReplicas": len(ready),
            "availableReplicas": len(available),
        }
        conditions = [one for one in before.get("conditions") or () if one["type"] != _FAILURE]
        if failure is not None:
            reason = "FailedCreate" if surplus < 0 else "FailedDelete"
            known = find_condition(before, _FAILURE)
            if known is not None and known["reason"] == reason:
                conditions = [*conditions, known]  # its message names another pod each time
            else:
                conditions = with_condition(conditions, _FAILURE, "True", reason, str(failure))
        return {
            "replicas": len(active),
            **{name: count for name, count in counts.items() if count},
            "observedGeneration": owner["metadata"].get("generation", 0),
            **({"conditions": conditions} if conditions else {}),
        }


_FAILURE = "ReplicaFailure"


class ReplicationControllerController(ReplicaSetController):
    """The older kind, whose selector is a map of labels."""

    name = "replication-controller"
    resource: ClassVar[Resource] = REPLICATION_CONTROLLERS

    def selector_of(self, owner: Object) -> Selector:
        return selector_from_labels((owner.get("spec") or {}).get("selector") or {"": ""})


def pods_to_delete(active: list[PodRecord]) -> list[PodRecord]:
    """Active pods, those first whose end costs least (ActivePodsWithRanks)."""
    neighbours = Counter(pod.node for pod in active if pod.node)
    now = time.time()

    def rank(pod: PodRecord) -> tuple[object, ...]:
        ready_for = 0.0 if pod.ready_since is None else max(now - pod.ready_since, 0.0)
        return (
            bool(pod.node),
            _PHASE_RANK.get(pod.phase, 1),
            pod.is_ready,
            pod.deletion_cost,
            -neighbours[pod.node],
            # Ages are compared by their logarithm: pods of about the same age are alike.
            math.floor(math.log2(ready_for + 1)),
            [-ord(letter) for letter in pod.created],  # newest first
            pod.key,
        )

    return sorted(active, key=rank)


def _key(owner: Object) -> Key:
    return owner["metadata"]["namespace"], owner["metadata"]["name"]
