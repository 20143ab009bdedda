"""scheduling.k8s.io: priority classes (v1), pod groups (v1beta1) and composites (v1alpha3)."""

from kscheduler.api.core import Present
from kscheduler.api.meta import ApiObject, ApiStruct, Condition


class PriorityClass(ApiObject):
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class GangSchedulingPolicy(ApiStruct):
    min_count: int = 0


class PodGroupSchedulingPolicy(ApiStruct):
    basic: Present | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(ApiStruct):
    key: str = ""


class SchedulingConstraints(ApiStruct):
    topology: tuple[TopologyConstraint, ...] = ()


class DisruptionMode(ApiStruct):
    single: Present | None = None
    all: Present | None = None


class WorkloadReference(ApiStruct):
    workload_name: str = ""
    template_name: str = ""


class PodGroupResourceClaim(ApiStruct):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupSpec(ApiStruct):
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    parent_composite_pod_group_name: str | None = None
    workload_ref: WorkloadReference | None = None


class PodGroupResourceClaimStatus(ApiStruct):
    name: str = ""
    resource_claim_name: str | None = None


class PodGroupStatus(ApiStruct):
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class PodGroup(ApiObject):
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class CompositeGangSchedulingPolicy(ApiStruct):
    min_group_count: int = 0


class CompositePodGroupSchedulingPolicy(ApiStruct):
    basic: Present | None = None
    gang: CompositeGangSchedulingPolicy | None = None


class CompositePodGroupSpec(ApiStruct):
    scheduling_policy: CompositePodGroupSchedulingPolicy = CompositePodGroupSchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    parent_composite_pod_group_name: str | None = None
    workload_ref: WorkloadReference | None = None


class CompositePodGroupStatus(ApiStruct):
    conditions: tuple[Condition, ...] = ()


class CompositePodGroup(ApiObject):
    spec: CompositePodGroupSpec = CompositePodGroupSpec()
    status: CompositePodGroupStatus = CompositePodGroupStatus()
