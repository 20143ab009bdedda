"""Revisions of pod templates: hashes, and ControllerRevisions of DaemonSets and StatefulSets.

Mirrors pkg/controller/history as far as `kubectl rollout` shows it. Hashes are spelled as
upstream's, but are made of other bytes.
"""

from __future__ import annotations

import msgspec

from kscheduler.rest.status import StatusError
from kscheduler.sandbox.controllers.controller import controller_reference
from kscheduler.sandbox.deletion import DeleteOptions, delete
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import CONTROLLER_REVISIONS
from kscheduler.sandbox.store import Object

REVISION_LABEL = "controller-revision-hash"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words
_FNV_PRIME, _FNV_START, _WORD = 16777619, 2166136261, 2**32
_encoder = msgspec.json.Encoder(order="deterministic")


def hash_of(template: Object, collisions: int = 0) -> str:
    """A short name for a template, of letters that are safe in names and labels."""
    digest = _FNV_START
    for byte in _encoder.encode(template) + (str(collisions).encode() if collisions else b""):
        digest = (digest ^ byte) * _FNV_PRIME % _WORD
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(digest))


def current_revision(registry: Registry, resource: Resource, owner: Object) -> Object:
    """The ControllerRevision of an owner's template, made if there is none, the newest of all.

    Revisions beyond the limit of the owner's history are removed.
    """
    about, spec = owner["metadata"], owner["spec"]
    digest = hash_of(spec.get("template") or {})
    name = f"{about['name']}-{digest}"
    collection = registry.collection(CONTROLLER_REVISIONS)
    known = [
        revision
        for key in collection.keys(about["namespace"])
        if key[1].startswith(f"{about['name']}-")
        and (stored := collection.get(key)) is not None
        and _is_owned(revision := stored.decode(), about["uid"])
    ]
    newest = max((one["revision"] for one in known), default=0)
    found = next((one for one in known if one["metadata"]["name"] == name), None)
    if found is None:
        template = {**(spec.get("template") or {}), "$patch": "replace"}
        revision = {
            "metadata": {
                "name": name,
                "namespace": about["namespace"],
                "labels": {
                    **(((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}),
                    REVISION_LABEL: digest,
                },
                "ownerReferences": [controller_reference(resource, owner)],
            },
            "data": {"spec": {"template": template}},
            "revision": newest + 1,
        }
        try:
            found = registry.create(CONTROLLER_REVISIONS, about["namespace"], revision).decode()
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
            found = registry.get(CONTROLLER_REVISIONS, about["namespace"], name).decode()
    elif found["revision"] < newest:  # a roll-back makes an old revision the newest

        def raise_revision(item: Object) -> Object:
            return {**item, "revision": newest + 1}

        stored, _ = registry.update(CONTROLLER_REVISIONS, about["namespace"], name, raise_revision)
        found = stored.decode()
    limit = spec.get("revisionHistoryLimit", 10)
    old = sorted((one for one in known if one["metadata"]["name"] != name), key=_number)
    for one in old[: max(len(old) - limit, 0)]:
        one_name = one["metadata"]["name"]
        delete(registry, CONTROLLER_REVISIONS, about["namespace"], one_name, DeleteOptions())
    return found


def hash_label(revision: Object) -> str:
    return str(revision["metadata"]["labels"][REVISION_LABEL])


def _number(revision: Object) -> int:
    return int(revision["revision"])


def _is_owned(revision: Object, uid: str) -> bool:
    return any(one["uid"] == uid for one in revision["metadata"].get("ownerReferences") or ())
