"""Volumes, claims and classes in a small cluster, and VolumeBinding asked about them.

The listers are real informers, so that tests can let objects come, change and go. The API server is
a list of writes; they take effect when the test tells the informers.
"""

from msgspec.structs import replace

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.decode import convert
from kscheduler.api.meta import ApiObject
from kscheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from kscheduler.client.informers.decoding import Shape
from kscheduler.client.informers.informer import Informer
from kscheduler.client.informers.pace import Gate, Pace
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.plugin_args import UtilizationShapePoint
from kscheduler.framework.cycle_state import CycleState
from kscheduler.metrics import Metrics
from kscheduler.plugins.volume_binding import VolumeBinding
from kscheduler.plugins.volume_binding.plugin import VolumeBindingArgs
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.state.cache import Cache
from tests.plugins.topologies import make_pod

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED_NODE = "volume.kubernetes.io/selected-node"
WAIT, AT_ONCE = "WaitForFirstConsumer", "Immediate"
MOST_FREE = (
    UtilizationShapePoint(utilization=0, score=10),
    UtilizationShapePoint(utilization=100, score=0),
)


def reachable_from(**labels):
    """A node affinity: each label one of some values, written `zone="a b"`."""
    expressions = [
        {"key": key, "operator": "In", "values": values.split()} for key, values in labels.items()
    ]
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}


def make_volume(name="pv", size="10Gi", *, of="wait", phase="Available", kept_for=None, **parts):
    """`kept_for` is the name of a claim, perhaps with its uid: `c`, `c/uid-c`; `parts` are
    metadata and the volume's spec.
    """
    metadata = {"name": name, "resourceVersion": parts.pop("version", "1")}
    for field in ("labels", "annotations", "deletionTimestamp"):
        metadata[field] = parts.pop(field, None)
    claim_ref = None
    if kept_for is not None:
        claim, _, uid = kept_for.partition("/")
        claim_ref = {"namespace": "default", "name": claim, "uid": uid}
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of,
        "claimRef": claim_ref,
    }
    return convert(
        {"metadata": metadata, "spec": {**spec, **parts}, "status": {"phase": phase}},
        PersistentVolume,
    )


def make_claim(name="c", size="5Gi", *, of="wait", bound_to="", phase="", **parts):
    """`bound_to` a volume for good; for a claim that only names one, say `volumeName`."""
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": parts.pop("version", "1"),
    }
    annotations = parts.pop("annotations", {}) | (BOUND if bound_to else {})
    metadata |= {"annotations": annotations, "deletionTimestamp": parts.pop("deleted", None)}
    metadata["ownerReferences"] = parts.pop("owners", [])
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of,
        "volumeName": bound_to,
        "resources": {"requests": {"storage": size} if size else {}},
    }
    return convert(
        {"metadata": metadata, "spec": {**spec, **parts}, "status": {"phase": phase}},
        PersistentVolumeClaim,
    )


def make_class(name="wait", provisioner="csi.example.com", mode=WAIT, *allowed):
    """Each of the `allowed` topologies: label → values."""
    terms = [
        {"matchLabelExpressions": [{"key": k, "values": v.split()} for k, v in term.items()]}
        for term in allowed
    ]
    return convert(
        {
            "metadata": {"name": name, "resourceVersion": "1"},
            "provisioner": provisioner,
            "volumeBindingMode": mode,
            "allowedTopologies": terms,
        },
        StorageClass,
    )


def make_driver(name="csi.example.com", *, capacity=True, required=None):
    """`required`: pods must not go to nodes without the driver."""
    spec = {"storageCapacity": capacity, "preventPodSchedulingIfMissing": required}
    return convert({"metadata": {"name": name}, "spec": spec}, CSIDriver)


def make_capacity(name="cap", of="wait", labels=None, version="1", **amounts):
    """`labels` None: from nowhere; `amounts` are capacity and maximumVolumeSize."""
    return convert(
        {
            "metadata": {"name": name, "namespace": "kube-system", "resourceVersion": version},
            "storageClassName": of,
            "nodeTopology": None if labels is None else {"matchLabels": labels},
            **amounts,
        },
        CSIStorageCapacity,
    )


