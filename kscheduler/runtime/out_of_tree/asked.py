"""One plugin from outside, as the parts of `Guarded` see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kscheduler.framework.views import NodesView, PodView, Views
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.out_of_tree.guard import Guard
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo


class Asked:
    """The plugin, who watches over it, and what it is shown."""

    def __init__(self, plugin: Any, guard: Guard, views: Views, handle: RuntimeHandle) -> None:
        self.name: str = plugin.name
        self.plugin = plugin
        self._guard = guard
        self._views = views
        self._handle = handle

    def _plugin_method(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self.plugin, name)
        return method

    def _pod(self, pod: PodInfo) -> PodView:
        return self._views.pod(pod)

    def _nodes(self, nodes: Nodes) -> NodesView:
        return self._views.nodes(nodes)
