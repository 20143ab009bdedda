"""core/v1: pods, nodes, volumes, and the small objects around them.

The long ones live in private modules, one per kind; this is where they are imported from.
"""

from collections.abc import Mapping

from kscheduler.api._node import (
    ContainerImage,
    Node,
    NodeCondition,
    NodePodPreemptionPolicy,
    NodeSpec,
    NodeStatus,
    Taint,
)
from kscheduler.api._persistent_volume import (
    CSIPersistentVolumeSource,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    VolumeNodeAffinity,
)
from kscheduler.api._pod import (
    ALWAYS,
    DEFAULT_SCHEDULER_NAME,
    Affinity,
    Container,
    ContainerExtendedResourceRequest,
    ContainerPort,
    ContainerRestartRule,
    ContainerStatus,
    NodeAffinity,
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodCondition,
    PodExtendedResourceClaimStatus,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodSchedulingGate,
    PodSchedulingGroup,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    ResourceClaimReference,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    VolumeMount,
    WeightedPodAffinityTerm,
)
from kscheduler.api._volumes import (
    ISCSI,
    RBD,
    AWSElasticBlockStore,
    AzureDisk,
    Cinder,
    CSIVolumeSource,
    GCEPersistentDisk,
    PersistentVolumeClaimSource,
    PortworxVolume,
    Present,
    Volume,
)
from kscheduler.api.meta import EMPTY, ApiObject, ApiStruct


class Namespace(ApiObject):
    """Of interest for its labels: affinity terms select namespaces by them."""


class ServiceSpec(ApiStruct):
    selector: Mapping[str, str] = EMPTY


class Service(ApiObject):
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(ApiStruct):
    selector: Mapping[str, str] = EMPTY
    replicas: int | None = None


class ReplicationController(ApiObject):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class Binding(ApiObject):
    """The decision itself: POSTed to the pod's `binding` subresource."""

    target: ObjectReference = ObjectReference()


class ConfigMap(ApiObject):
    data: Mapping[str, str] = EMPTY


class EventSource(ApiStruct):
    component: str = ""
    host: str = ""


class EventSeries(ApiStruct):
    count: int = 0
    last_observed_time: str | None = None


class Event(ApiObject):
    """The legacy event, written for leader election and where events.k8s.io is not served."""

    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    count: int = 0
    type: str = ""
    event_time: str | None = None
    series: EventSeries | None = None
    action: str = ""
    related: ObjectReference | None = None
    reporting_component: str = ""
    reporting_instance: str = ""


__all__ = [
    "ALWAYS",
    "DEFAULT_SCHEDULER_NAME",
    "ISCSI",
    "RBD",
    "AWSElasticBlockStore",
    "Affinity",
    "AzureDisk",
    "Binding",
    "CSIPersistentVolumeSource",
    "CSIVolumeSource",
    "Cinder",
    "ConfigMap",
    "Container",
    "ContainerExtendedResourceRequest",
    "ContainerImage",
    "ContainerPort",
    "ContainerRestartRule",
    "ContainerStatus",
    "Event",
    "EventSeries",
    "EventSource",
    "GCEPersistentDisk",
    "Namespace",
    "Node",
    "NodeAffinity",
    "NodeAllocatableMappedResources",
    "NodeAllocatableOverheadResources",
    "NodeAllocatableResourceClaimStatus",
    "NodeCondition",
    "NodePodPreemptionPolicy",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "ObjectReference",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSource",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "PersistentVolumeSpec",
    "PersistentVolumeStatus",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodCondition",
    "PodExtendedResourceClaimStatus",
    "PodResourceClaim",
    "PodResourceClaimStatus",
    "PodSchedulingGate",
    "PodSchedulingGroup",
    "PodSpec",
    "PodStatus",
    "PortworxVolume",
    "PreferredSchedulingTerm",
    "Present",
    "ReplicationController",
    "ReplicationControllerSpec",
    "ResourceClaimReference",
    "ResourceRequirements",
    "Service",
    "ServiceSpec",
    "Taint",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
    "VolumeMount",
    "VolumeNodeAffinity",
    "WeightedPodAffinityTerm",
]
