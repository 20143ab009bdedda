"""The resource claim controller: claims from templates, and their release after the last consumer.

Mirrors pkg/controller/resourceclaim, and deletes claims with the pod that owns them, which is left
to the garbage collector there. Differs: claims of pod groups are not made. The life of a claim:

    template ──pod──▶ pending ──scheduler──▶ allocated, reserved ──pod done──▶ pending ──▶ deleted
                                             (finalizer)                    (if a pod owns it)
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from typing import Any

from kscheduler.api.core import Pod
from kscheduler.api.decode import decoder_for
from kscheduler.api.resource import ResourceClaim
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.controllers.controller import listening
from kscheduler.sandbox.deletion import DeleteOptions, delete
from kscheduler.sandbox.kinds.claim_validation import MAX_CONSUMERS
from kscheduler.sandbox.kinds.events import pod_warning
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import BY_NAME, EVENTS, PODS
from kscheduler.sandbox.store import Change, Key, Object, Stored

CLAIMS = BY_NAME["resourceclaims.resource.k8s.io"]
TEMPLATES = BY_NAME["resourceclaimtemplates.resource.k8s.io"]
FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
_FINISHED = ("Succeeded", "Failed")
_LONGEST_BASE = 57  # of a generated name: a hyphen and five letters follow
_BATCH = 200  # objects handled before other tasks run
_decode_pod = decoder_for(Pod)
_decode_claim = decoder_for(ResourceClaim)


class ResourceClaimController:
    """The controller of all device claims in the store, created by any client."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        # Keys to reconcile, in order of arrival, each once: dicts serve as ordered sets.
        self._pods_changed: dict[Key, None] = {}
        self._claims_changed: dict[Key, None] = {}
        # Claims by the pods that own them or that they are reserved for, and the reverse.
        self._claims_of: defaultdict[Key, set[Key]] = defaultdict(set)
        self._pods_of: dict[Key, frozenset[Key]] = {}
        # Pods that wait for a template, which does not exist or cannot be used as it is.
        self._waiting: dict[Key, Key] = {}
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled: reconcile what exists and then every change."""
        listeners = (
            (CLAIMS, self._claim_changed),
            (PODS, self._pod_changed),
            (TEMPLATES, self._template_changed),
        )
        with listening(self._registry, listeners):
            while True:
                if not self._reconcile_batch():
                    await self._wake.wait()
                    self._wake.clear()
                await asyncio.sleep(0)

    def _reconcile_batch(self) -> bool:
        """Reconcile up to `_BATCH` objects; False if there was nothing to do at the end."""
        for _ in range(_BATCH):
            if self._pods_changed:
                self._sync_pod(_pop_first(self._pods_changed))
            elif self._claims_changed:
                self._sync_claim(_pop_first(self._claims_changed))
            else:
                return False
        return True

    def _pod_changed(self, change: Change) -> None:
        key, claims = change.stored.key, self._claims_of.get(change.stored.key)
        if claims:
            self._claims_changed |= dict.fromkeys(sorted(claims))
        # A search in the bytes, so that thousands of pods without claims are never decoded.
        elif b'"resourceClaims"' not in change.stored.body:
            return
        self._pods_changed[key] = None
        self._wake.set()

    def _claim_changed(self, change: Change) -> None:
        key, claim = change.stored.key, _decode_claim(change.stored.body)
        owner, _ = _owner(claim)
        pods = frozenset[Key]()
        if change.type != "DELETED":
            consumers = claim.status.reserved_for
            names = [one.name for one in consumers if _is_pod(one.api_group, one.resource)]
            pods = frozenset((key[0], name) for name in (owner, *names) if name)
            self._claims_changed[key] = None
        elif owner:
            self._pods_changed[key[0], owner] = None  # which may need another one
        for pod in self._pods_of.pop(key, frozenset()) - pods:
            self._claims_of[pod].discard(key)
            if not self._claims_of[pod]:
                del self._claims_of[pod]
        for pod in pods:
            self._claims_of[pod].add(key)
        if pods:
            self._pods_of[key] = pods
        self._wake.set()

    def _template_changed(self, change: Change) -> None:
        for pod, template in self._waiting.items():
            if template == change.stored.key:
                self._pods_changed[pod] = None
        self._wake.set()

    def _sync_pod(self, key: Key) -> None:
        """Make the claims a pod has templates for, and reserve claims for a pod on a node."""
        stored = self._registry.collection(PODS).get(key)
        pod = None if stored is None else _decode_pod(stored.body)
        if pod is None or pod.metadata.deletion_timestamp is not None or _is_done(pod):
            self._waiting.pop(key, None)
            return
        generated = {
            one.name: one.resource_claim_name
            for one in pod.status.resource_claim_statuses
            if one.resource_claim_name is not None
        }
        names = dict(generated)
        for podclaim in pod.spec.resource_claims:
            template = podclaim.resource_claim_template_name
            if template is None or self._owned(pod, names.get(podclaim.name, "")) is not None:
                continue
            try:
                names[podclaim.name] = self._claim_for(pod, podclaim.name, template)
            except StatusError as error:
                self._wait_for(
                    pod, (key[0], template), f"PodResourceClaim {podclaim.name}: {error}"
                )
                return
        self._waiting.pop(key, None)
        if names != generated:
            self._write_statuses(key, names)
        if pod.spec.node_name:
            self._reserve_for(pod, names)

    def _wait_for(self, pod: Pod, template: Key, why: str) -> None:
        """Try again when the template has changed; say so once."""
        key = (pod.namespace, pod.name)
        if self._waiting.get(key) != template:
            self._waiting[key] = template
            item = self._registry.get(PODS, *key).decode()
            event = pod_warning(item, "FailedResourceClaimCreation", why, "resource_claim")
            with suppress(StatusError):  # of a namespace that is going away
                self._registry.create(EVENTS, key[0], event)

    def _owned(self, pod: Pod, name: str) -> Stored | None:
        """The claim of this name, if it was made for the pod."""
        stored = self._registry.collection(CLAIMS).get((pod.namespace, name))
        if stored is None or _owner(_decode_claim(stored.body)) != (pod.name, pod.uid):
            return None
        return stored

    def _claim_for(self, pod: Pod, podclaim: str, template_name: str) -> str:
        """The name of a pod's claim: one that was made before, or a new one."""
        for key in sorted(self._claims_of.get((pod.namespace, pod.name), ())):
            found = self._owned(pod, key[1])
            if found is not None:
                annotations = found.decode()["metadata"].get("annotations") or {}
                if annotations.get(POD_CLAIM_NAME) == podclaim:
                    return key[1]
        stored = self._registry.collection(TEMPLATES).get((pod.namespace, template_name))
        if stored is None:
            missing = f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            why = f'resource claim template "{template_name}": {missing}'
            raise StatusError(404, "NotFound", why)
        spec = stored.decode()["spec"]
        about = spec.get("metadata") or {}
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod.name,
            "uid": pod.uid,
            "controller": True,
        }
        metadata: Object = {
            "generateName": generated_base(pod.name, podclaim),
            "ownerReferences": [owner],
            "annotations": {**(about.get("annotations") or {}), POD_CLAIM_NAME: podclaim},
        }
        if about.get("labels"):
            metadata["labels"] = about["labels"]
        claim = {"metadata": metadata, "spec": spec.get("spec") or {}}
        try:
            return self._registry.create(CLAIMS, pod.namespace, claim).key[1]
        except StatusError as error:
            why = f"create ResourceClaim : {error}"
            raise StatusError(error.code, error.reason, why) from error

    def _write_statuses(self, key: Key, names: dict[str, str]) -> None:
        statuses = [{"name": name, "resourceClaimName": names[name]} for name in sorted(names)]

        def edit(pod: Object) -> Object:
            pod["status"]["resourceClaimStatuses"] = statuses
            return pod

        self._registry.update(PODS, *key, edit, subresource="status")

    def _reserve_for(self, pod: Pod, names: dict[str, str]) -> None:
        """Reserve allocated claims for a pod that was put on its node by other means."""
        consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
        for podclaim in pod.spec.resource_claims:
            name = podclaim.resource_claim_name or names.get(podclaim.name, "")
            stored = self._registry.collection(CLAIMS).get((pod.namespace, name))
            if stored is None:
                return
            state = stored.decode().get("status") or {}
            consumers = state.get("reservedFor") or []
            known = any(one["uid"] == pod.uid for one in consumers)
            if "allocation" in state and not known and len(consumers) < MAX_CONSUMERS:
                self._write_status(stored.key, reservedFor=[*consumers, consumer])

    def _sync_claim(self, key: Key) -> None:
        """Release a claim from pods that are done; without consumers, deallocate or delete it."""
        stored = self._registry.collection(CLAIMS).get(key)
        if stored is None:
            return
        item = stored.decode()
        about, state = item["metadata"], item.get("status") or {}
        consumers = state.get("reservedFor") or []
        remaining = [one for one in consumers if not self._is_gone(key[0], one)]
        is_protected = FINALIZER in (about.get("finalizers") or ())
        # A claim that was never reserved stays allocated: only the last consumer's end frees it.
        if len(remaining) < len(consumers):
            if not remaining and is_protected:
                self._write_status(key, reservedFor=None, allocation=None)
                self._unprotect(key)
            else:
                self._write_status(key, reservedFor=remaining or None)
        elif is_protected and "deletionTimestamp" in about and not remaining:
            self._write_status(key, allocation=None)
            self._unprotect(key)
        name, uid = _owner(_decode_claim(stored.body))
        if name and not remaining and self._registry.collection(CLAIMS).get(key) is not None:
            pod = self._registry.collection(PODS).get((key[0], name))
            owner = None if pod is None else _decode_pod(pod.body)
            if owner is None or owner.uid != uid or _is_done(owner):
                delete(self._registry, CLAIMS, *key, DeleteOptions())

    def _is_gone(self, namespace: str, consumer: Object) -> bool:
        """Whether a consumer is a pod that does not exist any more or will not run again."""
        if not _is_pod(consumer.get("apiGroup", ""), consumer["resource"]):
            return False
        stored = self._registry.collection(PODS).get((namespace, consumer["name"]))
        pod = None if stored is None else _decode_pod(stored.body)
        return pod is None or pod.uid != consumer["uid"] or _is_done(pod)

    def _write_status(self, key: Key, **parts: Any) -> None:
        """Change parts of a claim's status; None takes one away."""

        def edit(claim: Object) -> Object:
            state = {**(claim.get("status") or {}), **parts}
            claim["status"] = {part: value for part, value in state.items() if value is not None}
            return claim

        self._registry.update(CLAIMS, *key, edit, subresource="status")

    def _unprotect(self, key: Key) -> None:
        def edit(claim: Object) -> Object:
            about = claim["metadata"]
            about["finalizers"] = [one for one in about["finalizers"] if one != FINALIZER]
            if not about["finalizers"]:
                del about["finalizers"]
            return claim

        self._registry.update(CLAIMS, *key, edit)


def generated_base(pod: str, podclaim: str) -> str:
    """The beginning of a claim's name; long names are cut in proportion to their lengths."""
    base = f"{pod}-{podclaim}-"
    if len(base) <= _LONGEST_BASE:
        return base
    shortened = pod[: len(pod) * _LONGEST_BASE // len(base)]
    return f"{shortened}-{podclaim[: len(podclaim) * _LONGEST_BASE // len(base)]}"


def _is_pod(group: str, resource: str) -> bool:
    return not group and resource == "pods"


def _is_done(pod: Pod) -> bool:
    """Whether no container of the pod runs or will ever run."""
    never_ran = pod.metadata.deletion_timestamp is not None and not pod.spec.node_name
    return pod.status.phase in _FINISHED or never_ran


def _owner(claim: ResourceClaim) -> tuple[str, str]:
    """Name and uid of the pod a claim was made for; empty texts when there is none."""
    for owner in claim.metadata.owner_references:
        if owner.controller and owner.api_version == "v1" and owner.kind == "Pod":
            return owner.name, owner.uid
    return "", ""


def _pop_first(changed: dict[Key, None]) -> Key:
    key = next(iter(changed))
    del changed[key]
    return key
