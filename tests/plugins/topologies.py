"""Small clusters with zones and hosts, and plugins asked about them.

Objects are written as in YAML, so that a test reads like a manifest; a node or pod that a test does
not describe further is as plain as can be.
"""

from types import SimpleNamespace

from kscheduler.api.core import Node, Pod
from kscheduler.api.decode import convert
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.listers import FixedListers
from kscheduler.framework.status import Code, Status
from kscheduler.metrics import Metrics
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.state.cache import Cache
from kscheduler.state.pod_info import PodInfo

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

ON_BY_DEFAULT = frozenset({"MatchLabelKeysInPodTopologySpread"})


def make_node(name, labels=None, **spec):
    return convert({"metadata": {"name": name, "labels": labels or {}}, "spec": spec}, Node)


def make_pod(
    name="p", labels=None, *, namespace="default", deleted=False, owner=None, status=None, **spec
):
    """Keywords that are not named here are the pod's spec."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "labels": labels or {},
        "deletionTimestamp": "2030-01-01T00:00:00Z" if deleted else None,
        "ownerReferences": [{**owner, "controller": True}] if owner else [],
    }
    return PodInfo(convert({"metadata": metadata, "spec": spec, "status": status}, Pod))


def make_cluster(nodes, pods=(), gone=()):
    """A snapshot; row i is the i-th node. Those of the nodes that are `gone` left free rows."""
    cache = Cache()
    for node in nodes:
        cache.add_node(node)
    for pod in pods:
        cache.add_pod(pod)
    for node in gone:
        cache.remove_node(node)
    return cache.snapshot()


def make_handle(objects=(), gates=ON_BY_DEFAULT):
    return RuntimeHandle(
        gates=SimpleNamespace(enabled=lambda name: name in gates),
        listers=FixedListers(objects),
        snapshot=lambda: None,
        nominator=None,
        activate=lambda pods: None,
        client=None,
        recorder=None,
        metrics=Metrics(),
    )


def pre_filter(plugin, pod, nodes):
    """The attempt's memory after PreFilter, or what PreFilter said instead."""
    cycle = CycleState()
    status = plugin.pre_filter(cycle, pod, nodes)
    return cycle if status is None else _told(status)


def rejections(plugin, pod, nodes, cycle=None):
    """Rejected nodes with code and reason; or what PreFilter said instead."""
    if cycle is None:
        cycle = pre_filter(plugin, pod, nodes)
        if not isinstance(cycle, CycleState):
            return cycle
    found = {}
    for rejection in plugin.filter(cycle, pod, nodes):
        for position in (rejection.mask & nodes.valid).nonzero()[0].tolist():
            name = nodes.name_of(position)
            assert name not in found, "a node is rejected for one reason"
            found[name] = rejection.code.text, rejection.reason
    return found


def scores(plugin, pod, nodes):
    """Raw and normalized scores, or what PreScore said instead."""
    cycle = CycleState()
    status = plugin.pre_score(cycle, pod, nodes)
    if status is not None:
        return _told(status)
    raw = plugin.score(cycle, pod, nodes)
    return raw.tolist(), plugin.normalize(cycle, pod, raw, nodes).tolist()


def hint(plugin, resource, pod, old, new):
    """What the plugin makes of an event on a resource of this name."""
    (registered,) = (one for one in plugin.events_to_register() if one.event.resource == resource)
    return registered.hint(pod, old, new).value


def _told(status: Status):
    return "Skip" if status.code is Code.SKIP else (status.code.text, status.message)
