"""Claims that controllers make for a pod: of its ephemeral volumes, and from templates of device
claims.

Each replica of a pod gets claims of its own, owned by it, as in the cluster. A template that does
not exist is told; the pod then waits, as it would in the cluster.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from kscheduler.api.core import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    Pod,
    PodResourceClaimStatus,
)
from kscheduler.api.decode import decoder_for
from kscheduler.api.field_errors import invalid
from kscheduler.api.meta import ApiObject, ApiStruct, ObjectMeta, OwnerReference
from kscheduler.api.resource import ResourceClaim, ResourceClaimTemplate
from kscheduler.api.storage import StorageClass
from kscheduler.api.volume_claims import claim_name
from kscheduler.errors import KschedulerError
from kscheduler.what_if.errors import SPEC, ReviewLimitError

# Each is a request to the API server.
MAX_TEMPLATES = 100
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"

ReadTemplate = Callable[[str, str], Awaitable[ResourceClaimTemplate | None]]


class _VolumeClaimTemplate(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


# By the name of the ephemeral volume.
VolumeClaimTemplates = Mapping[str, _VolumeClaimTemplate]


class _EphemeralVolume(ApiStruct):
    volume_claim_template: _VolumeClaimTemplate = _VolumeClaimTemplate()


class _Volume(ApiStruct):
    name: str = ""
    ephemeral: _EphemeralVolume | None = None


class _PodSpec(ApiStruct):
    volumes: tuple[_Volume, ...] = ()


class _PodWithTemplates(ApiStruct):
    """The part of a pod that `api.core.Pod` does not keep, as no plugin reads it."""

    spec: _PodSpec = _PodSpec()


_decode = decoder_for(_PodWithTemplates)


class ClaimMaker:
    """Templates of the pods of one review; `notes` are worth telling."""

    def __init__(self, read_template: ReadTemplate, classes: Iterable[StorageClass]) -> None:
        self._read_template = read_template
        defaults = [one for one in classes if one.metadata.annotations.get(DEFAULT_CLASS) == "true"]
        # As admission chooses among several: the newest, then the first by name.
        defaults.sort(key=lambda one: one.name)
        defaults.sort(key=lambda one: one.metadata.creation_timestamp or "", reverse=True)
        self._default_class = defaults[0].name if defaults else None
        self._templates: dict[tuple[str, str], ResourceClaimTemplate | None] = {}
        self._serial = 0
        self.notes: dict[str, None] = {}

    async def read(self, pod: Pod, manifest: msgspec.Raw) -> VolumeClaimTemplates:
        """Templates of device claims that the pod names are read, once each, and those of its
        ephemeral volumes returned; DecodeError if one of them is none.
        """
        of_volumes: VolumeClaimTemplates = {}
        if any(volume.ephemeral is not None for volume in pod.spec.volumes):
            of_volumes = {
                one.name: one.ephemeral.volume_claim_template
                for one in _decode(manifest).spec.volumes
                if one.ephemeral is not None
            }
        for entry in pod.spec.resource_claims:
            name = entry.resource_claim_template_name
            if name is None or (pod.namespace, name) in self._templates:
                continue
            if len(self._templates) >= MAX_TEMPLATES:
                detail = f"at most {MAX_TEMPLATES} resource claim templates in one review"
                raise ReviewLimitError(invalid(SPEC / "pods", name, detail))
            called = f'resource claim template "{pod.namespace}/{name}"'
            found, note = None, f"There is no {called}: pods wait for it."
            try:
                found = await self._read_template(pod.namespace, name)
            except KschedulerError as error:
                note = f"The {called} could not be read: {error}."
            self._templates[pod.namespace, name] = found
            if found is None:
                self.notes[note] = None
        return of_volumes

    def made_for(
        self, pod: Pod, of_volumes: VolumeClaimTemplates
    ) -> tuple[Pod, tuple[ApiObject, ...]]:
        """The pod as it is when its claims have been made, and the claims."""
        made: list[ApiObject] = []
        for volume in pod.spec.volumes:
            template = of_volumes.get(volume.name)
            if template is not None:
                name = claim_name(pod.name, volume) or ""
                spec = template.spec
                if spec.storage_class_name is None:
                    spec = replace(spec, storage_class_name=self._default_class)
                metadata = self._owned(pod, name, template.metadata)
                pending = PersistentVolumeClaimStatus("Pending")
                made.append(PersistentVolumeClaim(metadata, spec, pending))
        statuses = []
        for entry in pod.spec.resource_claims:
            name = entry.resource_claim_template_name or ""
            of_devices = self._templates.get((pod.namespace, name))
            if of_devices is not None:
                inner = of_devices.spec
                metadata = self._owned(pod, f"{pod.name}-{entry.name}-review", inner.metadata)
                annotations = {**metadata.annotations, POD_CLAIM_NAME: entry.name}
                metadata = replace(metadata, annotations=annotations)
                made.append(ResourceClaim(metadata, inner.spec))
                statuses.append(PodResourceClaimStatus(entry.name, metadata.name))
        if statuses:
            status = replace(pod.status, resource_claim_statuses=tuple(statuses))
            pod = replace(pod, status=status)
        return pod, tuple(made)

    def _owned(self, pod: Pod, name: str, metadata: ObjectMeta) -> ObjectMeta:
        self._serial += 1
        owner = OwnerReference(
            api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True
        )
        return ObjectMeta(
            name=name,
            namespace=pod.namespace,
            uid=f"review/made/{self._serial}",
            resource_version="1",
            labels=metadata.labels,
            annotations=metadata.annotations,
            owner_references=(owner,),
        )
