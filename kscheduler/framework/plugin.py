"""The contract with plugins: one small Protocol per extension point, and their answers.

A plugin is any class with a `name`, a constructor that takes `(args, handle)`, and the methods of
the points it extends; inheriting from these is a help to type checkers and nothing more. `filter`
and `score` are asked about all nodes at once, `filter_node` and `score_node` about one at a time,
which is slower and shorter to write.

Methods that may wait can be `async`: permit (the pod waits meanwhile), pre_bind, bind, post_bind.

Plugins that are part of this project keep the narrower contract of `framework.in_tree`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from kscheduler.framework.cluster_event import EventWithHint
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.node_info import NodeInfo
from kscheduler.framework.status import Diagnosis, Rejection, Scores, Status
from kscheduler.framework.views import NodesView, PodView


class OutOfTreePlugin(Protocol):
    """The base of all Protocols here.

    A class attribute `args_type` may name the type that the plugin's arguments are decoded into.
    """

    name: ClassVar[str]


# Its name in earlier versions.
OutsidePlugin = OutOfTreePlugin


class QueuedPodView(Protocol):
    """An entry of the queue; `timestamp` is when the pod entered it."""

    pod: PodView
    timestamp: float


class PreEnqueuePlugin(OutOfTreePlugin, Protocol):
    """A plugin that decides whether a pod enters the queue."""

    def pre_enqueue(self, pod: PodView) -> Status | None:
        """None lets the pod into the queue; anything else gates it."""


class QueueSortPlugin(OutOfTreePlugin, Protocol):
    """The plugin that orders the queue; all profiles name the same one."""

    def sort_key(self, queued: QueuedPodView) -> Any:
        """Pods with smaller keys are tried first."""


class NodeNames(msgspec.Struct, frozen=True):
    """A PreFilter answer: only these nodes can be feasible."""

    names: frozenset[str]


class PreFilterPlugin(OutOfTreePlugin, Protocol):
    """A plugin that looks at a pod once before nodes are filtered."""

    def pre_filter(
        self, cycle: CycleState, pod: PodView, nodes: NodesView
    ) -> Status | NodeNames | None:
        """Prepare for filter; SKIP leaves the plugin's filter out of this attempt."""


class PreFilterExtensions(OutOfTreePlugin, Protocol):
    """Updates of the prepared state, as if a pod were added to, or removed from, one row."""

    def add_pod(
        self, cycle: CycleState, pod: PodView, added: PodView, row: int, nodes: NodesView
    ) -> Status | None:
        """Updates the prepared state as if `added` ran on the node of `row`."""

    def remove_pod(
        self, cycle: CycleState, pod: PodView, removed: PodView, row: int, nodes: NodesView
    ) -> Status | None:
        """Updates the prepared state as if `removed` were gone from the node of `row`."""


class FilterPlugin(OutOfTreePlugin, Protocol):
    """A plugin that rejects nodes, all of them asked about at once."""

    def filter(self, cycle: CycleState, pod: PodView, nodes: NodesView) -> Iterable[Rejection]:
        """The nodes that cannot take the pod, one Rejection per reason."""


class FilterNodePlugin(OutOfTreePlugin, Protocol):
    """A plugin that rejects nodes, asked about one by one."""

    def filter_node(self, cycle: CycleState, pod: PodView, node: NodeInfo) -> Status | None:
        """None if the node can take the pod, or why not."""


class PostFilterResult(msgspec.Struct, frozen=True):
    """`nominated_node` None leaves the pod's nomination alone, "" clears it.

    An answer may depend on a `preparation`, which the attempt then waits for: what that returns is
    the answer.
    """

    status: Status
    nominated_node: str | None = None
    preparation: Callable[[], Awaitable[PostFilterResult]] | None = None


