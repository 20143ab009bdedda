"""storage.k8s.io/v1: classes, drivers, their limits and capacities per node."""

from msgspec import field

from kscheduler.api.meta import ApiObject, ApiStruct, LabelSelector, Quantity


class TopologySelectorLabelRequirement(ApiStruct):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(ApiStruct):
    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(ApiObject):
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(ApiStruct):
    count: int | None = None


class CSINodeDriver(ApiStruct):
    name: str = ""
    node_id: str = field(name="nodeID", default="")
    # The API server sends null for a driver without topology.
    topology_keys: tuple[str, ...] | None = None
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(ApiStruct):
    # Not omitted when empty: kubelets register nodes without drivers as null.
    drivers: tuple[CSINodeDriver, ...] | None = None


class CSINode(ApiObject):
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(ApiStruct):
    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(ApiObject):
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ApiObject):
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(ApiStruct):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(ApiStruct):
    attacher: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()
    node_name: str = ""


class VolumeAttachmentStatus(ApiStruct):
    attached: bool = False


class VolumeAttachment(ApiObject):
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
