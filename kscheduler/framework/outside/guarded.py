"""A plugin from outside as the framework runs it: same methods, every call guarded.

What goes in becomes views, what comes out is checked. Where the contract is more generous to others
than to our own plugins (a method left out, a synchronous bind, an asynchronous permit), the
difference is made up for here. A plugin that was taken out answers as if it were not there.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from kscheduler import logs
from kscheduler.framework.cluster_event import EventWithHint, Hint
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.extension_point import text_of
from kscheduler.framework.handle import Handle
from kscheduler.framework.outside import answers
from kscheduler.framework.outside.guard import Guard
from kscheduler.framework.outside.health import Fault, PluginFault
from kscheduler.framework.outside.sort_key import FallbackKey
from kscheduler.framework.outside.views import Views
from kscheduler.framework.plugin import PostFilterResult, QueuedEntity, Wait
from kscheduler.framework.verdict import SKIP, Code, Diagnosis, Rejection, Scores, Status
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

NOTHING_TO_OFFER = PostFilterResult(Status(Code.UNSCHEDULABLE))


class Guarded:
    """Has the methods that the plugin has, and no others: they tell where it runs."""

    def __init__(
        self,
        plugin: Any,
        guard: Guard,
        views: Views,
        handle: Handle,
    ) -> None:
        self.name: str = plugin.name
        self.plugin = plugin
        self.per_node: bool = getattr(plugin, "per_node", False)
        self._guard = guard
        self._views = views
        self._handle = handle
        for method, needed in _NEEDED.items():
            if hasattr(plugin, needed):
                setattr(self, method, getattr(self, f"_{method}"))

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

    def _pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Any:
        if self._guard.idle:
            return SKIP
        ask = self._plugin_method("pre_filter")
        return self._guard.ask(
            "PreFilter",
            pod.pod,
            answers.status_or_names,
            ask,
            cycle,
            self._pod(pod),
            self._nodes(nodes),
        )

    def _add_pod(
        self, cycle: CycleState, pod: PodInfo, added: PodInfo, row: int, nodes: Nodes
    ) -> Status | None:
        return self._extend("add_pod", cycle, pod, added, row, nodes)

    def _remove_pod(
        self, cycle: CycleState, pod: PodInfo, removed: PodInfo, row: int, nodes: Nodes
    ) -> Status | None:
        return self._extend("remove_pod", cycle, pod, removed, row, nodes)

    def _extend(
        self,
        method: str,
        cycle: CycleState,
        pod: PodInfo,
        other: PodInfo,
        row: int,
        nodes: Nodes,
    ) -> Status | None:
        if self._guard.idle:
            return None
        return self._guard.ask(
            "PreFilterExtension",
            pod.pod,
            answers.status,
            self._plugin_method(method),
            cycle,
            self._pod(pod),
            self._pod(other),
            row,
            self._nodes(nodes),
        )

    def _filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterable[Rejection]:
        if self._guard.idle:
            return ()
        check = partial(answers.rejections, size=len(nodes))
        return self._guard.ask("Filter", pod.pod, check, self._all_rejections, cycle, pod, nodes)

    def _all_rejections(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Any:
        """With all that a generator has to say, which it says while it is watched."""
        found = self.plugin.filter(cycle, self._pod(pod), self._nodes(nodes))
        return list(found) if inspect.isgenerator(found) else found

    def _post_filter(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        if self._guard.idle:
            return NOTHING_TO_OFFER
        ask = self._plugin_method("post_filter")
        seen = _copied(diagnosis)
        result = self._guard.ask(
            "PostFilter", pod.pod, answers.post_filter_result, ask, cycle, self._pod(pod), seen
        )
        if result.preparation is None:
            return result
        return replace(result, preparation=self._prepared(pod, result.preparation))

    def _prepared(
        self, pod: PodInfo, work: Callable[[], Awaitable[PostFilterResult]]
    ) -> Callable[[], Awaitable[PostFilterResult]]:
        check = answers.post_filter_result
        return lambda: self._guard.wait_for("PostFilter", pod.pod, check, work)

    def _pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if self._guard.idle:
            return SKIP
        ask = self._plugin_method("pre_score")
        return self._guard.ask(
            "PreScore", pod.pod, answers.status, ask, cycle, self._pod(pod), self._nodes(nodes)
        )

    def _score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        size = len(nodes)
        if self._guard.idle:
            return np.zeros(size, np.int64)
        return self._guard.ask(
            "Score",
            pod.pod,
            partial(answers.scores, size=size),
            self.plugin.score,
            cycle,
            self._pod(pod),
            self._nodes(nodes),
        )

    def _normalize(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        size = len(nodes)
        if self._guard.idle:
            return np.zeros(size, np.int64)
        return self._guard.ask(
            "Score",
            pod.pod,
            partial(answers.scores, size=size),
            self.plugin.normalize,
            cycle,
            self._pod(pod),
            scores,
            self._nodes(nodes),
        )

    def out_of_range(self, pod: PodInfo, text: str) -> None:
        """Its scores, which were numbers, are beyond 0..100 in the end."""
        self._guard.blame("Score", pod.pod, PluginFault(Fault.SCORE, text))

    def _reserve(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None:
        return self._about_node("Reserve", "reserve", answers.status, cycle, pod, node)

    def _unreserve(self, cycle: CycleState, pod: PodInfo, node: str) -> None:
        if hasattr(self.plugin, "unreserve"):
            self._about_node("Unreserve", "unreserve", answers.nothing, cycle, pod, node)

    def _permit(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | Wait | None:
        if not inspect.iscoroutinefunction(self.plugin.permit):
            return self._about_node("Permit", "permit", answers.status_or_wait, cycle, pod, node)
        if self._guard.idle:
            return None
        # It holds the pod for as long as it takes to answer.
        work = partial(self._permit_later, cycle, pod, node)
        self._handle.outside.background.leave(f"permit/{self.name}/{pod.key}", work)
        return Wait(self._handle.outside.limits.wait_seconds)

    async def _permit_later(self, cycle: CycleState, pod: PodInfo, node: str) -> None:
        try:
            answer = await self._guard.wait_for(
                "Permit", pod.pod, answers.status, partial(self._call_permit, cycle, pod, node)
            )
        except Exception as error:
            answer = Status(Code.ERROR, (f'running Permit plugin "{self.name}": {text_of(error)}',))
        waiting = self._handle.waiting_pods.get(pod.uid)
        if waiting is None:
            return
        if answer is None or answer.code is Code.SUCCESS:
            waiting.allow(self.name)
        elif answer.rejected:
            waiting.reject(self.name, answer.message)
        else:
            waiting.fail(self.name, answer.message)

    def _call_permit(self, cycle: CycleState, pod: PodInfo, node: str) -> Any:
        return self.plugin.permit(cycle, self._pod(pod), node)

    def _pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node: str) -> Any:
        if self._guard.idle:
            return SKIP
        if not hasattr(self.plugin, "pre_bind_pre_flight"):
            return None
        point, check = "PreBindPreFlight", answers.status_or_pre_flight
        return self._about_node(point, "pre_bind_pre_flight", check, cycle, pod, node)

    async def _pre_bind(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None:
        if self._guard.idle:
            return None
        work = partial(self.plugin.pre_bind, cycle, self._pod(pod), node)
        return await self._guard.wait_for("PreBind", pod.pod, answers.status, work)

    async def _bind(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None:
        if self._guard.idle:
            return SKIP
        work = partial(self.plugin.bind, cycle, self._pod(pod), node)
        return await self._guard.wait_for("Bind", pod.pod, answers.status, work)

    def _post_bind(self, cycle: CycleState, pod: PodInfo, node: str) -> None:
        if not inspect.iscoroutinefunction(self.plugin.post_bind):
            self._about_node("PostBind", "post_bind", answers.nothing, cycle, pod, node)
        elif not self._guard.idle:
            work = partial(self.plugin.post_bind, cycle, self._pod(pod), node)
            self._handle.outside.background.leave(
                f"postbind/{self.name}/{pod.key}",
                partial(self._guard.wait_for, "PostBind", pod.pod, answers.nothing, work),
            )

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

    def _close(self) -> None:
        try:
            self._guard.ask("Close", None, answers.nothing, self.plugin.close)
        except Exception as error:
            log.error(error, "Plugin failed", plugin=self.name, extensionPoint="Close")

    def _about_node(
        self,
        point: str,
        method: str,
        check: Callable[[Any], Any],
        cycle: CycleState,
        pod: PodInfo,
        node: str,
    ) -> Any:
        if self._guard.idle:
            return None
        ask = self._plugin_method(method)
        return self._guard.ask(point, pod.pod, check, ask, cycle, self._pod(pod), node)

    def _plugin_method(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self.plugin, name)
        return method

    def _pod(self, pod: PodInfo) -> Any:
        return self._views.pod(pod)

    def _nodes(self, nodes: Nodes) -> Any:
        return self._views.nodes(nodes)


class _SeenInQueue:
    """A pod in the queue, as a QueueSort plugin sees it."""

    __slots__ = ("pod", "timestamp")

    def __init__(self, pod: Any, timestamp: float) -> None:
        self.pod = pod
        self.timestamp = timestamp


def _copied(diagnosis: Diagnosis) -> Diagnosis:
    return replace(
        diagnosis,
        charges=list(diagnosis.charges),
        unschedulable_plugins=set(diagnosis.unschedulable_plugins),
        pending_plugins=set(diagnosis.pending_plugins),
    )


# Each method that is guarded, and the one the plugin must have for it.
_NEEDED = {
    "pre_enqueue": "pre_enqueue",
    "sort_key": "sort_key",
    "pre_filter": "pre_filter",
    "add_pod": "add_pod",
    "remove_pod": "remove_pod",
    "filter": "filter",
    "post_filter": "post_filter",
    "pre_score": "pre_score",
    "score": "score",
    "normalize": "normalize",
    "reserve": "reserve",
    "unreserve": "reserve",
    "permit": "permit",
    "pre_bind_pre_flight": "pre_bind",
    "pre_bind": "pre_bind",
    "bind": "bind",
    "post_bind": "post_bind",
    "events_to_register": "events_to_register",
    "sign": "sign",
    "close": "close",
}
