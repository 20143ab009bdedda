"""Resources and strategies: everything the server knows about one kind, as one declaration.

A `Resource` says how a kind is named, scoped, served, printed and merged; its `Strategy` what is
special about writing it. Discovery, OpenAPI, tables, patches and the registry all read the same
declaration. Group versions, short names, subresources and field labels are those of the 1.37 API
server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from kscheduler.api.meta import ApiObject
from kscheduler.api.validation import dns_subdomain_errors
from kscheduler.rest.fields import FieldError
from kscheduler.rest.tables import AGE, NAME, Column
from kscheduler.sandbox.kinds.merging import Shapes
from kscheduler.sandbox.store import Object

if TYPE_CHECKING:
    from kscheduler.sandbox.access.authorization import Attributes

STORED_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


@dataclass(frozen=True, slots=True)
class Caller:
    """The user of a write over HTTP: the verb of the request, and what else the user may do.

    `refusal` is the text of a refused access, empty for one that is allowed.
    """

    verb: str
    refusal: Callable[[Attributes], str]


@dataclass(frozen=True, slots=True)
class Scope:
    """The surroundings of a write that rules of a kind may depend on."""

    namespace: str
    namespace_labels: Mapping[str, str]
    caller: Caller | None = None  # None: written by the cluster itself, which may do everything


class Strategy:
    """Hooks of writing one kind; these do nothing, so a plain kind keeps every field it is given.

    Named after upstream's RESTCreateStrategy and RESTUpdateStrategy. The registry calls them in the
    API server's order: default, admission, prepare, authorize, validate. Hooks change `item` in
    place.
    """

    keeps_status_on_create: ClassVar[bool] = False
    # A status write leaves labels, annotations, finalizers and owners alone.
    status_keeps_metadata: ClassVar[bool] = False
    # An update is checked like a new object, besides the change itself.
    revalidates_updates: ClassVar[bool] = True
    # Subresources that write one part of the object: reduce a new state to that part.
    parts: ClassVar[Mapping[str, Callable[[Object, Object], None]]] = {}

    def default(self, item: Object) -> None:
        """Fill in what a client may leave out; runs on every write."""

    def prepare_for_create(self, item: Object) -> None:
        """Drop what only the server may set, derive what it derives."""

    def prepare_for_update(self, item: Object, old: Object) -> None:
        """Put back what an update may not change."""

    def prepare_for_status_update(self, item: Object, old: Object) -> None:
        """Put back what a status update may not change."""

    def authorize(self, item: Object, scope: Scope) -> list[FieldError]:
        """Fields of a new object that may not be set in its surroundings."""
        return []

    def authorize_status_update(self, item: Object, old: Object, scope: Scope) -> list[FieldError]:
        """Parts of the status that may not be changed in the object's surroundings."""
        return []

    def validate(self, item: Object) -> list[FieldError]:
        """Everything wrong with the object itself."""
        return []

    def validate_update(self, item: Object, old: Object) -> list[FieldError]:
        """Everything wrong with the change from `old`."""
        return []

    def validate_status_update(self, item: Object, old: Object) -> list[FieldError]:
        """Everything wrong with the change of the status."""
        return []

    def initial_status(self) -> Object:
        """The status of a new object, in place of whatever the client sent."""
        return {}

    def grace_seconds(self, item: Object, asked: int | None) -> int | None:
        """Seconds between the request for deletion and its end; None: deletion is not graceful."""
        return None


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of an object with a path and verbs of its own, e.g. `pods/binding`."""

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: str = ""  # empty: the resource's own
    group: str = ""
    version: str = ""


STATUS = Subresource("status")
SCALE = Subresource("scale", kind="Scale", group="autoscaling", version="v1")


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind: its place under the API's roots, and the rules of reading and writing it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = STORED_VERBS
    subresources: tuple[Subresource, ...] = ()
    # Field selectors beyond metadata.name and metadata.namespace: label -> path in the object.
    field_labels: dict[str, str] = field(default_factory=dict)
    # metadata.generation starts at 1 and grows when the spec changes.
    counts_generation: bool = False
    creates_on_update: bool = False
    updates_unconditionally: bool = True
    # DELETE answers with the object instead of a Status.
    returns_deleted: bool = False
    # Plural and group of the resource whose objects this one shows in another version.
    shows: str = ""
    strategy: Strategy = field(default_factory=Strategy)
    # Columns of `kubectl get`.
    columns: tuple[Column, ...] = (NAME, AGE)
    # Merge rules of the kind's types, by type name: `{"PodSpec": {"containers": keyed("name")}}`.
    merge: Shapes = field(default_factory=dict)
    name_errors: Callable[[str], list[str]] = dns_subdomain_errors
    # Types of its fields, where kscheduler.api has no struct of the kind.
    struct: type[ApiObject] = ApiObject

    @property
    def group_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`leases.coordination.k8s.io`, or the bare plural in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def stored_as(self) -> str:
        """The key of the collection that holds its objects."""
        return self.shows or self.qualified

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def has_status(self) -> bool:
        return STATUS in self.subresources

    def path(self, namespace: str = "", name: str = "") -> str:
        """The URL path of the collection, or of one object in it."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{root}{scope}/{self.plural}" + (f"/{name}" if name else "")

    def subresource(self, name: str) -> Subresource | None:
        return next((one for one in self.subresources if one.name == name), None)

    def __hash__(self) -> int:
        return hash((self.group, self.version, self.plural))
