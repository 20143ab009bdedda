"""The volume binder: from a pod's claims to bound volumes.

    get_pod_volume_claims   PreFilter: which claims are bound, which wait for the pod's node
    (find_volumes           Filter and Score: volumes for every node)
    assume_pod_volumes      Reserve: later decisions see the volumes of the chosen node as taken
    bind_pod_volumes        PreBind: write them, then wait until everything is bound
    revert_assumed_pod_volumes    Unreserve

The scheduler only writes which volume is for which claim, and for which node a volume is to be
provisioned; the volume controller and the drivers do the rest. Nothing that was written is taken
back: when an attempt fails later, the next one finds it and goes on from there.

Mirrors SchedulerVolumeBinder of upstream. Differs: what is waited for is looked at when a watch
tells of it, and not only every second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from kscheduler import logs
from kscheduler.api.core import (
    Node,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Volume,
)
from kscheduler.api.meta import ApiObject
from kscheduler.api.storage import CSINode, StorageClass
from kscheduler.api.volume_claims import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    claim_name,
    class_of_claim,
    is_fully_bound,
    is_meant_for,
    ownership_problem,
)
from kscheduler.errors import KschedulerError
from kscheduler.framework.handle import ApiCalls
from kscheduler.framework.listers import Listers
from kscheduler.framework.status import Status, failed, rejected_for_good
from kscheduler.gotext.strconv import quote
from kscheduler.plugins.volume_binding.assume_cache import PVAssumeCache, PVCAssumeCache
from kscheduler.plugins.volume_binding.find_volumes import (
    DelayedClaim,
    PodVolumeClaims,
    PodVolumes,
)
from kscheduler.plugins.volume_binding.volume_traits import is_migrated
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__, "PreBind.VolumeBinding")

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
# How often bindings are looked at without any news of them; and the pause after the first news,
# which doubles up to that: a look goes over all claims of a pod, and each of them may be news.
LOOK_SECONDS = 1.0
NEWS_SECONDS = 0.005


class BindingTimeoutError(KschedulerError):
    """Raised when the volumes are not bound in time."""


class BindingLostError(KschedulerError):
    """Raised when waiting has become pointless; the attempt must be made anew."""


class _TranslationError(BindingLostError):
    pass


class StaticBinding(msgspec.Struct):
    """A claim and the volume for it, as assumed or, once that is done, as written."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume
    is_written: bool = False


class DynamicProvision(msgspec.Struct):
    """A claim with the selected node, as assumed or as written."""

    claim: PersistentVolumeClaim
    is_written: bool = False


class AssumedPodVolumes(msgspec.Struct):
    static_bindings: list[StaticBinding]
    dynamic_provisions: list[DynamicProvision]


