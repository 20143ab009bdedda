"""Bind the pods of a gang together or not at all.

A pod belongs to a gang by two labels:

    example.com/gang: trainers
    example.com/gang-size: "4"

Each of them gets a node as usual, but is held there (Permit) until as many as the gang needs have
one. Whoever is still waiting when time runs out gives its room back, and takes the others along:
half a gang must not keep nodes from those who could use them.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kscheduler.framework import (
    Action,
    ClusterEvent,
    CycleState,
    EventWithHint,
    Hint,
    PluginHandle,
    PodView,
    Status,
    Wait,
    WaitingPodView,
    rejected_for_good,
)

GANG = "example.com/gang"
SIZE = "example.com/gang-size"


class GangArgs(msgspec.Struct, frozen=True, rename="camel"):
    wait_seconds: float = 60.0


class Membership(NamedTuple):
    """Which gang a pod belongs to, and how many it takes."""

    gang: str
    size: int


class Gang:
    name = "Gang"
    args_type = GangArgs

    def __init__(self, args: GangArgs, handle: PluginHandle) -> None:
        self._handle = handle
        self._wait_seconds = args.wait_seconds
        self._completed = handle.metrics.counter(
            "gang_completed_total", "Gangs whose pods all got a node."
        ).labels()

    def pre_enqueue(self, pod: PodView) -> Status | None:
        if GANG in pod.labels and membership(pod) is None:
            return rejected_for_good(f"label {SIZE} must be a positive number")
        return None

    def permit(self, cycle: CycleState, pod: PodView, node: str) -> Wait | None:
        mine = membership(pod)
        if mine is None:
            return None
        others = self._waiting_with(mine, pod)
        if len(others) + 1 < mine.size:
            return Wait(self._wait_seconds)
        for waiting in others:
            waiting.allow()
        self._completed.inc()
        self._handle.event(pod, "GangComplete", f"All {mine.size} pods of {mine.gang} have a node")
        return None

    def reserve(self, cycle: CycleState, pod: PodView, node: str) -> None:
        """Nothing to claim; what matters is to hear when the pod gives up."""

    def unreserve(self, cycle: CycleState, pod: PodView, node: str) -> None:
        mine = membership(pod)
        if mine is not None:
            for waiting in self._waiting_with(mine, pod):
                waiting.reject(f"pod {pod.key} of gang {mine.gang} gave up")

    def events_to_register(self) -> list[EventWithHint]:
        """A gang that failed is worth another try when one of its pods comes, or changes."""
        added = ClusterEvent("Pod", Action.ADD | Action.UPDATE_POD_LABEL)
        return [EventWithHint(added, self._is_of_same_gang)]

    def _is_of_same_gang(self, pod: PodView, old: object, new: object) -> Hint:
        same = isinstance(new, PodView) and membership(new) == membership(pod)
        return Hint.QUEUE if same else Hint.SKIP

    def _waiting_with(self, mine: Membership, pod: PodView) -> list[WaitingPodView]:
        return [
            waiting
            for waiting in self._handle.waiting_pods
            if waiting.pod.namespace == pod.namespace
            and waiting.pod.uid != pod.uid
            and membership(waiting.pod) == mine
        ]


def membership(pod: PodView) -> Membership | None:
    size = pod.labels.get(SIZE, "")
    if GANG not in pod.labels or not size.isdecimal() or int(size) < 1:
        return None
    return Membership(pod.labels[GANG], int(size))
