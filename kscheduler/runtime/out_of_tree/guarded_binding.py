"""What is asked of a plugin from outside once the pod has a node.

A synchronous pre_bind or bind is as good as one that waits. An asynchronous permit holds the pod
for as long as it takes to answer, and an asynchronous post_bind runs beside the loop.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import Wait
from kscheduler.framework.status import SKIP, Code, Status
from kscheduler.runtime.extension_point import text_of
from kscheduler.runtime.out_of_tree import answers
from kscheduler.runtime.out_of_tree.asked import Asked
from kscheduler.runtime.waiting_pods import WaitingPod
from kscheduler.state.pod_info import PodInfo

# The pod is held for longer than the plugin may take, so that it hears why it was not let go.
A_LITTLE_LONGER = 1.0


class GuardedBinding(Asked):
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
        bound = self._handle.outside.limits.wait_seconds
        return Wait(bound + A_LITTLE_LONGER if bound else math.inf)

    async def _permit_later(self, cycle: CycleState, pod: PodInfo, node: str) -> None:
        """Ends with the answer, or when others have decided or the pod is not there any more."""
        waiting = self._handle.waiting_pods.get(pod.uid)
        if waiting is None or waiting.pod is not pod:
            return
        async with asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(self._answer(waiting, cycle, pod, node))
            deciding = tasks.create_task(waiting.decided())
            await asyncio.wait((answering, deciding), return_when=asyncio.FIRST_COMPLETED)
            answering.cancel()
            deciding.cancel()

    async def _answer(
        self, waiting: WaitingPod, cycle: CycleState, pod: PodInfo, node: str
    ) -> None:
        try:
            answer = await self._guard.wait_for(
                "Permit", pod.pod, answers.status, partial(self._call_permit, cycle, pod, node)
            )
        except Exception as error:
            answer = Status(Code.ERROR, (f'running Permit plugin "{self.name}": {text_of(error)}',))
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
