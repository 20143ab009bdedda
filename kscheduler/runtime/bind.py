"""PreBind, Bind and PostBind: work of plugins between the decision and a bound pod.

Only here may a plugin wait for the network. In PreBindPreFlight each plugin says whether it has any
work, and whether its neighbours may work at the same time; the first failure among those ends the
others' work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.in_tree import BindPlugin, PostBindPlugin, PreBindPlugin
from kscheduler.framework.plugin import PreFlight
from kscheduler.framework.status import SKIP, Code, Status
from kscheduler.metrics import Metrics
from kscheduler.runtime.plugin_calls import PluginCalls
from kscheduler.runtime.pods_in_pre_bind import PodsInPreBind
from kscheduler.state.pod_info import PodInfo


class Binding:
    """Runs the plugins of PreBind, Bind and PostBind."""

    def __init__(
        self,
        profile: str,
        metrics: Metrics,
        pods_in_pre_bind: PodsInPreBind,
        pre_bind: Sequence[PreBindPlugin],
        bind: Sequence[BindPlugin],
        post_bind: Sequence[PostBindPlugin],
    ) -> None:
        self._pre_flight_point = PluginCalls("PreBindPreFlight", profile, metrics)
        self._pre_bind_point = PluginCalls("PreBind", profile, metrics)
        self._bind_point = PluginCalls("Bind", profile, metrics)
        self._post_bind_point = PluginCalls("PostBind", profile, metrics)
        self._pods_in_pre_bind = pods_in_pre_bind
        self._pre_bind = pre_bind
        self._bind = bind
        self._post_bind = post_bind

    def run_pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None:
        """None if some plugin has work to do before binding, SKIP if none has, or an error."""
        started = perf_counter()
        status = self._pre_flights(cycle, pod, node)
        self._pre_flight_point.observe(status, started)
        return status

    def _pre_flights(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None:
        skipped: set[str] = set()
        parallel: set[str] = set()
        for plugin in self._pre_bind:
            answer = self._pre_flight_point.call(
                plugin.name, plugin.pre_bind_pre_flight, cycle, pod, node
            )
            if isinstance(answer, PreFlight):
                if answer.allow_parallel:
                    parallel.add(plugin.name)
                if not answer.has_work:
                    skipped.add(plugin.name)
            elif answer is not None and answer.code is Code.SKIP:
                skipped.add(plugin.name)
            elif answer is not None and answer.code is not Code.SUCCESS:
                if answer.code is Code.ERROR:
                    self._pre_flight_point.log_failure(plugin.name, answer, pod, node)
                    text = f'running PreBindPreFlight "{plugin.name}": {answer.message}'
                else:
                    text = (
                        f'PreBindPreFlight {plugin.name} returned "{answer.code.text}", which is '
                        "unsupported. It is supposed to return Success, Skip, or Error status"
                    )
                return Status(Code.ERROR, (text,))
        cycle.skip_pre_bind, cycle.parallel_pre_bind = skipped, parallel
        return SKIP if len(skipped) == len(self._pre_bind) else None

    async def run_pre_bind(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None:
        started = perf_counter()
        status = None
        for group in self._groups(cycle):
            try:
                status = await self._run_group(group, cycle, pod, node)
            except asyncio.CancelledError:
                # Preemption may have called the work off: that fails the attempt. A cancellation
                # by anything else goes on its way.
                entry = self._pods_in_pre_bind.get(pod.uid)
                if entry is None or not entry.was_cancelled_only_by_us():
                    raise
                text = f'running PreBind plugin "{group[0].name}": {entry.called_off}'
                status = Status(Code.ERROR, (text,))
            if status is not None:
                break
        self._pre_bind_point.observe(status, started)
        return status

    def has_nothing_to_pre_bind(self) -> None:
        """Observes an empty PreBind: upstream's histogram counts it all the same."""
        self._pre_bind_point.observe(None, perf_counter())

    def _groups(self, cycle: CycleState) -> list[list[PreBindPlugin]]:
        """Plugins with work to do; those in one list may work at the same time.

        Like upstream, a plugin that must run alone separates its neighbours even if it is skipped.
        """
        groups: list[list[PreBindPlugin]] = [[]]
        for plugin in self._pre_bind:
            working = [] if plugin.name in cycle.skip_pre_bind else [plugin]
            if plugin.name in cycle.parallel_pre_bind:
                groups[-1] += working
            else:
                groups += [working, []]
        return [group for group in groups if group]

    async def _run_group(
        self, group: Sequence[PreBindPlugin], cycle: CycleState, pod: PodInfo, node: str
    ) -> Status | None:
        if len(group) == 1:
            return await self._run_one(group[0], cycle, pod, node)
        async with asyncio.TaskGroup() as tasks:
            working = [
                tasks.create_task(
                    self._run_one(plugin, cycle, pod, node), name=f"prebind/{plugin.name}/{pod.key}"
                )
                for plugin in group
            ]
            for finished in asyncio.as_completed(working):
                status = await finished
                if status is not None:
                    for task in working:
                        task.cancel()
                    return status
        return None

    async def _run_one(
        self, plugin: PreBindPlugin, cycle: CycleState, pod: PodInfo, node: str
    ) -> Status | None:
        answer = await self._pre_bind_point.call_async(
            plugin.name, plugin.pre_bind, cycle, pod, node
        )
        return self._pre_bind_point.failure_of(plugin.name, answer, pod, node)

    async def run_bind(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None:
        """None once a plugin has bound the pod; SKIP, which is a failure, if none would."""
        started = perf_counter()
        status: Status | None = SKIP
        for plugin in self._bind:
            answer = await self._bind_point.call_async(plugin.name, plugin.bind, cycle, pod, node)
            if answer is None or answer.code is not Code.SKIP:
                status = self._bind_point.failure_of(plugin.name, answer, pod, node)
                break
        self._bind_point.observe(status, started)
        return status

    def run_post_bind(self, cycle: CycleState, pod: PodInfo, node: str) -> None:
        started = perf_counter()
        for plugin in self._post_bind:
            self._post_bind_point.call(plugin.name, plugin.post_bind, cycle, pod, node)
        self._post_bind_point.observe(None, started)
