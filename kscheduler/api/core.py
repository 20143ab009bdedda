"""core/v1: pods, nodes, volumes, and the small objects around them.

Mirrors k8s.io/api/core/v1. Differs: a struct has only the fields that a scheduler or one of its
plugins reads; decoding skips the others. Order of the module: volume sources, the pod, the node,
persistent volumes and claims, then the objects that are read for a label or a selector only.
"""

from collections.abc import Mapping

from msgspec import field, structs

from kscheduler.api.meta import EMPTY, ApiObject, ApiStruct, LabelSelector, Quantity


class Present(ApiStruct):
    """A source of which only its being there is of interest."""


class PersistentVolumeClaimSource(ApiStruct):
    claim_name: str = ""
    read_only: bool = False


class CSIVolumeSource(ApiStruct):
    """An inline CSI volume of a pod."""

    driver: str = ""
    read_only: bool | None = None


class GCEPersistentDisk(ApiStruct):
    pd_name: str = ""
    fs_type: str = ""
    partition: int = 0
    read_only: bool = False


class AWSElasticBlockStore(ApiStruct):
    volume_id: str = field(name="volumeID", default="")
    fs_type: str = ""
    partition: int = 0
    read_only: bool = False


class AzureDisk(ApiStruct):
    disk_name: str = ""
    disk_uri: str = field(name="diskURI", default="")
    kind: str | None = None
    read_only: bool | None = None


class Cinder(ApiStruct):
    volume_id: str = field(name="volumeID", default="")
    read_only: bool = False


class PortworxVolume(ApiStruct):
    volume_id: str = field(name="volumeID", default="")
    read_only: bool = False


class ISCSI(ApiStruct):
    iqn: str = ""
    lun: int = 0
    target_portal: str = ""
    read_only: bool = False


class RBD(ApiStruct):
    monitors: tuple[str, ...] = ()
    pool: str = ""
    image: str = ""
    read_only: bool = False


class ImageVolumeSource(ApiStruct):
    reference: str = ""


class Volume(ApiStruct):
    """A pod's volume; at most one source is set, sources that no plugin reads are not kept."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: Present | None = None
    csi: CSIVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: Cinder | None = None
    portworx_volume: PortworxVolume | None = None
    azure_file: Present | None = None
    vsphere_volume: Present | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    config_map: Present | None = None
    secret: Present | None = None
    image: ImageVolumeSource | None = None


ALWAYS = "Always"
DEFAULT_SCHEDULER_NAME = "default-scheduler"


class ResourceClaimReference(ApiStruct):
    """A container's use of one of the pod's `resourceClaims`."""

    name: str = ""
    request: str = ""


class ResourceRequirements(ApiStruct):
    requests: Mapping[str, Quantity] = EMPTY
    limits: Mapping[str, Quantity] = EMPTY
    claims: tuple[ResourceClaimReference, ...] = ()


class ContainerPort(ApiStruct):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(name="hostIP", default="")
    protocol: str = ""
    name: str = ""


class ContainerRestartRule(ApiStruct):
    action: str = ""


class VolumeMount(ApiStruct):
    bind_mount_options: tuple[str, ...] = ()


class Container(ApiStruct):
    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()

    @property
    def restartable(self) -> bool:
        """An init container with restartPolicy Always: a sidecar, which keeps running."""
        return self.restart_policy == ALWAYS


class NodeSelectorRequirement(ApiStruct):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(ApiStruct):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(ApiStruct):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(ApiStruct):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(ApiStruct):
    required: NodeSelector | None = field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: tuple[PreferredSchedulingTerm, ...] = field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class PodAffinityTerm(ApiStruct):
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(ApiStruct):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(ApiStruct):
    """Terms of either direction: podAffinity and podAntiAffinity share this shape."""

    required: tuple[PodAffinityTerm, ...] = field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=()
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class Affinity(ApiStruct):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(ApiStruct):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(ApiStruct):
    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(ApiStruct):
    name: str = ""


class PodResourceClaim(ApiStruct):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(ApiStruct):
    pod_group_name: str | None = None


class PodSpec(ApiStruct):
    node_name: str = ""
    scheduler_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    # Absent and empty differ: only a pod without the field skips NodeAffinity.
    node_selector: Mapping[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    overhead: Mapping[str, Quantity] = EMPTY
    resources: ResourceRequirements | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    scheduling_group: PodSchedulingGroup | None = None
    termination_grace_period_seconds: int | None = None


class PodCondition(ApiStruct):
    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class ContainerStatus(ApiStruct):
    name: str = ""
    allocated_resources: Mapping[str, Quantity] | None = None
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(ApiStruct):
    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(ApiStruct):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(ApiStruct):
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableMappedResources(ApiStruct):
    name: str = ""
    quantity: Quantity | None = None


class NodeAllocatableOverheadResources(ApiStruct):
    name: str = ""
    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatableResourceClaimStatus(ApiStruct):
    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    mapping: tuple[NodeAllocatableMappedResources, ...] = ()
    overhead: tuple[NodeAllocatableOverheadResources, ...] = ()


class PodStatus(ApiStruct):
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Mapping[str, Quantity] | None = None
    resources: ResourceRequirements | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


class Pod(ApiObject):
    """A pod, with the fields that scheduling reads."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    # Its JSON as the server sent it, if the informer of pods keeps that; never a field of that.
    whole: bytes = field(name="-", default=b"")

    @property
    def priority(self) -> int:
        """spec.priority, 0 when the admission plugin never filled it in."""
        return self.spec.priority or 0

    def condition(self, kind: str) -> PodCondition | None:
        """The first condition of this type."""
        return next((c for c in self.status.conditions if c.type == kind), None)


