"""SchedulingGates: holds pods back until all their gates are lifted.

Mirrors pkg/scheduler/framework/plugins/schedulinggates. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.framework.cluster_event import TARGET_POD, Action, ClusterEvent, EventWithHint
from kscheduler.framework.declaration import plugin
from kscheduler.framework.status import Status, rejected_for_good
from kscheduler.state.pod_info import PodInfo


@plugin()
class SchedulingGates:
    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return rejected_for_good(f"waiting for scheduling gates: [{names}]")

    def events_to_register(self) -> Sequence[EventWithHint]:
        lifted = Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        return [EventWithHint(ClusterEvent(TARGET_POD, lifted))]
