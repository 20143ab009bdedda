"""Pods that wait for permission, as plugins from outside deal with them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kscheduler.framework.views import PodView, Views
from kscheduler.runtime.out_of_tree.watchdog import Watchdog
from kscheduler.runtime.waiting_pods import WaitingPod, WaitingPods


class WaitingPodView:
    """One pod that has a node and is held by Permit plugins."""

    __slots__ = ("_plugin", "_views", "_waiting", "_watchdog")

    def __init__(self, waiting: WaitingPod, plugin: str, views: Views, watchdog: Watchdog) -> None:
        self._waiting = waiting
        self._plugin = plugin
        self._views = views
        self._watchdog = watchdog

    @property
    def pod(self) -> PodView:
        """With the node it would go to."""
        return self._views.pod(self._waiting.pod)

    @property
    def pending_plugins(self) -> Collection[str]:
        """Who still holds it."""
        return tuple(self._waiting.pending_plugins)

    def allow(self, plugin: str = "") -> None:
        """In this plugin's name, or another's; the pod goes once nobody holds it any more."""
        with self._watchdog.ours():
            self._waiting.allow(plugin or self._plugin)

    def reject(self, message: str, plugin: str = "") -> bool:
        """Send it back as unschedulable; False if that was decided already, one way or other."""
        with self._watchdog.ours():
            return self._waiting.reject(plugin or self._plugin, message)


class WaitingPodsView:
    """All pods that wait, of every profile."""

    def __init__(self, waiting: WaitingPods, plugin: str, views: Views, watchdog: Watchdog) -> None:
        self._waiting = waiting
        self._plugin = plugin
        self._views = views
        self._watchdog = watchdog

    def __iter__(self) -> Iterator[WaitingPodView]:
        return (self._view(one) for one in self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def get(self, uid: str) -> WaitingPodView | None:
        found = self._waiting.get(uid)
        return None if found is None else self._view(found)

    def _view(self, waiting: WaitingPod) -> WaitingPodView:
        return WaitingPodView(waiting, self._plugin, self._views, self._watchdog)