class Taint(ApiStruct):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodePodPreemptionPolicy(ApiStruct):
    disable_resize_preemption: tuple[str, ...] = ()


class NodeSpec(ApiStruct):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    pod_preemption_policy: NodePodPreemptionPolicy | None = None


class NodeCondition(ApiStruct):
    """A condition's type and status; heartbeats and messages wake no pod and are not kept."""

    type: str = ""
    status: str = ""


class ContainerImage(ApiStruct):
    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(ApiStruct):
    allocatable: Mapping[str, Quantity] = EMPTY
    capacity: Mapping[str, Quantity] = EMPTY
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(ApiObject):
    """A node, with the fields that scheduling reads."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
    # Its JSON as the server sent it, if the informer of nodes keeps that; never a field of that.
    whole: bytes = field(name="-", default=b"")


class ObjectReference(ApiStruct):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class CSIPersistentVolumeSource(ApiStruct):
    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(ApiStruct):
    required: NodeSelector | None = None


class PersistentVolumeSpec(ApiStruct):
    capacity: Mapping[str, Quantity] = EMPTY
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: Cinder | None = None
    portworx_volume: PortworxVolume | None = None


class PersistentVolumeStatus(ApiStruct):
    phase: str = ""


class PersistentVolume(ApiObject):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()
    # Its JSON, where that was asked to be kept; never sent as a field.
    whole: bytes = field(name="-", default=b"")


class PersistentVolumeClaimSpec(ApiStruct):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(ApiStruct):
    phase: str = ""
    capacity: Mapping[str, Quantity] = EMPTY
    access_modes: tuple[str, ...] = ()


class PersistentVolumeClaim(ApiObject):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()
    # Its JSON, where that was asked to be kept; never sent as a field.
    whole: bytes = field(name="-", default=b"")


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
    """A ConfigMap; only `data` is kept."""

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


def with_condition(
    conditions: tuple[PodCondition, ...], condition: PodCondition
) -> tuple[PodCondition, ...]:
    """Conditions of a pod with one of them set, as upstream's UpdatePodCondition does it.

    There is one condition per type. A new one replaces the old one in its place and keeps the old
    transition time unless the status changed. Returns `conditions` itself, the same object, if
    nothing but the observed generation would change: that alone is not worth a write.
    """
    for position, before in enumerate(conditions):
        if before.type == condition.type:
            if before.status == condition.status:
                since = before.last_transition_time
                condition = structs.replace(condition, last_transition_time=since)
            generation = before.observed_generation
            if structs.replace(condition, observed_generation=generation) == before:
                return conditions
            return (*conditions[:position], condition, *conditions[position + 1 :])
    return (*conditions, condition)
