"""Workloads of a sandbox that came to too little: those with fewer pods than they should have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kscheduler.sandbox import ApiServer

Json = dict[str, Any]
_REPLICATED = (
    ("deployments.apps", "Deployment"),
    ("replicasets.apps", "ReplicaSet"),
    ("statefulsets.apps", "StatefulSet"),
    ("replicationcontrollers", "ReplicationController"),
)


def shortfalls(api: ApiServer) -> Iterator[str]:
    """A sentence per workload that has not made the pods it should have made, or has failed."""
    for resource, kind in _REPLICATED:
        for item in api.objects.list(resource):
            if any(one.get("controller") for one in item["metadata"].get("ownerReferences") or ()):
                continue  # told with its Deployment
            state, wanted = item.get("status") or {}, item["spec"].get("replicas", 1)
            failure = _condition(state, "ReplicaFailure") or _failed_progress(state)
            has = state.get("replicas", 0)
            if failure:
                yield f"{_title(kind, item)}: {failure}"
            elif has < wanted:
                waits = "; each waits for the one before it" if kind == "StatefulSet" else ""
                yield f"{_title(kind, item)}: {has} of {wanted} pods made{waits}"
    for item in api.objects.list("daemonsets.apps"):
        state = item.get("status") or {}
        wanted, has = (
            state.get(part, 0) for part in ("desiredNumberScheduled", "currentNumberScheduled")
        )
        if not wanted:
            why = "no node suits its node selector, affinity and tolerations"
            yield f"{_title('DaemonSet', item)}: no pods, for {why}"
        elif has < wanted:
            yield f"{_title('DaemonSet', item)}: pods for {has} of {wanted} nodes made"
    for item in api.objects.list("jobs.batch"):
        if failure := _condition(item.get("status") or {}, "Failed"):
            yield f"{_title('Job', item)}: {failure}"


def _condition(state: Json, kind: str) -> str:
    """The message of a condition that is true."""
    for one in state.get("conditions") or ():
        if one["type"] == kind and one["status"] == "True":
            return str(one.get("message") or one.get("reason"))
    return ""


def _failed_progress(state: Json) -> str:
    for one in state.get("conditions") or ():
        if one["type"] == "Progressing" and one["status"] == "False":
            return str(one.get("message") or one.get("reason"))
    return ""


def _title(kind: str, item: Json) -> str:
    about = item["metadata"]
    return f"{kind} {about['namespace']}/{about['name']}"
