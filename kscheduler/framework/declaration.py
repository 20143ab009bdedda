"""Declaration of an in-tree plugin: all that others must know of it, beside its class.

    @plugin(args=NodeResourcesFitArgs, weight=1, also_at=(Point.PLACEMENT_SCORE,))
    class NodeResourcesFit:
        name = "NodeResourcesFit"

Name, extension points and the ability to sign are read off the class; the rest is said here. The
registry (`plugins`) lists the classes; what configuration accepts, which plugins are on by default
and with which weight, which collections are watched for a plugin: all of it follows from the
declarations, and no other table has to be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kscheduler.extension_points import Point, points_of

if TYPE_CHECKING:
    from kscheduler.api.resources import Resource
    from kscheduler.config.plugin_args import PluginArgs
    from kscheduler.framework.in_tree import Plugin

C = TypeVar("C", bound="type[Plugin]")


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin of kube-scheduler; without `plugin_class` it is known to configuration only."""

    name: str
    # Where a profile can enable it.
    points: frozenset[Point]
    # Whether it can tell what of a pod its verdicts depend on. If not, pods of a profile in which
    # it filters or scores have no signature, and share no decisions.
    signs: bool
    # The type its arguments are decoded into; None if it takes none.
    args: type[PluginArgs] | None = None
    # Collections that are watched if it runs; those of pods and nodes always are.
    reads: tuple[Resource, ...] = ()
    # Whether it runs when nothing is configured; otherwise profiles have to name it.
    by_default: bool = True
    # The feature gate without which it is no default plugin; "" if there is none.
    gate: str = ""
    # The weight it has by default; 0 counts as 1 where it scores, and shows in the configuration.
    weight: int = 0
    plugin_class: type[Plugin] | None = None
    # What scheduling is like without it, if it is not built.
    missing: str = ""

    def make(self, args: Any, handle: Any) -> Plugin:
        """The plugin for one profile; its constructor takes arguments and a handle, or nothing."""
        make: Any = self.plugin_class
        assert make is not None, f"{self.name} is not built"
        # Not by inspect.signature, which takes 1 ms for the constructor that all classes inherit.
        constructor = getattr(make.__init__, "__code__", None)
        takes_both = constructor is not None and constructor.co_argcount > 1
        made: Plugin = make(args, handle) if takes_both else make()
        return made


def plugin(
    *,
    args: type[PluginArgs] | None = None,
    reads: tuple[Resource, ...] = (),
    by_default: bool = True,
    gate: str = "",
    weight: int = 0,
    also_at: Iterable[Point] = (),
) -> Callable[[C], C]:
    """Declares a plugin class; the declaration is its attribute `declaration`.

    `also_at` are points that upstream's plugin extends and ours has no need of, as a PreFilter that
    only ever says Skip: configuration accepts the plugin there, and it does not run.
    """

    def declare(plugin_class: C) -> C:
        extended: Any = plugin_class
        for method in ("filter_node", "score_node"):
            if hasattr(plugin_class, method):
                raise TypeError(
                    f"{extended.name}: {method} is for out-of-tree plugins; an in-tree one answers "
                    f"for all nodes at once, by {method.removesuffix('_node')}"
                )
        extended.declaration = Declaration(
            name=extended.name,
            points=points_of(plugin_class).union(also_at),
            signs=hasattr(plugin_class, "sign"),
            args=args,
            reads=reads,
            by_default=by_default,
            gate=gate,
            weight=weight,
            plugin_class=plugin_class,
        )
        return plugin_class

    return declare