class PostFilterPlugin(OutOfTreePlugin, Protocol):
    """A plugin that is asked when no node fits."""

    def post_filter(
        self, cycle: CycleState, pod: PodView, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """No node fits: make room, or say why that is not possible."""


class PreScorePlugin(OutOfTreePlugin, Protocol):
    """A plugin that looks at a pod and its feasible nodes once before they are scored."""

    def pre_score(self, cycle: CycleState, pod: PodView, nodes: NodesView) -> Status | None:
        """Prepare for score; sees only feasible nodes. SKIP leaves the plugin out of scoring."""


class ScorePlugin(OutOfTreePlugin, Protocol):
    """A plugin that ranks feasible nodes, all of them asked about at once."""

    def score(self, cycle: CycleState, pod: PodView, nodes: NodesView) -> Scores:
        """One number per node, the higher the better; 0..100 unless there is a normalize."""


class ScoreNodePlugin(OutOfTreePlugin, Protocol):
    """A plugin that ranks feasible nodes, asked about one by one."""

    def score_node(self, cycle: CycleState, pod: PodView, node: NodeInfo) -> float:
        """The node's score, the higher the better; 0..100 unless there is a normalize."""


class NormalizeScore(OutOfTreePlugin, Protocol):
    """A ScorePlugin whose raw scores are not 0..100 yet."""

    def normalize(
        self, cycle: CycleState, pod: PodView, scores: Scores, nodes: NodesView
    ) -> Scores:
        """Bring the raw scores into 0..100."""


class ReservePlugin(OutOfTreePlugin, Protocol):
    """`unreserve` may be left out. It must be able to undo what was never done."""

    def reserve(self, cycle: CycleState, pod: PodView, node: str) -> Status | None:
        """Sets aside what the pod needs on its node; a rejection gives the node up."""

    def unreserve(self, cycle: CycleState, pod: PodView, node: str) -> None:
        """Gives back what was set aside."""


class Wait(msgspec.Struct, frozen=True):
    """A Permit answer: hold the pod until someone allows it, at most this long."""

    timeout_seconds: float


class PermitPlugin(OutOfTreePlugin, Protocol):
    """A plugin that can hold a pod, or send it back, before it is bound."""

    def permit(
        self, cycle: CycleState, pod: PodView, node: str
    ) -> Status | Wait | Awaitable[Status | None] | None:
        """None lets the pod be bound, Wait holds it until someone allows it."""


class PreFlight(msgspec.Struct, frozen=True, kw_only=True):
    """A pre-flight answer: is there work before binding, and may others work at the same time?"""

    allow_parallel: bool = False
    has_work: bool = True


class PreBindPlugin(OutOfTreePlugin, Protocol):
    """`pre_bind_pre_flight` may be left out: then there is always work to do."""

    def pre_bind_pre_flight(
        self, cycle: CycleState, pod: PodView, node: str
    ) -> PreFlight | Status | None:
        """Quickly: will pre_bind have anything to do? None says yes, SKIP says no."""

    async def pre_bind(self, cycle: CycleState, pod: PodView, node: str) -> Status | None:
        """Does what must be done before the pod is bound; a rejection gives the node up."""


class BindPlugin(OutOfTreePlugin, Protocol):
    """A plugin that binds pods in place of DefaultBinder."""

    async def bind(self, cycle: CycleState, pod: PodView, node: str) -> Status | None:
        """Write the binding; SKIP passes the pod to the next bind plugin."""


class PostBindPlugin(OutOfTreePlugin, Protocol):
    """A plugin that is told of bindings."""

    def post_bind(self, cycle: CycleState, pod: PodView, node: str) -> Awaitable[None] | None:
        """Takes note that the pod is bound to the node."""


class EnqueueExtensions(OutOfTreePlugin, Protocol):
    """A plugin that knows which events may help the pods it rejected."""

    def events_to_register(self) -> Sequence[EventWithHint]:
        """Events that may make a pod schedulable which this plugin rejected."""


class SignPlugin(OutOfTreePlugin, Protocol):
    """A plugin that knows what of a pod its verdicts depend on, so that equal pods share them."""

    def sign(self, pod: PodView) -> Mapping[str, object] | Status:
        """The parts of the pod that verdicts depend on; a Status if they cannot be named."""
