"""Object metadata: names, identities and times the server gives, and the rules they keep."""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from functools import lru_cache
from typing import Any

from kscheduler.api.timestamps import format_time
from kscheduler.api.validation import (
    label_key_errors,
    label_value_errors,
)
from kscheduler.rest import fields
from kscheduler.rest.fields import FieldError
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.store import Object

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words
_MAX_GENERATED = 63 - 5
_MAX_ANNOTATIONS = 256 * 1024  # keys and values together
_SERVER_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
IMMUTABLE = "field is immutable"


class _Chance(random.Random):
    """Chance in names and uids.

    Once it is seeded, the names of one prefix are always the same, in whatever order workloads
    create their pods; a few bytes are kept per prefix, not per name.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seed: int | None = None
        self._generated: Counter[str] = Counter()

    def follow_from(self, seed: int) -> None:
        self.seed(seed)
        self._seed = seed
        self._generated.clear()

    def suffix_for(self, prefix: str) -> str:
        chance: random.Random = self
        if self._seed is not None:
            self._generated[prefix] += 1
            chance = random.Random(f"{self._seed}/{prefix}{self._generated[prefix]}")
        return "".join(chance.choices(_SUFFIX_LETTERS, k=5))


_chance = _Chance()


def seed_names(seed: int) -> None:
    """Have generated names follow from a number from now on; uids, too, and from the order in which
    objects are created.
    """
    _chance.follow_from(seed)


def new_uid() -> str:
    return str(uuid.UUID(int=_chance.getrandbits(128), version=4))


def now() -> str:
    """The current time as the API writes it."""
    return _written(int(time.time()))


@lru_cache(maxsize=4)
def _written(seconds: int) -> str:
    return format_time(seconds)


def generated_name(prefix: str) -> str:
    return prefix[:_MAX_GENERATED] + _chance.suffix_for(prefix)


def begin_life(item: Object) -> None:
    """Give a new object its identity; what a client claims about it is not believed."""
    metadata = item["metadata"]
    for name in _SERVER_FIELDS:
        metadata.pop(name, None)
    if metadata.get("generateName") and not metadata.get("name"):
        metadata["name"] = generated_name(metadata["generateName"])
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = now()


def keep_identity(item: Object, old: Object) -> None:
    """Carry over what no update can change or take back."""
    metadata, before = item["metadata"], old["metadata"]
    metadata.setdefault("uid", before["uid"])
    for name in ("creationTimestamp", "deletionTimestamp", "generation"):
        if name in before:
            metadata[name] = before[name]
        else:
            metadata.pop(name, None)
    if "deletionGracePeriodSeconds" in before:
        metadata.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])


def metadata_errors(item: Object, resource: Resource) -> list[FieldError]:
    metadata = item["metadata"]
    if name := metadata.get("name"):
        errors = [fields.invalid("metadata.name", name, why) for why in resource.name_errors(name)]
    else:
        errors = [fields.required("metadata.name", "name or generateName is required")]
    errors += label_errors(metadata.get("labels") or {}, "metadata.labels")
    annotations, path = metadata.get("annotations") or {}, "metadata.annotations"
    for key in annotations:
        errors += [fields.invalid(path, key, why) for why in label_key_errors(key.lower())]
    size = sum(len(key) + len(str(value)) for key, value in annotations.items())
    if size > _MAX_ANNOTATIONS:
        errors.append(fields.too_long(path, _MAX_ANNOTATIONS))
    for finalizer in metadata.get("finalizers") or ():
        errors += [
            fields.invalid("metadata.finalizers", finalizer, why)
            for why in label_key_errors(finalizer)
        ]
    return errors


def metadata_update_errors(item: Object, old: Object) -> list[FieldError]:
    metadata, before = item["metadata"], old["metadata"]
    errors = [
        fields.invalid(f"metadata.{name}", metadata.get(name), IMMUTABLE)
        for name in ("name", "namespace", "uid", "deletionGracePeriodSeconds")
        if metadata.get(name) != before.get(name)
    ]
    if "deletionTimestamp" in before:
        known = before.get("finalizers") or []
        added = [name for name in metadata.get("finalizers") or () if name not in known]
        if added:
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers {fields.shown(added)}"
            )
            errors.append(fields.forbidden("metadata.finalizers", detail))
    return errors


def label_errors(labels: dict[str, Any], path: str) -> list[FieldError]:
    errors = []
    for key, value in labels.items():
        errors += [fields.invalid(path, key, why) for why in label_key_errors(key)]
        errors += [fields.invalid(path, value, why) for why in label_value_errors(str(value))]
    return errors


def find_condition(state: dict[str, Any], kind: str) -> dict[str, Any] | None:
    return next((one for one in state.get("conditions") or () if one["type"] == kind), None)


def set_condition(
    state: dict[str, Any], kind: str, value: str, *, reason: str = "", message: str = ""
) -> None:
    """Set a pod condition; the transition time moves only when the value does."""
    before = find_condition(state, kind)
    moved = before is None or before["status"] != value
    condition: dict[str, Any] = {
        "type": kind,
        "status": value,
        "lastProbeTime": None,
        "lastTransitionTime": now() if moved or before is None else before["lastTransitionTime"],
    }
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    conditions = state.setdefault("conditions", [])
    if before is None:
        conditions.append(condition)
    else:
        conditions[conditions.index(before)] = condition
