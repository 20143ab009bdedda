"""Nodes with capacity, taints and images, and plugins asked about them as the framework asks.

Pods, snapshots and handles are those of `topologies`; objects are written as in YAML.
"""

from kscheduler.api.core import Node
from kscheduler.api.decode import convert
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import NodeNames
from kscheduler.framework.status import Code, Status

UNRESOLVABLE = "UnschedulableAndUnresolvable"
UNSCHEDULABLE = "Unschedulable"


def make_node(name="n1", *, labels=None, allocatable=None, images=None, features=(), **spec):
    """`images` by name with their size; keywords that are not named here are the node's spec."""
    status = {
        "allocatable": {"pods": "110"} if allocatable is None else allocatable,
        "images": [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()],
        "declaredFeatures": list(features),
    }
    metadata = {"name": name, "labels": labels or {}}
    return convert({"metadata": metadata, "spec": spec, "status": status}, Node)


def container(requests=None, **fields):
    return {"name": "c", "resources": {"requests": requests or {}}, **fields}


def prepared(plugin, pod, nodes):
    """The attempt's memory after PreFilter, or what PreFilter said instead."""
    cycle = CycleState()
    if hasattr(plugin, "pre_filter"):
        answer = plugin.pre_filter(cycle, pod, nodes)
        if isinstance(answer, NodeNames):
            return sorted(answer.names)
        if answer is not None:
            return told(answer)
    return cycle


def rejected(plugin, pod, nodes, cycle=None):
    """Rejected nodes with their code and all reasons; what PreFilter said, if that ends it."""
    if cycle is None:
        cycle = prepared(plugin, pod, nodes)
        if not isinstance(cycle, CycleState):
            return cycle
    found = {}
    for one in plugin.filter(cycle, pod, nodes):
        for position in (one.mask & nodes.valid).nonzero()[0].tolist():
            code, reasons = found.get(nodes.name_of(position), (Code.SUCCESS, ()))
            reasons = tuple(sorted((*reasons, one.reason)))
            found[nodes.name_of(position)] = max(code, one.code), reasons
    return {name: (code.text, *reasons) for name, (code, reasons) in found.items()}


def raw_scores(plugin, pod, nodes, cycle=None):
    """One score per node, or what PreScore said instead; with a `cycle`, PreScore is not asked."""
    if cycle is None:
        cycle = CycleState()
        answer = plugin.pre_score(cycle, pod, nodes) if hasattr(plugin, "pre_score") else None
        if answer is not None:
            return told(answer)
    return plugin.score(cycle, pod, nodes).tolist()


def scores(plugin, pod, nodes):
    """Raw and normalised."""
    cycle = CycleState()
    answer = plugin.pre_score(cycle, pod, nodes)
    if answer is not None:
        return told(answer)
    raw = plugin.score(cycle, pod, nodes)
    return raw.tolist(), plugin.normalize(cycle, pod, raw, nodes).tolist()


def hint(plugin, event, pod, old, new):
    """What the plugin makes of the event; None if it does not care for such events at all."""
    for registered in plugin.events_to_register():
        if registered.event.matches(event):
            return "Queue" if registered.hint is None else registered.hint(pod, old, new).value
    return None


def told(status: Status):
    return "Skip" if status.code is Code.SKIP else (status.code.text, *status.reasons)
