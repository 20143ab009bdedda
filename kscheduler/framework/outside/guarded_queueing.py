"""What the queue asks of a plugin from outside: who is held back, who is next, what wakes whom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kscheduler import logs
from kscheduler.framework.cluster_event import EventWithHint, Hint
from kscheduler.framework.extension_point import text_of
from kscheduler.framework.outside import answers
from kscheduler.framework.outside.asked import Asked
from kscheduler.framework.outside.sort_key import FallbackKey
from kscheduler.framework.outside.views import PodView
from kscheduler.framework.plugin import QueuedEntity
from kscheduler.framework.verdict import Status
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)


class GuardedQueueing(Asked):
    def _pre_enqueue(self, pod: PodInfo) -> Status | None:
        if self._guard.idle:
            return None
        ask = self._plugin_method("pre_enqueue")
        try:
            return self._guard.ask("PreEnqueue", pod.pod, answers.status, ask, self._pod(pod))
        except Exception as error:
            # There is no attempt that could fail and tell; the pod stays gated.
            note = f'running PreEnqueue plugin "{self.name}": {text_of(error)}'
            recorder = self._handle.recorder
            recorder.event(pod.pod, "Warning", "FailedScheduling", "Scheduling", note)
            raise

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
        asked = self.plugin.events_to_register()
        return [
            one if one.hint is None else replace(one, hint=self._hint(one.hint))
            for one in answers.registrations(asked)
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
