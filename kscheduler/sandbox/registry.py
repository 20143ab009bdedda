"""The registry: create, read and change objects by the rules of their kind.

Every method is one synchronous step over the store, so a request is atomic without a lock. Clients
and simulated kubelets both write through here, so the same rules hold for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import kscheduler.api
from kscheduler.api.decode import DecodeError, convert, without_nulls
from kscheduler.rest import fields, status
from kscheduler.sandbox import metadata
from kscheduler.sandbox.admission import Admission
from kscheduler.sandbox.kinds.resource import Caller, Resource, Scope
from kscheduler.sandbox.resources import NAMESPACES, RESOURCES
from kscheduler.sandbox.store import Collection, Key, Object, Store, Stored

Edit = Callable[[Object], Object]

_STRUCTS = {(row.api_version, row.kind): row.struct for row in kscheduler.api.RESOURCES}
# Fields without a value that still compare as one: flags and counts.
_WHEN_ABSENT = {"unschedulable": "false", "hostNetwork": "false", "replicas": "0"}
_METADATA_OF_STATUS = ("labels", "annotations", "finalizers", "ownerReferences")


class Registry:
    """All stored resources. Objects go in and out as plain JSON; errors are StatusErrors."""

    def __init__(self, store: Store, admission: Admission) -> None:
        self.store = store
        self._admission = admission
        for resource in RESOURCES:
            if "list" in resource.verbs and not resource.shows:
                store.add_collection(resource.stored_as, _indexer(resource))

    def collection(self, resource: Resource) -> Collection:
        return self.store[resource.stored_as]

    def get(self, resource: Resource, namespace: str, name: str) -> Stored:
        stored = self.collection(resource).get(key_of(resource, namespace, name))
        if stored is None:
            raise status.not_found(resource, name)
        return stored

    def create(
        self, resource: Resource, namespace: str, item: Object, *, dry_run: bool = False
    ) -> Stored:
        """Store a new object as the API server would; `item` itself is left alone."""
        item = self._checked(resource, namespace, item)
        if item["metadata"].get("resourceVersion"):
            raise status.StatusError(
                500, "", "resourceVersion should not be set on objects to be created"
            )
        return self._create(resource, namespace, item, dry_run=dry_run)

    def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        edit: Edit,
        *,
        subresource: str = "",
        dry_run: bool = False,
        may_create: bool = False,
        caller: Caller | None = None,
    ) -> tuple[Stored, bool]:
        """Change an object by `edit`, which gets a copy of it; says whether it was created.

        `caller` is the user whose rights count where a kind asks for more than the verb.
        """
        key = key_of(resource, namespace, name)
        stored = self.collection(resource).get(key)
        if stored is None:
            if not may_create:
                raise status.not_found(resource, name)
            item = self._checked(resource, namespace, edit({}))
            if uid := item["metadata"].get("uid"):
                raise status.conflict(resource, name, wrong_uid(resource, key, uid, ""))
            item["metadata"].pop("resourceVersion", None)
            return self._create(resource, namespace, item, dry_run=dry_run), True
        old = typed(resource, stored)
        item = self._checked(resource, namespace, edit(typed(resource, stored)))
        # The uid in a patch is no precondition, but a change that validation refuses.
        is_patch = caller is not None and caller.verb == "patch"
        _check_preconditions(resource, item, old, ignore_uid=is_patch)
        self._prepare_update(resource, item, old, subresource, self._scope(namespace, caller))
        # The last finalizer of an object that is being deleted has just gone: so does the object.
        finished = (
            "deletionTimestamp" in old["metadata"]
            and not item["metadata"].get("finalizers")
            and not old["metadata"].get("deletionGracePeriodSeconds")
        )
        if finished and not dry_run:
            collection = self.collection(resource)
            removed = collection.remove(key)
            return collection.draft(key, item, removed.version), False
        return self._commit(resource, key, item, dry_run=dry_run), False

    def check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        """Whether anything may be created there, be it only below an object."""
        self._admission.check_namespace(self.store, resource, namespace, name)

    def replace(self, resource: Resource, key: Key, item: Object) -> Stored:
        """Store a state that some controller is responsible for, without further rules."""
        return self.collection(resource).put(key, item)

    def _create(self, resource: Resource, namespace: str, item: Object, *, dry_run: bool) -> Stored:
        strategy = resource.strategy
        generated = not item["metadata"].get("name")
        metadata.begin_life(item)
        strategy.default(item)
        if resource.namespaced:
            self.check_namespace(resource, namespace, item["metadata"].get("name", ""))
        self._admission.on_create(self.store, resource, item)
        if resource.has_status and not strategy.keeps_status_on_create:
            item["status"] = strategy.initial_status()
        if resource.counts_generation:
            item["metadata"]["generation"] = 1
        strategy.prepare_for_create(item)
        errors = strategy.authorize(item, self._scope(namespace))
        errors += metadata.metadata_errors(item, resource) + strategy.validate(item)
        name = item["metadata"].get("name", "")
        if errors:
            raise status.invalid(resource.kind, name, errors, group=resource.group)
        key = key_of(resource, namespace, name)
        if self.collection(resource).get(key) is not None:
            refuse = status.generated_name_taken if generated else status.already_exists
            raise refuse(resource, name)
        return self._commit(resource, key, item, dry_run=dry_run)

    def _checked(self, resource: Resource, namespace: str, item: Object) -> Object:
        """`item` without nulls, with metadata, in the namespace the request is about.

        Refused when a field has the wrong JSON type or the namespace is another one.
        """
        item = without_nulls(item)
        try:
            convert(item, _STRUCTS.get((resource.group_version, resource.kind), resource.struct))
        except DecodeError as error:
            what = f'{resource.kind} in version "{resource.version}"'
            why = error.__cause__ or error
            raise status.bad_request(
                f"{what} cannot be handled as a {resource.kind}: {why}"
            ) from error
        about = item.setdefault("metadata", {})
        if resource.namespaced:
            if about.setdefault("namespace", namespace) != namespace:
                raise status.bad_request(
                    "the namespace of the provided object does not match "
                    "the namespace sent on the request"
                )
        else:
            about.pop("namespace", None)
        return item

    def _prepare_update(
        self, resource: Resource, item: Object, old: Object, subresource: str, scope: Scope
    ) -> None:
        """Reduce an update to what its subresource may change, default it and check it."""
        strategy = resource.strategy
        metadata.keep_identity(item, old)
        strategy.default(item)
        if subresource == "status":
            for part in [name for name in {*item, *old} if name not in ("metadata", "status")]:
                _copy_part(item, old, part)
            if strategy.status_keeps_metadata:
                for part in _METADATA_OF_STATUS:
                    _copy_part(item["metadata"], old["metadata"], part)
            strategy.prepare_for_status_update(item, old)
            errors = strategy.authorize_status_update(item, old, scope)
            errors += metadata.metadata_update_errors(item, old)
            errors += strategy.validate_status_update(item, old)
        else:
            if resource.has_status:
                _copy_part(item, old, "status")
            self._admission.on_update(self.store, resource, item, old)
            reduce = strategy.parts.get(subresource)
            if reduce is not None:
                reduce(item, old)
            strategy.prepare_for_update(item, old)
            if resource.counts_generation and item.get("spec") != old.get("spec"):
                item["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
            errors = metadata.metadata_update_errors(item, old)
            errors += metadata.metadata_errors(item, resource)
            if strategy.revalidates_updates:
                errors += strategy.validate(item)
            if reduce is None:
                errors += strategy.validate_update(item, old)
        if errors:
            name = old["metadata"]["name"]
            raise status.invalid(resource.kind, name, errors, group=resource.group)

    def _scope(self, namespace: str, caller: Caller | None = None) -> Scope:
        stored = self.store[NAMESPACES.stored_as].get(("", namespace))
        return Scope(namespace, stored.labels if stored is not None else {}, caller)

    def _commit(self, resource: Resource, key: Key, item: Object, *, dry_run: bool) -> Stored:
        collection = self.collection(resource)
        if not dry_run:
            return collection.put(key, item)
        current = collection.get(key)
        return collection.draft(key, item, current.version if current else self.store.version)


def key_of(resource: Resource, namespace: str, name: str) -> Key:
    return (namespace if resource.namespaced else "", name)


def typed(resource: Resource, stored: Stored) -> Object:
    """A copy of the object with the kind and apiVersion that storage leaves out."""
    return {"kind": resource.kind, "apiVersion": resource.group_version, **stored.decode()}


def _check_preconditions(
    resource: Resource, item: Object, old: Object, *, ignore_uid: bool
) -> None:
    """Optimistic concurrency: a write that names another uid or version is refused."""
    wanted, found = item["metadata"], old["metadata"]
    name = found["name"]
    if wanted.get("uid", found["uid"]) != found["uid"] and not ignore_uid:
        why = f"UID in precondition: {wanted['uid']}, UID in object meta: {found['uid']}"
        raise status.conflict(resource, name, f"Precondition failed: {why}")
    version = wanted.get("resourceVersion")
    if not version and not resource.updates_unconditionally:
        error = fields.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise status.invalid(resource.plural, name, [error], group=resource.group)
    if version and version != found["resourceVersion"]:
        raise status.conflict(resource, name, status.MODIFIED)


def _copy_part(item: Object, old: Object, part: str) -> None:
    if part in old:
        item[part] = old[part]
    else:
        item.pop(part, None)


def wrong_uid(resource: Resource, key: Key, wanted: str, found: str) -> str:
    """Why storage refuses a write that names another incarnation of the object."""
    path = "/".join(part for part in (resource.plural, *key) if part)
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{path}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, "
        f"UID in object meta: {found}"
    )


def _indexer(resource: Resource) -> Callable[[Object], Mapping[str, str]]:
    """Reads the values that field selectors may ask about, as the text they compare with."""
    labels = {"metadata.name": "metadata.name", "metadata.namespace": "metadata.namespace"}
    labels |= resource.field_labels
    paths = []  # label, parent and leaf of the value, text when it is absent
    for label, path in labels.items():
        parent, _, leaf = path.rpartition(".")
        paths.append((label, parent, leaf, _WHEN_ABSENT.get(leaf, "")))

    def index(item: Object) -> Mapping[str, str]:
        found = {}
        for label, parent, leaf, absent in paths:
            holder = item.get(parent) if parent else item
            value = holder.get(leaf) if holder else None
            if isinstance(value, bool):
                value = "true" if value else "false"
            found[label] = absent if value is None else str(value)
        return found

    return index
