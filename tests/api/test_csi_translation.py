"""In-tree volumes as volumes of their drivers."""

import pytest

from kscheduler.api.core import (
    AWSElasticBlockStore,
    AzureDisk,
    Cinder,
    CSIPersistentVolumeSource,
    GCEPersistentDisk,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeSpec,
    PortworxVolume,
    Volume,
    VolumeNodeAffinity,
)
from kscheduler.api.csi_translation import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    ZONE,
    TranslationError,
    inline_handle,
    migration_of,
    translated,
)
from kscheduler.api.meta import ObjectMeta

EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def volume(labels=None, affinity=None, **source):
    return PersistentVolume(
        metadata=ObjectMeta(name="pv", labels=labels or {}),
        spec=PersistentVolumeSpec(node_affinity=affinity, **source),
    )


def affinity(*terms):
    """Each term: key → values, or None for a key that must exist."""
    return VolumeNodeAffinity(
        NodeSelector(
            tuple(
                NodeSelectorTerm(
                    tuple(
                        NodeSelectorRequirement(key, "Exists")
                        if values is None
                        else NodeSelectorRequirement(key, "In", values)
                        for key, values in term.items()
                    )
                )
                for term in terms
            )
        )
    )


def translate(one):
    return translated(one, migration_of(one))


@pytest.mark.parametrize(
    ("source", "labels", "driver", "handle"),
    [
        pytest.param(
            {"aws_elastic_block_store": AWSElasticBlockStore(volume_id="vol-1")},
            {},
            "ebs.csi.aws.com",
            "vol-1",
            id="EBS",
        ),
        pytest.param(
            {"aws_elastic_block_store": AWSElasticBlockStore(volume_id="aws://us-east-1a/vol-1")},
            {},
            "ebs.csi.aws.com",
            "vol-1",
            id="EBS with a zone",
        ),
        pytest.param(
            {"gce_persistent_disk": GCEPersistentDisk(pd_name="d")},
            {},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
            id="GCE without a zone",
        ),
        pytest.param(
            {"gce_persistent_disk": GCEPersistentDisk(pd_name="d")},
            {ZONE: "eu-west1-a"},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/eu-west1-a/disks/d",
            id="GCE in a zone",
        ),
        pytest.param(
            {"gce_persistent_disk": GCEPersistentDisk(pd_name="d")},
            {BETA_ZONE: "eu-west1-a__eu-west1-b"},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/regions/eu-west1/disks/d",
            id="GCE in a region",
        ),
        pytest.param(
            {"azure_disk": AzureDisk(disk_uri="/d", kind="managed")},
            {},
            "disk.csi.azure.com",
            "/d",
            id="Azure",
        ),
        pytest.param(
            {"cinder": Cinder(volume_id="c")}, {}, "cinder.csi.openstack.org", "c", id="Cinder"
        ),
        pytest.param(
            {"portworx_volume": PortworxVolume(volume_id="p")},
            {},
            "pxd.portworx.com",
            "p",
            id="Portworx",
        ),
    ],
)
def test_a_volume_has_a_driver_and_a_handle(source, labels, driver, handle):
    csi = translate(volume(labels, **source)).spec.csi
    assert csi == CSIPersistentVolumeSource(driver=driver, volume_handle=handle)


@pytest.mark.parametrize(
    ("source", "labels", "problem"),
    [
        pytest.param(
            {"aws_elastic_block_store": AWSElasticBlockStore(volume_id="aws://a/b")},
            {},
            "failed to translate Kubernetes ID to EBS Volume ID "
            "Invalid format for AWS volume (aws://a/b)",
            id="no EBS volume",
        ),
        pytest.param(
            {"azure_disk": AzureDisk(kind="Shared")},
            {},
            "kind(Shared) is not supported in csi migration",
            id="unmanaged disk",
        ),
        pytest.param(
            {"gce_persistent_disk": GCEPersistentDisk(pd_name="d")},
            {ZONE: "a-b-c__a-d-c"},
            "failed to get region from zones: "
            "multiple or no regions gotten from zones, got: map[a-b:{} a-d:{}]",
            id="two regions",
        ),
        pytest.param(
            {"gce_persistent_disk": GCEPersistentDisk(pd_name="d")},
            {ZONE: "a__b"},
            "failed to get region from zones: zone in unexpected format, "
            "expected: {locale}-{region}-{zone}, got: a",
            id="no GCE zone",
        ),
    ],
)
def test_what_cannot_be_translated_says_why(source, labels, problem):
    with pytest.raises(TranslationError) as caught:
        translate(volume(labels, **source))
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("labels", "before", "after"),
    [
        pytest.param({}, None, None, id="nowhere in particular"),
        pytest.param(
            {}, affinity({ZONE: ("a",)}), affinity({EBS_ZONE: ("a",)}), id="zone in affinity"
        ),
        pytest.param(
            {},
            affinity({BETA_ZONE: ("a",), BETA_REGION: ("r",)}),
            affinity({EBS_ZONE: ("a",), REGION: ("r",)}),
            id="beta keys in affinity",
        ),
        pytest.param(
            {ZONE: "b"},
            affinity({ZONE: ("a",)}),
            affinity({EBS_ZONE: ("a",)}),
            id="affinity before labels",
        ),
        pytest.param({ZONE: "b__a"}, None, affinity({EBS_ZONE: ("a", "b")}), id="zones in a label"),
        pytest.param(
            {BETA_ZONE: "a"},
            affinity({"rack": ("1",)}, {"rack": ("2",)}),
            affinity({"rack": ("1",), EBS_ZONE: ("a",)}, {"rack": ("2",), EBS_ZONE: ("a",)}),
            id="zone of a label in every term",
        ),
        pytest.param({ZONE: " __"}, None, None, id="empty zones"),
        pytest.param(
            {ZONE: "a"},
            affinity({ZONE: None}),
            affinity({ZONE: None, EBS_ZONE: ("a",)}),
            id="a zone that only must exist",
        ),
    ],
)
def test_zones_become_the_drivers_topology(labels, before, after):
    source = AWSElasticBlockStore(volume_id="vol-1")
    moved = translate(volume(labels, before, aws_elastic_block_store=source))
    assert moved.spec.node_affinity == after


def test_azure_keeps_its_affinity():
    where = affinity({ZONE: ("a",)})
    moved = translate(volume(None, where, azure_disk=AzureDisk(disk_uri="/d")))
    assert moved.spec.node_affinity == where


def test_volumes_of_pods_have_handles_as_well():
    mounted = Volume(name="v", gce_persistent_disk=GCEPersistentDisk(pd_name="d"))
    migration = migration_of(mounted)
    assert migration.plugin == "kubernetes.io/gce-pd"
    assert inline_handle(mounted, migration) == "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"


def test_other_volumes_are_no_matter_of_migration():
    assert migration_of(volume(csi=CSIPersistentVolumeSource(driver="d"))) is None
    assert migration_of(Volume(name="v")) is None
