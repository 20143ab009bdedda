"""One attempt at one pod, the object that every step of the cycle takes, and its possible outcomes.

    pop ──▶ Attempt ──schedule_pod──▶ Placement ──assume──▶ binding cycle (the same Attempt)
                                 └──▶ Unschedulable | Failed ──▶ failure handler

A decision is a coroutine for the sake of extenders only: they are the one thing it waits for.
Where none takes part, it runs from its start to its end `at_once`, and nothing changes under it.
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import msgspec

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Diagnosis, Rows, Status, fit_error
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.runtime.extenders.extenders import ExtenderAnswer
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.score import ScoreBoard
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

if TYPE_CHECKING:
    from kscheduler.cycle.failure import Failure
    from kscheduler.cycle.node_sampling import Search

T = TypeVar("T")


@dataclass(slots=True)
class Attempt:
    """A pod on its way from the queue to a node."""

    queued: QueuedPodInfo
    framework: Framework
    cycle: CycleState
    # All nodes, so that a position is a row. The arrays are live: good until the cycle ends.
    nodes: Nodes
    # Counts the attempts of all profiles. Opportunistic batching needs to know that two attempts
    # followed each other.
    cycle_number: int = 0
    # perf_counter() when the scheduling cycle began.
    started: float = 0.0
    # Seconds since the epoch, then.
    began: float = 0.0
    # Whether an extender wants to filter or prioritize nodes for this pod.
    extended: bool = False
    # As queued; once it is assumed, with its node name.
    pod: PodInfo = field(init=False)

    # Found on the way to a decision: the reasons against nodes so far, and the node that batching
    # suggests because the pod before, which no plugin can tell from this one, left it behind.
    diagnosis: Diagnosis = field(init=False)
    hint: str = field(init=False, default="")
    # None while no nodes but the nominated one were filtered.
    search: Search | None = field(init=False, default=None)

    # The extension point that the attempt has come to after the decision, the plugins that held the
    # pod at Permit, and the extender that bound it.
    point: str = field(init=False, default="")
    held_by: Collection[str] = field(init=False, default=())
    bound_by: str = field(init=False, default="")
    # Answers of extenders, in their order.
    extender_answers: list[ExtenderAnswer] = field(init=False, default_factory=list)
    # Kept by the recorder of decisions between `decided` and `ended`.
    record: object | None = field(init=False, default=None)

    # Set when the pod is assumed: its node, how many nodes were evaluated for it and how many of
    # those were feasible.
    node: str = field(init=False, default="")
    # The latest foreign bind that the decision knew of.
    foreign_bind: int = field(init=False, default=0)
    evaluated: int = field(init=False, default=0)
    feasible: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.pod = self.queued.pod


class Placement(NamedTuple):
    """The node the pod should run on; `scores` is None when there was nothing to choose from."""

    node: str
    row: int
    evaluated: int
    feasible: int
    scores: ScoreBoard | None = None


class Unschedulable(msgspec.Struct, frozen=True):
    """No node can take the pod; preemption may make room."""

    diagnosis: Diagnosis
    num_nodes: int

    @property
    def message(self) -> str:
        return fit_error(self.num_nodes, self.diagnosis)


class Failed(msgspec.Struct, frozen=True):
    """There is no verdict on nodes: something went wrong, or there is no node at all."""

    status: Status


class Feasible(NamedTuple):
    """Rows of the nodes that can take the pod, and how many nodes were evaluated to find them."""

    rows: Rows
    evaluated: int


Outcome = Placement | Unschedulable | Failed


class DecisionRecorder(Protocol):
    """Keeps decisions for whoever asks for them later. It must not fail."""

    def decided(self, attempt: Attempt, outcome: Outcome, now: float) -> None:
        """Called when the decision has fallen, while the nodes are as they were for it."""

    def ended(self, attempt: Attempt, failure: Failure | None, now: float) -> None:
        """Called when the pod is bound (None), or the attempt has failed."""


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that must not wait: no other task runs before it is there."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a decision without extenders has to wait for something")