class VolumeBinder:
    """`clock` is in seconds; binding is given up after `bind_timeout_seconds`."""

    def __init__(
        self,
        volumes: PVAssumeCache,
        claims: PVCAssumeCache,
        listers: Listers,
        client: ApiCalls,
        clock: Callable[[], float],
        bind_timeout_seconds: float,
    ) -> None:
        self._volumes = volumes
        self._claims = claims
        self._classes = listers.lister(StorageClass)
        self._pods = listers.lister(Pod)
        self._nodes = listers.lister(Node)
        self._csi_nodes = listers.lister(CSINode)
        self._client = client
        self._clock = clock
        self._bind_timeout_seconds = bind_timeout_seconds

    def get_pod_volume_claims(self, pod: Pod) -> PodVolumeClaims | Status | None:
        """None for a pod without claims; a Status if it cannot be placed yet, or not understood."""
        claims: list[PersistentVolumeClaim] = []
        for name, volume in claims_of(pod):
            claim = self._claims.get_api_obj(f"{pod.namespace}/{name}")
            problem = _problem(pod, volume, name, claim)
            if claim is None or problem is not None:
                return rejected_for_good(problem or "")
            claims.append(self._claims.current(claim))
        if not claims:
            return None
        bound, delayed, has_immediate = [], [], False
        for claim in claims:
            if is_fully_bound(claim):
                bound.append(claim)
                continue
            of_class = self._classes.get(class_of_claim(claim))
            if of_class is not None and of_class.volume_binding_mode is None:
                return failed(f"VolumeBindingMode not set for StorageClass {quote(of_class.name)}")
            # A claim that names its volume waits for the volume controller, whatever its class
            # says.
            if (
                of_class is not None
                and of_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
                and not claim.spec.volume_name
            ):
                delayed.append(DelayedClaim(claim, of_class))
            else:
                has_immediate = True
        if has_immediate:
            return rejected_for_good(UNBOUND_IMMEDIATE)
        return PodVolumeClaims(tuple(bound), tuple(delayed))

    def is_all_bound(self, pod: Pod) -> bool:
        """Whether nothing is left to do for the pod's volumes."""
        for name, _ in claims_of(pod):
            claim = self._claims.get(f"{pod.namespace}/{name}")
            if claim is None or not is_fully_bound(claim):
                return False
        return True

    def assume_pod_volumes(self, volumes: PodVolumes, node: str) -> AssumedPodVolumes:
        """Later decisions see the volumes as taken; raises KschedulerError, then none are."""
        assumed = AssumedPodVolumes([], [])
        try:
            for claim, volume in volumes.static_bindings:
                bound = bound_to(volume, claim)
                # A volume that is prebound to the claim needs no change.
                if bound is not volume:
                    self._volumes.assume(bound)
                assumed.static_bindings.append(StaticBinding(claim, bound))
            for claim in volumes.dynamic_provisions:
                annotations = {**claim.metadata.annotations, SELECTED_NODE: node}
                selected = replace(claim, metadata=replace(claim.metadata, annotations=annotations))
                self._claims.assume(selected)
                assumed.dynamic_provisions.append(DynamicProvision(selected))
        except KschedulerError:
            self.revert_assumed_pod_volumes(assumed)
            raise
        return assumed

    def revert_assumed_pod_volumes(self, assumed: AssumedPodVolumes) -> None:
        """Undo what was assumed; what was written stays assumed until the API server reports it."""
        for binding in assumed.static_bindings:
            if not binding.is_written:
                self._volumes.restore(binding.volume)
        for provision in assumed.dynamic_provisions:
            if not provision.is_written:
                self._claims.restore(provision.claim)

    async def bind_pod_volumes(self, pod: PodInfo, node: str, assumed: AssumedPodVolumes) -> None:
        """Write, and wait until everything is bound; raises KschedulerError."""
        where, ref = {"node": logs.ObjectRef("", node)}, logs.ref(pod.pod)
        log.v(4).info("BindPodVolumes", pod=ref, **where)
        for binding in assumed.static_bindings:
            both = {"PV": logs.ref(binding.volume), "PVC": logs.ref(binding.claim)}
            what = "Updating PersistentVolume: binding to claim"
            log.v(5).info(what, **where, pod=ref, **both)
            try:
                binding.volume = await self._client.update_volume(binding.volume)
            except KschedulerError as error:
                log.v(4).info(f"{what} failed", **where, pod=ref, **both, err=str(error))
                raise
            binding.is_written = True
            log.v(2).info(
                "Updated PersistentVolume with claim. Waiting for binding to complete",
                pod=logs.ref(pod.pod),
                PV=logs.ref(binding.volume),
                PVC=logs.ref(binding.claim),
            )
        for provision in assumed.dynamic_provisions:
            claim = logs.ref(provision.claim)
            what = "Updating claims objects to trigger volume provisioning"
            log.v(5).info(what, **where, pod=ref, PVC=claim)
            try:
                provision.claim = await self._client.update_claim(provision.claim)
            except KschedulerError as error:
                what = "Updating PersistentVolumeClaim: binding to volume failed"
                log.v(4).info(what, pod=ref, **where, PVC=claim, err=str(error))
                raise
            provision.is_written = True
        try:
            deadline = self._clock() + self._bind_timeout_seconds
            pause = NEWS_SECONDS
            while (left := deadline - self._clock()) > 0:
                if self._check_bindings(pod, node, assumed):
                    break
                if await self._has_news(assumed, min(LOOK_SECONDS, left)):
                    await asyncio.sleep(min(pause, left))
                    pause = min(2 * pause, LOOK_SECONDS)
            else:
                raise BindingTimeoutError("context deadline exceeded")
        except KschedulerError as error:
            raise KschedulerError(f"binding volumes: {error}") from error
        log.v(2).info("All PVCs for pod are bound", pod=logs.ref(pod.pod))

    async def _has_news(self, assumed: AssumedPodVolumes, seconds: float) -> bool:
        """Whether a watch tells of a change of these volumes or claims within so long. Without one
        a look is due all the same: node and pod, too, may be gone.
        """
        claims = [one.claim.key for one in assumed.static_bindings]
        claims += [one.claim.key for one in assumed.dynamic_provisions]
        volumes = [one.volume.key for one in assumed.static_bindings]
        for provision in assumed.dynamic_provisions:
            claim = self._claims.get_api_obj(provision.claim.key)
            if claim is not None and claim.spec.volume_name:
                volumes.append(claim.spec.volume_name)
        news = asyncio.Event()
        with (
            self._claims.awaited.listening(news, claims),
            self._volumes.awaited.listening(news, volumes),
            suppress(TimeoutError),
        ):
            async with asyncio.timeout(seconds):
                await news.wait()
        return news.is_set()

    def _check_bindings(self, pod: PodInfo, node_name: str, assumed: AssumedPodVolumes) -> bool:
        """Whether all claims are bound; raises BindingLostError.

        Only what the API server reports counts here, not what is assumed: an attempt for another
        pod may assume anything meanwhile.
        """
        node = self._nodes.get(node_name)
        if node is None:
            missing = f"node {quote(node_name)} not found"
            raise BindingLostError(f"failed to get node {quote(node_name)}: {missing}")
        if self._pods.get(pod.key) is None:
            raise BindingLostError(f"pod does not exist any more: pod {quote(pod.name)} not found")
        return all(self._is_bound(binding, node) for binding in assumed.static_bindings) and all(
            self._is_provisioned(provision.claim, node) for provision in assumed.dynamic_provisions
        )

    def _is_bound(self, binding: StaticBinding, node: Node) -> bool:
        try:
            volume = self._volumes.require_api_obj(binding.volume.name)
            claim = self._claims.require_api_obj(binding.claim.key)
        except KschedulerError as error:
            raise BindingLostError(f"failed to check binding: {error}") from error
        if _is_newer(binding.volume, volume):
            return False
        try:
            self._check_node_affinity(volume, node)
        except _TranslationError as error:
            raise BindingLostError(f"failed to translate pv to csi: {error}") from error
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise BindingLostError(f"ClaimRef got reset for pv {quote(volume.name)}")
        return is_fully_bound(claim)

    def _is_provisioned(self, written: PersistentVolumeClaim, node: Node) -> bool:
        try:
            claim = self._claims.require_api_obj(written.key)
        except KschedulerError as error:
            raise BindingLostError(f"failed to check provisioning pvc: {error}") from error
        if _is_newer(written, claim):
            return False
        annotations = claim.metadata.annotations
        if not annotations:
            raise BindingLostError(f"selectedNode annotation reset for PVC {quote(claim.name)}")
        if annotations.get(SELECTED_NODE, "") != node.name:
            raise BindingLostError(f"provisioning failed for PVC {quote(claim.name)}")
        if claim.spec.volume_name:
            volume = self._volumes.get_api_obj(claim.spec.volume_name)
            if volume is None:
                # Claims and volumes are watched apart; it may be a moment late.
                return False
            self._check_node_affinity(volume, node)
        return is_fully_bound(claim)

    def _check_node_affinity(self, volume: PersistentVolume, node: Node) -> None:
        traits = self._volumes.traits(volume)
        affinity = traits.node_affinity
        if is_migrated(traits.migrated_from, self._csi_nodes.get(node.name)):
            if traits.migration_problem:
                raise _TranslationError(f"could not translate pv: {traits.migration_problem}")
            affinity = traits.migrated_node_affinity
        problem = None if affinity is None else affinity.problem(node.metadata.labels)
        if problem is not None:
            raise BindingLostError(
                f"pv {quote(volume.name)} node affinity doesn't match "
                f"node {quote(node.name)}: {problem}"
            )


