"""Claims of the pods of a review, as controllers and drivers would treat them, on the fork.

    put_made   before a pod is decided on: claims that controllers make for it, from templates
    settle     when it has a node: its volumes are bound or provisioned, and attached, its devices
               allocated and reserved, as they are in the cluster once it runs
    release    when it leaves its node: its volumes are detached, its reservations end, devices that
               no other pod uses are free, and what was made for it is as new

Mirrors, as far as later decisions see it, what the volume, ephemeral volume, attach/detach and
resource claim controllers do, and external provisioners. Differs: all of it is done at once. In the
cluster the volumes and devices of a pod that was evicted may still be taken when the pod is tried
for which it had to go. A provisioned volume can be used from the nodes that have
the selected node's values of the topology keys which the driver's entry in the CSINode names, or
the storage class; where neither names any, from all nodes, as such a driver does not know where its
volumes are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from kscheduler.api.core import (
    CSIPersistentVolumeSource,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    VolumeNodeAffinity,
)
from kscheduler.api.csi_translation import DRIVER_OF_PLUGIN
from kscheduler.api.meta import ApiObject, ObjectMeta
from kscheduler.api.resource import ResourceClaim
from kscheduler.api.storage import (
    CSIDriver,
    CSINode,
    StorageClass,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from kscheduler.api.volume_claims import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    claim_name,
    class_of_claim,
    is_fully_bound,
    requested_storage,
)
from kscheduler.dra.claims import ClaimTracker
from kscheduler.framework.cluster_event import (
    RESOURCE_CLAIM,
    VOLUME_ATTACHMENT,
    Action,
    ClusterEvent,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.dynamic_resources.claims import claim_keys, deallocated, reference_to
from kscheduler.plugins.dynamic_resources.state import PodClaims
from kscheduler.plugins.volume_binding.plugin import VolumeBindingState
from kscheduler.state.cache import Cache
from kscheduler.state.pod_info import PodInfo
from kscheduler.what_if.listers import ForkListers

T = TypeVar("T", bound=ApiObject)

RESOURCE_CLAIM_UPDATE = ClusterEvent(RESOURCE_CLAIM, Action.UPDATE)
RESOURCE_CLAIM_DELETE = ClusterEvent(RESOURCE_CLAIM, Action.DELETE)
VOLUME_ATTACHMENT_DELETE = ClusterEvent(VOLUME_ATTACHMENT, Action.DELETE)

ONE_NODE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})

# The event, and the object before and after.
ObjectEvent = tuple[ClusterEvent, ApiObject, ApiObject | None]


class ForkClaims:
    """Volume claims and device claims of a fork; `tracker` is that of the fork's plugins."""

    def __init__(self, listers: ForkListers, cache: Cache, tracker: ClaimTracker) -> None:
        self._listers = listers
        self._cache = cache
        self._tracker = tracker
        self._volumes = listers.lister(PersistentVolume)
        self._drivers = listers.lister(CSIDriver)
        # By volume and node; made when the first pod with a volume is placed.
        self._attached: dict[str, dict[str, VolumeAttachment]] | None = None
        self._device_claims = listers.lister(ResourceClaim)
        self._volume_claims = listers.lister(PersistentVolumeClaim)
        self._classes = listers.lister(StorageClass)
        self._csi_nodes = listers.lister(CSINode)
        self._serial = 0

    def put_made(self, made: Iterable[ApiObject]) -> None:
        """Claims that controllers make for a pod; those that are there stay as they are."""
        for item in made:
            known = self._listers.lister(type(item)).get(item.key)
            if known is None or known.uid != item.uid:
                self._listers.put(item)

    def settle(self, cycle: CycleState, pod: PodInfo, node: Node) -> None:
        """The pod's claims as they are when it is bound; follows Reserve."""
        volumes = cycle.get(VolumeBindingState)
        if volumes is not None and volumes.assumed is not None:
            for binding in volumes.assumed.static_bindings:
                self._bind(binding.claim, binding.volume)
            for provision in volumes.assumed.dynamic_provisions:
                self._bind(provision.claim, self._provisioned(provision.claim, node))
        for volume, driver in self._attachable(pod):
            there = self._attachments_of(volume)
            # One that is for a single node is not attached to a second.
            one_node = ONE_NODE.issuperset(volume.spec.access_modes)
            if not there or (node.name not in there and not one_node):
                source = VolumeAttachmentSource(persistent_volume_name=volume.name)
                spec = VolumeAttachmentSpec(driver, source, node.name)
                metadata = ObjectMeta(name=f"csi-{volume.name}-{node.name}")
                there[node.name] = VolumeAttachment(metadata, spec)
                self._listers.put(there[node.name])
        devices = cycle.get(PodClaims)
        if devices is None:
            return
        if devices.special is not None and devices.special.uid in devices.allocations:
            # The claim for extended resources, which PreBind would create.
            special = devices.special
            name = f"{pod.name}-extended-resources-{self._next()}"
            named = replace(special, metadata=replace(special.metadata, name=name))
            self._tracker.created(special.uid, named)
            self._reserve(named, devices, pod)
        for claim in devices.claims:
            self._reserve(claim, devices, pod)

    def release(self, pod: PodInfo) -> Iterator[ObjectEvent]:
        """Ends what the pod, which has left its node, has of its claims; tells the changes that may
        help other pods.
        """
        yield from self._detach(pod)
        special = self._tracker.special_claim_of(pod.pod)
        if special is not None:
            self._listers.remove(special)
            yield RESOURCE_CLAIM_DELETE, special, None
        for key in claim_keys(pod.pod):
            claim = self._device_claims.get(key)
            if claim is None:
                continue
            users = claim.status.reserved_for
            left = tuple([one for one in users if one.uid != pod.uid])
            if len(left) == len(users):
                continue
            changed = deallocated(claim)
            if left:
                changed = replace(claim, status=replace(claim.status, reserved_for=left))
            changed = _renewed(changed)
            self._listers.put(changed)
            yield RESOURCE_CLAIM_UPDATE, claim, changed
        for volume in pod.pod.spec.volumes:
            if volume.ephemeral is not None:
                name = claim_name(pod.name, volume)
                of_pod = self._volume_claims.get(f"{pod.namespace}/{name}")
                if of_pod is not None:
                    self._listers.put(self._as_new(of_pod))

    def _attachable(self, pod: PodInfo) -> Iterator[tuple[PersistentVolume, str]]:
        """Bound volumes of the pod that have to be attached to its node, and their drivers."""
        for source in pod.pod.spec.volumes:
            name = claim_name(pod.name, source)
            claim = None if name is None else self._volume_claims.get(f"{pod.namespace}/{name}")
            if claim is None or not is_fully_bound(claim):
                continue
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is not None and volume.spec.csi is not None:
                driver = self._drivers.get(volume.spec.csi.driver)
                if driver is None or driver.spec.attach_required is not False:
                    yield volume, volume.spec.csi.driver

    def _attachments_of(self, volume: PersistentVolume) -> dict[str, VolumeAttachment]:
        """Attachments of the volume, by node."""
        if self._attached is None:
            self._attached = {}
            for one in self._listers.lister(VolumeAttachment).items():
                name = one.spec.source.persistent_volume_name
                if name is not None:
                    self._attached.setdefault(name, {})[one.spec.node_name] = one
        return self._attached.setdefault(volume.name, {})

    def _detach(self, pod: PodInfo) -> Iterator[ObjectEvent]:
        nodes = self._cache.snapshot()
        row = nodes.row_of(pod.node_name)
        volumes = [volume for volume, _ in self._attachable(pod)]
        if row is None or not volumes:
            return
        used = {one.name for other in nodes.pods(row) for one, _ in self._attachable(other)}
        for volume in volumes:
            attachment = None
            if volume.name not in used:
                attachment = self._attachments_of(volume).pop(pod.node_name, None)
            if attachment is not None:
                self._listers.remove(attachment)
                yield VOLUME_ATTACHMENT_DELETE, attachment, None

    def _reserve(self, claim: ResourceClaim, devices: PodClaims, pod: PodInfo) -> None:
        status = claim.status
        allocation = devices.allocations.get(claim.uid, status.allocation)
        users = status.reserved_for
        if all(one.uid != pod.uid for one in users):
            users = (*users, reference_to(pod.pod))
        status = replace(status, allocation=allocation, reserved_for=users)
        self._listers.put(_renewed(replace(claim, status=status)))
        self._tracker.release(claim.uid)

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        self._listers.put(_renewed(replace(volume, status=PersistentVolumeStatus("Bound"))))
        metadata, spec = claim.metadata, volume.spec
        annotations = {**metadata.annotations, BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
        bound = replace(
            claim,
            metadata=replace(metadata, annotations=annotations),
            spec=replace(claim.spec, volume_name=volume.name),
            status=PersistentVolumeClaimStatus("Bound", spec.capacity, spec.access_modes),
        )
        self._listers.put(_renewed(bound))

    def _provisioned(self, claim: PersistentVolumeClaim, node: Node) -> PersistentVolume:
        of_class = self._classes.get(class_of_claim(claim)) or StorageClass()
        driver = DRIVER_OF_PLUGIN.get(of_class.provisioner, of_class.provisioner)
        terms = of_class.allowed_topologies
        keys = {one.key for term in terms for one in term.match_label_expressions}
        csi_node = self._csi_nodes.get(node.name)
        for one in () if csi_node is None else csi_node.spec.drivers or ():
            if one.name == driver:
                keys |= {*(one.topology_keys or ())}
        labels = node.metadata.labels
        requirements = tuple(
            NodeSelectorRequirement(key, "In", (labels[key],))
            for key in sorted(keys)
            if key in labels
        )
        affinity = None
        if requirements:
            term = NodeSelectorTerm(match_expressions=requirements)
            affinity = VolumeNodeAffinity(NodeSelector((term,)))
        return PersistentVolume(
            ObjectMeta(name=f"pvc-{claim.uid}", uid=f"review/volume/{self._next()}"),
            PersistentVolumeSpec(
                capacity={"storage": requested_storage(claim)},
                access_modes=claim.spec.access_modes,
                claim_ref=ObjectReference(
                    kind="PersistentVolumeClaim",
                    namespace=claim.namespace,
                    name=claim.name,
                    uid=claim.uid,
                ),
                storage_class_name=of_class.name,
                volume_mode=claim.spec.volume_mode,
                node_affinity=affinity,
                csi=CSIPersistentVolumeSource(driver=driver, volume_handle=f"pvc-{claim.uid}"),
            ),
        )

    def _as_new(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """The claim as it is made again; its volume names the one before by uid."""
        binding = (BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE)
        metadata = claim.metadata
        annotations = {
            name: value for name, value in metadata.annotations.items() if name not in binding
        }
        uid = f"review/claim/{self._next()}"
        made = replace(
            claim,
            metadata=replace(metadata, uid=uid, annotations=annotations),
            spec=replace(claim.spec, volume_name=""),
            status=PersistentVolumeClaimStatus("Pending"),
        )
        return _renewed(made)

    def _next(self) -> int:
        self._serial += 1
        return self._serial


def _renewed(item: T) -> T:
    """The object in a later version, so that it counts more than what plugins assumed of it."""
    version = item.metadata.resource_version
    later = str(int(version) + 1) if version.isdecimal() else f"{version}+"
    return replace(item, metadata=replace(item.metadata, resource_version=later))
