"""What a plugin from outside can implement: one small Protocol per extension point.

A plugin is any class with a `name`, a constructor that takes `(args, handle)`, and the methods of
the points it extends; inheriting from these is a help to type checkers and nothing more. `filter`
and `score` are asked about all nodes at once, `filter_node` and `score_node` about one at a time,
which is slower and shorter to write.

Methods that may wait can be `async`: permit (the pod waits meanwhile), pre_bind, bind, post_bind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from kscheduler.framework.cluster_event import EventWithHint
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.node_info import NodeInfo
from kscheduler.framework.plugin import NodeNames, PostFilterResult, PreFlight, Wait
from kscheduler.framework.status import Diagnosis, Rejection, Scores, Status
from kscheduler.framework.views import NodesView, PodView


class OutsidePlugin(Protocol):
    """`args_type` may name the type that the plugin's arguments are decoded into."""

    name: ClassVar[str]


class QueuedPodView(Protocol):
    """What a QueueSort plugin may look at; `timestamp` is when the pod entered the queue."""

    pod: PodView
    timestamp: float


class PreEnqueuePlugin(OutsidePlugin, Protocol):
    def pre_enqueue(self, pod: PodView) -> Status | None:
        """None lets the pod into the queue; anything else gates it."""


class QueueSortPlugin(OutsidePlugin, Protocol):
    def sort_key(self, queued: QueuedPodView) -> Any:
        """Pods with smaller keys are tried first."""


class PreFilterPlugin(OutsidePlugin, Protocol):
    def pre_filter(
        self, cycle: CycleState, pod: PodView, nodes: NodesView
    ) -> Status | NodeNames | None:
        """Prepare for filter; SKIP leaves the plugin's filter out of this attempt."""


class PreFilterExtensions(OutsidePlugin, Protocol):
    """How the prepared state changes if a pod were added to, or removed from, one row."""

    def add_pod(
        self, cycle: CycleState, pod: PodView, added: PodView, row: int, nodes: NodesView
    ) -> Status | None: ...

    def remove_pod(
        self, cycle: CycleState, pod: PodView, removed: PodView, row: int, nodes: NodesView
    ) -> Status | None: ...


class FilterPlugin(OutsidePlugin, Protocol):
    def filter(self, cycle: CycleState, pod: PodView, nodes: NodesView) -> Iterable[Rejection]:
        """Which of these nodes cannot take the pod, one Rejection per sentence."""


class FilterNodePlugin(OutsidePlugin, Protocol):
    def filter_node(self, cycle: CycleState, pod: PodView, node: NodeInfo) -> Status | None:
        """None if the node can take the pod, or why not."""


class PostFilterPlugin(OutsidePlugin, Protocol):
    def post_filter(
        self, cycle: CycleState, pod: PodView, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """No node fits: make room, or say why that is not possible."""


class PreScorePlugin(OutsidePlugin, Protocol):
    def pre_score(self, cycle: CycleState, pod: PodView, nodes: NodesView) -> Status | None:
        """Prepare for score; sees only feasible nodes. SKIP leaves the plugin out of scoring."""


class ScorePlugin(OutsidePlugin, Protocol):
    def score(self, cycle: CycleState, pod: PodView, nodes: NodesView) -> Scores:
        """One number per node, the higher the better; 0..100 unless there is a normalize."""


class ScoreNodePlugin(OutsidePlugin, Protocol):
    def score_node(self, cycle: CycleState, pod: PodView, node: NodeInfo) -> float: ...


class NormalizeScore(OutsidePlugin, Protocol):
    def normalize(
        self, cycle: CycleState, pod: PodView, scores: Scores, nodes: NodesView
    ) -> Scores:
        """Bring the raw scores into 0..100."""


class ReservePlugin(OutsidePlugin, Protocol):
    """`unreserve` may be left out. It must be able to undo what was never done."""

    def reserve(self, cycle: CycleState, pod: PodView, node: str) -> Status | None: ...

    def unreserve(self, cycle: CycleState, pod: PodView, node: str) -> None: ...


class PermitPlugin(OutsidePlugin, Protocol):
    def permit(
        self, cycle: CycleState, pod: PodView, node: str
    ) -> Status | Wait | Awaitable[Status | None] | None:
        """None lets the pod be bound, Wait holds it until someone allows it."""


class PreBindPlugin(OutsidePlugin, Protocol):
    """`pre_bind_pre_flight` may be left out: then there is always work to do."""

    def pre_bind_pre_flight(
        self, cycle: CycleState, pod: PodView, node: str
    ) -> PreFlight | Status | None:
        """Quickly: will pre_bind have anything to do? None says yes, SKIP says no."""

    async def pre_bind(self, cycle: CycleState, pod: PodView, node: str) -> Status | None: ...


class BindPlugin(OutsidePlugin, Protocol):
    async def bind(self, cycle: CycleState, pod: PodView, node: str) -> Status | None:
        """Write the binding; SKIP passes the pod to the next bind plugin."""


class PostBindPlugin(OutsidePlugin, Protocol):
    def post_bind(self, cycle: CycleState, pod: PodView, node: str) -> Awaitable[None] | None: ...


class EnqueueExtensions(OutsidePlugin, Protocol):
    def events_to_register(self) -> Sequence[EventWithHint]:
        """Events that may make a pod schedulable which this plugin rejected."""


class SignPlugin(OutsidePlugin, Protocol):
    def sign(self, pod: PodView) -> Mapping[str, object] | Status:
        """What of the pod this plugin's verdicts depend on; a Status if that cannot be told."""
