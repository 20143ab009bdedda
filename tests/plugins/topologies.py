"""Small clusters with zones and hosts, and plugins asked about them.

Objects are written as in YAML, so that a test reads like a manifest; a node or pod that a test does
not describe further is as plain as can be.
"""

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.listers import FixedListers
from kscheduler.framework.status import Code, Status
from tests.kit import clusters, objects
from tests.kit.clusters import snapshot_of
from tests.kit.objects import make_pod_info

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

ON_BY_DEFAULT = frozenset({"MatchLabelKeysInPodTopologySpread"})


def make_node(name, labels=None, **spec):
    return objects.make_node(name, labels=labels, allocatable={}, **spec)


def make_pod(name="p", labels=None, **fields):
    """A pod without containers, unless given, as the scheduler keeps it."""
    return make_pod_info(name, labels=labels, **{"priority": None, "containers": [], **fields})


make_cluster = snapshot_of


def make_handle(objects=(), gates=ON_BY_DEFAULT):
    return clusters.make_handle(gates=gates, listers=FixedListers(objects), nominator=None)


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