def claims_of(pod: Pod) -> Iterator[tuple[str, Volume]]:
    """Names of the pod's claims, each with the volume of the pod that is behind it."""
    for volume in pod.spec.volumes:
        name = claim_name(pod.name, volume)
        if name is not None:
            yield name, volume


def _problem(
    pod: Pod, volume: Volume, name: str, claim: PersistentVolumeClaim | None
) -> str | None:
    """Why the pod cannot be placed before somebody does something about the claim."""
    ephemeral = volume.persistent_volume_claim is None
    if claim is None:
        missing = f"persistentvolumeclaim {quote(name)}"
        if ephemeral:
            return f"waiting for ephemeral volume controller to create the {missing}"
        return f"{missing} not found"
    if claim.status.phase == "Lost":
        return (
            f"persistentvolumeclaim {quote(name)} bound to non-existent "
            f"persistentvolume {quote(claim.spec.volume_name)}"
        )
    if claim.metadata.deletion_timestamp is not None:
        return f"persistentvolumeclaim {quote(name)} is being deleted"
    return ownership_problem(pod, claim) if ephemeral else None


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume as it is to be written; itself if it says all that already."""
    reference, changed = volume.spec.claim_ref, volume
    if reference is None or (reference.name, reference.namespace, reference.uid) != (
        claim.name,
        claim.namespace,
        claim.uid,
    ):
        reference = ObjectReference(
            kind="PersistentVolumeClaim",
            api_version="v1",
            namespace=claim.namespace,
            name=claim.name,
            uid=claim.uid,
            resource_version=claim.metadata.resource_version,
        )
        changed = replace(changed, spec=replace(volume.spec, claim_ref=reference))
    annotations = volume.metadata.annotations
    if not is_meant_for(volume, claim) and BOUND_BY_CONTROLLER not in annotations:
        metadata = replace(volume.metadata, annotations={**annotations, BOUND_BY_CONTROLLER: "yes"})
        changed = replace(changed, metadata=metadata)
    return changed


def _is_newer(one: ApiObject, other: ApiObject) -> bool:
    """By version; the API server counts them up."""
    return int(one.metadata.resource_version or 0) > int(other.metadata.resource_version or 0)
