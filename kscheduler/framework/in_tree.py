"""Plugins as the runtime calls them: in-tree plugins, and the guard around out-of-tree ones.

One small Protocol per extension point; which points a plugin extends is read off its methods. Pods
come compiled (`PodInfo`), nodes come as columns (`Nodes`): a Filter answers with masks, a Score
with an array. Everything is synchronous except pre_bind and bind.

These are the Protocols of `framework.plugin` in a second form, and not the same ones made generic,
because they ask for more and give more. No method may be left out and permit cannot wait, so that
the runtime has one case to handle. And a plugin sees the scheduler's own state, whose columns and
names may change with any version: making views of a pod and its nodes costs 1 µs per call and 1 µs
more per column that is read, which a decision of 100 µs cannot spare for 30 calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from kscheduler.framework.cluster_event import EventWithHint
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import NodeNames, PostFilterResult, PreFlight, Wait
from kscheduler.framework.status import Diagnosis, Rejection, Rows, Scores, Status

if TYPE_CHECKING:
    from kscheduler.state.nodes_view import Nodes
    from kscheduler.state.pod_info import PodInfo


class Plugin(Protocol):
    @property
    def name(self) -> str: ...


class QueuedEntity(Protocol):
    """An entry of the queue, as a QueueSort plugin sees it."""

    @property
    def pod(self) -> PodInfo: ...
    @property
    def timestamp(self) -> float: ...


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """None lets the pod into the active queue; anything else gates it."""


@runtime_checkable
class QueueSortPlugin(Plugin, Protocol):
    def sort_key(self, queued: QueuedEntity) -> Any:
        """Pods with smaller keys are tried first."""


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol):
    def pre_filter(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes
    ) -> Status | NodeNames | None:
        """Prepare for filter; SKIP leaves the plugin's filter out of this attempt."""


@runtime_checkable
class PreFilterExtensions(Plugin, Protocol):
    """Updates of the prepared state, as if a pod were added to, or removed from, one node."""

    def add_pod(
        self, cycle: CycleState, pod: PodInfo, added: PodInfo, row: int, nodes: Nodes
    ) -> Status | None: ...

    def remove_pod(
        self, cycle: CycleState, pod: PodInfo, removed: PodInfo, row: int, nodes: Nodes
    ) -> Status | None: ...


# Pods by their numbers, and 1 if they are added, -1 if they are removed.
UpdatePods = Callable[[Rows, int], None]


@runtime_checkable
class TracksPodsByRow(Plugin, Protocol):
    """PreFilterExtensions for many rows at once, each row on its own.

    A pod that is added to a row or removed from it changes the verdict on that row and on no other.
    Preemption asks this way about evictions on a thousand nodes together, and Filter about nodes
    with nominated pods.
    """

    def track_pods_by_row(
        self, cycle: CycleState, pods: Sequence[PodInfo], row_of_pod: Rows, nodes: Nodes
    ) -> UpdatePods:
        """Returns the callback that adds pods to their rows, or removes them.

        `cycle` is a clone for this purpose, which may track other pods already. `pods` are all that
        may be added or removed, and `row_of_pod[i]` is the row of `pods[i]`.
        """


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    """With `local = True` a plugin declares that its verdict on a node follows from the pod's spec,
    that node and the pods there, and from nothing else; then verdicts may be cached by row.
    """

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterable[Rejection]:
        """The nodes that cannot take the pod, one Rejection per reason."""


class Shortfall(NamedTuple):
    """A lack of something that is counted, in its own unit: what the pod asks for, and the most
    that any of the nodes has left, at that position.
    """

    resource: str
    asked: int
    most_free: int
    position: int


class Detail(NamedTuple):
    """A part of a reason in words, and the number of nodes that it holds for."""

    text: str
    number: int


# Of a pod's terms, ports and constraints so many are told apart; more would cost more than they
# tell.
MAX_DETAILS = 8


@runtime_checkable
class DescribesRejected(Plugin, Protocol):
    """A Filter plugin whose reasons leave something out: which taint, how much is missing."""

    def describe_rejected(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, reason: str
    ) -> Iterable[Shortfall | Detail]:
        """Of nodes that the plugin has just rejected for this reason. Called for every decision
        that is kept: a few array operations over the nodes, at most MAX_DETAILS times.
        """


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol):
    def post_filter(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """No node fits: make room, or say why that is not possible."""


@runtime_checkable
class PreScorePlugin(Plugin, Protocol):
    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Prepare for score; sees only feasible nodes. SKIP leaves the plugin out of scoring."""


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        """One number per feasible node, the higher the better; ALL_ZERO is zero for each."""


@runtime_checkable
class NormalizeScore(Plugin, Protocol):
    def normalize(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        """Bring the raw scores into 0..100."""


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    def reserve(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None: ...

    def unreserve(
        self, cycle: CycleState, pod: PodInfo, node: str
    ) -> Callable[[], Awaitable[None]] | None:
        """Give back what was reserved; what must be undone in the API server is returned, and the
        pod is not tried again before that is done.
        """


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    def permit(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | Wait | None: ...


@runtime_checkable
class PreBindPlugin(Plugin, Protocol):
    def pre_bind_pre_flight(
        self, cycle: CycleState, pod: PodInfo, node: str
    ) -> PreFlight | Status | None:
        """Quickly: will pre_bind have anything to do? None says yes, SKIP says no."""

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None: ...


@runtime_checkable
class BindPlugin(Plugin, Protocol):
    async def bind(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Write the binding; SKIP passes the pod to the next bind plugin."""


@runtime_checkable
class PostBindPlugin(Plugin, Protocol):
    def post_bind(self, cycle: CycleState, pod: PodInfo, node: str) -> None: ...


@runtime_checkable
class EnqueueExtensions(Plugin, Protocol):
    def events_to_register(self) -> Sequence[EventWithHint]:
        """Events that may make a pod schedulable which this plugin rejected."""


@runtime_checkable
class SignPlugin(Plugin, Protocol):
    def sign(self, pod: PodInfo) -> Mapping[str, object] | Status:
        """The parts of the pod that verdicts depend on; a Status if they cannot be named."""
