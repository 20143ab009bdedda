"""Pods by owner, and controllers of pods: adoption, release, creation from a template.

`PodIndex` reads of every pod the few fields that controllers decide by, once per change, and knows
pods by owner and by node. `PodController` is the base of the kinds that have pods: it syncs an
owner whenever one of its pods changed. Mirrors controller_ref_manager.go and controller_utils.go;
there are no expectations, because what is written is seen at once.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, ClassVar

import msgspec

from kscheduler.api.decode import convert, decoder_for
from kscheduler.api.labels import Selector, SelectorError, compile_selector
from kscheduler.api.meta import ApiObject, ApiStruct, LabelSelector, OwnerReference
from kscheduler.api.timestamps import parse_time
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.controllers.controller import (
    Controller,
    controller_reference,
    is_deleting,
)
from kscheduler.sandbox.deletion import DeleteOptions, delete
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import PODS
from kscheduler.sandbox.store import Change, Key, Listener, Object, Stored

_FINISHED = ("Succeeded", "Failed")
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
BURST = 500  # pods created or deleted by one sync at most, as upstream


class _Condition(ApiStruct):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _PodSpec(ApiStruct):
    node_name: str = ""


class _PodStatus(ApiStruct):
    phase: str = ""
    conditions: tuple[_Condition, ...] = ()


class _Pod(ApiObject):
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class PodRecord(msgspec.Struct, frozen=True, gc=False):
    """One pod, as far as controllers decide by it."""

    key: Key
    uid: str
    owner: OwnerReference | None  # that manages it
    labels: dict[str, str]
    annotations: dict[str, str]
    phase: str
    node: str
    ready_since: float | None  # None: it is not ready
    deleting: bool
    created: str
    generation: int
    deletion_cost: int

    @property
    def is_active(self) -> bool:
        return self.phase not in _FINISHED and not self.deleting

    @property
    def is_ready(self) -> bool:
        return self.ready_since is not None

    def is_available(self, min_ready_seconds: float) -> bool:
        since = self.ready_since
        return since is not None and since + min_ready_seconds <= time.time()


_decode = decoder_for(_Pod)
_decode_metadata = decoder_for(ApiObject)


def _record(stored: Stored) -> PodRecord:
    pod = _decode(stored.body)
    about = pod.metadata
    ready = next((one for one in pod.status.conditions if one.type == "Ready"), None)
    ready_since = None
    if ready is not None and ready.status == "True":
        ready_since = parse_time(ready.last_transition_time or about.creation_timestamp or "")
    cost = 0
    with suppress(ValueError):
        cost = int(about.annotations.get(_DELETION_COST, 0))
    return PodRecord(
        key=stored.key,
        uid=about.uid,
        owner=about.controller,
        labels=dict(about.labels),
        annotations=dict(about.annotations),
        phase=pod.status.phase,
        node=pod.spec.node_name,
        ready_since=ready_since,
        deleting=about.deletion_timestamp is not None,
        created=about.creation_timestamp or "",
        generation=about.generation,
        deletion_cost=cost,
    )


class PodIndex:
    """All pods, by key, by the uid of their controller, and by node.

    It listens from its creation on, before any controller that is given it: those find it up to
    date when they are told of a change.
    """

    def __init__(self, registry: Registry) -> None:
        self.pods: dict[Key, PodRecord] = {}
        self._by_owner: defaultdict[str, dict[Key, None]] = defaultdict(dict)  # ordered sets
        self._by_node: defaultdict[str, dict[Key, None]] = defaultdict(dict)
        collection = registry.collection(PODS)
        for stored in collection:
            self._add(stored)
        self.close = collection.listen(self._changed)

    def owned_by(self, uid: str) -> list[PodRecord]:
        return [self.pods[key] for key in self._by_owner.get(uid, ())]

    def on_node(self, node: str) -> list[PodRecord]:
        return [self.pods[key] for key in self._by_node.get(node, ())]

    def nodes(self) -> list[str]:
        """Names of all nodes that pods are bound to."""
        return list(self._by_node)

    def orphans(self, namespace: str) -> Iterator[PodRecord]:
        """Pods of a namespace that nothing manages."""
        return (pod for pod in self.pods.values() if pod.owner is None and pod.key[0] == namespace)

    def _changed(self, change: Change) -> None:
        if (known := self.pods.pop(change.stored.key, None)) is not None:
            _forget(self._by_owner, known.owner.uid if known.owner else "", known.key)
            _forget(self._by_node, known.node, known.key)
        if change.type != "DELETED":
            self._add(change.stored)

    def _add(self, stored: Stored) -> None:
        pod = self.pods[stored.key] = _record(stored)
        if pod.owner is not None:
            self._by_owner[pod.owner.uid][pod.key] = None
        if pod.node:
            self._by_node[pod.node][pod.key] = None


def _forget(index: dict[str, dict[Key, None]], name: str, key: Key) -> None:
    if (keys := index.get(name)) is not None:
        keys.pop(key, None)
        if not keys:
            del index[name]


class PodController(Controller):
    """A controller of pods, which belong to objects of its resource."""

    resource: ClassVar[Resource]

    def __init__(self, registry: Registry, pods: PodIndex) -> None:
        super().__init__(registry)
        self.pods = pods
        self._selectors: defaultdict[str, dict[Key, Selector]] = defaultdict(dict)  # by namespace
        self._candidates: defaultdict[Key, set[Key]] = defaultdict(set)  # orphans, by owner

    def listeners(self) -> Iterable[tuple[Resource, Listener]]:
        return ((self.resource, self._owner_changed), (PODS, self._pod_changed))

    def selector_of(self, owner: Object) -> Selector:
        """The selector of the pods that belong to an object; one without is matched by none."""
        selector = (owner.get("spec") or {}).get("selector")
        return compile_selector(None if selector is None else convert(selector, LabelSelector))

    def _owner_changed(self, change: Change) -> None:
        key = change.stored.key
        if change.type == "DELETED":
            self._selectors[key[0]].pop(key, None)
            self._candidates.pop(key, None)
        elif change.type == "ADDED":
            try:
                selector = self.selector_of(change.stored.decode())
            except (SelectorError, ValueError):
                return
            self._selectors[key[0]][key] = selector
            found = {one.key for one in self.pods.orphans(key[0]) if selector.matches(one.labels)}
            if found:
                self._candidates[key] = found
        self.mark(key)

    def _pod_changed(self, change: Change) -> None:
        stored = change.stored
        owner = self._controlling(stored)
        previous = None if change.previous is None else self._controlling(change.previous)
        for reference in {owner, previous} - {None}:
            if reference is not None and self._is_mine(reference):
                self.mark((stored.key[0], reference.name))
        if owner is None and change.type != "DELETED":
            for key, selector in self._selectors.get(stored.key[0], {}).items():
                if selector.matches(stored.labels):
                    self._candidates[key].add(stored.key)
                    self.mark(key)

    def _controlling(self, stored: Stored) -> OwnerReference | None:
        known = self.pods.pods.get(stored.key)
        if known is not None and stored is self._registry.collection(PODS).get(stored.key):
            return known.owner
        if b'"ownerReferences"' not in stored.body:
            return None
        return _decode_metadata(stored.body).metadata.controller

    def _is_mine(self, reference: OwnerReference) -> bool:
        return (reference.api_version, reference.kind) == (
            self.resource.group_version,
            self.resource.kind,
        )

    def claim(self, owner: Object) -> list[PodRecord]:
        """The pods of an owner, after it has adopted and released what its selector says."""
        about = owner["metadata"]
        key = (about["namespace"], about["name"])
        selector = self.selector_of(owner)
        if not is_deleting(owner):
            for pod in self.pods.owned_by(about["uid"]):
                if not selector.matches(pod.labels):
                    self._set_owner(pod, about["uid"], None)
            reference = controller_reference(self.resource, owner)
            for candidate in self._candidates.pop(key, ()):
                pod_or_none = self.pods.pods.get(candidate)
                if (
                    pod_or_none is not None
                    and pod_or_none.owner is None
                    and not pod_or_none.deleting
                    and selector.matches(pod_or_none.labels)
                ):
                    self._set_owner(pod_or_none, "", reference)
        return self.pods.owned_by(about["uid"])

    def _set_owner(self, pod: PodRecord, released: str, adopted: Object | None) -> None:
        def change(item: Object) -> None:
            references = [
                one
                for one in item["metadata"].get("ownerReferences") or ()
                if one["uid"] != released
            ]
            item["metadata"]["ownerReferences"] = references + ([adopted] if adopted else [])

        self.edit(PODS, _named(pod), change)

    def create_pod(
        self, owner: Object, template: Object, *, name: str = "", prepare: Any = None
    ) -> Object:
        """A new pod of an owner; without a name, one is generated from the owner's.

        `prepare` may change the pod before it is stored.
        """
        about = template.get("metadata") or {}
        metadata: Object = {
            part: about[part] for part in ("labels", "annotations", "finalizers") if part in about
        }
        metadata["ownerReferences"] = [controller_reference(self.resource, owner)]
        if name:
            metadata["name"] = name
        else:
            metadata["generateName"] = f"{owner['metadata']['name']}-"
        pod: Object = {"metadata": metadata, "spec": template.get("spec") or {}}
        if prepare is not None:
            pod = msgspec.json.decode(msgspec.json.encode(pod))  # the template stays as it is
            prepare(pod)
        try:
            stored = self._registry.create(PODS, owner["metadata"]["namespace"], pod)
        except StatusError as error:
            self.report(self.resource, owner, "FailedCreate", f"Error creating: {error}")
            raise
        self.report(self.resource, owner, "SuccessfulCreate", f"Created pod: {stored.key[1]}")
        return stored.decode()

    def delete_pod(self, owner: Object, pod: PodRecord) -> None:
        with suppress(StatusError):  # somebody was faster
            delete(self._registry, PODS, *pod.key, DeleteOptions(uid=pod.uid))
            self.report(self.resource, owner, "SuccessfulDelete", f"Deleted pod: {pod.key[1]}")


def _named(pod: PodRecord) -> Object:
    return {"metadata": {"namespace": pod.key[0], "name": pod.key[1]}}


def by_age(pods: Iterable[PodRecord]) -> list[PodRecord]:
    """Oldest first."""
    return sorted(pods, key=lambda pod: (pod.created, pod.key))


Prepare = Callable[[Object], None]
