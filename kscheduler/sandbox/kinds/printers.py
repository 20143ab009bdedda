"""Printers: the columns of `kubectl get`, and the functions that fill their cells.

Mirrors pkg/printers/internalversion. The columns of a kind are declared with its Resource; a kind
without any shows name and age.
"""

from __future__ import annotations

from typing import Any

from kscheduler.rest.tables import NONE, Cell, Json, age, at

_ROLE = "node-role.kubernetes.io/"


def _listed(values: Any) -> str:
    return ",".join(values) if values else NONE


def ready_containers(pod: Json) -> str:
    ready, total, _ = ready_and_restarts(pod)
    return f"{ready}/{total}"


def restarts(pod: Json) -> str:
    return str(ready_and_restarts(pod)[2])


def pod_ip(pod: Json) -> str:
    addresses = (pod.get("status") or {}).get("podIPs") or []
    return addresses[0]["ip"] if addresses else NONE


def readiness_gates(pod: Json) -> str:
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    if not gates:
        return NONE
    conditions = (pod.get("status") or {}).get("conditions") or ()
    true = [one["type"] for one in conditions if one["status"] == "True"]
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"


def node_status(node: Json) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((one["status"] for one in conditions if one["type"] == "Ready"), None)
    word = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    return f"{word},SchedulingDisabled" if node["spec"].get("unschedulable") else word


def node_roles(node: Json) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    if named := labels.get("kubernetes.io/role"):
        roles.add(named)
    return _listed(sorted(roles - {""}))


def node_address(kind: str) -> Cell:
    def cell(node: Json) -> str:
        addresses = (node.get("status") or {}).get("addresses") or ()
        return next((one["address"] for one in addresses if one["type"] == kind), NONE)

    return cell


def node_info(name: str) -> Cell:
    return at(f"status.nodeInfo.{name}", "<unknown>")


def last_seen(event: Json) -> str:
    series = (event.get("series") or {}).get("lastObservedTime")
    return age(series or event.get("lastTimestamp") or event.get("eventTime"))


def event_object(event: Json) -> str:
    about = event.get("involvedObject") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def service_ports(service: Json) -> str:
    ports = service["spec"].get("ports") or ()
    return _listed([f"{port['port']}/{port['protocol']}" for port in ports])


def ready_of_replicas(workload: Json) -> str:
    return f"{at('status.readyReplicas', 0)(workload)}/{workload['spec'].get('replicas', 1)}"


def bound_claim(volume: Json) -> str:
    claim = volume["spec"].get("claimRef") or {}
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def access_modes(item: Json) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in item["spec"].get("accessModes") or ())


def claim_state(claim: Json) -> str:
    state = claim.get("status") or {}
    words = ["allocated"] if state.get("allocation") else ["pending"]
    return ",".join(words + (["reserved"] if state.get("reservedFor") else []))


def pod_status(pod: Json) -> str:
    """The one word that sums up a pod."""
    state = pod.get("status") or {}
    word = state.get("reason") or state.get("phase") or "Unknown"
    for condition in state.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated":
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
