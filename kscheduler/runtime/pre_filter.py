"""PreFilter: plugins see the pod once, before any node is filtered.

Here a plugin prepares what its Filter needs, steps aside for this attempt (Skip), narrows the nodes
to a few names, or ends the attempt. What it prepared can follow a pod that is added to or removed
from a node, so that "what if" questions need no second PreFilter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple

import msgspec

from kscheduler import logs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.in_tree import (
    PreFilterExtensions,
    PreFilterPlugin,
    TracksPodsByRow,
    UpdatePods,
)
from kscheduler.framework.plugin import NodeNames
from kscheduler.framework.status import SKIP, Code, Rows, Status
from kscheduler.metrics import Counter, Metrics
from kscheduler.runtime.plugin_calls import PluginCalls, calls_plugins
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__, "PreFilterExtension")


class PreFilterOutcome(msgspec.Struct):
    """The combined answer of PreFilter: perhaps an end, perhaps only some nodes."""

    # A rejection or an error; None goes on to Filter.
    status: Status | None = None
    # Only these nodes can be feasible; None is all of them.
    names: frozenset[str] | None = None
    # The plugins that said so.
    plugins: frozenset[str] = frozenset()


GO_ON = PreFilterOutcome()


_Ask = Callable[[CycleState, PodInfo, Nodes], Status | NodeNames | None]


class _Call(NamedTuple):
    name: str
    ask: _Ask
    evaluations: Counter


class _ExtensionFailure(NamedTuple):
    plugin: str
    status: Status
    # The plugin's own answer; None if it raised an exception, which is logged where it is caught.
    returned: Status | None


class PreFiltering:
    """Runs the PreFilter plugins, and their extensions for pods added to or removed from a node."""

    def __init__(self, profile: str, metrics: Metrics, plugins: Sequence[PreFilterPlugin]) -> None:
        self._point = PluginCalls("PreFilter", profile, metrics)
        point = self._point
        self._calls = [
            _Call(plugin.name, plugin.pre_filter, point.evaluations(plugin.name))
            for plugin in plugins
        ]
        self._timed_calls = [
            call._replace(ask=point.timed(call.name, call.ask)) for call in self._calls
        ]
        self._extensions = [one for one in plugins if isinstance(one, PreFilterExtensions)]

    def run_pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterOutcome:
        started = perf_counter()
        outcome = self._ask_all(cycle, pod, nodes)
        self._point.observe(outcome.status, started)
        return outcome

    @calls_plugins("PreFilter", by="name")
    def _ask_all(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterOutcome:
        skipping = cycle.skip_filter = set()
        names: frozenset[str] | None = None
        restricting: set[str] = set()
        refusal: Status | None = None
        for name, ask, evaluations in self._timed_calls if cycle.sampled else self._calls:
            answer: Status | NodeNames | None
            try:
                answer = ask(cycle, pod, nodes)
            except Exception as error:
                answer = self._point.exception_status(name, error)
            if answer is None:
                evaluations.value += 1
                continue
            if answer is SKIP or (isinstance(answer, Status) and answer.code is Code.SKIP):
                skipping.add(name)
                continue
            evaluations.value += 1
            if isinstance(answer, NodeNames):
                restricting.add(name)
                names = answer.names if names is None else names & answer.names
                if not names:
                    # No node is left: upstream words it by how many plugins took part.
                    if len(restricting) == 1:
                        text = f"node(s) didn't satisfy plugin {name}"
                    else:
                        plugins = " ".join(sorted(restricting))
                        text = f"node(s) didn't satisfy plugin(s) [{plugins}] simultaneously"
                    status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))
                    return PreFilterOutcome(status, names, frozenset(restricting))
            elif answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PreFilterOutcome(answer.by(name))
            elif answer.code is Code.UNSCHEDULABLE:
                # Preemption may help, and needs what the remaining plugins prepare.
                refusal = answer.by(name)
            elif answer.code is not Code.SUCCESS:
                text = f'running PreFilter plugin "{name}": {answer.message}'
                return PreFilterOutcome(Status(Code.ERROR, (text,), name))
        if refusal is None and names is None:
            return GO_ON
        return PreFilterOutcome(refusal, names, frozenset(restricting))

    def has_extensions(self, cycle: CycleState) -> bool:
        """Whether an added or removed pod changes anything that was prepared."""
        return any(plugin.name not in cycle.skip_filter for plugin in self._extensions)

    def can_track_pods_by_row(self, cycle: CycleState) -> bool:
        """Whether every plugin that prepared state can keep it apart for each row."""
        return all(
            isinstance(plugin, TracksPodsByRow)
            for plugin in self._extensions
            if plugin.name not in cycle.skip_filter
        )

    def track_pods_by_row(
        self, cycle: CycleState, pods: Sequence[PodInfo], row_of_pod: Rows, nodes: Nodes
    ) -> list[UpdatePods]:
        """The plugins' callbacks for pods that are added and removed; see TracksPodsByRow."""
        return [
            plugin.track_pods_by_row(cycle, pods, row_of_pod, nodes)
            for plugin in self._extensions
            if plugin.name not in cycle.skip_filter and isinstance(plugin, TracksPodsByRow)
        ]

    def run_add_pod(
        self, cycle: CycleState, pod: PodInfo, added: PodInfo, row: int, nodes: Nodes
    ) -> Status | None:
        """As if `added` ran on the row; None, or the error of a plugin that cannot follow."""
        failed = self._extend(
            "AddPod", cycle, lambda plugin: plugin.add_pod(cycle, pod, added, row, nodes)
        )
        if failed is None:
            return None
        if failed.returned is not None:
            log.error(
                failed.returned.message,
                "Plugin failed",
                pod=logs.ref(pod.pod),
                node=logs.ObjectRef("", nodes.whole.name_of(row)),
                operation="addPod",
                plugin=failed.plugin,
            )
        return failed.status

    def run_remove_pod(
        self, cycle: CycleState, pod: PodInfo, removed: PodInfo, row: int, nodes: Nodes
    ) -> Status | None:
        """As if `removed` had left the row; None, or the error of a plugin that cannot follow."""
        failed = self._extend(
            "RemovePod", cycle, lambda plugin: plugin.remove_pod(cycle, pod, removed, row, nodes)
        )
        if failed is None:
            return None
        if failed.returned is not None:
            log.error(
                failed.returned.message,
                "Plugin failed",
                node=logs.ObjectRef("", nodes.whole.name_of(row)),
                operation="removePod",
                plugin=failed.plugin,
                pod=logs.ref(pod.pod),
            )
        return failed.status

    @calls_plugins("PreFilter", by="plugin")
    def _extend(
        self,
        what: str,
        cycle: CycleState,
        ask: Callable[[PreFilterExtensions], Status | None],
    ) -> _ExtensionFailure | None:
        for plugin in self._extensions:
            if plugin.name in cycle.skip_filter:
                continue
            started = perf_counter() if cycle.sampled else 0.0
            returned: Status | None = None
            try:
                status = returned = ask(plugin)
            except Exception as error:
                status = self._point.exception_status(plugin.name, error)
            code = Code.SUCCESS if status is None else status.code
            if cycle.sampled:
                part = f"PreFilterExtension{what}"
                self._point.observe_plugin(plugin.name, code, started, part)
            if status is not None and code is not Code.SUCCESS:
                text = f'running {what} on PreFilter plugin "{plugin.name}": {status.message}'
                return _ExtensionFailure(plugin.name, Status(Code.ERROR, (text,)), returned)
        return None
