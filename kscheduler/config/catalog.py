"""Plugins that configuration knows: which names exist, where each can run, which are on by default.

Configuration must know all plugins of kube-scheduler, also those that are not built here, because
it says which names are valid. It imports none of them: the registry (`plugins`) makes a `Catalog`
of their declarations, and loading, defaulting, validating and completing take it as an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec
from msgspec.structs import replace

from kscheduler.config.model import Plugin
from kscheduler.config.plugin_args import Gates, PluginArgs
from kscheduler.extension_points import Point


class Runnable(Protocol):
    """A plugin that a profile can enable: where it can run, and whether it can sign pods."""

    @property
    def name(self) -> str: ...
    @property
    def points(self) -> frozenset[Point]: ...
    @property
    def signs(self) -> bool: ...


class InTree(Runnable, Protocol):
    """A plugin of kube-scheduler (`framework.declaration.Declaration`)."""

    @property
    def args(self) -> type[PluginArgs] | None: ...
    @property
    def by_default(self) -> bool: ...
    @property
    def gate(self) -> str: ...
    @property
    def weight(self) -> int: ...


class Catalog(msgspec.Struct, frozen=True):
    """`in_tree` is in the order of the default configuration, in which plugins run."""

    in_tree: Mapping[str, InTree]
    # In-tree and out-of-tree plugins alike.
    points_of: Mapping[str, frozenset[Point]]
    unsignable: frozenset[str]
    # Types of arguments by kind: `NodeAffinityArgs`.
    kinds: Mapping[str, type[PluginArgs]]

    @classmethod
    def of(cls, plugins: Iterable[InTree]) -> Catalog:
        in_tree = {plugin.name: plugin for plugin in plugins}
        return cls(
            in_tree,
            {name: plugin.points for name, plugin in in_tree.items()},
            frozenset(name for name, plugin in in_tree.items() if not plugin.signs),
            {plugin.args.__name__: plugin.args for plugin in in_tree.values() if plugin.args},
        )

    def including(self, out_of_tree: Iterable[Runnable]) -> Catalog:
        """This catalog and plugins of others; those are enabled by name only, never by default."""
        others = tuple(out_of_tree)
        return replace(
            self,
            points_of={**self.points_of, **{plugin.name: plugin.points for plugin in others}},
            unsignable=self.unsignable | {plugin.name for plugin in others if not plugin.signs},
        )

    def args_of(self, name: str) -> type[PluginArgs] | None:
        """The type of a plugin's arguments; None if it is out-of-tree or takes none."""
        plugin = self.in_tree.get(name)
        return None if plugin is None else plugin.args

    def default_plugins(self, gates: Gates) -> tuple[Plugin, ...]:
        """Plugins that run when nothing is configured; all are enabled through multiPoint."""
        return tuple(
            Plugin(name=plugin.name, weight=plugin.weight)
            for plugin in self.in_tree.values()
            if plugin.by_default and (not plugin.gate or gates.enabled(plugin.gate))
        )
