"""Deployments: a ReplicaSet per pod template, and the steps from one to the next.

Mirrors pkg/controller/deployment: rolling updates within maxSurge and maxUnavailable, Recreate,
proportional scaling in the middle of a rollout, revisions and their history, pausing, progress and
its deadline. Differs: the hash in the names of ReplicaSets is another one.

    template changed ──▶ new ReplicaSet ──▶ new up, old down, step by step ──▶ complete
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from kscheduler.api.decode import convert, decoder_for
from kscheduler.api.labels import compile_selector
from kscheduler.api.meta import ApiObject, LabelSelector
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.controllers.controller import (
    Controller,
    controller_reference,
    is_deleting,
    percent_of,
    seconds_since,
    with_condition,
)
from kscheduler.sandbox.controllers.owned_pods import PodIndex
from kscheduler.sandbox.controllers.revisions import hash_of
from kscheduler.sandbox.deletion import DeleteOptions, delete
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.metadata import find_condition, now
from kscheduler.sandbox.registry import Registry, typed
from kscheduler.sandbox.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from kscheduler.sandbox.store import Change, Key, Listener, Object

HASH_LABEL = "pod-template-hash"
_PREFIX = "deployment.kubernetes.io/"
REVISION, HISTORY = f"{_PREFIX}revision", f"{_PREFIX}revision-history"
DESIRED, MOST = f"{_PREFIX}desired-replicas", f"{_PREFIX}max-replicas"
# Annotations of a Deployment that its ReplicaSets do not get.
_KEPT = ("kubectl.kubernetes.io/last-applied-configuration", REVISION, HISTORY, DESIRED, MOST)
_NO_DEADLINE = 2**31 - 1
_decode_metadata = decoder_for(ApiObject)


class DeploymentController(Controller):
    """Creates, scales and deletes ReplicaSets of Deployments."""

    name = "deployment-controller"

    def __init__(self, registry: Registry, pods: PodIndex) -> None:
        super().__init__(registry)
        self._pods = pods
        # ReplicaSets by the uid of their controller, and those without one by namespace.
        self._sets: defaultdict[str, dict[Key, None]] = defaultdict(dict)
        self._orphans: defaultdict[str, dict[Key, None]] = defaultdict(dict)
        self._place: dict[Key, tuple[defaultdict[str, dict[Key, None]], str]] = {}

    def listeners(self) -> Iterable[tuple[Resource, Listener]]:
        return (
            (REPLICA_SETS, self._set_changed),
            (DEPLOYMENTS, lambda change: self.mark(change.stored.key)),
            (PODS, self._pod_changed),
        )

    def _set_changed(self, change: Change) -> None:
        key = change.stored.key
        if (place := self._place.pop(key, None)) is not None:
            place[0][place[1]].pop(key, None)
        owner = _decode_metadata(change.stored.body).metadata.controller
        if change.type != "DELETED":
            place = (self._orphans, key[0]) if owner is None else (self._sets, owner.uid)
            place[0][place[1]][key] = None
            self._place[key] = place
        if owner is not None and owner.kind == "Deployment":
            self.mark((key[0], owner.name))
        elif owner is None and change.type != "DELETED":
            for deployment in self._registry.collection(DEPLOYMENTS).keys(key[0]):
                self.mark(deployment)

    def _pod_changed(self, change: Change) -> None:
        """Recreate waits for the last pod of the former ReplicaSets."""
        if change.type == "DELETED" and b'"ownerReferences"' in change.stored.body:
            owner = _decode_metadata(change.stored.body).metadata.controller
            if owner is not None and owner.kind == "ReplicaSet":
                key = (change.stored.key[0], owner.name)
                stored = self._registry.collection(REPLICA_SETS).get(key)
                above = _decode_metadata(stored.body).metadata.controller if stored else None
                if above is not None:
                    self.mark((key[0], above.name))

    def sync(self, key: Key) -> None:
        deployment = self.find(DEPLOYMENTS, key)
        if deployment is None:
            return
        if deployment["spec"].get("selector") is None:
            return
        sets = self._claim_sets(deployment)
        if is_deleting(deployment):
            self._write_status(deployment, sets, _new_set(deployment, sets))
            return
        if deployment["spec"].get("paused") or _is_scaling(deployment, sets):
            new = self._revised(deployment, sets, create=False)
            self._scale(deployment, sets, new)
        elif deployment["spec"]["strategy"].get("type") == "Recreate":
            new = self._recreate(deployment, sets)
        else:
            new = self._revised(deployment, sets, create=True)
            assert new is not None
            if not self._grow_new(deployment, sets, new):
                self._shrink_old(deployment, sets, new)
        self._clean_up(deployment, sets, new)
        self._write_status(deployment, sets, new)

    # ReplicaSets

    def _claim_sets(self, deployment: Object) -> list[Object]:
        """The ReplicaSets of a Deployment, oldest first, with those it adopts."""
        about = deployment["metadata"]
        selector = compile_selector(convert(deployment["spec"]["selector"], LabelSelector))
        reference = controller_reference(DEPLOYMENTS, deployment)
        for key in list(self._orphans.get(about["namespace"], ())):
            stored = self._registry.collection(REPLICA_SETS).get(key)
            if stored is None or is_deleting(deployment) or not selector.matches(stored.labels):
                continue

            def adopt(item: Object) -> None:
                item["metadata"].setdefault("ownerReferences", []).append(reference)

            self.edit(REPLICA_SETS, stored.decode(), adopt)
        found = []
        for key in list(self._sets.get(about["uid"], ())):
            item = self.find(REPLICA_SETS, key)
            if item is not None:
                found.append(item)
        return sorted(found, key=_age)

    def _update_set(self, item: Object, change: Any) -> None:
        """Change a ReplicaSet as stored, and the copy that is worked with."""
        stored = self.edit(REPLICA_SETS, item, change)
        item.clear()
        item.update(typed(REPLICA_SETS, stored))

    def _scale_set(self, deployment: Object, item: Object, replicas: int) -> bool:
        """Have a ReplicaSet this many pods; says whether that is news."""
        before, wanted = item["spec"].get("replicas", 1), deployment["spec"]["replicas"]
        marks = {DESIRED: str(wanted), MOST: str(wanted + _max_surge(deployment))}
        known = item["metadata"].get("annotations") or {}
        if before == replicas and marks.items() <= known.items():
            return False

        def change(current: Object) -> None:
            current["spec"]["replicas"] = replicas
            about = current["metadata"]
            about["annotations"] = {**(about.get("annotations") or {}), **marks}

        self._update_set(item, change)
        if before == replicas:
            return False
        direction = "up" if replicas > before else "down"
        name = item["metadata"]["name"]
        message = f"Scaled {direction} replica set {name} from {before} to {replicas}"
        self.report(DEPLOYMENTS, deployment, "ScalingReplicaSet", message)
        return True

    def _revised(self, deployment: Object, sets: list[Object], *, create: bool) -> Object | None:
        """The ReplicaSet of the current template, made if need be, with the newest revision."""
        new = _new_set(deployment, sets)
        revision = 1 + max((_revision(one) for one in sets if one is not new), default=0)
        if new is None and create:
            new = self._create_set(deployment, sets, revision)
        if new is None:
            return None
        wanted = {**_copied_annotations(deployment), REVISION: str(revision)}
        known = new["metadata"].get("annotations") or {}
        before = _revision(new)
        if before > revision:
            wanted[REVISION] = str(before)
        elif before and before < revision:
            history = [*filter(None, known.get(HISTORY, "").split(",")), str(before)]
            wanted[HISTORY] = ",".join(history)
        min_ready = deployment["spec"].get("minReadySeconds", 0)
        if not wanted.items() <= known.items() or (
            new["spec"].get("minReadySeconds", 0) != min_ready
        ):

            def annotate(current: Object) -> None:
                about = current["metadata"]
                about["annotations"] = {**(about.get("annotations") or {}), **wanted}
                current["spec"]["minReadySeconds"] = min_ready

            self._update_set(new, annotate)
        shown = (deployment["metadata"].get("annotations") or {}).get(REVISION)
        if shown != wanted[REVISION]:

            def show(current: Object) -> None:
                about = current["metadata"]
                about["annotations"] = {
                    **(about.get("annotations") or {}),
                    REVISION: wanted[REVISION],
                }

            stored = self.edit(DEPLOYMENTS, deployment, show)
            deployment["metadata"] = stored.decode()["metadata"]
        return new

    def _create_set(self, deployment: Object, sets: list[Object], revision: int) -> Object:
        about, spec = deployment["metadata"], deployment["spec"]
        collisions = (deployment.get("status") or {}).get("collisionCount", 0)
        digest = hash_of(spec["template"], collisions)
        template = msgspec.json.decode(msgspec.json.encode(spec["template"]))
        labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: digest}
        template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
        selector = {**spec["selector"]}
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}
        new: Object = {
            "metadata": {
                "name": f"{about['name']}-{digest}",
                "namespace": about["namespace"],
                "labels": labels,
                "annotations": {
                    **_copied_annotations(deployment),
                    REVISION: str(revision),
                    DESIRED: str(spec["replicas"]),
                    MOST: str(spec["replicas"] + _max_surge(deployment)),
                },
                "ownerReferences": [controller_reference(DEPLOYMENTS, deployment)],
            },
            "spec": {
                "replicas": 0,
                "minReadySeconds": spec.get("minReadySeconds", 0),
                "selector": selector,
                "template": template,
            },
        }
        new["spec"]["replicas"] = _next_replicas(deployment, sets, new)
        try:
            stored = self._registry.create(REPLICA_SETS, about["namespace"], new)
        except StatusError as error:
            if error.reason == "AlreadyExists":  # of another template, or not ours
                state = dict(deployment.get("status") or {})
                state["collisionCount"] = collisions + 1
                self.write_status(DEPLOYMENTS, deployment, state)
            else:
                state = dict(deployment.get("status") or {})
                state["conditions"] = with_condition(
                    state.get("conditions") or (),
                    "Progressing",
                    "False",
                    "ReplicaSetCreateError",
                    f'Failed to create new replica set "{new["metadata"]["name"]}": {error}',
                    lastUpdateTime=now(),
                )
                state["observedGeneration"] = about.get("generation", 0)
                self.write_status(DEPLOYMENTS, deployment, state)
            raise
        created = typed(REPLICA_SETS, stored)
        sets.append(created)
        count = created["spec"]["replicas"]
        if count:
            message = f"Scaled up replica set {stored.key[1]} from 0 to {count}"
            self.report(DEPLOYMENTS, deployment, "ScalingReplicaSet", message)
        return created

    # Rollouts

    def _grow_new(self, deployment: Object, sets: list[Object], new: Object) -> bool:
        wanted, has = deployment["spec"]["replicas"], new["spec"].get("replicas", 1)
        replicas = wanted if has >= wanted else _next_replicas(deployment, sets, new)
        return self._scale_set(deployment, new, replicas)

    def _shrink_old(self, deployment: Object, sets: list[Object], new: Object) -> None:
        """Scale down what the new pods make up for: first the unhealthy, then the available."""
        old = [one for one in sets if one is not new and one["spec"].get("replicas", 1)]
        if not old:
            return
        least = deployment["spec"]["replicas"] - _max_unavailable(deployment)
        total = sum(one["spec"].get("replicas", 1) for one in sets)
        unavailable = new["spec"].get("replicas", 1) - _available(new)
        budget = total - least - unavailable
        if budget <= 0:
            return
        for one in old:
            has = one["spec"].get("replicas", 1)
            unhealthy = min(budget, has - _available(one))
            if unhealthy > 0:
                budget -= unhealthy
                self._scale_set(deployment, one, has - unhealthy)
        # A status may still count pods that are to go, but the numbers that are wanted do not.
        budget = min(budget, sum(map(_available, sets)) - least)
        for one in old:
            has = one["spec"].get("replicas", 1)
            if budget > 0 and has:
                step = min(has, budget)
                budget -= step
                self._scale_set(deployment, one, has - step)

    def _recreate(self, deployment: Object, sets: list[Object]) -> Object | None:
        new = self._revised(deployment, sets, create=False)
        scaled = [
            self._scale_set(deployment, one, 0)
            for one in sets
            if one is not new and one["spec"].get("replicas", 1)
        ]
        still = any(
            pod.phase not in ("Succeeded", "Failed")
            for one in sets
            if one is not new
            for pod in self._pods.owned_by(one["metadata"]["uid"])
        )
        if any(scaled) or still:
            return new
        new = self._revised(deployment, sets, create=True)
        assert new is not None
        self._scale_set(deployment, new, deployment["spec"]["replicas"])
        return new

    def _scale(self, deployment: Object, sets: list[Object], new: Object | None) -> None:
        """Another number of replicas, in the middle of a rollout or while it is paused."""
        active = [one for one in sets if one["spec"].get("replicas", 1)]
        only: Object | None = None
        if len(active) == 1:
            only = active[0]
        elif not active:
            only = new or (sets[-1] if sets else None)
        wanted = deployment["spec"]["replicas"]
        if only is not None:
            self._scale_set(deployment, only, wanted)
            return
        if new is not None and _is_saturated(deployment, new):
            for one in active:
                if one is not new:
                    self._scale_set(deployment, one, 0)
            return
        if deployment["spec"]["strategy"].get("type") == "Recreate" or not active:
            return
        # Shared out in proportion to what each has; the largest takes what rounding left.
        most = wanted + _max_surge(deployment) if wanted > 0 else 0
        total = sum(one["spec"].get("replicas", 1) for one in active)
        to_add = most - total
        largest = sorted(active, key=lambda one: (-one["spec"].get("replicas", 1), _age(one)))
        left, sizes = to_add, []
        for one in largest:
            has = one["spec"].get("replicas", 1)
            before = int((one["metadata"].get("annotations") or {}).get(MOST) or total)
            share = round(has * most / (before or 1)) - has
            share = min(share, left) if to_add > 0 else max(share, left)
            left -= share
            sizes.append(has + share)
        sizes[0] += left
        for one, size in zip(largest, sizes, strict=True):
            self._scale_set(deployment, one, max(size, 0))

    def _clean_up(self, deployment: Object, sets: list[Object], new: Object | None) -> None:
        """Forget ReplicaSets beyond the limit of the history, once the rollout is done."""
        limit = deployment["spec"].get("revisionHistoryLimit", _NO_DEADLINE)
        if limit == _NO_DEADLINE or not _is_complete(deployment, sets, new):
            return
        old = sorted((one for one in sets if one is not new), key=_revision)
        for one in old[: max(len(old) - limit, 0)]:
            state = one.get("status") or {}
            if state.get("replicas") or one["spec"].get("replicas", 1) or is_deleting(one):
                continue
            about = one["metadata"]
            delete(self._registry, REPLICA_SETS, about["namespace"], about["name"], DeleteOptions())
            sets.remove(one)

    # Status

    def _write_status(self, deployment: Object, sets: list[Object], new: Object | None) -> None:
        spec, before = deployment["spec"], deployment.get("status") or {}
        states = [one.get("status") or {} for one in sets]
        available = sum(state.get("availableReplicas", 0) for state in states)
        total = sum(one["spec"].get("replicas", 1) for one in sets)
        counts = {
            "replicas": sum(state.get("replicas", 0) for state in states),
            "updatedReplicas": ((new or {}).get("status") or {}).get("replicas", 0),
            "readyReplicas": sum(state.get("readyReplicas", 0) for state in states),
            "availableReplicas": available,
            "unavailableReplicas": max(total - available, 0),
            "collisionCount": before.get("collisionCount", 0),
        }
        conditions = list(before.get("conditions") or ())
        enough = available >= spec["replicas"] - _max_unavailable(deployment)
        state_of = {True: ("True", "MinimumReplicasAvailable", "has"), False: _UNAVAILABLE}[enough]
        value, reason, verb = state_of
        message = f"Deployment {verb} minimum availability."
        conditions = _with(conditions, "Available", value, reason, message)
        failures = [
            failure
            for state in states
            if (failure := find_condition(state, "ReplicaFailure")) is not None
        ]
        conditions = [one for one in conditions if one["type"] != "ReplicaFailure"]
        if failures:
            failure = failures[-1]
            conditions = _with(
                conditions, "ReplicaFailure", "True", failure["reason"], failure["message"]
            )
        conditions = self._progress(deployment, counts, conditions, new)
        status: Object = {
            "observedGeneration": deployment["metadata"].get("generation", 0),
            **{name: count for name, count in counts.items() if count},
        }
        if conditions:
            status["conditions"] = conditions
        self.write_status(DEPLOYMENTS, deployment, status)

    def _progress(
        self,
        deployment: Object,
        counts: dict[str, int],
        conditions: list[Object],
        new: Object | None,
    ) -> list[Object]:
        """The condition Progressing: the rollout moves, is complete, or has taken too long."""
        spec, before = deployment["spec"], deployment.get("status") or {}
        deadline = spec.get("progressDeadlineSeconds", _NO_DEADLINE)
        current = find_condition({"conditions": conditions}, "Progressing")
        if deadline == _NO_DEADLINE:
            return [one for one in conditions if one["type"] != "Progressing"]
        if spec.get("paused"):
            return _with(
                conditions, "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused"
            )
        if current is not None and current["reason"] == "DeploymentPaused":
            current = None
            conditions = _with(
                conditions, "Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed"
            )
        name = new["metadata"]["name"] if new is not None else deployment["metadata"]["name"]
        what = f'ReplicaSet "{name}"' if new is not None else f'Deployment "{name}"'
        wanted = spec["replicas"]
        complete = (
            counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == wanted
        )
        done = (
            current is not None
            and current["reason"] == "NewReplicaSetAvailable"
            and counts["replicas"] == counts["updatedReplicas"]
        )
        if done:
            return conditions
        if complete:
            return _with(
                conditions,
                "Progressing",
                "True",
                "NewReplicaSetAvailable",
                f"{what} has successfully progressed.",
            )

        def old(state: dict[str, int]) -> int:
            return state.get("replicas", 0) - state.get("updatedReplicas", 0)

        moved = old(counts) < old(before) or any(
            counts[part] > before.get(part, 0)
            for part in ("updatedReplicas", "readyReplicas", "availableReplicas")
        )
        if moved or current is None:
            message = f"{what} is progressing."
            return _with(conditions, "Progressing", "True", "ReplicaSetUpdated", message)
        if current["reason"] == "ProgressDeadlineExceeded":
            return conditions
        since = seconds_since(current.get("lastUpdateTime") or current["lastTransitionTime"])
        if since > deadline:
            message = f"{what} has timed out progressing."
            return _with(conditions, "Progressing", "False", "ProgressDeadlineExceeded", message)
        about = deployment["metadata"]
        self.mark_later((about["namespace"], about["name"]), deadline - since + 1)
        return conditions


_UNAVAILABLE = ("False", "MinimumReplicasUnavailable", "does not have")


def _with(
    conditions: list[Object], kind: str, value: str, reason: str, message: str
) -> list[Object]:
    """Set a condition; its update time moves when anything about it does."""
    before = find_condition({"conditions": conditions}, kind)
    same = before is not None and (before["status"], before.get("reason"), before.get("message"))
    if same == (value, reason, message):
        return conditions
    return with_condition(conditions, kind, value, reason, message, lastUpdateTime=now())


def _new_set(deployment: Object, sets: list[Object]) -> Object | None:
    """The oldest ReplicaSet with the Deployment's template."""
    wanted = _without_hash(deployment["spec"].get("template") or {})
    for one in sets:
        if _without_hash(one["spec"].get("template") or {}) == wanted:
            return one
    return None


