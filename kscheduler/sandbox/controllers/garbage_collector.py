"""The garbage collector: objects go when all their owners are gone.

Mirrors pkg/controller/garbagecollector: background deletion, and the finalizers of orphaning and of
foreground deletion. Owners count by uid: an owner of the same name made anew is another one.

    owner deleted ──▶ dependents without another owner deleted in turn
    `orphan` on a deleted owner ──▶ dependents forget it ──▶ it goes
    `foregroundDeletion` ──▶ dependents deleted ──▶ it goes when those that block it are gone
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress

from kscheduler.api.decode import decoder_for
from kscheduler.api.meta import ApiObject, ObjectMeta
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.controllers.controller import Controller
from kscheduler.sandbox.deletion import FOREGROUND, ORPHAN, DeleteOptions, delete
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import BY_KIND, BY_NAME, RESOURCES
from kscheduler.sandbox.store import Change, Key, Listener, Object

# Kinds that own nothing and are many.
_LEFT_OUT = ("events", "events.events.k8s.io")
_OWNERS = b'"ownerReferences"'
_FINALIZERS = b'"finalizers"'
_decode = decoder_for(ApiObject)
_Node = tuple[str, Key]  # name of the resource and key of the object


class GarbageCollector(Controller):
    """Deletes, orphans and finalizes by the owner references of all objects."""

    name = "garbage-collector-controller"

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self._owners: dict[_Node, tuple[str, ...]] = {}  # uids, of objects that have owners
        self._dependents: defaultdict[str, dict[_Node, None]] = defaultdict(dict)  # by uid

    async def run(self) -> None:
        self._registry.collects_garbage = True
        try:
            await super().run()
        finally:
            self._registry.collects_garbage = False

    def listeners(self) -> Iterable[tuple[Resource, Listener]]:
        return [
            (row, self._listener(row))
            for row in RESOURCES
            if "list" in row.verbs and not row.shows and row.qualified not in _LEFT_OUT
        ]

    def _listener(self, resource: Resource) -> Callable[[Change], None]:
        name = resource.qualified

        def changed(change: Change) -> None:
            body, node = change.stored.body, (name, change.stored.key)
            owned = _OWNERS in body
            if change.type == "DELETED":
                about = _decode(body).metadata if owned or self._dependents else ObjectMeta()
                self._forget(node)
                for dependent in self._dependents.get(about.uid, ()):
                    self._mark(dependent)
                for uid in {owner.uid for owner in about.owner_references}:
                    self._mark_uid(uid, about)
                return
            if not owned and node in self._owners:
                self._forget(node)
            if owned:
                uids = tuple(owner.uid for owner in _decode(body).metadata.owner_references)
                if self._owners.get(node) != uids:
                    self._forget(node)
                    self._owners[node] = uids
                    for uid in uids:
                        self._dependents[uid][node] = None
                    self._mark(node)
            if _FINALIZERS in body and b'"deletionTimestamp"' in body:
                self._mark(node)

        return changed

    def _mark(self, node: _Node) -> None:
        self.mark((node[0] + " " + node[1][0], node[1][1]))

    def _mark_uid(self, uid: str, dependent: ObjectMeta) -> None:
        """An owner in foreground deletion may have lost its last dependent."""
        for owner in dependent.owner_references:
            resource = BY_KIND.get((owner.api_version, owner.kind))
            if owner.uid == uid and resource is not None:
                namespace = dependent.namespace if resource.namespaced else ""
                self._mark((resource.qualified, (namespace, owner.name)))

    def _forget(self, node: _Node) -> None:
        for uid in self._owners.pop(node, ()):
            self._dependents[uid].pop(node, None)
            if not self._dependents[uid]:
                del self._dependents[uid]

    def sync(self, key: Key) -> None:
        name, _, namespace = key[0].partition(" ")
        resource = BY_NAME[name]
        item = self.find(resource, (namespace, key[1]))
        if item is None:
            return
        about = item["metadata"]
        finalizers = about.get("finalizers") or ()
        if "deletionTimestamp" in about:
            if ORPHAN in finalizers:
                for dependent in list(self._dependents.get(about["uid"], ())):
                    self._disown(dependent, about["uid"])
                self._finalize(resource, item, ORPHAN)
            elif FOREGROUND in finalizers:
                self._delete_dependents(resource, item)
            return
        references = about.get("ownerReferences") or ()
        if not references:
            return
        owners = [self._owner_of(namespace, reference) for reference in references]
        if any(owner is not None and not _is_going(owner) for owner in owners):
            gone = {
                reference["uid"]
                for reference, owner in zip(references, owners, strict=True)
                if owner is None
            }
            for uid in gone:
                self._disown((name, (namespace, key[1])), uid)
            return
        if any(owner is not None for owner in owners):
            # In foreground deletion, which deletes it; those below are deleted the same way.
            policy = "Foreground" if self._dependents.get(about["uid"]) else "Background"
        else:
            policy = "Background"
        options = DeleteOptions(uid=about["uid"], propagation=policy)
        with suppress(StatusError):
            delete(self._registry, resource, namespace, key[1], options)

    def _owner_of(self, namespace: str, reference: Object) -> Object | None:
        """The owner of a reference, if the very object still exists."""
        resource = BY_KIND.get((reference.get("apiVersion", ""), reference.get("kind", "")))
        if resource is None:  # a kind the sandbox does not have: nobody knows
            return {"metadata": {}}
        key = (namespace if resource.namespaced else "", reference.get("name", ""))
        owner = self.find(resource, key)
        same = owner is not None and owner["metadata"]["uid"] == reference.get("uid")
        return owner if same else None

    def _delete_dependents(self, resource: Resource, item: Object) -> None:
        uid = item["metadata"]["uid"]
        blocking = False
        for name, key in list(self._dependents.get(uid, ())):
            dependent = self.find(BY_NAME[name], key)
            if dependent is None:
                continue
            about = dependent["metadata"]
            blocking |= any(
                one["uid"] == uid and one.get("blockOwnerDeletion")
                for one in about["ownerReferences"]
            )
            if "deletionTimestamp" not in about:
                self._mark((name, key))
        if not blocking:
            self._finalize(resource, item, FOREGROUND)

    def _disown(self, node: _Node, uid: str) -> None:
        resource, key = BY_NAME[node[0]], node[1]
        item = self.find(resource, key)
        if item is None:
            return

        def change(current: Object) -> None:
            about = current["metadata"]
            about["ownerReferences"] = [
                one for one in about.get("ownerReferences") or () if one["uid"] != uid
            ]
            if not about["ownerReferences"]:
                del about["ownerReferences"]

        self.edit(resource, item, change)

    def _finalize(self, resource: Resource, item: Object, finalizer: str) -> None:
        def change(current: Object) -> None:
            about = current["metadata"]
            about["finalizers"] = [one for one in about["finalizers"] if one != finalizer]
            if not about["finalizers"]:
                del about["finalizers"]

        self.edit(resource, item, change)


def _is_going(owner: Object) -> bool:
    """Whether the owner is in foreground deletion: it does not hold its dependents any more."""
    about = owner["metadata"]
    return "deletionTimestamp" in about and FOREGROUND in (about.get("finalizers") or ())
