"""An out-of-tree plugin as the runtime runs it: the same methods, every call guarded.

What goes in becomes read-only views, what comes out is checked. Where the public contract is more
generous than the runtime's (a method left out, a synchronous bind, an asynchronous permit), the
difference is made up for here. A plugin that was taken out answers as if it were not there.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from kscheduler import logs
from kscheduler.errors import ConfigError
from kscheduler.extension_points import EXTENSION_POINTS, METHODS, PLUGIN_METHODS, Point
from kscheduler.framework.cluster_event import EventWithHint, Hint
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.in_tree import QueuedEntity
from kscheduler.framework.plugin import PostFilterResult, Wait
from kscheduler.framework.status import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    SKIP,
    Code,
    Diagnosis,
    Rejection,
    Scores,
    Status,
)
from kscheduler.framework.views import PodView, Views
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.out_of_tree import answers
from kscheduler.runtime.out_of_tree.guard import Guard
from kscheduler.runtime.out_of_tree.health import Fault, PluginFault
from kscheduler.runtime.plugin_calls import text_of
from kscheduler.runtime.waiting_pods import WaitingPod
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

_LABELS = {method.name: method.label for method in METHODS.values()}
_SCORE = Point.SCORE.label

# A pod whose PreEnqueue failed is tried again after this time: as long as pods back off at most
# by default.
PRE_ENQUEUE_RETRY_SECONDS = 10.0

# An asynchronous permit holds its pod for longer than the guard lets it run, so that the reason
# it fails with is the guard's and not the timeout of waiting.
PERMIT_GRACE_SECONDS = 1.0

NO_NOMINATION = PostFilterResult(Status(Code.UNSCHEDULABLE))


def _methods_needed() -> dict[str, str]:
    """Each method that is guarded, and the one the plugin must have for it."""
    needed = {method.name: method.name for method in PLUGIN_METHODS}
    for extension in EXTENSION_POINTS.values():
        for method in (extension.method, *extension.optional):
            needed[method.name] = method.name
        if extension.companion is not None:
            needed[extension.companion.name] = extension.method.name
    return needed


_NEEDED = _methods_needed()


class Guarded:
    """Has the public methods that the plugin has, and no others: they say where it runs.

    Each is written here under its name with an underscore, and made public for one plugin if that
    plugin needs it.
    """

    def __init__(self, plugin: Any, guard: Guard, views: Views, handle: RuntimeHandle) -> None:
        self.name: str = plugin.name
        self.plugin = plugin
        self.caches = (views.objects.cache,)
        self.per_node: bool = getattr(plugin, "per_node", False)
        self._guard = guard
        self._views = views
        self._handle = handle
        # Pods, by uid, that are gated because PreEnqueue failed.
        self._gated_by_fault: dict[str, PodInfo] = {}
        for method, needed in _NEEDED.items():
            if hasattr(plugin, needed):
                setattr(self, method, getattr(self, f"_{method}"))

    def _call(self, method: str, pod: PodInfo, check: Callable[[Any], Any], *args: Any) -> Any:
        return self._guard.call(
            _LABELS[method], pod.pod, check, getattr(self.plugin, method), *args
        )

    # In the queue.

    def _pre_enqueue(self, pod: PodInfo) -> Status | None:
        if self._guard.taken_out:
            return None
        try:
            status: Status | None = self._call(
                "pre_enqueue", pod, answers.status, self._views.pod(pod)
            )
        except Exception as error:
            # There is no attempt that could fail and tell, and no event that would wake the pod
            # if the trouble was the plugin's alone: so it is told here, and retried.
            note = f'running PreEnqueue plugin "{self.name}": {text_of(error)}'
            recorder = self._handle.recorder
            recorder.event(pod.pod, "Warning", "FailedScheduling", "Scheduling", note)
            if not self._gated_by_fault:
                name = f"preenqueue/{self.name}"
                self._handle.out_of_tree.background.add(name, self._retry_pre_enqueue)
            self._gated_by_fault[pod.uid] = pod
            raise
        return status

    async def _retry_pre_enqueue(self) -> None:
        await asyncio.sleep(PRE_ENQUEUE_RETRY_SECONDS)
        pods = list(self._gated_by_fault.values())
        self._gated_by_fault.clear()
        self._handle.activate(pods)

    def _sort_key(self, queued: QueuedEntity) -> Any:
        """Never raises: without an order there is no queue. Pods without a key go by time."""
        if self._guard.taken_out:
            return FallbackKey(None, queued.timestamp)
        entity = _QueuedPodView(self._views.pod(queued.pod), queued.timestamp)
        try:
            key = self._call("sort_key", queued.pod, answers.anything, entity)
        except Exception as error:
            log.error(error, "Plugin failed", plugin=self.name, extensionPoint="QueueSort")
            key = None
        return FallbackKey(key, queued.timestamp)

    def _events_to_register(self) -> list[EventWithHint]:
        """Called before anything runs: without an answer nothing does."""
        try:
            events = answers.registrations(self.plugin.events_to_register())
        except (Exception, SystemExit) as error:
            text = f'plugin "{self.name}": events_to_register: {text_of(error)}'
            raise ConfigError(text) from error
        return [
            one if one.hint is None else replace(one, hint=partial(self._hint, one.hint))
            for one in events
        ]

    def _hint(
        self, hint: Callable[[Any, Any, Any], Hint], pod: PodInfo, old: Any, new: Any
    ) -> Hint:
        if self._guard.taken_out:
            return Hint.QUEUE
        show = self._views.item
        args = self._views.pod(pod), show(old), show(new)
        return self._guard.call("QueueingHint", pod.pod, answers.hint, hint, *args)

    def _sign(self, pod: PodInfo) -> Any:
        if self._guard.taken_out:
            return {}
        return self._call("sign", pod, answers.signature, self._views.pod(pod))

    # Deciding.

    def _pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Any:
        if self._guard.taken_out:
            return SKIP
        args = cycle, self._views.pod(pod), self._views.nodes(nodes)
        return self._call("pre_filter", pod, answers.status_or_names, *args)

    def _add_pod(
        self, cycle: CycleState, pod: PodInfo, added: PodInfo, row: int, nodes: Nodes
    ) -> Status | None:
        return self._update("add_pod", cycle, pod, added, row, nodes)

    def _remove_pod(
        self, cycle: CycleState, pod: PodInfo, removed: PodInfo, row: int, nodes: Nodes
    ) -> Status | None:
        return self._update("remove_pod", cycle, pod, removed, row, nodes)

    def _update(
        self, method: str, cycle: CycleState, pod: PodInfo, other: PodInfo, row: int, nodes: Nodes
    ) -> Any:
        if self._guard.taken_out:
            return None
        views = self._views
        args = cycle, views.pod(pod), views.pod(other), row, views.nodes(nodes)
        return self._call(method, pod, answers.status, *args)

    def _filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterable[Rejection]:
        if self._guard.taken_out:
            return ()
        check = partial(answers.rejections, size=len(nodes))
        return self._guard.call("Filter", pod.pod, check, self._rejections, cycle, pod, nodes)

    def _rejections(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Any:
        """The plugin's answer; a generator is exhausted here, while the watchdog is on."""
        found = self.plugin.filter(cycle, self._views.pod(pod), self._views.nodes(nodes))
        return list(found) if inspect.isgenerator(found) else found

    def _post_filter(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        if self._guard.taken_out:
            return NO_NOMINATION
        # A copy: other plugins are shown the same diagnosis.
        diagnosis = replace(
            diagnosis,
            charges=list(diagnosis.charges),
            unschedulable_plugins=set(diagnosis.unschedulable_plugins),
            pending_plugins=set(diagnosis.pending_plugins),
        )
        check = answers.post_filter_result
        result: PostFilterResult = self._call(
            "post_filter", pod, check, cycle, self._views.pod(pod), diagnosis
        )
        if result.preparation is None:
            return result
        wait = partial(
            self._guard.call_async, _LABELS["post_filter"], pod.pod, check, result.preparation
        )
        return replace(result, preparation=wait)

    def _pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Any:
        if self._guard.taken_out:
            return SKIP
        args = cycle, self._views.pod(pod), self._views.nodes(nodes)
        return self._call("pre_score", pod, answers.status, *args)

    def _score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        scores = self._scores("score", cycle, pod, nodes)
        return scores if hasattr(self.plugin, "normalize") else self._final(scores)

    def _normalize(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        return self._final(self._scores("normalize", cycle, pod, nodes, scores))

    def _scores(
        self, method: str, cycle: CycleState, pod: PodInfo, nodes: Nodes, *raw: Scores
    ) -> Scores:
        size = len(nodes)
        if self._guard.taken_out:
            return np.zeros(size, np.int64)
        check = partial(answers.scores, size=size)
        args = cycle, self._views.pod(pod), *raw, self._views.nodes(nodes)
        scores: Scores = self._call(method, pod, check, *args)
        return scores

    def _final(self, scores: Scores) -> Scores:
        """Counts a success, which matters only to a plugin that has failed before.

        Scores out of range are a fault as well, but it is the runtime that finds them, once for
        all plugins (`out_of_range`).
        """
        health = self._guard.health
        if (
            health.has_failed
            and len(scores)
            and scores.min() >= MIN_NODE_SCORE
            and scores.max() <= MAX_NODE_SCORE
        ):
            health.succeeded(_SCORE)
        return scores

    def out_of_range(self, pod: PodInfo, text: str) -> None:
        """Called by the runtime: normalized scores, which were numbers, are beyond 0..100."""
        self._guard.record_fault(_SCORE, pod.pod, PluginFault(Fault.SCORE, text))

    # Once the pod has a node.

    def _call_for_node(
        self, method: str, check: Callable[[Any], Any], cycle: CycleState, pod: PodInfo, node: str
    ) -> Any:
        if self._guard.taken_out:
            return None
        return self._call(method, pod, check, cycle, self._views.pod(pod), node)

    def _reserve(self, cycle: CycleState, pod: PodInfo, node: str) -> Any:
        return self._call_for_node("reserve", answers.status, cycle, pod, node)

    def _unreserve(self, cycle: CycleState, pod: PodInfo, node: str) -> None:
        if hasattr(self.plugin, "unreserve"):
            self._call_for_node("unreserve", answers.nothing, cycle, pod, node)

    def _permit(self, cycle: CycleState, pod: PodInfo, node: str) -> Any:
        if not inspect.iscoroutinefunction(self.plugin.permit):
            return self._call_for_node("permit", answers.status_or_wait, cycle, pod, node)
        if self._guard.taken_out:
            return None
        # An asynchronous permit holds the pod for as long as it takes to answer.
        services = self._handle.out_of_tree
        work = partial(self._permit_async, cycle, pod, node)
        services.background.add(f"permit/{self.name}/{pod.key}", work)
        bound = services.limits.wait_seconds
        return Wait(bound + PERMIT_GRACE_SECONDS if bound else math.inf)

    async def _permit_async(self, cycle: CycleState, pod: PodInfo, node: str) -> None:
        """Ends with the answer, or when others have decided or the pod is not there any more."""
        waiting = self._handle.waiting_pods.get(pod.uid)
        if waiting is None or waiting.pod is not pod:
            return
        async with asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(self._decide(waiting, cycle, node))
            deciding = tasks.create_task(waiting.decided())
            await asyncio.wait((answering, deciding), return_when=asyncio.FIRST_COMPLETED)
            answering.cancel()
            deciding.cancel()

    async def _decide(self, waiting: WaitingPod, cycle: CycleState, node: str) -> None:
        pod = waiting.pod
        try:
            # The view is made in the first step, which is watched.
            answer = await self._guard.call_async(
                _LABELS["permit"],
                pod.pod,
                answers.status,
                lambda: self.plugin.permit(cycle, self._views.pod(pod), node),
            )
        except Exception as error:
            answer = Status(Code.ERROR, (f'running Permit plugin "{self.name}": {text_of(error)}',))
        if answer is None or answer.code is Code.SUCCESS:
            waiting.allow(self.name)
        elif answer.rejected:
            waiting.reject(self.name, answer.message)
        else:
            waiting.fail(self.name, answer.message)

    def _pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node: str) -> Any:
        if self._guard.taken_out:
            return SKIP
        if not hasattr(self.plugin, "pre_bind_pre_flight"):
            return None
        check = answers.status_or_pre_flight
        return self._call_for_node("pre_bind_pre_flight", check, cycle, pod, node)

    async def _pre_bind(self, cycle: CycleState, pod: PodInfo, node: str) -> Any:
        if self._guard.taken_out:
            return None
        work = partial(self.plugin.pre_bind, cycle, self._views.pod(pod), node)
        return await self._guard.call_async(_LABELS["pre_bind"], pod.pod, answers.status, work)

    async def _bind(self, cycle: CycleState, pod: PodInfo, node: str) -> Any:
        if self._guard.taken_out:
            return SKIP
        work = partial(self.plugin.bind, cycle, self._views.pod(pod), node)
        return await self._guard.call_async(_LABELS["bind"], pod.pod, answers.status, work)

    def _post_bind(self, cycle: CycleState, pod: PodInfo, node: str) -> None:
        if not inspect.iscoroutinefunction(self.plugin.post_bind):
            self._call_for_node("post_bind", answers.nothing, cycle, pod, node)
        elif not self._guard.taken_out:
            work = partial(self.plugin.post_bind, cycle, self._views.pod(pod), node)
            label = _LABELS["post_bind"]
            self._handle.out_of_tree.background.add(
                f"postbind/{self.name}/{pod.key}",
                partial(self._guard.call_async, label, pod.pod, answers.nothing, work),
            )

    def _close(self) -> None:
        try:
            self._guard.call(_LABELS["close"], None, answers.nothing, self.plugin.close)
        except Exception as error:
            log.error(error, "Plugin failed", plugin=self.name, extensionPoint="Close")


class _QueuedPodView(NamedTuple):
    """A pod in the queue, as a QueueSort plugin sees it."""

    pod: PodView
    timestamp: float


class FallbackKey:
    """A plugin's sort key, which must not break the queue whatever it is.

    Where two keys cannot be compared, the pod that came first is first.
    """

    __slots__ = ("key", "timestamp")

    def __init__(self, key: Any, timestamp: float) -> None:
        self.key = key
        self.timestamp = timestamp

    def __lt__(self, other: FallbackKey) -> bool:
        try:
            return bool(self.key < other.key)
        except Exception:
            return self.timestamp < other.timestamp

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FallbackKey):
            return NotImplemented
        try:
            return bool(self.key == other.key)
        except Exception:
            return self.timestamp == other.timestamp

    __hash__ = None  # type: ignore[assignment]
