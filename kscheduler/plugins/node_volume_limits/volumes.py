"""Volumes that CSI drivers have to attach for a pod.

Whether volumes of former in-tree plugins count depends on the node: there must be a CSINode.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping

import msgspec

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from kscheduler.api.csi_translation import (
    DRIVER_OF_PLUGIN,
    TranslationError,
    inline_handle,
    migration_of,
    translated,
)
from kscheduler.api.storage import StorageClass
from kscheduler.api.volume_claims import claim_name, class_of_claim, ownership_problem
from kscheduler.framework.listers import Listers
from kscheduler.framework.status import Status, failed, rejected_for_good
from kscheduler.gotext.strconv import quote

NO_NAME = "PersistentVolumeClaim had no name"

# By volume, `driver/handle`, the driver that attaches it.
Attachable = Mapping[str, str]


class PodVolumes(msgspec.Struct):
    """Volumes of one pod that drivers attach, up to the first problem.

    Claims of a pod that is on a node already may be gone; a new pod needs them all.
    """

    attachable: dict[str, str] = msgspec.field(default_factory=dict)
    problem: Status | None = None


def may_be_attached(pod: Pod) -> bool:
    """Whether the pod has a volume that a driver may have to attach."""
    return any(
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or inline_driver(volume) is not None
        for volume in pod.spec.volumes
    )


def inline_driver(volume: Volume) -> str | None:
    """The CSI driver that took over from the in-tree plugin of a volume without a claim."""
    migration = migration_of(volume)
    if migration is not None:
        return migration.driver
    return next((driver for name, driver in _NEVER_COUNTED if getattr(volume, name)), None)


# Plugins whose volumes upstream knows how to translate, and never takes for migrated.
_NEVER_COUNTED = (
    ("azure_file", "file.csi.azure.com"),
    ("vsphere_volume", "csi.vsphere.vmware.com"),
)
_NEVER_COUNTED_PLUGINS = frozenset(("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"))


class VolumeResolver:
    def __init__(self, listers: Listers) -> None:
        self._claims = listers.lister(PersistentVolumeClaim)
        self._volumes = listers.lister(PersistentVolume)
        self._classes = listers.lister(StorageClass)
        # Volumes that are still to be provisioned get handles that no existing volume has.
        self._prefix = secrets.token_hex(16)

    def of_pod(self, pod: Pod, *, is_new: bool, has_csi_node: bool) -> PodVolumes:
        found = PodVolumes()
        for volume in pod.spec.volumes:
            name = claim_name(pod.name, volume)
            if name is None:
                added = _inline_volume(volume) if has_csi_node else None
            else:
                added = self._claimed(pod, volume, name, is_new=is_new, has_csi_node=has_csi_node)
            if isinstance(added, Status):
                found.problem = added
                return found
            if added is not None:
                driver, handle = added
                found.attachable[f"{driver}/{handle}"] = driver
        return found

    def _claimed(
        self, pod: Pod, volume: Volume, name: str, *, is_new: bool, has_csi_node: bool
    ) -> tuple[str, str] | Status | None:
        """Driver and handle of the volume behind a claim; None if no driver attaches it."""
        if not name:
            return failed(NO_NAME)
        claim = self._claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            if not is_new:
                return None
            missing = f"persistentvolumeclaim {quote(name)} not found"
            return rejected_for_good(f"looking up PVC {pod.namespace}/{name}: {missing}")
        if volume.ephemeral is not None:
            problem = ownership_problem(pod, claim)
            if problem is not None:
                return failed(problem)
        bound = self._volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
        if bound is None:  # still to be provisioned
            of_class = self._classes.get(class_of_claim(claim))
            if of_class is None or of_class.provisioner in _NEVER_COUNTED_PLUGINS | {""}:
                return None
            migrated_to = DRIVER_OF_PLUGIN.get(of_class.provisioner)
            if migrated_to is not None and not has_csi_node:
                return None
            return migrated_to or of_class.provisioner, f"{self._prefix}-{claim.key}"
        source = bound.spec.csi
        if source is None:
            migration = migration_of(bound) if has_csi_node else None
            if migration is None:
                return None
            try:
                source = translated(bound, migration).spec.csi
            except TranslationError:
                return None
        if source is None or not source.driver or not source.volume_handle:
            return None
        return source.driver, source.volume_handle


def _inline_volume(volume: Volume) -> tuple[str, str] | Status | None:
    migration = migration_of(volume)
    if migration is None:
        return None
    try:
        return migration.driver, inline_handle(volume, migration)
    except TranslationError as error:
        return failed(f"converting volume({volume.name}) from inline to csi: {error}")


def claims_of(pod: Pod) -> Iterator[str]:
    """Keys, `namespace/name`, of all claims, those of ephemeral volumes included."""
    for volume in pod.spec.volumes:
        name = claim_name(pod.name, volume)
        if name is not None:
            yield f"{pod.namespace}/{name}"
