"""core/v1 PersistentVolume and PersistentVolumeClaim."""

from collections.abc import Mapping

from msgspec import field

from kscheduler.api._pod import NodeSelector, ResourceRequirements
from kscheduler.api._volumes import (
    AWSElasticBlockStore,
    AzureDisk,
    Cinder,
    GCEPersistentDisk,
    PortworxVolume,
)
from kscheduler.api.meta import EMPTY, ApiObject, ApiStruct, LabelSelector, Quantity


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
