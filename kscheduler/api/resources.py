"""The resources the scheduler talks about: where they live and which struct holds them."""

import msgspec

from kscheduler.api import core, resource, scheduling, small_groups, storage
from kscheduler.api.meta import ApiObject


class Resource(msgspec.Struct, frozen=True):
    """One kind of object behind one REST collection."""

    group: str
    version: str
    plural: str
    kind: str
    struct: type[ApiObject]
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`v1`, or `group/version` outside the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """`pods`, `leases.coordination.k8s.io`: how error texts name a collection."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """URL path of the collection, of one object, or of its subresource."""
        parts = ["/apis" if self.group else "/api", self.api_version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)

    def encode(self, item: ApiObject) -> bytes:
        """The object as a request body, with the kind and apiVersion structs do not carry."""
        head = msgspec.json.encode({"kind": self.kind, "apiVersion": self.api_version})
        body = msgspec.json.encode(item)
        return head if body == b"{}" else head[:-1] + b"," + body[1:]


def _cluster(group: str, version: str, plural: str, struct: type[ApiObject]) -> Resource:
    return Resource(group, version, plural, struct.__name__, struct, namespaced=False)


def _namespaced(group: str, version: str, plural: str, struct: type[ApiObject]) -> Resource:
    return Resource(group, version, plural, struct.__name__, struct)


PODS = _namespaced("", "v1", "pods", core.Pod)
NODES = _cluster("", "v1", "nodes", core.Node)
NAMESPACES = _cluster("", "v1", "namespaces", core.Namespace)
SERVICES = _namespaced("", "v1", "services", core.Service)
REPLICATION_CONTROLLERS = _namespaced(
    "", "v1", "replicationcontrollers", core.ReplicationController
)
PERSISTENT_VOLUMES = _cluster("", "v1", "persistentvolumes", core.PersistentVolume)
PERSISTENT_VOLUME_CLAIMS = _namespaced(
    "", "v1", "persistentvolumeclaims", core.PersistentVolumeClaim
)
CONFIG_MAPS = _namespaced("", "v1", "configmaps", core.ConfigMap)
CORE_EVENTS = _namespaced("", "v1", "events", core.Event)
BINDINGS = _namespaced("", "v1", "bindings", core.Binding)

REPLICA_SETS = _namespaced("apps", "v1", "replicasets", small_groups.ReplicaSet)
STATEFUL_SETS = _namespaced("apps", "v1", "statefulsets", small_groups.StatefulSet)

POD_DISRUPTION_BUDGETS = _namespaced(
    "policy", "v1", "poddisruptionbudgets", small_groups.PodDisruptionBudget
)

_STORAGE = "storage.k8s.io"
STORAGE_CLASSES = _cluster(_STORAGE, "v1", "storageclasses", storage.StorageClass)
CSI_NODES = _cluster(_STORAGE, "v1", "csinodes", storage.CSINode)
CSI_DRIVERS = _cluster(_STORAGE, "v1", "csidrivers", storage.CSIDriver)
CSI_STORAGE_CAPACITIES = _namespaced(
    _STORAGE, "v1", "csistoragecapacities", storage.CSIStorageCapacity
)
VOLUME_ATTACHMENTS = _cluster(_STORAGE, "v1", "volumeattachments", storage.VolumeAttachment)

_RESOURCE = "resource.k8s.io"
RESOURCE_CLAIMS = _namespaced(_RESOURCE, "v1", "resourceclaims", resource.ResourceClaim)
RESOURCE_CLAIM_TEMPLATES = _namespaced(
    _RESOURCE, "v1", "resourceclaimtemplates", resource.ResourceClaimTemplate
)
RESOURCE_SLICES = _cluster(_RESOURCE, "v1", "resourceslices", resource.ResourceSlice)
DEVICE_CLASSES = _cluster(_RESOURCE, "v1", "deviceclasses", resource.DeviceClass)
DEVICE_TAINT_RULES = _cluster(_RESOURCE, "v1", "devicetaintrules", resource.DeviceTaintRule)

_COORDINATION = "coordination.k8s.io"
LEASES = _namespaced(_COORDINATION, "v1", "leases", small_groups.Lease)
LEASE_CANDIDATES = _namespaced(
    _COORDINATION, "v1beta1", "leasecandidates", small_groups.LeaseCandidate
)

EVENTS = _namespaced("events.k8s.io", "v1", "events", small_groups.Event)

_SCHEDULING = "scheduling.k8s.io"
PRIORITY_CLASSES = _cluster(_SCHEDULING, "v1", "priorityclasses", scheduling.PriorityClass)
POD_GROUPS = _namespaced(_SCHEDULING, "v1beta1", "podgroups", scheduling.PodGroup)
COMPOSITE_POD_GROUPS = _namespaced(
    _SCHEDULING, "v1alpha3", "compositepodgroups", scheduling.CompositePodGroup
)

TOKEN_REVIEWS = _cluster("authentication.k8s.io", "v1", "tokenreviews", small_groups.TokenReview)
SUBJECT_ACCESS_REVIEWS = _cluster(
    "authorization.k8s.io", "v1", "subjectaccessreviews", small_groups.SubjectAccessReview
)

RESOURCES: tuple[Resource, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Resource)
)
