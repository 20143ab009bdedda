"""The resources the sandbox serves, as one table.

A row says how a resource is named, scoped and written; what differs in *behaviour* (defaults,
validation, what a create may set) is in kinds/. Group versions, short names, subresources and
field labels are those of the 1.37 API server.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

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
    """One row: where a kind lives under the API's roots and which rules of writing hold for it."""

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

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    def path(self, namespace: str = "", name: str = "") -> str:
        """The URL path of the collection, or of one object in it."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{root}{scope}/{self.plural}" + (f"/{name}" if name else "")

    def subresource(self, name: str) -> Subresource | None:
        return next((one for one in self.subresources if one.name == name), None)

    def __hash__(self) -> int:
        return hash((self.group, self.version, self.plural))


def _core() -> Iterator[Resource]:
    pod_fields = (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    )
    event_fields = (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "type",
    )
    yield Resource(
        "",
        "v1",
        "pods",
        "Pod",
        short_names=("po",),
        categories=("all",),
        subresources=(
            Subresource("binding", ("create",), "Binding"),
            Subresource("eviction", ("create",), "Eviction", "policy", "v1"),
            Subresource("ephemeralcontainers"),
            Subresource("resize"),
            STATUS,
        ),
        field_labels={name: name for name in pod_fields},
        counts_generation=True,
        returns_deleted=True,
    )
    yield Resource("", "v1", "bindings", "Binding", verbs=("create",))
    yield Resource(
        "",
        "v1",
        "nodes",
        "Node",
        namespaced=False,
        short_names=("no",),
        subresources=(STATUS,),
        field_labels={"spec.unschedulable": "spec.unschedulable"},
    )
    yield Resource(
        "",
        "v1",
        "namespaces",
        "Namespace",
        namespaced=False,
        short_names=("ns",),
        verbs=tuple(verb for verb in STORED_VERBS if verb != "deletecollection"),
        subresources=(Subresource("finalize", ("update",)), STATUS),
        field_labels={"status.phase": "status.phase"},
        returns_deleted=True,
    )
    yield Resource(
        "",
        "v1",
        "events",
        "Event",
        short_names=("ev",),
        field_labels={name: name for name in event_fields} | {"source": "source.component"},
        creates_on_update=True,
    )
    yield Resource(
        "",
        "v1",
        "services",
        "Service",
        short_names=("svc",),
        categories=("all",),
        subresources=(STATUS,),
        field_labels={"spec.clusterIP": "spec.clusterIP", "spec.type": "spec.type"},
        creates_on_update=True,
        returns_deleted=True,
    )
    yield Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",))
    yield Resource("", "v1", "secrets", "Secret", field_labels={"type": "type"})
    yield Resource(
        "", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",), returns_deleted=True
    )
    yield Resource("", "v1", "endpoints", "Endpoints", short_names=("ep",), creates_on_update=True)
    yield Resource("", "v1", "limitranges", "LimitRange", short_names=("limits",))
    yield Resource(
        "",
        "v1",
        "resourcequotas",
        "ResourceQuota",
        short_names=("quota",),
        subresources=(STATUS,),
        returns_deleted=True,
    )
    yield Resource(
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        short_names=("rc",),
        categories=("all",),
        subresources=(SCALE, STATUS),
        field_labels={"status.replicas": "status.replicas"},
        counts_generation=True,
    )
    yield Resource(
        "",
        "v1",
        "persistentvolumes",
        "PersistentVolume",
        namespaced=False,
        short_names=("pv",),
        subresources=(STATUS,),
        returns_deleted=True,
    )
    yield Resource(
        "",
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        short_names=("pvc",),
        subresources=(STATUS,),
        returns_deleted=True,
    )


def _workloads() -> Iterator[Resource]:
    for plural, kind, short, scales in (
        ("daemonsets", "DaemonSet", "ds", False),
        ("deployments", "Deployment", "deploy", True),
        ("replicasets", "ReplicaSet", "rs", True),
        ("statefulsets", "StatefulSet", "sts", True),
    ):
        yield Resource(
            "apps",
            "v1",
            plural,
            kind,
            short_names=(short,),
            categories=("all",),
            subresources=(SCALE, STATUS) if scales else (STATUS,),
            field_labels={"status.replicas": "status.replicas"} if short == "rs" else {},
            counts_generation=True,
        )
    yield Resource(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        short_names=("pdb",),
        subresources=(STATUS,),
        counts_generation=True,
        updates_unconditionally=False,
    )


def _scheduling() -> Iterator[Resource]:
    group = "scheduling.k8s.io"
    yield Resource(
        group,
        "v1",
        "priorityclasses",
        "PriorityClass",
        namespaced=False,
        short_names=("pc",),
        counts_generation=True,
    )
    yield Resource(
        group,
        "v1beta1",
        "podgroups",
        "PodGroup",
        subresources=(STATUS,),
        updates_unconditionally=False,
    )
    yield Resource(
        group,
        "v1alpha3",
        "compositepodgroups",
        "CompositePodGroup",
        subresources=(STATUS,),
        updates_unconditionally=False,
    )


def _storage() -> Iterator[Resource]:
    group = "storage.k8s.io"
    yield Resource(
        group,
        "v1",
        "storageclasses",
        "StorageClass",
        namespaced=False,
        short_names=("sc",),
        returns_deleted=True,
    )
    yield Resource(
        group,
        "v1",
        "csinodes",
        "CSINode",
        namespaced=False,
        subresources=(STATUS,),
        updates_unconditionally=False,
        returns_deleted=True,
    )
    yield Resource(
        group,
        "v1",
        "csidrivers",
        "CSIDriver",
        namespaced=False,
        updates_unconditionally=False,
        returns_deleted=True,
    )
    yield Resource(
        group, "v1", "csistoragecapacities", "CSIStorageCapacity", updates_unconditionally=False
    )
    yield Resource(
        group,
        "v1",
        "volumeattachments",
        "VolumeAttachment",
        namespaced=False,
        subresources=(STATUS,),
        updates_unconditionally=False,
        returns_deleted=True,
    )
    yield Resource(
        group,
        "v1",
        "volumeattributesclasses",
        "VolumeAttributesClass",
        namespaced=False,
        short_names=("vac",),
        returns_deleted=True,
    )


def _devices() -> Iterator[Resource]:
    group = "resource.k8s.io"
    yield Resource(
        group,
        "v1",
        "deviceclasses",
        "DeviceClass",
        namespaced=False,
        counts_generation=True,
        returns_deleted=True,
    )
    yield Resource(
        group,
        "v1",
        "devicetaintrules",
        "DeviceTaintRule",
        namespaced=False,
        subresources=(STATUS,),
        counts_generation=True,
        returns_deleted=True,
    )
    yield Resource(
        group, "v1", "resourceclaims", "ResourceClaim", subresources=(STATUS,), returns_deleted=True
    )
    yield Resource(
        group, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", returns_deleted=True
    )
    yield Resource(
        group,
        "v1",
        "resourceslices",
        "ResourceSlice",
        namespaced=False,
        field_labels={"spec.nodeName": "spec.nodeName", "spec.driver": "spec.driver"},
        counts_generation=True,
        returns_deleted=True,
    )


def _access() -> Iterator[Resource]:
    rbac = "rbac.authorization.k8s.io"
    for plural, kind, namespaced in (
        ("clusterrolebindings", "ClusterRoleBinding", False),
        ("clusterroles", "ClusterRole", False),
        ("rolebindings", "RoleBinding", True),
        ("roles", "Role", True),
    ):
        yield Resource(rbac, "v1", plural, kind, namespaced=namespaced, creates_on_update=True)
    for group, plural, kind, namespaced in (
        ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", False),
        ("authentication.k8s.io", "tokenreviews", "TokenReview", False),
        ("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", True),
        ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False),
        ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", False),
    ):
        yield Resource(group, "v1", plural, kind, namespaced=namespaced, verbs=("create",))


def _others() -> Iterator[Resource]:
    yield Resource(
        "coordination.k8s.io",
        "v1",
        "leases",
        "Lease",
        creates_on_update=True,
        updates_unconditionally=False,
    )
    yield Resource("coordination.k8s.io", "v1beta1", "leasecandidates", "LeaseCandidate")
    yield Resource(
        "events.k8s.io",
        "v1",
        "events",
        "Event",
        short_names=("ev",),
        field_labels={
            "reason": "reason",
            "type": "type",
            "reportingController": "reportingComponent",
            "regarding.kind": "involvedObject.kind",
            "regarding.namespace": "involvedObject.namespace",
            "regarding.name": "involvedObject.name",
            "regarding.uid": "involvedObject.uid",
        },
        creates_on_update=True,
        shows="events",
    )


RESOURCES: tuple[Resource, ...] = (
    *_core(),
    *_workloads(),
    *_scheduling(),
    *_storage(),
    *_devices(),
    *_access(),
    *_others(),
)

BY_PATH: dict[tuple[str, str, str], Resource] = {
    (row.group, row.version, row.plural): row for row in RESOURCES
}
BY_KIND: dict[tuple[str, str], Resource] = {(row.group_version, row.kind): row for row in RESOURCES}
BY_NAME: dict[str, Resource] = {row.qualified: row for row in RESOURCES}

PODS = BY_NAME["pods"]
NODES = BY_NAME["nodes"]
NAMESPACES = BY_NAME["namespaces"]
EVENTS = BY_NAME["events"]
LEASES = BY_NAME["leases.coordination.k8s.io"]
PRIORITY_CLASSES = BY_NAME["priorityclasses.scheduling.k8s.io"]
POD_DISRUPTION_BUDGETS = BY_NAME["poddisruptionbudgets.policy"]
STORAGE_CLASSES = BY_NAME["storageclasses.storage.k8s.io"]


def namespaced_resources() -> Iterator[Resource]:
    """Stored resources that live and die with their namespace, each storage once."""
    for row in RESOURCES:
        if row.namespaced and not row.shows and row.verbs == STORED_VERBS:
            yield row
