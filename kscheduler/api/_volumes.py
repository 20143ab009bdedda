"""core/v1 volume sources, as far as the volume plugins look into them."""

from msgspec import field

from kscheduler.api.meta import ApiStruct


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
    """A pod's volume; at most one source is set, sources nobody asks about are not kept."""

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
