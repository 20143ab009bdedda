"""NodePorts: a host port can be taken once per node.

Mirrors pkg/scheduler/framework/plugins/nodeports. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kscheduler.framework.cluster_event import (
    ASSIGNED_POD,
    NODE,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.in_tree import MAX_DETAILS, Detail
from kscheduler.framework.status import SKIP, Code, Rejection, Status, unschedulable
from kscheduler.state.host_ports import ANY_IP, any_ports_conflict
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import HostPort, PodInfo

REASON = "node(s) didn't have free ports for the requested pod ports"
NOT_PREPARED = 'reading "PreFilterNodePorts" from cycleState: not found'


class WantedPorts(NamedTuple):
    ports: tuple[HostPort, ...]


@plugin()
class NodePorts:
    name = "NodePorts"
    local = True

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if not pod.host_ports:
            return SKIP
        cycle.put(WantedPorts(pod.host_ports))
        return None

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        wanted = cycle.get(WantedPorts)
        if wanted is None:
            yield Rejection(nodes.valid, Code.ERROR, NOT_PREPARED)
            return
        yield unschedulable(nodes.ports_in_use(wanted.ports), REASON)

    def describe_rejected(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, reason: str
    ) -> Iterator[Detail]:
        """The ports that are taken. A port that only a nominated pod wants is in use nowhere."""
        for port in pod.host_ports[:MAX_DETAILS]:
            taken = int(np.count_nonzero(nodes.ports_in_use((port,))))
            if taken:
                on = "" if port.ip == ANY_IP else f" of {port.ip}"
                yield Detail(f"host port {port.port}/{port.protocol}{on} is in use", taken)

    def events_to_register(self) -> Sequence[EventWithHint]:
        return [
            EventWithHint(ClusterEvent(ASSIGNED_POD, Action.DELETE), self._pod_deleted),
            EventWithHint(ClusterEvent(NODE, Action.ADD)),
        ]

    def sign(self, pod: PodInfo) -> Mapping[str, object]:
        spec = pod.pod.spec
        containers = (*spec.containers, *spec.init_containers)
        ports = {port.host_port for container in containers for port in container.ports}
        return {"v1.Pod.Spec.HostPorts()": sorted(ports - {0})}

    def _pod_deleted(self, pod: PodInfo, old: PodInfo, new: None) -> Hint:
        if not (old.node_name or old.pod.status.nominated_node_name):
            return Hint.SKIP
        frees = any_ports_conflict(pod.host_ports, old.host_ports)
        return Hint.QUEUE if frees else Hint.SKIP
