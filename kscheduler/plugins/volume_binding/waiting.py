"""What became of volumes that were asked for: bound, still under way, or lost to the pod.

Only what the server tells counts here, not what is assumed: an attempt for another pod may assume
anything meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.api.core import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kscheduler.api.meta import ApiObject
from kscheduler.api.storage import CSINode
from kscheduler.api.volume_claims import SELECTED_NODE, is_fully_bound
from kscheduler.errors import KschedulerError
from kscheduler.framework.listers import Listers
from kscheduler.logs import quote
from kscheduler.plugins.volume_binding.claims import Claims
from kscheduler.plugins.volume_binding.migration import is_migrated
from kscheduler.plugins.volume_binding.volumes import Volumes
from kscheduler.state.pod_info import PodInfo


class LostError(KschedulerError):
    """Raised when waiting has become pointless; the attempt must be made anew."""


class Progress:
    def __init__(self, listers: Listers, volumes: Volumes, claims: Claims) -> None:
        self._pods = listers.lister(Pod)
        self._nodes = listers.lister(Node)
        self._csi_nodes = listers.lister(CSINode)
        self._volumes = volumes
        self._claims = claims

    def is_complete(
        self,
        pod: PodInfo,
        node_name: str,
        bindings: Sequence[tuple[PersistentVolumeClaim, PersistentVolume]],
        provisioned: Sequence[PersistentVolumeClaim],
    ) -> bool:
        """Whether all claims are bound, given volumes and claims as we wrote them; LostError."""
        node = self._nodes.get(node_name)
        if node is None:
            missing = f"node {quote(node_name)} not found"
            raise LostError(f"failed to get node {quote(node_name)}: {missing}")
        if self._pods.get(pod.key) is None:
            raise LostError(f"pod does not exist any more: pod {quote(pod.name)} not found")
        return all(self._is_bound(claim, volume, node) for claim, volume in bindings) and all(
            self._is_provisioned(claim, node) for claim in provisioned
        )

    def _is_bound(
        self, wanted: PersistentVolumeClaim, written: PersistentVolume, node: Node
    ) -> bool:
        try:
            volume = self._volumes.known(written.name)
            claim = self._claims.known(wanted.key)
        except KschedulerError as error:
            raise LostError(f"failed to check binding: {error}") from error
        if _is_newer(written, volume):
            return False
        try:
            self._check_reach(volume, node)
        except _TranslationError as error:
            raise LostError(f"failed to translate pv to csi: {error}") from error
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise LostError(f"ClaimRef got reset for pv {quote(volume.name)}")
        return is_fully_bound(claim)

    def _is_provisioned(self, written: PersistentVolumeClaim, node: Node) -> bool:
        try:
            claim = self._claims.known(written.key)
        except KschedulerError as error:
            raise LostError(f"failed to check provisioning pvc: {error}") from error
        if _is_newer(written, claim):
            return False
        annotations = claim.metadata.annotations
        if not annotations:
            raise LostError(f"selectedNode annotation reset for PVC {quote(claim.name)}")
        if annotations.get(SELECTED_NODE, "") != node.name:
            raise LostError(f"provisioning failed for PVC {quote(claim.name)}")
        if claim.spec.volume_name:
            volume = self._volumes.as_told(claim.spec.volume_name)
            if volume is None:
                # Claims and volumes are followed apart; it may be a moment late.
                return False
            self._check_reach(volume, node)
        return is_fully_bound(claim)

    def _check_reach(self, volume: PersistentVolume, node: Node) -> None:
        offer = self._volumes.offer(volume)
        reach = offer.reach
        if is_migrated(offer.migrated_from, self._csi_nodes.get(node.name)):
            if offer.migration_problem:
                raise _TranslationError(f"could not translate pv: {offer.migration_problem}")
            reach = offer.migrated_reach
        problem = None if reach is None else reach.problem(node.metadata.labels)
        if problem is not None:
            raise LostError(
                f"pv {quote(volume.name)} node affinity doesn't match "
                f"node {quote(node.name)}: {problem}"
            )


class _TranslationError(LostError):
    pass


def _is_newer(one: ApiObject, other: ApiObject) -> bool:
    """By version; the server counts them up."""
    return int(one.metadata.resource_version or 0) > int(other.metadata.resource_version or 0)
