"""A plugin from outside as the framework runs it: same methods, every call guarded.

What goes in becomes views, what comes out is checked. Where the contract is more generous to others
than to our own plugins (a method left out, a synchronous bind, an asynchronous permit), the
difference is made up for. A plugin that was taken out answers as if it were not there.
"""

from __future__ import annotations

from typing import Any

from kscheduler import logs
from kscheduler.extension_points import EXTENSION_POINTS, PLUGIN_METHODS
from kscheduler.framework.views import Views
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.out_of_tree import answers
from kscheduler.runtime.out_of_tree.guard import Guard
from kscheduler.runtime.out_of_tree.guarded_binding import GuardedBinding
from kscheduler.runtime.out_of_tree.guarded_deciding import GuardedDeciding
from kscheduler.runtime.out_of_tree.guarded_queueing import GuardedQueueing

log = logs.logger(__name__)


class Guarded(GuardedQueueing, GuardedDeciding, GuardedBinding):
    """Has the methods that the plugin has, and no others: they tell where it runs."""

    def __init__(self, plugin: Any, guard: Guard, views: Views, handle: RuntimeHandle) -> None:
        super().__init__(plugin, guard, views, handle)
        self.caches = (views.kept.cache,)
        self.per_node: bool = getattr(plugin, "per_node", False)
        for method, needed in _NEEDED.items():
            if hasattr(plugin, needed):
                setattr(self, method, getattr(self, f"_{method}"))

    def _close(self) -> None:
        try:
            self._guard.ask("Close", None, answers.nothing, self.plugin.close)
        except Exception as error:
            log.error(error, "Plugin failed", plugin=self.name, extensionPoint="Close")


def _guarded_methods() -> dict[str, str]:
    """Each method that is guarded, and the one the plugin must have for it."""
    needed = {method.name: method.name for method in PLUGIN_METHODS}
    for extension in EXTENSION_POINTS.values():
        for method in (extension.method, *extension.optional):
            needed[method.name] = method.name
        if extension.companion is not None:
            needed[extension.companion.name] = extension.method.name
    return needed


_NEEDED = _guarded_methods()
