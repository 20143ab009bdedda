"""What `kubectl get` shows of each kind. Kinds not listed show name and age."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kscheduler.sandbox.catalog.ages import age
from kscheduler.sandbox.catalog.pod_status import pod_status, ready_and_restarts

Json = dict[str, Any]
Cell = Callable[[Json], Any]
NONE = "<none>"
_ROLE = "node-role.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Column:
    """A heading and how to fill it; `wide` columns appear with `-o wide` only."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    wide: bool = False

    @property
    def definition(self) -> Json:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": "",
            "priority": 1 if self.wide else 0,
        }


def _at(path: str, otherwise: Any = "") -> Cell:
    steps = path.split(".")

    def cell(item: Json) -> Any:
        value: Any = item
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        return otherwise if value is None else value

    return cell


def _age(item: Json) -> str:
    return age(item["metadata"].get("creationTimestamp"))


NAME = Column("Name", lambda item: item["metadata"]["name"], format="name")
AGE = Column("Age", _age)


def _count(name: str, path: str) -> Column:
    return Column(name, _at(path, 0), "integer")


def _listed(values: Any) -> str:
    return ",".join(values) if values else NONE


def _ready(pod: Json) -> str:
    ready, total, _ = ready_and_restarts(pod)
    return f"{ready}/{total}"


def _pod_ip(pod: Json) -> str:
    addresses = (pod.get("status") or {}).get("podIPs") or []
    return addresses[0]["ip"] if addresses else NONE


def _readiness_gates(pod: Json) -> str:
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    if not gates:
        return NONE
    conditions = (pod.get("status") or {}).get("conditions") or ()
    true = [one["type"] for one in conditions if one["status"] == "True"]
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"


def _node_status(node: Json) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((one["status"] for one in conditions if one["type"] == "Ready"), None)
    word = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    return f"{word},SchedulingDisabled" if node["spec"].get("unschedulable") else word


def _roles(node: Json) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    if named := labels.get("kubernetes.io/role"):
        roles.add(named)
    return _listed(sorted(roles - {""}))


def _address(kind: str) -> Cell:
    def cell(node: Json) -> str:
        addresses = (node.get("status") or {}).get("addresses") or ()
        return next((one["address"] for one in addresses if one["type"] == kind), NONE)

    return cell


def _node_info(name: str) -> Cell:
    return _at(f"status.nodeInfo.{name}", "<unknown>")


def _last_seen(event: Json) -> str:
    series = (event.get("series") or {}).get("lastObservedTime")
    return age(series or event.get("lastTimestamp") or event.get("eventTime"))


def _involved(event: Json) -> str:
    about = event.get("involvedObject") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _ports(service: Json) -> str:
    ports = service["spec"].get("ports") or ()
    return _listed([f"{port['port']}/{port['protocol']}" for port in ports])


def _of_replicas(path: str) -> Cell:
    ready = _at(path, 0)
    return lambda item: f"{ready(item)}/{item['spec'].get('replicas', 1)}"


def _claim(volume: Json) -> str:
    claim = volume["spec"].get("claimRef") or {}
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _access_modes(item: Json) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in item["spec"].get("accessModes") or ())


def _claim_state(claim: Json) -> str:
    state = claim.get("status") or {}
    words = ["allocated"] if state.get("allocation") else ["pending"]
    return ",".join(words + (["reserved"] if state.get("reservedFor") else []))


COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": (
        NAME,
        Column("Ready", _ready),
        Column("Status", pod_status),
        Column("Restarts", lambda pod: str(ready_and_restarts(pod)[2])),
        AGE,
        Column("IP", _pod_ip, wide=True),
        Column("Node", _at("spec.nodeName", NONE), wide=True),
        Column("Nominated Node", _at("status.nominatedNodeName", NONE), wide=True),
        Column("Readiness Gates", _readiness_gates, wide=True),
    ),
    "nodes": (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _roles),
        AGE,
        Column("Version", _at("status.nodeInfo.kubeletVersion")),
        Column("Internal-IP", _address("InternalIP"), wide=True),
        Column("External-IP", _address("ExternalIP"), wide=True),
        Column("OS-Image", _node_info("osImage"), wide=True),
        Column("Kernel-Version", _node_info("kernelVersion"), wide=True),
        Column("Container-Runtime", _node_info("containerRuntimeVersion"), wide=True),
    ),
    "namespaces": (NAME, Column("Status", _at("status.phase")), AGE),
    "events": (
        Column("Last Seen", _last_seen),
        Column("Type", _at("type")),
        Column("Reason", _at("reason")),
        Column("Object", _involved),
        Column("Source", _at("reportingComponent"), wide=True),
        Column("Message", _at("message")),
        Column("Name", lambda item: item["metadata"]["name"], format="name", wide=True),
    ),
    "services": (
        NAME,
        Column("Type", _at("spec.type")),
        Column("Cluster-IP", _at("spec.clusterIP", NONE)),
        Column("External-IP", lambda service: NONE),
        Column("Port(s)", _ports),
        AGE,
    ),
    "deployments.apps": (
        NAME,
        Column("Ready", _of_replicas("status.readyReplicas")),
        _count("Up-to-date", "status.updatedReplicas"),
        _count("Available", "status.availableReplicas"),
        AGE,
    ),
    "replicasets.apps": (
        NAME,
        _count("Desired", "spec.replicas"),
        _count("Current", "status.replicas"),
        _count("Ready", "status.readyReplicas"),
        AGE,
    ),
    "statefulsets.apps": (NAME, Column("Ready", _of_replicas("status.readyReplicas")), AGE),
    "persistentvolumes": (
        NAME,
        Column("Capacity", _at("spec.capacity.storage")),
        Column("Access Modes", _access_modes),
        Column("Reclaim Policy", _at("spec.persistentVolumeReclaimPolicy")),
        Column("Status", _at("status.phase")),
        Column("Claim", _claim),
        Column("StorageClass", _at("spec.storageClassName")),
        AGE,
    ),
    "persistentvolumeclaims": (
        NAME,
        Column("Status", _at("status.phase")),
        Column("Volume", _at("spec.volumeName")),
        Column("Capacity", _at("status.capacity.storage")),
        Column("Access Modes", _access_modes),
        Column("StorageClass", _at("spec.storageClassName")),
        AGE,
    ),
    "storageclasses.storage.k8s.io": (
        NAME,
        Column("Provisioner", _at("provisioner")),
        Column("ReclaimPolicy", _at("reclaimPolicy")),
        Column("VolumeBindingMode", _at("volumeBindingMode")),
        AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        NAME,
        _count("Value", "value"),
        Column("Global-Default", _at("globalDefault", otherwise=False), "boolean"),
        AGE,
        Column("PreemptionPolicy", _at("preemptionPolicy")),
    ),
    "poddisruptionbudgets.policy": (
        NAME,
        Column("Min Available", lambda pdb: str(_at("spec.minAvailable", "N/A")(pdb))),
        Column("Max Unavailable", lambda pdb: str(_at("spec.maxUnavailable", "N/A")(pdb))),
        _count("Allowed Disruptions", "status.disruptionsAllowed"),
        AGE,
    ),
    "leases.coordination.k8s.io": (NAME, Column("Holder", _at("spec.holderIdentity")), AGE),
    "resourceclaims.resource.k8s.io": (NAME, Column("State", _claim_state), AGE),
}


def columns_of(stored_as: str) -> tuple[Column, ...]:
    return COLUMNS.get(stored_as, (NAME, AGE))
