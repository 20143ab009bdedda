"""Reserve and Permit: the pod has a node; plugins claim what it needs there or hold it back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from time import perf_counter

import msgspec

from kscheduler import logs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.in_tree import PermitPlugin, ReservePlugin
from kscheduler.framework.plugin import Wait
from kscheduler.framework.status import Code, Status
from kscheduler.metrics import Metrics
from kscheduler.runtime.plugin_calls import PluginCalls
from kscheduler.runtime.waiting_pods import WaitingPods
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)
permit_log = logs.logger(__name__, "Permit")

# Undoes in the API server what an attempt has written there.
Undo = Callable[[], Awaitable[None]]

MAX_WAIT_SECONDS = 15 * 60.0

WAIT = Status(Code.WAIT, ("one or more plugins asked to wait and no plugin rejected pod",))


class Hold(msgspec.Struct, frozen=True):
    """Permit's answer when some plugins want to wait: which, and for how many seconds at most."""

    timeouts: Mapping[str, float]


class Reserving:
    """Runs the plugins of Reserve and Permit."""

    def __init__(
        self,
        profile: str,
        metrics: Metrics,
        reserve: Sequence[ReservePlugin],
        permit: Sequence[PermitPlugin],
    ) -> None:
        self._reserve_point = PluginCalls("Reserve", profile, metrics)
        self._unreserve_point = PluginCalls("Unreserve", profile, metrics)
        self._permit_point = PluginCalls("Permit", profile, metrics)
        self._waited = metrics.permit_wait_duration_seconds
        self._reserve = reserve
        self._permit = permit

    def run_reserve(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None:
        """None, or what stopped it; then everything must be unreserved."""
        started = perf_counter()
        status = None
        for plugin in self._reserve:
            answer = self._reserve_point.call(plugin.name, plugin.reserve, cycle, pod, node)
            status = self._reserve_point.failure_of(plugin.name, answer, pod, node)
            if status is not None:
                break
        self._reserve_point.observe(status, started)
        return status

    def run_unreserve(self, cycle: CycleState, pod: PodInfo, node: str) -> Undo | None:
        """Of all plugins, the last first, whether they had reserved anything or not.

        Returns what is left to be undone in the API server, for the caller to wait for.
        """
        started = perf_counter()
        left: list[tuple[str, Undo]] = []
        for plugin in reversed(self._reserve):
            undo = self._unreserve_point.call(plugin.name, plugin.unreserve, cycle, pod, node)
            if undo is not None and not isinstance(undo, Status):
                left.append((plugin.name, undo))
        if not left:
            self._unreserve_point.observe(None, started)
            return None
        return partial(self._undo, left, started)

    async def _undo(self, left: Iterable[tuple[str, Undo]], started: float) -> None:
        for plugin, undo in left:
            try:
                await undo()
            except Exception as error:  # One plugin's trouble: the others have to undo theirs.
                self._unreserve_point.exception_status(plugin, error)
        self._unreserve_point.observe(None, started)

    def run_permit(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | Hold | None:
        """None lets the pod be bound; a Hold must be put among the waiting pods."""
        started = perf_counter()
        timeouts: dict[str, float] = {}
        result: Status | Hold | None = None
        for plugin in self._permit:
            answer = self._permit_point.call(plugin.name, plugin.permit, cycle, pod, node)
            if isinstance(answer, Wait):
                timeouts[plugin.name] = min(answer.timeout_seconds, MAX_WAIT_SECONDS)
                continue
            status = self._permit_point.failure_of(plugin.name, answer, pod, node)
            if status is not None:
                result = status.by(plugin.name)
                break
        else:
            if timeouts:
                what = "One or more plugins asked to wait and no plugin rejected pod"
                permit_log.v(4).info(what, pod=logs.ref(pod.pod), node=node)
                result = Hold(timeouts)
        self._permit_point.observe(WAIT if isinstance(result, Hold) else result, started)
        return result

    async def wait_on_permit(
        self, pod: PodInfo, waiting_pods: WaitingPods, clock: Callable[[], float]
    ) -> Status | None:
        """None at once for a pod that no plugin holds; else the outcome of waiting."""
        waiting = waiting_pods.get(pod.uid)
        if waiting is None:
            return None
        log.v(4).info("Pod waiting on permit", pod=logs.ref(pod.pod))
        started = perf_counter()
        try:
            decision = await waiting.decision(clock)
        finally:
            waiting_pods.remove(pod.uid)
        self._waited.labels(decision.code.text).observe(perf_counter() - started)
        if decision.code is Code.SUCCESS:
            return None
        if decision.rejected:
            what = "Pod rejected while waiting on permit"
            log.v(4).info(what, pod=logs.ref(pod.pod), status=decision.message)
            return decision
        log.error(decision.message, "Failed waiting on permit for pod", pod=logs.ref(pod.pod))
        text = f"waiting on permit for pod: {decision.message}"
        return Status(Code.ERROR, (text,), decision.plugin)
