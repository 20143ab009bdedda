"""Which parts of an object merge, and by which key: the data behind strategic merge and apply.

Only what differs from the rule is listed. The rule: objects merge field by field, lists are
replaced as a whole. Type names are those of the API, so that the OpenAPI documents can carry the
same facts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Field:
    """How one field takes part in a merge; `type` leads to the shape of what is inside."""

    type: str = ""
    merge_key: str = ""  # strategic merge: list elements are matched by this field
    map_keys: tuple[str, ...] = ()  # apply: list elements are matched by these
    is_set: bool = False
    is_atomic: bool = False  # apply: owned and replaced as one value
    retains_keys: bool = False
    key_defaults: dict[str, Any] = field(default_factory=dict)


Shape = dict[str, Field]
NO_SHAPE: Shape = {}
LEAF = Field()


def _to(type_name: str) -> Field:
    return Field(type_name)


def _by(*keys: str, type: str = "", retains_keys: bool = False, **defaults: Any) -> Field:
    return Field(
        type,
        merge_key=keys[0],
        map_keys=keys,
        retains_keys=retains_keys,
        key_defaults=defaults,
    )


def _applied_by(*keys: str, type: str = "") -> Field:
    """Keyed for apply only; strategic merge replaces the list."""
    return Field(type, map_keys=keys)


_SET = Field(is_set=True)
_ATOMIC = Field(is_atomic=True)
_CONDITIONS: Shape = {"conditions": _by("type")}
_TEMPLATED: Shape = {"template": _to("PodTemplateSpec"), "selector": _ATOMIC}
_CONTAINER: Shape = {
    "env": _by("name"),
    "ports": _by("containerPort", "protocol", protocol="TCP"),
    "resources": _to("ResourceRequirements"),
    "volumeDevices": _by("devicePath"),
    "volumeMounts": _by("mountPath"),
}


def _kind(spec: str = "", status: str = "") -> Shape:
    parts = {"metadata": "ObjectMeta", "spec": spec, "status": status}
    return {name: _to(type_name) for name, type_name in parts.items() if type_name}


SHAPES: dict[str, Shape] = {
    "ObjectMeta": {"finalizers": _SET, "ownerReferences": _by("uid")},
    # core
    "Pod": _kind("PodSpec", "PodStatus"),
    "PodTemplateSpec": _kind("PodSpec"),
    "PodSpec": {
        "containers": _by("name", type="Container"),
        "ephemeralContainers": _by("name", type="EphemeralContainer"),
        "evictionResponders": _by("name"),
        "hostAliases": _by("ip"),
        "imagePullSecrets": _by("name"),
        "initContainers": _by("name", type="Container"),
        "nodeSelector": _ATOMIC,
        "resourceClaims": _by("name", retains_keys=True),
        "resources": _to("ResourceRequirements"),
        "schedulingGates": _by("name"),
        "topologySpreadConstraints": _by("topologyKey", "whenUnsatisfiable"),
        "volumes": _by("name", retains_keys=True),
    },
    "Container": _CONTAINER,
    "EphemeralContainer": _CONTAINER,
    "ResourceRequirements": {"claims": _applied_by("name")},
    "PodStatus": _CONDITIONS
    | {
        "hostIPs": Field(merge_key="ip"),
        "nodeAllocatableResourceClaimStatuses": _by("resourceClaimName"),
        "podIPs": _by("ip"),
        "resourceClaimStatuses": _by("name", retains_keys=True),
    },
    "Node": _kind("NodeSpec", "NodeStatus"),
    "NodeSpec": {"podCIDRs": _SET},
    "NodeStatus": _CONDITIONS | {"addresses": _by("type")},
    "Namespace": _kind(status="NamespaceStatus"),
    "NamespaceStatus": _CONDITIONS,
    "Service": _kind("ServiceSpec", "ServiceStatus"),
    "ServiceSpec": {"ports": _by("port", "protocol", protocol="TCP"), "selector": _ATOMIC},
    "ServiceStatus": _CONDITIONS,
    "ServiceAccount": _kind() | {"secrets": _by("name")},
    "ReplicationController": _kind("ReplicationControllerSpec", "ReplicationControllerStatus"),
    "ReplicationControllerSpec": _TEMPLATED,
    "ReplicationControllerStatus": _CONDITIONS,
    "PersistentVolumeClaim": _kind(status="PersistentVolumeClaimStatus"),
    "PersistentVolumeClaimStatus": _CONDITIONS,
    # apps
    "DaemonSet": _kind("DaemonSetSpec", "DaemonSetStatus"),
    "DaemonSetSpec": _TEMPLATED,
    "DaemonSetStatus": _CONDITIONS,
    "Deployment": _kind("DeploymentSpec", "DeploymentStatus"),
    "DeploymentSpec": _TEMPLATED | {"strategy": Field(retains_keys=True)},
    "DeploymentStatus": _CONDITIONS,
    "ReplicaSet": _kind("ReplicaSetSpec", "ReplicaSetStatus"),
    "ReplicaSetSpec": _TEMPLATED,
    "ReplicaSetStatus": _CONDITIONS,
    "StatefulSet": _kind("StatefulSetSpec", "StatefulSetStatus"),
    "StatefulSetSpec": _TEMPLATED,
    "StatefulSetStatus": _CONDITIONS,
    # policy and scheduling
    "PodDisruptionBudget": _kind("PodDisruptionBudgetSpec", "PodDisruptionBudgetStatus"),
    "PodDisruptionBudgetSpec": {"selector": _ATOMIC},
    "PodDisruptionBudgetStatus": _CONDITIONS,
    "PodGroup": _kind("PodGroupSpec", "PodGroupStatus"),
    "PodGroupSpec": {"resourceClaims": _by("name", retains_keys=True)},
    "PodGroupStatus": _CONDITIONS | {"resourceClaimStatuses": _by("name", retains_keys=True)},
    "CompositePodGroup": _kind(status="CompositePodGroupStatus"),
    "CompositePodGroupStatus": _CONDITIONS,
    # storage
    "CSIDriver": _kind("CSIDriverSpec"),
    "CSIDriverSpec": {"volumeLifecycleModes": _SET},
    "CSINode": _kind("CSINodeSpec", "CSINodeStatus"),
    "CSINodeSpec": {"drivers": _by("name")},
    "CSINodeStatus": {"storageHealth": _by("name")},
    # devices
    "ResourceClaim": _kind(status="ResourceClaimStatus"),
    "ResourceClaimStatus": {
        "devices": _applied_by("driver", "device", "pool", "shareID", type="AllocatedDeviceStatus"),
        "reservedFor": _by("uid"),
    },
    "AllocatedDeviceStatus": {"conditions": _applied_by("type")},
    "DeviceTaintRule": _kind(status="DeviceTaintRuleStatus"),
    "DeviceTaintRuleStatus": _CONDITIONS,
}
_PLAIN_KIND = _kind()


def shape_of_kind(kind: str) -> Shape:
    """The shape of a whole object; kinds not listed only have the usual metadata."""
    return SHAPES.get(kind, _PLAIN_KIND)


def shape_of(field_: Field) -> Shape:
    return SHAPES.get(field_.type, NO_SHAPE)
