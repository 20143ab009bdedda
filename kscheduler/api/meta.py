"""Metadata every API object carries, and the options every API struct shares.

Mirrors meta/v1. Times and quantities stay texts as received; `timestamps` and
`quantity` make numbers of them where they are needed.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar, dataclass_transform

import msgspec

T = TypeVar("T")

# One shared, read-only value instead of an empty dict in each of 50,000 pods.
EMPTY: Mapping[str, Any] = MappingProxyType({})

# Go's Quantity accepts a JSON number as well; the API server itself always sends strings.
Quantity = str | int | float
IntOrString = int | str


# msgspec inherits `frozen` at run time; this declares it to the type checker, for every subclass.
@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class ApiStruct(
    msgspec.Struct,
    frozen=True,
    rename="camel",
    omit_defaults=True,
    repr_omit_defaults=True,
    # Frozen values decoded from JSON cannot form cycles, so the collector need not see them.
    gc=False,
):
    """A part of an API object: frozen, camelCase on the wire, zero values left out."""


class OwnerReference(ApiStruct):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(ApiStruct):
    """Names, versions, labels and owners; `managedFields` is never decoded."""

    # In the order in which Go writes them.
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if one says so."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class ApiObject(ApiStruct):
    """A whole API object, known by its key."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        """The name in its metadata."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The namespace in its metadata; "" if its kind has none."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """The identity in its metadata."""
        return self.metadata.uid

    @property
    def key(self) -> str:
        """`namespace/name`, or just the name of a cluster-scoped object."""
        metadata = self.metadata
        if metadata.namespace:
            return f"{metadata.namespace}/{metadata.name}"
        return metadata.name


class ListMeta(ApiStruct):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class ObjectList(ApiStruct, Generic[T]):
    """One page of a list; `items` do not repeat kind and apiVersion."""

    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] = ()


class WatchEvent(ApiStruct):
    """One line of a watch; what `object` is depends on `type` (ERROR carries a Status)."""

    type: str
    object: msgspec.Raw


class PartialObject(ApiObject):
    """An object's metadata and kind, enough for a BOOKMARK or a deletion."""

    kind: str = ""
    api_version: str = ""


class LabelSelectorRequirement(ApiStruct):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(ApiStruct):
    """A selector as users write it; `labels.compile_selector` makes it match."""

    match_labels: Mapping[str, str] = EMPTY
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(ApiStruct):
    """meta/v1 Condition, as devices and pod groups use it."""

    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class StatusCause(ApiStruct):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(ApiStruct):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(ApiStruct):
    """The answer of the API server where there is no object to answer with."""

    kind: str = ""
    api_version: str = ""
    metadata: ListMeta = ListMeta()
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class Preconditions(ApiStruct):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(ApiStruct):
    kind: str = ""
    api_version: str = ""
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: str | None = None
    dry_run: tuple[str, ...] = ()
