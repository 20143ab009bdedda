"""The one word that sums up a pod for `kubectl get pods`."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def pod_status(pod: Json) -> str:
    state = pod.get("status") or {}
    word = state.get("reason") or state.get("phase") or "Unknown"
    if _is_gated(state):
        word = "SchedulingGated"
    word = _initialising(pod) or _of_containers(state, word)
    if "deletionTimestamp" in pod["metadata"] and state.get("reason") != "NodeLost":
        return word if word in ("Succeeded", "Failed", "Completed") else "Terminating"
    return word


def ready_and_restarts(pod: Json) -> tuple[int, int, int]:
    """Containers ready, containers in all, restarts of all of them."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    ready = sum(bool(one.get("ready")) and "running" in _state(one) for one in statuses)
    restarts = sum(one.get("restartCount", 0) for one in statuses)
    return ready, len(pod["spec"].get("containers") or ()), restarts


def _is_gated(state: Json) -> bool:
    return any(
        one["type"] == "PodScheduled" and one.get("reason") == "SchedulingGated"
        for one in state.get("conditions") or ()
    )


def _initialising(pod: Json) -> str:
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    for position, one in enumerate(statuses):
        current = _state(one)
        if one.get("started") or (current.get("terminated") or {}).get("exitCode", 1) == 0:
            continue
        if ended := current.get("terminated"):
            return f"Init:{ended.get('reason') or 'Error'}"
        reason = (current.get("waiting") or {}).get("reason")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{position}/{len(pod['spec'].get('initContainers') or ())}"
    return ""


def _of_containers(state: Json, word: str) -> str:
    running = False
    for one in reversed(state.get("containerStatuses") or []):
        current = _state(one)
        if reason := (current.get("waiting") or {}).get("reason"):
            word = reason
        elif ended := current.get("terminated"):
            word = ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"
        elif one.get("ready") and "running" in current:
            running = True
    if word == "Completed" and running:
        return "Running"
    return word


def _state(container_status: Json) -> Json:
    return container_status.get("state") or {}
