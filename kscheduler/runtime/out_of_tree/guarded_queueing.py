"""What the queue asks of a plugin from outside: who is held back, who is next, what wakes whom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kscheduler import logs
from kscheduler.errors import ConfigError
from kscheduler.framework.cluster_event import EventWithHint, Hint
from kscheduler.framework.plugin import QueuedEntity
from kscheduler.framework.status import Status
from kscheduler.framework.views import PodView, Views
from kscheduler.runtime.extension_point import text_of
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.out_of_tree import answers
from kscheduler.runtime.out_of_tree.asked import Asked
from kscheduler.runtime.out_of_tree.guard import Guard
from kscheduler.runtime.out_of_tree.sort_key import FallbackKey
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)


# As long as pods are held back at most between two attempts, by default.
ASK_AGAIN_SECONDS = 10.0


class GuardedQueueing(Asked):
    def __init__(self, plugin: Any, guard: Guard, views: Views, handle: RuntimeHandle) -> None:
        super().__init__(plugin, guard, views, handle)
        self._gated_by_fault: dict[str, PodInfo] = {}

    def _pre_enqueue(self, pod: PodInfo) -> Status | None:
        if self._guard.idle:
            return None
        ask = self._plugin_method("pre_enqueue")
        try:
            return self._guard.ask("PreEnqueue", pod.pod, answers.status, ask, self._pod(pod))
        except Exception as error:
            # There is no attempt that could fail and tell, or be repeated.
            note = f'running PreEnqueue plugin "{self.name}": {text_of(error)}'
            recorder = self._handle.recorder
            recorder.event(pod.pod, "Warning", "FailedScheduling", "Scheduling", note)
            self._ask_again_later(pod)
            raise

    def _ask_again_later(self, pod: PodInfo) -> None:
        """What failed may have been the plugin's trouble alone, and no event would tell."""
        if not self._gated_by_fault:
            name = f"preenqueue/{self.name}"
            self._handle.outside.background.leave(name, self._ask_again)
        self._gated_by_fault[pod.uid] = pod

    async def _ask_again(self) -> None:
        await asyncio.sleep(ASK_AGAIN_SECONDS)
        pods = list(self._gated_by_fault.values())
        self._gated_by_fault.clear()
        self._handle.activate(pods)

    def _sort_key(self, queued: QueuedEntity) -> Any:
        """Never raises: without an order there is no queue. Pods without a key go by time."""
        if self._guard.idle:
            return FallbackKey(None, queued.timestamp)
        entity = _SeenInQueue(self._pod(queued.pod), queued.timestamp)
        ask = self._plugin_method("sort_key")
        try:
            key = self._guard.ask("QueueSort", queued.pod.pod, answers.anything, ask, entity)
        except Exception as error:
            log.error(error, "Plugin failed", plugin=self.name, extensionPoint="QueueSort")
            key = None
        return FallbackKey(key, queued.timestamp)

    def _events_to_register(self) -> list[EventWithHint]:
        """Asked before anything runs: without an answer nothing does."""
        try:
            events = answers.registrations(self.plugin.events_to_register())
        except (Exception, SystemExit) as error:
            text = f'plugin "{self.name}": events_to_register: {text_of(error)}'
            raise ConfigError(text) from error
        return [
            one if one.hint is None else replace(one, hint=self._hint(one.hint)) for one in events
        ]

    def _hint(self, ask: Callable[[Any, Any, Any], Hint]) -> Callable[[Any, Any, Any], Hint]:
        def call(pod: PodInfo, old: Any, new: Any) -> Hint:
            if self._guard.idle:
                return Hint.QUEUE
            seen = self._views.anything
            args = self._pod(pod), seen(old), seen(new)
            return self._guard.ask("QueueingHint", pod.pod, answers.hint, ask, *args)

        return call

    def _sign(self, pod: PodInfo) -> Any:
        if self._guard.idle:
            return {}
        ask = self.plugin.sign
        return self._guard.ask("Sign", pod.pod, answers.signature, ask, self._pod(pod))


class _SeenInQueue:
    """A pod in the queue, as a QueueSort plugin sees it."""

    __slots__ = ("pod", "timestamp")

    def __init__(self, pod: PodView, timestamp: float) -> None:
        self.pod = pod
        self.timestamp = timestamp
