"""resource.k8s.io/v1: claims, slices, classes and taint rules of dynamic resource allocation."""

from collections.abc import Mapping

from msgspec import Raw, field

from kscheduler.api.core import NodeSelector
from kscheduler.api.meta import EMPTY, ApiObject, ApiStruct, Condition, Quantity


class Counter(ApiStruct):
    value: Quantity = ""


class CounterSet(ApiStruct):
    name: str = ""
    counters: Mapping[str, Counter] = EMPTY


class DeviceCounterConsumption(ApiStruct):
    counter_set: str = ""
    counters: Mapping[str, Counter] = EMPTY
    compatibility_groups: tuple[str, ...] = ()


class CapacityRequestPolicyRange(ApiStruct):
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(ApiStruct):
    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(ApiStruct):
    value: Quantity = ""
    request_policy: CapacityRequestPolicy | None = None


class DeviceAttribute(ApiStruct):
    """Exactly one of these is set; the lists are alpha."""

    int_value: int | None = field(name="int", default=None)
    bool_value: bool | None = field(name="bool", default=None)
    string_value: str | None = field(name="string", default=None)
    version_value: str | None = field(name="version", default=None)
    int_values: tuple[int, ...] | None = field(name="ints", default=None)
    bool_values: tuple[bool, ...] | None = field(name="bools", default=None)
    string_values: tuple[str, ...] | None = field(name="strings", default=None)
    version_values: tuple[str, ...] | None = field(name="versions", default=None)


class DeviceTaint(ApiStruct):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class DeviceToleration(ApiStruct):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeAllocatableMapping(ApiStruct):
    capacity_key: str | None = None
    capacity_multiplier: Quantity | None = None
    device_multiplier: Quantity | None = None


class NodeAllocatableOverhead(ApiStruct):
    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatableResource(ApiStruct):
    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class Device(ApiStruct):
    name: str = ""
    attributes: Mapping[str, DeviceAttribute] = EMPTY
    capacity: Mapping[str, DeviceCapacity] = EMPTY
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    node_allocatable_resources: Mapping[str, NodeAllocatableResource] = EMPTY


class ResourcePool(ApiStruct):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(ApiStruct):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()
    skip_node_operations: tuple[str, ...] = ()


class ResourceSlice(ApiObject):
    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(ApiStruct):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(ApiStruct):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(ApiObject):
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


class CELDeviceSelector(ApiStruct):
    expression: str = ""


class DeviceSelector(ApiStruct):
    cel: CELDeviceSelector | None = None


class CapacityRequirements(ApiStruct):
    requests: Mapping[str, Quantity] = EMPTY


class DeviceDerivedAttribute(ApiStruct):
    name: str = ""
    expression: str = ""


class ExactDeviceRequest(ApiStruct):
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceSubRequest(ApiStruct):
    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceRequest(ApiStruct):
    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(ApiStruct):
    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueDeviceConfiguration(ApiStruct):
    """`parameters` are an object of the driver's own: text, which nobody here reads."""

    driver: str = ""
    parameters: Raw = Raw(b"")


class DeviceClaimConfiguration(ApiStruct):
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(ApiStruct):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(ApiStruct):
    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(ApiStruct):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = field(name="shareID", default=None)
    consumed_capacity: Mapping[str, Quantity] = EMPTY
    skip_node_operations: tuple[str, ...] = ()


class DeviceAllocationConfiguration(ApiStruct):
    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(ApiStruct):
    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(ApiStruct):
    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(ApiStruct):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(ApiStruct):
    """Without `data` and `networkData`: the driver's words to others."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(name="shareID", default=None)
    conditions: tuple[Condition, ...] | None = None


class ResourceClaimStatus(ApiStruct):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(ApiObject):
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()
    # Its JSON, where that was asked to be kept; never sent as a field.
    whole: bytes = field(name="-", default=b"")


class ResourceClaimTemplateSpec(ApiObject):
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(ApiObject):
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassConfiguration(ApiStruct):
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(ApiStruct):
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(ApiObject):
    spec: DeviceClassSpec = DeviceClassSpec()
