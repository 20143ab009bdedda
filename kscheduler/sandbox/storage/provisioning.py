"""New volumes, as the drivers that classes name would make them."""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.api.core import Node, PersistentVolumeClaim
from kscheduler.api.csi_translation import DRIVER_OF_PLUGIN
from kscheduler.api.decode import decoder_for
from kscheduler.api.storage import CSINode, StorageClass
from kscheduler.api.volume_claims import SELECTED_NODE, STORAGE
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import BY_NAME, NODES, STORAGE_CLASSES
from kscheduler.sandbox.store import Object, Stored

PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_CSI_NODES, _VOLUMES = BY_NAME["csinodes.storage.k8s.io"], BY_NAME["persistentvolumes"]
_node = decoder_for(Node)
_csi_node = decoder_for(CSINode)


class Provisioning:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def make(self, claim: PersistentVolumeClaim, of_class: StorageClass) -> Stored:
        """A volume kept for the claim; the one there is, if it was made before."""
        name = f"pvc-{claim.uid}"
        made = self._registry.collection(_VOLUMES).get(("", name))
        if made is not None:
            return made
        driver = DRIVER_OF_PLUGIN.get(of_class.provisioner, of_class.provisioner)
        spec: Object = {
            "accessModes": list(claim.spec.access_modes),
            "capacity": {STORAGE: claim.spec.resources.requests[STORAGE]},
            "claimRef": {
                **{"kind": "PersistentVolumeClaim", "apiVersion": "v1"},
                **{"namespace": claim.namespace, "name": claim.name, "uid": claim.uid},
            },
            "csi": {"driver": driver, "volumeHandle": name},
            "persistentVolumeReclaimPolicy": self._reclaim_policy(of_class),
            "storageClassName": of_class.name,
            "volumeMode": claim.spec.volume_mode,
        }
        terms = self._reachable_from(claim, of_class, driver)
        if terms:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        metadata = {"name": name, "annotations": {PROVISIONED_BY: of_class.provisioner}}
        return self._registry.create(_VOLUMES, "", {"metadata": metadata, "spec": spec})

    def _reclaim_policy(self, of_class: StorageClass) -> str:
        stored = self._registry.get(STORAGE_CLASSES, "", of_class.name)
        return str(stored.decode()["reclaimPolicy"])

    def _reachable_from(
        self, claim: PersistentVolumeClaim, of_class: StorageClass, driver: str
    ) -> list[Object]:
        """Terms of a node selector; none for a volume that can be reached from everywhere."""
        selected = claim.metadata.annotations.get(SELECTED_NODE)
        if selected is None:
            return [
                _term({one.key: list(one.values) for one in term.match_label_expressions})
                for term in of_class.allowed_topologies
            ]
        keys = {
            one.key for term in of_class.allowed_topologies for one in term.match_label_expressions
        }
        keys |= self._topology_keys(selected, driver)
        node = self._registry.collection(NODES).get(("", selected))
        labels = {} if node is None else _node(node.body).metadata.labels
        shared = {key: [labels[key]] for key in sorted(keys) if key in labels}
        return [_term(shared)] if shared else []

    def _topology_keys(self, node: str, driver: str) -> set[str]:
        stored = self._registry.collection(_CSI_NODES).get(("", node))
        drivers = () if stored is None else _csi_node(stored.body).spec.drivers or ()
        return {key for one in drivers if one.name == driver for key in one.topology_keys or ()}


def _term(values: Mapping[str, list[str]]) -> Object:
    return {
        "matchExpressions": [
            {"key": key, "operator": "In", "values": wanted} for key, wanted in values.items()
        ]
    }
