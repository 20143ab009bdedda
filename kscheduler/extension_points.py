"""Extension points: the one table of where plugins run, and which methods they have there.

Configuration, the runtime, the guard around out-of-tree plugins and the checks of their classes all
read this table; none of them keeps a list of its own. It lives below all of them and imports
nothing.

    Point               a point by its name in a file: `preFilter`
    EXTENSION_POINTS    what is asked at each point, and what an answer there means
    PLUGIN_METHODS      what is asked of a plugin as a whole
    points_of(plugin)   the points a plugin extends, read off its methods

Mirrors the interfaces of k8s.io/kube-scheduler/framework. Differs: `filter_node` and `score_node`
are upstream's Filter and Score; ours are asked about all nodes at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec


class Point(StrEnum):
    """An extension point by its name in a file; in the order in which profiles are built."""

    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    RESERVE = "reserve"
    PRE_SCORE = "preScore"
    SCORE = "score"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PERMIT = "permit"
    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    # Known to configuration; no plugin of ours runs at the following three.
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"
    POD_GROUP_POST_FILTER = "podGroupPostFilter"

    @property
    def attr(self) -> str:
        """The field of `config.model.Plugins` for this point."""
        return self.name.lower()

    @property
    def label(self) -> str:
        """The name in metrics, log lines and events: `PreFilter`."""
        return f"{self.value[0].upper()}{self.value[1:]}"

    @property
    def interface(self) -> str:
        """Upstream's name for the type of plugins that run here: `PreFilterPlugin`."""
        return f"{self.label}Plugin"


class Method(NamedTuple):
    """One method of a plugin, as the scheduler calls it."""

    name: str
    arguments: tuple[str, ...]
    # The extension point that metrics and faults give for a call of it.
    label: str
    # Whether an out-of-tree plugin may write it as `async def`.
    may_wait: bool = False


class ExtensionPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One point: a plugin extends it by having `method`, or `per_node` in its place."""

    method: Method
    # Asked node by node, by an adapter that has `method` (`runtime.out_of_tree.per_node`).
    per_node: Method | None = None
    # Called of every plugin that extends the point; out-of-tree plugins may leave it out.
    companion: Method | None = None
    # Called only of plugins that have them.
    optional: tuple[Method, ...] = ()
    # Whether a pod rejected here waits for an event that the plugin registered for.
    rejects: bool = False
    # Whether its plugins judge nodes. Then each must sign pods, lest none of the profile has a
    # signature, and its calls are counted in plugin_evaluation_total, from zero.
    judges: bool = False

    @property
    def methods(self) -> Iterator[Method]:
        yield self.method
        for other in (self.per_node, self.companion, *self.optional):
            if other is not None:
                yield other


_POD = ("pod",)
_NODES = ("cycle", "pod", "nodes")
_NODE = ("cycle", "pod", "node")

# In the order in which a pod meets them.
EXTENSION_POINTS: Mapping[Point, ExtensionPoint] = {
    Point.PRE_ENQUEUE: ExtensionPoint(
        method=Method("pre_enqueue", _POD, "PreEnqueue"),
        rejects=True,
    ),
    Point.QUEUE_SORT: ExtensionPoint(
        method=Method("sort_key", ("queued",), "QueueSort"),
    ),
    Point.PRE_FILTER: ExtensionPoint(
        method=Method("pre_filter", _NODES, "PreFilter"),
        optional=(
            Method("add_pod", ("cycle", "pod", "added", "row", "nodes"), "PreFilterExtension"),
            Method("remove_pod", ("cycle", "pod", "removed", "row", "nodes"), "PreFilterExtension"),
        ),
        rejects=True,
        judges=True,
    ),
    Point.FILTER: ExtensionPoint(
        method=Method("filter", _NODES, "Filter"),
        per_node=Method("filter_node", _NODE, "Filter"),
        rejects=True,
        judges=True,
    ),
    Point.POST_FILTER: ExtensionPoint(
        method=Method("post_filter", ("cycle", "pod", "diagnosis"), "PostFilter"),
    ),
    Point.PRE_SCORE: ExtensionPoint(
        method=Method("pre_score", _NODES, "PreScore"),
        judges=True,
    ),
    Point.SCORE: ExtensionPoint(
        method=Method("score", _NODES, "Score"),
        per_node=Method("score_node", _NODE, "Score"),
        optional=(Method("normalize", ("cycle", "pod", "scores", "nodes"), "Score"),),
        judges=True,
    ),
    Point.RESERVE: ExtensionPoint(
        method=Method("reserve", _NODE, "Reserve"),
        companion=Method("unreserve", _NODE, "Unreserve"),
        rejects=True,
    ),
    Point.PERMIT: ExtensionPoint(
        method=Method("permit", _NODE, "Permit", may_wait=True),
        rejects=True,
    ),
    Point.PRE_BIND: ExtensionPoint(
        method=Method("pre_bind", _NODE, "PreBind", may_wait=True),
        companion=Method("pre_bind_pre_flight", _NODE, "PreBindPreFlight"),
    ),
    Point.BIND: ExtensionPoint(
        method=Method("bind", _NODE, "Bind", may_wait=True),
    ),
    Point.POST_BIND: ExtensionPoint(
        method=Method("post_bind", _NODE, "PostBind", may_wait=True),
    ),
}

# Methods that belong to no point: what wakes pods the plugin rejected, what makes pods equal to it
# (upstream's EnqueueExtensions and SignPlugin), and the end.
PLUGIN_METHODS = (
    Method("events_to_register", (), "EventsToRegister"),
    Method("sign", _POD, "Sign"),
    Method("close", (), "Close"),
)

# All methods by name.
METHODS: Mapping[str, Method] = {
    method.name: method
    for methods in (*(point.methods for point in EXTENSION_POINTS.values()), PLUGIN_METHODS)
    for method in methods
}

# The method that the runtime calls at each point.
METHOD_OF_POINT: Mapping[Point, str] = {
    point: extension.method.name for point, extension in EXTENSION_POINTS.items()
}

REJECTING_POINTS = frozenset(
    point for point, extension in EXTENSION_POINTS.items() if extension.rejects
)
JUDGING_POINTS = tuple(point for point, extension in EXTENSION_POINTS.items() if extension.judges)


def points_of(plugin: object) -> frozenset[Point]:
    """The extension points that a plugin, or its class, extends."""
    return frozenset(
        point
        for point, (method, per_node) in _EXTENDING.items()
        if hasattr(plugin, method) or hasattr(plugin, per_node)
    )


_EXTENDING = {
    point: (extension.method.name, (extension.per_node or extension.method).name)
    for point, extension in EXTENSION_POINTS.items()
}