def _without_hash(template: Object) -> Object:
    about = template.get("metadata") or {}
    labels = {key: value for key, value in (about.get("labels") or {}).items() if key != HASH_LABEL}
    metadata = {
        part: value
        for part, value in about.items()
        if part not in ("creationTimestamp", "labels") and value
    }
    return {**template, "metadata": {**metadata, "labels": labels}}


def _is_scaling(deployment: Object, sets: list[Object]) -> bool:
    wanted = deployment["spec"]["replicas"]
    for one in sets:
        desired = (one["metadata"].get("annotations") or {}).get(DESIRED)
        if one["spec"].get("replicas", 1) and desired is not None and int(desired) != wanted:
            return True
    return False


def _is_saturated(deployment: Object, item: Object) -> bool:
    wanted = deployment["spec"]["replicas"]
    desired = (item["metadata"].get("annotations") or {}).get(DESIRED)
    return (
        item["spec"].get("replicas", 1) == wanted
        and desired == str(wanted)
        and _available(item) == wanted
    )


def _is_complete(deployment: Object, sets: list[Object], new: Object | None) -> bool:
    wanted = deployment["spec"]["replicas"]
    total = sum((one.get("status") or {}).get("replicas", 0) for one in sets)
    return new is not None and total == wanted and _available(new) == wanted