def make_csi_node(name, migrated="", drivers=None):
    """`drivers` by name, with how many volumes they can attach; None for any number."""
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    listed = [
        {
            "name": driver,
            "nodeID": name,
            "allocatable": {"count": count} if count is not None else None,
        }
        for driver, count in (drivers or {}).items()
    ]
    metadata = {"name": name, "annotations": annotations}
    return convert({"metadata": metadata, "spec": {"drivers": listed}}, CSINode)


def make_attachment(name="attached", *, volume="pv", node="n1", attacher="csi.example.com"):
    spec = {"attacher": attacher, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return convert({"metadata": {"name": name}, "spec": spec}, VolumeAttachment)


def using(*claims, name="p", ephemeral=(), **spec):
    """A pod with these claims, and ephemeral volumes of these names."""
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    volumes += [{"name": one, "ephemeral": {}} for one in ephemeral]
    return make_pod(name, volumes=volumes, **spec)


class Informers:
    """One informer per kind, empty until objects are put."""

    def __init__(self, objects=()):
        self._by_kind = {}
        for item in objects:
            self.put(item)

    def lister(self, kind: type[ApiObject]) -> Informer:
        if kind not in self._by_kind:
            shape = Shape(kind.__name__, None, lambda item: item.key, _version)
            self._by_kind[kind] = Informer(shape, Pace(Gate()))
        return self._by_kind[kind]

    def put(self, item):
        self.lister(type(item)).put(item.key, item)

    def remove(self, item):
        self.lister(type(item)).remove(item.key, item)


def _version(item):
    return item.metadata.resource_version


class Writes:
    """The API server, as far as volumes are written: each write makes the next version."""

    def __init__(self):
        self.made = []
        self.failing = {}

    async def update_volume(self, volume: PersistentVolume) -> PersistentVolume:
        return self._written(volume)

    async def update_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        return self._written(claim)

    def _written(self, item):
        if item.key in self.failing:
            raise self.failing[item.key]
        written = in_version(item, int(item.metadata.resource_version) + 1)
        self.made.append(written)
        return written


def in_version(item, version, **changes):
    """The object in another version, perhaps with other annotations and other parts."""
    metadata = replace(item.metadata, resource_version=str(version))
    if "annotations" in changes:
        metadata = replace(metadata, annotations=changes.pop("annotations"))
    return replace(item, metadata=metadata, **changes)


class Cluster:
    """Nodes, pods on them, and objects; time is a number."""

    def __init__(self, nodes, *objects, pods=(), gates=None):
        self.cache = Cache()
        self.informers = Informers(objects)
        for node in nodes:
            self.cache.add_node(node)
            self.informers.put(node)
        for pod in pods:
            self.cache.add_pod(pod)
        self.writes = Writes()
        self.metrics = Metrics()
        self.now = 0.0
        self.handle = RuntimeHandle(
            gates=FeatureGates.defaults().apply(gates or {}),
            listers=self.informers,
            snapshot=self.cache.snapshot,
            nominator=None,
            activate=lambda pods: None,
            client=self.writes,
            recorder=None,
            metrics=self.metrics,
            clock=lambda: self.now,
        )

    @property
    def nodes(self):
        return self.cache.snapshot()


class Stage(Cluster):
    """VolumeBinding, and a cluster around it."""

    def __init__(self, nodes, *objects, gates=None, shape=MOST_FREE, timeout=600):
        super().__init__(nodes, *objects, gates=gates)
        args = VolumeBindingArgs(bind_timeout_seconds=timeout, shape=shape)
        self.plugin = VolumeBinding(args, self.handle)

    def prepared(self, pod):
        """The attempt's memory after PreFilter; it must have succeeded."""
        cycle = CycleState()
        assert self.plugin.pre_filter(cycle, pod, self.nodes) is None
        return cycle

    def reserve(self, pod, node):
        """The attempt's memory, and what Reserve said."""
        self.informers.put(pod.pod)
        cycle = self.prepared(pod)
        list(self.plugin.filter(cycle, pod, self.nodes))
        return cycle, self.plugin.reserve(cycle, pod, node)
