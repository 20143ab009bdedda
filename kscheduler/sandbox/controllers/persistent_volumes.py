"""The persistent volume controller: claims bound to volumes, volumes provisioned and released.

Mirrors pkg/controller/volume/persistentvolume, with every external provisioner played in place. A
claim gets a volume at once, or when a scheduler has chosen one or selected a node, as its class
says. Every provisioner a class names can make volumes, save `kubernetes.io/no-provisioner`; what it
makes can be reached from where its driver's topology says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from kscheduler.api import quantity
from kscheduler.api.core import Node, PersistentVolume, PersistentVolumeClaim
from kscheduler.api.csi_translation import DRIVER_OF_PLUGIN
from kscheduler.api.decode import decoder_for
from kscheduler.api.labels import compile_selector
from kscheduler.api.storage import CSINode, StorageClass
from kscheduler.api.volume_claims import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    NO_PROVISIONER,
    SELECTED_NODE,
    STORAGE,
    WAIT_FOR_FIRST_CONSUMER,
    class_of_claim,
    class_of_volume,
    is_fully_bound,
    is_meant_for,
    requested_storage,
)
from kscheduler.sandbox.metadata import now
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import BY_NAME, NODES, STORAGE_CLASSES
from kscheduler.sandbox.store import Key, Object, Stored

CLAIMS, VOLUMES = BY_NAME["persistentvolumeclaims"], BY_NAME["persistentvolumes"]
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_CSI_NODES = BY_NAME["csinodes.storage.k8s.io"]
_decode_claim = decoder_for(PersistentVolumeClaim)
_decode_volume = decoder_for(PersistentVolume)
_decode_class = decoder_for(StorageClass)
_decode_node = decoder_for(Node)
_decode_csi_node = decoder_for(CSINode)


class PersistentVolumeController:
    """Binds claims and volumes; a changed volume must be synced before claims that may want it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._index = _VolumeIndex()
        self.pending: set[Key] = set()  # claims that have no volume yet

    def sync_claim(self, key: Key) -> None:
        """Bind a claim to a volume if there is one for it, or mark it Lost without its volume."""
        stored = self._registry.collection(CLAIMS).get(key)
        self.pending.discard(key)
        if stored is None:
            return
        claim = _decode_claim(stored.body)
        if is_fully_bound(claim):
            volume = self._registry.collection(VOLUMES).get(("", claim.spec.volume_name))
            phase = "Lost" if volume is None else "Bound"
            if claim.status.phase != phase:
                item = stored.decode()
                item["status"]["phase"] = phase
                self._registry.replace(CLAIMS, stored.key, item)
        elif claim.metadata.deletion_timestamp is None:
            volume = self._find_volume(claim)
            if volume is None:
                self.pending.add(key)
            else:
                self._bind(volume, stored, claim)

    def sync_volume(self, key: Key) -> Key | None:
        """Give a volume the phase it should have; the claim to sync next, if there is one."""
        stored = self._registry.collection(VOLUMES).get(key)
        if stored is None:
            self._index.remove(key[1])
            return None
        volume = _decode_volume(stored.body)
        self._index.put(volume)
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            self._enter_phase(stored, "Available")
            return None if reference is None else (reference.namespace, reference.name)
        claim_key = reference.namespace, reference.name
        claim = self._registry.collection(CLAIMS).get(claim_key)
        if claim is not None and _decode_claim(claim.body).uid == reference.uid:
            return claim_key
        # The claim is gone: reclaim the volume as its policy says.
        if stored.decode()["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self._registry.collection(VOLUMES).remove(stored.key)
        else:
            self._enter_phase(stored, "Released")
        return None

    def _find_volume(self, claim: PersistentVolumeClaim) -> Stored | None:
        """The volume a claim names or that names it, else the smallest fitting, else a new one."""
        volumes = self._registry.collection(VOLUMES)
        if claim.spec.volume_name:
            named = volumes.get(("", claim.spec.volume_name))
            if named is None:
                return None
            volume = _decode_volume(named.body)
            free = volume.spec.claim_ref is None or is_meant_for(volume, claim)
            return named if free else None
        prebound = self._index.prebound_to(claim)
        if prebound is not None:
            return volumes.get(("", prebound.name))
        stored_class = self._registry.collection(STORAGE_CLASSES).get(("", class_of_claim(claim)))
        storage_class = None if stored_class is None else _decode_class(stored_class.body)
        if (
            storage_class is not None
            and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
            and SELECTED_NODE not in claim.metadata.annotations
        ):
            return None  # a scheduler has to say first where the volume is wanted
        smallest = self._index.smallest_fitting(claim)
        if smallest is not None:
            return volumes.get(("", smallest.name))
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            return None
        return self._provision(claim, storage_class)

    def _bind(self, volume: Stored, stored: Stored, claim: PersistentVolumeClaim) -> None:
        """Write the volume's side of a binding, then the claim's, as upstream orders them."""
        volume_item = volume.decode()
        spec = volume_item["spec"]
        if not (spec.get("claimRef") or {}).get("uid"):
            if "claimRef" not in spec:
                _annotate(volume_item, BOUND_BY_CONTROLLER)
            spec["claimRef"] = {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": claim.uid,
                "resourceVersion": claim.metadata.resource_version,
            }
        _set_phase(volume_item, "Bound")
        self._registry.replace(VOLUMES, volume.key, volume_item)
        claim_item = stored.decode()
        if not claim.spec.volume_name:
            claim_item["spec"]["volumeName"] = volume.key[1]
            _annotate(claim_item, BOUND_BY_CONTROLLER)
        _annotate(claim_item, BIND_COMPLETED)
        claim_item["status"] = {
            "phase": "Bound",
            "accessModes": spec["accessModes"],
            "capacity": spec["capacity"],
        }
        self._registry.replace(CLAIMS, stored.key, claim_item)

    def _enter_phase(self, stored: Stored, phase: str) -> None:
        item = stored.decode()
        if item["status"].get("phase") != phase:
            _set_phase(item, phase)
            self._registry.replace(VOLUMES, stored.key, item)

    def _provision(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Stored:
        """A volume prebound to the claim; the existing one, if it was provisioned before."""
        name = f"pvc-{claim.uid}"
        existing = self._registry.collection(VOLUMES).get(("", name))
        if existing is not None:
            return existing
        driver = DRIVER_OF_PLUGIN.get(storage_class.provisioner, storage_class.provisioner)
        # The struct of a class leaves the policy out; the stored object always has it.
        stored_class = self._registry.get(STORAGE_CLASSES, "", storage_class.name).decode()
        spec: Object = {
            "accessModes": list(claim.spec.access_modes),
            "capacity": {STORAGE: claim.spec.resources.requests[STORAGE]},
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": claim.uid,
            },
            "csi": {"driver": driver, "volumeHandle": name},
            "persistentVolumeReclaimPolicy": str(stored_class["reclaimPolicy"]),
            "storageClassName": storage_class.name,
            "volumeMode": claim.spec.volume_mode,
        }
        terms = self._accessible_topology(claim, storage_class, driver)
        if terms:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        metadata = {"name": name, "annotations": {PROVISIONED_BY: storage_class.provisioner}}
        return self._registry.create(VOLUMES, "", {"metadata": metadata, "spec": spec})

    def _accessible_topology(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, driver: str
    ) -> list[Object]:
        """Node selector terms of a new volume; none when it can be reached from every node.

        Without a selected node the class's allowed topologies hold. With one, the volume lies where
        that node is, in the keys the class or the driver's entry in the CSINode name.
        """
        allowed = storage_class.allowed_topologies
        selected = claim.metadata.annotations.get(SELECTED_NODE)
        if selected is None:
            return [
                _selector_term({one.key: list(one.values) for one in term.match_label_expressions})
                for term in allowed
            ]
        keys = {one.key for term in allowed for one in term.match_label_expressions}
        csi_node = self._registry.collection(_CSI_NODES).get(("", selected))
        drivers = () if csi_node is None else _decode_csi_node(csi_node.body).spec.drivers or ()
        keys |= {key for one in drivers if one.name == driver for key in one.topology_keys or ()}
        node = self._registry.collection(NODES).get(("", selected))
        labels = {} if node is None else _decode_node(node.body).metadata.labels
        shared = {key: [labels[key]] for key in sorted(keys) if key in labels}
        return [_selector_term(shared)] if shared else []


class _VolumeIndex:
    """Volumes by the claim they are prebound to, or by class when they are unbound.

    Invariant: a volume is in exactly one of the two sets, by its `claimRef`.
    """

    def __init__(self) -> None:
        self._volumes: dict[str, PersistentVolume] = {}
        self._by_claim: defaultdict[Key, set[str]] = defaultdict(set)
        self._unbound_by_class: defaultdict[str, set[str]] = defaultdict(set)

    def put(self, volume: PersistentVolume) -> None:
        self.remove(volume.name)
        self._volumes[volume.name] = volume
        self._names_beside(volume).add(volume.name)

    def remove(self, name: str) -> None:
        volume = self._volumes.pop(name, None)
        if volume is not None:
            self._names_beside(volume).discard(name)

    def _names_beside(self, volume: PersistentVolume) -> set[str]:
        reference = volume.spec.claim_ref
        if reference is None:
            return self._unbound_by_class[class_of_volume(volume)]
        return self._by_claim[reference.namespace, reference.name]

    def prebound_to(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        names = sorted(self._by_claim.get((claim.namespace, claim.name), ()))
        volumes = (self._volumes[name] for name in names)
        return next((volume for volume in volumes if is_meant_for(volume, claim)), None)

    def smallest_fitting(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The smallest unbound volume of the claim's class that fits it; of equals, the first."""
        names = sorted(self._unbound_by_class.get(class_of_claim(claim), ()))
        modes, selector = set(claim.spec.access_modes), claim.spec.selector
        fitting = [
            volume
            for volume in (self._volumes[name] for name in names)
            if volume.metadata.deletion_timestamp is None
            and volume.spec.volume_mode == claim.spec.volume_mode
            and modes <= set(volume.spec.access_modes)
            and quantity.compare(volume.spec.capacity.get(STORAGE, 0), requested_storage(claim))
            >= 0
            and (selector is None or compile_selector(selector).matches(volume.metadata.labels))
        ]
        return min(
            fitting,
            key=lambda volume: quantity.nano_value(volume.spec.capacity[STORAGE]),
            default=None,
        )


def _annotate(item: Object, name: str) -> None:
    item["metadata"].setdefault("annotations", {})[name] = "yes"


def _set_phase(volume: Object, phase: str) -> None:
    state = volume.setdefault("status", {})
    if state.get("phase") != phase:
        state |= {"phase": phase, "lastPhaseTransitionTime": now()}


def _selector_term(values: Mapping[str, list[str]]) -> Object:
    return {
        "matchExpressions": [
            {"key": key, "operator": "In", "values": wanted} for key, wanted in values.items()
        ]
    }