def _next_replicas(deployment: Object, sets: list[Object], new: Object) -> int:
    """Replicas of the new ReplicaSet: as many more as maxSurge leaves room for."""
    wanted = deployment["spec"]["replicas"]
    if deployment["spec"]["strategy"].get("type") == "Recreate":
        return wanted
    has = new["spec"].get("replicas", 1)
    total = sum(one["spec"].get("replicas", 1) for one in sets)
    room = wanted + _max_surge(deployment) - total
    return has + min(room, wanted - has) if room > 0 else has


def _max_surge(deployment: Object) -> int:
    return _fence_posts(deployment)[0]


def _max_unavailable(deployment: Object) -> int:
    return _fence_posts(deployment)[1]


def _fence_posts(deployment: Object) -> tuple[int, int]:
    """maxSurge and maxUnavailable as numbers of pods, of which one at least is not 0."""
    spec = deployment["spec"]
    wanted, rolling = spec["replicas"], (spec.get("strategy") or {}).get("rollingUpdate")
    if rolling is None:
        return 0, 0
    surge = percent_of(rolling.get("maxSurge", "25%"), wanted, round_up=True)
    unavailable = percent_of(rolling.get("maxUnavailable", "25%"), wanted, round_up=False)
    if not surge and not unavailable:
        unavailable = 1
    return surge, min(unavailable, wanted)


def _available(item: Object) -> int:
    return int((item.get("status") or {}).get("availableReplicas", 0))


def _revision(item: Object) -> int:
    text = (item["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(text) if text.isdigit() else 0


def _copied_annotations(deployment: Object) -> dict[str, str]:
    known = deployment["metadata"].get("annotations") or {}
    return {name: value for name, value in known.items() if name not in _KEPT}


def _age(item: Object) -> tuple[str, str]:
    return item["metadata"]["creationTimestamp"], item["metadata"]["name"]
