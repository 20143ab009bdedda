"""Volumes of plugins that once were part of Kubernetes, seen as volumes of the CSI drivers that
replaced them.

Mirrors csi-translation-lib as far as schedulers use it: the driver's name, its handle for the
volume and the nodes from which the volume can be reached. Differs: azure-file and vsphere-volume
are known by name only, as upstream's scheduler never takes them for migrated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from kscheduler.api.core import (
    CSIPersistentVolumeSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    Volume,
    VolumeNodeAffinity,
)
from kscheduler.errors import KschedulerError

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE_DELIMITER = "__"

AWS_EBS = "kubernetes.io/aws-ebs"
GCE_PD = "kubernetes.io/gce-pd"
AZURE_DISK = "kubernetes.io/azure-disk"
CINDER = "kubernetes.io/cinder"
PORTWORX = "kubernetes.io/portworx-volume"

_UNSPECIFIED = "UNSPECIFIED"
_EBS_VOLUME = re.compile(r"vol-[^/]*")


class TranslationError(KschedulerError):
    """Raised for a volume that cannot be expressed as one of its driver; the wording is
    upstream's.
    """


class Migration(NamedTuple):
    """The in-tree plugin that one CSI driver has replaced."""

    plugin: str
    driver: str
    # The field of a volume's source, in PersistentVolume specs as in Volumes of pods.
    field: str
    # The driver's name for a volume, given its source and the labels of its PersistentVolume.
    handle: Callable[[Any, Mapping[str, str]], str]
    # Label key of the driver's nodes in place of the zone's; "" leaves affinity as it is.
    topology_key: str = ""


def _ebs_handle(source: Any, _labels: Mapping[str, str]) -> str:
    """`aws://zone/vol-1`, `aws:///vol-1` or just `vol-1`."""
    if not source.volume_id.startswith("aws://"):
        return str(source.volume_id)
    handle = unquote(urlsplit(source.volume_id).path).strip("/")
    if not _EBS_VOLUME.fullmatch(handle):
        raise TranslationError(
            "failed to translate Kubernetes ID to EBS Volume ID "
            f"Invalid format for AWS volume ({source.volume_id})"
        )
    return handle


def _gce_handle(source: Any, labels: Mapping[str, str]) -> str:
    """A disk of one zone is named by it; one of several by the region that they all are in."""
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE) or _UNSPECIFIED).split(ZONE_DELIMITER)
    if len(zones) == 1:
        return f"projects/{_UNSPECIFIED}/zones/{zones[0]}/disks/{source.pd_name}"
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise TranslationError(
                "failed to get region from zones: zone in unexpected format, "
                f"expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        listed = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise TranslationError(
            "failed to get region from zones: "
            f"multiple or no regions gotten from zones, got: map[{listed}]"
        )
    return f"projects/{_UNSPECIFIED}/regions/{regions.pop()}/disks/{source.pd_name}"


def _azure_handle(source: Any, _labels: Mapping[str, str]) -> str:
    if source.kind is not None and source.kind.lower() != "managed":
        raise TranslationError(f"kind({source.kind}) is not supported in csi migration")
    return str(source.disk_uri)


def _own_handle(source: Any, _labels: Mapping[str, str]) -> str:
    return str(source.volume_id)


MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        AWS_EBS,
        "ebs.csi.aws.com",
        "aws_elastic_block_store",
        _ebs_handle,
        "topology.ebs.csi.aws.com/zone",
    ),
    Migration(
        GCE_PD, "pd.csi.storage.gke.io", "gce_persistent_disk", _gce_handle, "topology.gke.io/zone"
    ),
    Migration(AZURE_DISK, "disk.csi.azure.com", "azure_disk", _azure_handle),
    Migration(
        CINDER,
        "cinder.csi.openstack.org",
        "cinder",
        _own_handle,
        "topology.cinder.csi.openstack.org/zone",
    ),
    Migration(PORTWORX, "pxd.portworx.com", "portworx_volume", _own_handle),
)

# Provisioners as classes name them → drivers.
DRIVER_OF_PLUGIN: Mapping[str, str] = {one.plugin: one.driver for one in MIGRATIONS}


def migration_of(volume: PersistentVolume | Volume) -> Migration | None:
    """The migration that a volume falls under; None if it is not of a migrated plugin."""
    source = volume.spec if isinstance(volume, PersistentVolume) else volume
    return next((one for one in MIGRATIONS if getattr(source, one.field) is not None), None)


def inline_handle(volume: Volume, migration: Migration) -> str:
    """The driver's name for a volume that a pod mounts without a claim."""
    return migration.handle(getattr(volume, migration.field), {})


def translated(volume: PersistentVolume, migration: Migration) -> PersistentVolume:
    """A volume of the driver that stands for this one; raises TranslationError."""
    spec = volume.spec
    handle = migration.handle(getattr(spec, migration.field), volume.metadata.labels)
    affinity = spec.node_affinity
    if migration.topology_key:
        affinity = _translated_affinity(volume, migration.topology_key)
    source = CSIPersistentVolumeSource(driver=migration.driver, volume_handle=handle)
    changes = {migration.field: None, "csi": source, "node_affinity": affinity}
    return replace(volume, spec=replace(spec, **changes))


def _translated_affinity(volume: PersistentVolume, key: str) -> VolumeNodeAffinity | None:
    """Zones under the driver's key, in affinity or else from labels, and no beta regions."""
    affinity, labels = volume.spec.node_affinity, volume.metadata.labels
    terms: tuple[NodeSelectorTerm, ...] = ()
    if affinity is not None and affinity.required is not None:
        terms = affinity.required.node_selector_terms
    zone, region = _topology_labels(terms, labels)
    renamed = {zone: key} if _values(terms, zone) else {}
    if region == BETA_REGION and _values(terms, region):
        renamed[region] = REGION
    terms = tuple(
        NodeSelectorTerm(
            tuple(replace(x, key=renamed.get(x.key, x.key)) for x in term.match_expressions),
            term.match_fields,
        )
        for term in terms
    )
    if zone not in renamed and zone in labels:
        zones = {part.strip() for part in labels[zone].split(ZONE_DELIMITER)} - {""}
        if zones:
            there = NodeSelectorRequirement(key, "In", tuple(sorted(zones)))
            terms = tuple(
                replace(term, match_expressions=(*term.match_expressions, there))
                for term in terms or (NodeSelectorTerm(),)
            )
    if not terms:
        return affinity
    return VolumeNodeAffinity(NodeSelector(terms))


def _topology_labels(
    terms: tuple[NodeSelectorTerm, ...], labels: Mapping[str, str]
) -> tuple[str, str]:
    """The keys of zone and region that this volume uses: in affinity first, then in labels."""
    keys = {requirement.key for term in terms for requirement in term.match_expressions}
    for named in (keys, labels):
        if ZONE in named:
            return ZONE, REGION
        if BETA_ZONE in named:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _values(terms: tuple[NodeSelectorTerm, ...], key: str) -> set[str]:
    return {
        value
        for term in terms
        for requirement in term.match_expressions
        if requirement.key == key
        for value in requirement.values
    }
