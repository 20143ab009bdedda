"""Deletion: at once, after a grace period, or when the last finalizer has gone.

A pod on a node is only marked; its kubelet ends it by deleting again with no grace. Garbage
collection of dependents does not happen: propagation policies are accepted and have no effect.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from kscheduler.api.timestamps import format_time, parse_time
from kscheduler.rest import fields, status
from kscheduler.sandbox.admission import IMMORTAL_NAMESPACES
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.metadata import now
from kscheduler.sandbox.registry import Registry, typed
from kscheduler.sandbox.resources import NAMESPACES
from kscheduler.sandbox.store import Object, Stored

_POLICIES = ("Orphan", "Background", "Foreground")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a DELETE."""

    grace_period_seconds: int | None = None
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Deleted:
    """The object after the request; `gone` when nothing of it is left in the store."""

    stored: Stored
    gone: bool


def parse_delete_options(body: dict[str, Any], query: dict[str, str]) -> DeleteOptions:
    """Options from the body, or from the query string when there is no body."""
    stated = {**query, **body}
    policy = stated.get("propagationPolicy")
    if policy is not None and policy not in _POLICIES:
        error = fields.not_supported("propagationPolicy", policy, _POLICIES)
        raise status.invalid("DeleteOptions", "", [error], group="meta.k8s.io")
    grace = stated.get("gracePeriodSeconds")
    preconditions = body.get("preconditions") or {}
    return DeleteOptions(
        None if grace is None else int(grace),
        preconditions.get("uid") or "",
        preconditions.get("resourceVersion") or "",
        bool(stated.get("dryRun")),
    )


def delete(
    registry: Registry, resource: Resource, namespace: str, name: str, options: DeleteOptions
) -> Deleted:
    """Delete one object, or take the next step towards it."""
    stored = registry.get(resource, namespace, name)
    item = typed(resource, stored)
    _check_preconditions(resource, item, options)
    if resource is not NAMESPACES:
        return _Deletion(registry, resource, stored, item, options).proceed()
    # A namespace is only marked Terminating; the namespace controller empties and removes it.
    if name in IMMORTAL_NAMESPACES:
        raise status.forbidden(NAMESPACES, name, "this namespace may not be deleted")
    if options.dry_run or "deletionTimestamp" in item["metadata"]:
        return Deleted(stored, gone=False)
    item["metadata"]["deletionTimestamp"] = now()
    item["status"]["phase"] = "Terminating"
    return Deleted(registry.replace(NAMESPACES, stored.key, item), gone=False)


@dataclass(slots=True)
class _Deletion:
    registry: Registry
    resource: Resource
    stored: Stored
    item: Object
    options: DeleteOptions

    def proceed(self) -> Deleted:
        about, wanted = self.item["metadata"], self.options.grace_period_seconds
        if "deletionTimestamp" not in about:
            grace = self.resource.strategy.grace_seconds(self.item, wanted)
            if grace is not None:
                return self._mark(grace)
            return self._mark(0) if about.get("finalizers") else self._remove()
        # A second request may only shorten what the first began.
        left = about.get("deletionGracePeriodSeconds")
        if not left:
            return Deleted(self.stored, gone=False) if about.get("finalizers") else self._remove()
        if wanted is None or wanted >= left:
            return Deleted(self.stored, gone=False)
        deadline = parse_time(about["deletionTimestamp"]) - left + wanted
        if deadline < time.time():
            deadline, wanted = time.time(), min(wanted, 1)
        return self._mark(wanted, deadline)

    def _mark(self, grace: int, deadline: float | None = None) -> Deleted:
        about = self.item["metadata"]
        if "deletionTimestamp" not in about and about.get("generation"):
            about["generation"] += 1
        about["deletionTimestamp"] = format_time(deadline or time.time() + grace)
        about["deletionGracePeriodSeconds"] = grace
        if self.options.dry_run:
            collection = self.registry.collection(self.resource)
            return Deleted(
                collection.draft(self.stored.key, self.item, self.stored.version), gone=False
            )
        self.stored = self.registry.replace(self.resource, self.stored.key, self.item)
        if grace == 0 and not about.get("finalizers"):
            return self._remove()
        return Deleted(self.stored, gone=False)

    def _remove(self) -> Deleted:
        if self.options.dry_run:
            return Deleted(self.stored, gone=True)
        collection = self.registry.collection(self.resource)
        return Deleted(collection.remove(self.stored.key), gone=True)


def _check_preconditions(resource: Resource, item: Object, options: DeleteOptions) -> None:
    about = item["metadata"]
    why = ""
    if options.uid and options.uid != about["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({about['uid']}). The object might have been deleted and then recreated"
        )
    elif options.resource_version and options.resource_version != about["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match "
            f"the ResourceVersion in record ({about['resourceVersion']}). "
            "The object might have been modified"
        )
    if why:
        kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
        raise status.conflict(resource, about["name"], why, kind=kind)
