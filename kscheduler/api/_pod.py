"""core/v1 Pod: everything that can change where a pod may run, and nothing else."""

from collections.abc import Mapping

from msgspec import field

from kscheduler.api._volumes import Volume
from kscheduler.api.meta import EMPTY, ApiObject, ApiStruct, LabelSelector, Quantity

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
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    # Its JSON as the server sent it, if whoever follows pods keeps that; never a field of that.
    whole: bytes = field(name="-", default=b"")

    @property
    def priority(self) -> int:
        """spec.priority, 0 when the admission plugin never filled it in."""
        return self.spec.priority or 0

    def condition(self, kind: str) -> PodCondition | None:
        """The first condition of this type."""
        return next((c for c in self.status.conditions if c.type == kind), None)
