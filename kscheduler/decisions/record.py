"""One attempt as columns: which nodes were rejected by whom, and how the others were scored.

A record is made when the decision falls, from arrays that are good for this moment only, so they
are copied here in the narrowest form: rows as 16-bit numbers or as a bitmap, scores as bytes, a
column of equal scores as one number. At 5,000 nodes, of which 500 are scored, that is 2 to 5 KB
instead of 70.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.api.resource_names import PODS
from kscheduler.cycle.attempt import Attempt, Outcome, Placement, Unschedulable
from kscheduler.framework.status import Charge, Code, Rows, Scores, Status
from kscheduler.runtime.score import ScoreBoard
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

# A record without arrays, with the objects around it; and an array without its numbers.
RECORD_BYTES = 900
ARRAY_BYTES = 120
# A reference to a name that its node has as well, and the share of a name that has outlived it.
NAME_BYTES = 40

FIT = "NodeResourcesFit"
INSUFFICIENT = "Insufficient "
TOO_MANY_PODS = "Too many pods"

# Where the only node that was tried came from.
NOMINATED = "nominated"
BATCH = "batch"


class NodeNames:
    """Names by row, shared by all records from between two changes of the set of nodes."""

    __slots__ = ("names", "order", "records")

    def __init__(self, nodes: Nodes) -> None:
        # Made anew when nodes come or go, and only then: its identity stands for the set of nodes.
        self.order = nodes.order
        self.names: Sequence[str] = tuple(nodes.names)
        # How many of the records that are kept refer to it.
        self.records = 0

    @property
    def bytes(self) -> int:
        return NAME_BYTES * len(self.names)


class SomeRows(msgspec.Struct, frozen=True, gc=False):
    """Rows: numbers, or a bitmap where that is shorter."""

    packed: NDArray[Any]
    is_bitmap: bool

    @property
    def bytes(self) -> int:
        return ARRAY_BYTES + self.packed.nbytes

    @property
    def rows(self) -> Rows:
        if self.is_bitmap:
            return np.unpackbits(self.packed).nonzero()[0]
        return self.packed.astype(np.intp)


class RejectedRows(msgspec.Struct, frozen=True, gc=False):
    """The rows that one plugin rejected for one reason; with how much of a resource the best of
    them had left, where the reason is a lack of it.
    """

    plugin: str
    reason: str
    code: Code
    count: int
    rows: SomeRows
    resource: str = ""
    asked: int = 0
    most_free: int = 0
    best_row: int = 0


class ScoredRows(msgspec.Struct, frozen=True, gc=False):
    """Scores of the feasible nodes, in the order in which they were found.

    `normalized` is [plugins, nodes] in bytes. `raw` has an entry per plugin: None where it is the
    normalized scores, one number where all nodes got the same, else an array. `extra` is what
    extenders added to the totals. `all_zero`: weights of plugins that gave every node zero.
    """

    plugins: Sequence[str]
    weights: Sequence[int]
    normalized: NDArray[np.uint8]
    raw: tuple[NDArray[Any] | int | None, ...]
    all_zero: tuple[tuple[str, int], ...]
    extra: Scores | None

    @property
    def bytes(self) -> int:
        size = ARRAY_BYTES + self.normalized.nbytes
        for raw in (*self.raw, self.extra):
            if type(raw) is np.ndarray:
                size += ARRAY_BYTES + raw.nbytes
        return size

    @property
    def totals(self) -> Scores:
        weights = np.array(self.weights, np.int64)
        totals: Scores = weights.dot(self.normalized.astype(np.int64))
        return totals if self.extra is None else totals + self.extra

    def raw_of(self, index: int) -> Scores:
        """Raw scores of one plugin, a number per node."""
        raw, normalized = self.raw[index], self.normalized[index].astype(np.int64)
        if raw is None:
            return normalized
        return np.broadcast_to(np.asarray(raw, np.int64), normalized.shape)


class Record(msgspec.Struct, gc=False):
    """One attempt. What is known only after the decision is set by the end of the attempt."""

    number: int
    # Seconds since the epoch, when the attempt was decided; seconds in the queue before it.
    time: float
    waited: float
    duration: float
    generation: int
    names: NodeNames
    total: int
    evaluated: int
    feasible: int
    only_tried: str = ""
    rejected: tuple[RejectedRows, ...] = ()
    # Of nodes that PreFilter left out, with the plugins' own words for it.
    absent: Status | None = None
    # Feasible rows in the order in which they were found, and their scores; None where there was
    # nothing to choose from.
    rows: NDArray[Any] | None = None
    scores: ScoredRows | None = None
    node: str = ""
    # Victims of preemption: namespace, name, priority; and how many of them violate a budget.
    victims: tuple[tuple[str, str, int], ...] = ()
    budget_violations: int = 0

    # From the end of the attempt.
    outcome: str = ""
    message: str = ""
    nominated_node: str = ""
    # The extension point that ended it after the decision, and the plugin.
    failed_at: str = ""
    failed_by: str = ""

    @property
    def bytes(self) -> int:
        size = RECORD_BYTES
        for rejected in self.rejected:
            size += RECORD_BYTES // 3 + rejected.rows.bytes
        if self.rows is not None:
            size += ARRAY_BYTES + self.rows.nbytes
        if self.scores is not None:
            size += self.scores.bytes
        return size + 200 * len(self.victims) + len(self.message)


def record_of(attempt: Attempt, outcome: Outcome, names: NodeNames, *, now: float) -> Record:
    """The attempt when the decision has fallen; what grows with nodes is array operations."""
    queued, nodes = attempt.queued, attempt.nodes
    record = Record(
        number=queued.attempts,
        time=now,
        waited=max(0.0, now - queued.timestamp),
        duration=0.0,
        generation=nodes.generation,
        names=names,
        total=nodes.total,
        evaluated=0,
        feasible=0,
    )
    if isinstance(outcome, Placement):
        record.node = outcome.node
        record.evaluated, record.feasible = outcome.evaluated, outcome.feasible
        if attempt.search is None:
            nominated = attempt.queued.pod.pod.status.nominated_node_name
            record.only_tried = NOMINATED if nominated == outcome.node else BATCH
        else:
            charges = attempt.diagnosis.charges
            if not attempt.extended:
                filtered, visited = attempt.search.filtered, attempt.search.visited_rows
                if visited is None:
                    charges = filtered.charges
                else:
                    charges = filtered.charges_within(visited, nodes.rows)
            record.rejected = _rejected(charges, attempt.pod, nodes)
        if outcome.scores is not None:
            record.rows = _narrow(outcome.scores.rows, len(nodes))
            record.scores = _scored(outcome.scores, extended=attempt.extended)
    elif isinstance(outcome, Unschedulable):
        diagnosis = outcome.diagnosis
        record.rejected = _rejected(diagnosis.charges, attempt.pod, nodes)
        record.evaluated = len(diagnosis.charged_rows)
        record.absent = diagnosis.absent
    return record


def _rejected(charges: Iterable[Charge], pod: PodInfo, nodes: Nodes) -> tuple[RejectedRows, ...]:
    return tuple([_rejected_rows(charge, pod, nodes) for charge in charges])


def _rejected_rows(charge: Charge, pod: PodInfo, nodes: Nodes) -> RejectedRows:
    plugin, rows, code, reason = charge
    packed = _some_rows(rows, len(nodes))
    if plugin == FIT:
        resource = PODS if reason == TOO_MANY_PODS else reason.removeprefix(INSUFFICIENT)
        free = None
        if resource == PODS:
            asked, free = 1, nodes.max_pods[rows] - nodes.pod_count[rows]
        elif resource in nodes.resources and resource in pod.spec_requests:
            column, asked = nodes.resources[resource], pod.spec_requests[resource]
            free = nodes.allocatable[rows, column] - nodes.requested[rows, column]
        if free is not None:
            best = int(free.argmax())
            return RejectedRows(
                plugin,
                reason,
                code,
                len(rows),
                packed,
                resource,
                asked,
                int(free[best]),
                int(rows[best]),
            )
    return RejectedRows(plugin, reason, code, len(rows), packed)


def _some_rows(rows: Rows, size: int) -> SomeRows:
    narrow = _narrow(rows, size)
    if narrow.nbytes <= size // 8:
        return SomeRows(narrow, is_bitmap=False)
    bits = np.zeros(size, np.bool_)
    bits[rows] = True
    return SomeRows(np.packbits(bits), is_bitmap=True)


def _narrow(rows: Rows, size: int) -> NDArray[Any]:
    return rows.astype(np.uint16 if size <= 1 << 16 else np.uint32)


def _scored(board: ScoreBoard, *, extended: bool) -> ScoredRows:
    normalized = board.normalized.astype(np.uint8)
    raw = tuple(
        [
            _compact(one) if normalizes else None
            for one, normalizes in zip(board.raw, board.normalizes, strict=True)
        ]
    )
    extra = None
    if extended:
        extra = board.total - board.weights.dot(board.normalized)
    all_zero = tuple(board.all_zero.items())
    return ScoredRows(board.plugins, board.weights.tolist(), normalized, raw, all_zero, extra)


def _compact(scores: Scores) -> NDArray[Any] | int:
    """The scores in the narrowest type that holds them all; one number if they are equal."""
    # Twice as quick as min and max.
    low, high = scores.item(scores.argmin()), scores.item(scores.argmax())
    if low == high:
        return low
    if low >= 0 and high < 1 << 8:
        return scores.astype(np.uint8)
    if low >= -(1 << 31) and high < 1 << 31:
        return scores.astype(np.int32)
    return scores.copy()
