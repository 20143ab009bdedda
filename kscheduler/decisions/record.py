"""One attempt as columns: which nodes were rejected by whom, and how the others were scored.

A record is made when the decision falls, from arrays that are good for this moment only, so they
are copied here in the narrowest form: rows as 16-bit numbers or as a bitmap, scores as bytes, a
column of equal scores as one number. At 5,000 nodes, of which 500 are scored, that is 2 to 5 KB
instead of 70. What can be worked out when somebody asks is left until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kscheduler.cycle.attempt import Attempt, Outcome, Placement, Unschedulable
from kscheduler.cycle.node_sampling import rotated
from kscheduler.framework.in_tree import MAX_DETAILS, Shortfall
from kscheduler.framework.status import Charge, Code, Mask, Rows, Scores, Status, distinct_rows
from kscheduler.runtime.extenders.extenders import ExtenderAnswer
from kscheduler.runtime.out_of_tree.health import FaultReport
from kscheduler.runtime.score import ScoreBoard
from kscheduler.state.nodes_view import Nodes

# Bytes as tracemalloc counts them: a record without what it refers to, an array without its
# numbers, a rejection without rows and details, a text with the tuple it is in.
RECORD_BYTES = 350
ARRAY_BYTES = 112
REJECTED_BYTES = 180
DETAIL_BYTES = 160
SCORES_BYTES = 400
VICTIM_BYTES = 220
# A reference to a name that its node has as well, and the share of a name that has outlived it.
NAME_BYTES = 40

# Longer texts are cut: a message may be as long as an extender or a plugin makes it.
MAX_TEXT = 1024
# Of reasons, of extenders' answers, of victims and of faults so many are kept.
MAX_REASONS = 256
MAX_VICTIMS = 1000
MAX_ANSWERS = 32
# Rejections that records may share.
MAX_SHARED = 64

# Where the only node that was tried came from.
NOMINATED = "nominated"
BATCH = "batch"


class NodeNames:
    """Names by row, shared by all records from between two changes of the set of nodes; and the
    latest rejections, which pods of one workload have in common.
    """

    __slots__ = ("names", "order", "records", "rejected")

    def __init__(self, nodes: Nodes) -> None:
        # Made anew when nodes come or go, and only then: its identity stands for the set of nodes.
        self.order = nodes.order
        self.names: Sequence[str] = tuple(nodes.names)
        # How many of the records that are kept refer to it.
        self.records = 0
        # By plugin, reason, code, and the rows as bits; empty once there are newer names.
        self.rejected: dict[tuple[str, str, Code, bytes], RejectedRows] = {}

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
    them had left, where the reason is a lack of it, and what else the plugin tells about them.
    """

    plugin: str
    reason: str
    code: Code
    count: int
    rows: SomeRows
    # The resource, what was asked, the most that is free, and the row that has it.
    shortage: tuple[str, int, int, int] | None = None
    details: tuple[tuple[str, int], ...] = ()

    @property
    def bytes(self) -> int:
        size = REJECTED_BYTES + self.rows.bytes + len(self.reason)
        if self.shortage is not None:
            size += DETAIL_BYTES
        for text, _ in self.details:
            size += DETAIL_BYTES + len(text)
        return size


class ScoredRows(msgspec.Struct, frozen=True, gc=False):
    """Scores of the feasible nodes, in the order in which they were found.

    `normalized` is [plugins, nodes] in bytes. `raw` has an entry per plugin: None where it is the
    normalized scores, one number where all nodes got the same, else an array. `extra` is what
    extenders added to the totals. `all_zero`: weights of plugins that gave every node zero.
    """

    plugins: Sequence[str]
    # Those of the profile, for all its records.
    weights: NDArray[np.int64]
    normalized: NDArray[np.uint8]
    raw: tuple[NDArray[Any] | int | None, ...]
    all_zero: Mapping[str, int]
    extra: Scores | None

    @property
    def bytes(self) -> int:
        size = SCORES_BYTES + ARRAY_BYTES + self.normalized.nbytes
        for raw in self.raw:
            if type(raw) is np.ndarray:
                size += ARRAY_BYTES + raw.nbytes
        return size if self.extra is None else size + ARRAY_BYTES + self.extra.nbytes

    @property
    def totals(self) -> Scores:
        totals: Scores = self.weights.dot(self.normalized.astype(np.int64))
        return totals if self.extra is None else totals + self.extra

    def raw_of(self, index: int) -> Scores:
        """Raw scores of one plugin, a number per node."""
        raw, normalized = self.raw[index], self.normalized[index].astype(np.int64)
        if raw is None:
            return normalized
        return np.broadcast_to(np.asarray(raw, np.int64), normalized.shape)


class Window(NamedTuple):
    """Nodes that were visited: so many from a place in the order of all nodes on."""

    start: int
    visited: int


class RecordedVictim(NamedTuple):
    """A pod evicted to make room, and the disruption budgets that select it."""

    namespace: str
    name: str
    priority: int
    violates_budget: bool
    budgets: tuple[str, ...]


class Record(msgspec.Struct, gc=False):
    """One attempt. What is known only after the decision is set by the end of the attempt."""

    number: int
    # Seconds since the epoch, when the attempt began; seconds before it as unschedulable (or
    # gated), backing off and active; and the event that ended the wait for one.
    time: float
    waited: tuple[float, float, float]
    woken_by: str
    duration: float
    generation: int
    names: NodeNames
    total: int
    evaluated: int
    feasible: int
    only_tried: str = ""
    # Where there is a window, nodes outside of it are among the rejected (see `rejections`).
    rejected: tuple[RejectedRows, ...] = ()
    window: Window | None = None
    # Nodes that PreFilter left out, and the plugins' own words for it.
    left_out: int = 0
    absent: Status | None = None
    # Feasible rows in the order in which they were found, and their scores; None where there was
    # nothing to choose from. No rows beside scores: all nodes of the window (see `scored_rows`).
    rows: NDArray[Any] | None = None
    scores: ScoredRows | None = None
    node: str = ""
    nominated_before: str = ""
    # Victims of preemption.
    victims: tuple[RecordedVictim, ...] = ()

    # From the end of the attempt.
    outcome: str = ""
    message: str = ""
    nominated_node: str = ""
    # The extension point that ended it after the decision, and the plugin.
    failed_at: str = ""
    failed_by: str = ""
    # Plugins that held the pod at Permit, and the extender that bound it.
    held_by: tuple[str, ...] = ()
    bound_by: str = ""
    answers: tuple[ExtenderAnswer, ...] = ()
    faults: tuple[FaultReport, ...] = ()

    @property
    def scored_rows(self) -> Rows | None:
        if self.scores is None or self.rows is not None or self.window is None:
            return self.rows
        return rotated(self.names.order, *self.window)

    @property
    def rejections(self) -> tuple[RejectedRows, ...]:
        """The rejected rows among the nodes that were visited."""
        if self.window is None or not self.rejected:
            return self.rejected
        size = len(self.names.names)
        seen = np.zeros(size, np.bool_)
        seen[rotated(self.names.order, *self.window)] = True
        found = []
        for one in self.rejected:
            rows = one.rows.rows
            rows = rows[seen[rows]]
            if len(rows):
                found.append(replace(one, count=len(rows), rows=_some_rows(rows, size)))
        return tuple(found)

    @property
    def bytes(self) -> int:
        """All but the message, which is that of an end (see `decision_log.Entry`)."""
        size = RECORD_BYTES
        for rejected in self.rejected:
            size += rejected.bytes
        if self.absent is not None:
            size += DETAIL_BYTES + len(self.absent.message)
        if self.rows is not None:
            size += ARRAY_BYTES + self.rows.nbytes
        if self.scores is not None:
            size += self.scores.bytes
        for victim in self.victims:
            size += VICTIM_BYTES + len(victim.namespace) + len(victim.name)
        for answer in self.answers:
            size += DETAIL_BYTES + len(answer.error)
        for fault in self.faults:
            size += DETAIL_BYTES + len(fault.text)
        return size


def new_record(attempt: Attempt, names: NodeNames, *, now: float) -> Record:
    """A record of an attempt without anything that a decision adds to it."""
    queued, nodes, began = attempt.queued, attempt.nodes, attempt.began or now
    return Record(
        number=queued.attempts,
        time=began,
        waited=queued.waited(began),
        woken_by=queued.woken_by,
        duration=0.0,
        generation=nodes.generation,
        names=names,
        total=nodes.total,
        evaluated=0,
        feasible=0,
        nominated_before=queued.pod.pod.status.nominated_node_name,
    )


def record_of(attempt: Attempt, outcome: Outcome, names: NodeNames, *, now: float) -> Record:
    """The attempt when the decision has fallen; what grows with nodes is array operations."""
    nodes = attempt.nodes
    record = new_record(attempt, names, now=now)
    if isinstance(outcome, Placement):
        record.node = outcome.node
        record.evaluated, record.feasible = outcome.evaluated, outcome.feasible
        if attempt.search is None:
            record.only_tried = NOMINATED if record.nominated_before == outcome.node else BATCH
        else:
            # Without details: what was in the way elsewhere matters less to a pod that has a node,
            # and describing it would cost more than the rest of the record.
            filtered, candidates, start, visited = attempt.search
            _leave_out(record, attempt.diagnosis.absent, record.total - len(candidates))
            if attempt.extended:
                record.rejected = _rejected(attempt.diagnosis.charges, attempt, details=False)
            elif visited == len(candidates):
                if filtered.has_charges:
                    record.rejected = _rejected(filtered.charges, attempt, details=False)
            elif candidates is names.order:
                record.window = Window(start, visited)
                if filtered.has_charges:
                    record.rejected = _marked(filtered.marked(nodes.rows), names)
            elif filtered.has_charges:
                seen = rotated(candidates, start, visited)
                record.rejected = _marked(filtered.marked(nodes.rows, seen), names)
        if (board := outcome.scores) is not None:
            if record.window is None or len(board.rows) < record.window.visited:
                record.rows = _narrow(board.rows, len(nodes))
            record.scores = _scored(board, extended=attempt.extended)
    elif isinstance(outcome, Unschedulable):
        diagnosis = outcome.diagnosis
        record.rejected = _rejected(diagnosis.charges, attempt, details=True)
        record.evaluated = len(diagnosis.charged_rows)
        _leave_out(record, diagnosis.absent, record.total - record.evaluated)
    return record


def _leave_out(record: Record, absent: Status, count: int) -> None:
    if count and absent.reasons:
        record.left_out, record.absent = count, absent


def _rejected(
    charges: Sequence[Charge], attempt: Attempt, *, details: bool
) -> tuple[RejectedRows, ...]:
    """Charges with what plugins tell about them. Of more reasons than MAX_REASONS, those with few
    nodes are put together: every node may have a reason of its own.
    """
    if len(charges) > 1:
        charges = _merged(charges)
    if len(charges) <= MAX_REASONS:
        return tuple([_rejected_rows(charge, attempt, details=details) for charge in charges])
    ordered = sorted(charges, key=lambda charge: -len(charge.rows))
    kept = [
        _rejected_rows(charge, attempt, details=details) for charge in ordered[: MAX_REASONS - 1]
    ]
    others = ordered[MAX_REASONS - 1 :]
    rows = distinct_rows([charge.rows for charge in others])
    code = max(charge.code for charge in others)
    rest = Charge(others[0].plugin, rows, code, f"({len(others)} other reasons)")
    return (*kept, _rejected_rows(rest, attempt, details=False))


def _merged(charges: Sequence[Charge]) -> Sequence[Charge]:
    """Each reason of a plugin once; nodes with nominated pods are judged apart from the others."""
    found: dict[tuple[str, Code, str], list[Charge]] = {}
    for charge in charges:
        found.setdefault((charge.plugin, charge.code, charge.reason), []).append(charge)
    if len(found) == len(charges):
        return charges
    return [
        same[0]._replace(rows=np.concatenate([one.rows for one in same])) for same in found.values()
    ]


def _rejected_rows(charge: Charge, attempt: Attempt, *, details: bool) -> RejectedRows:
    plugin, rows, code, reason = charge
    nodes = attempt.nodes
    packed = _some_rows(rows, len(nodes))
    describe = attempt.framework.describe_rejected.get(plugin) if details else None
    if describe is None:
        if not plugin:
            plugin = _extender_of(rows, attempt.extender_answers)
        return RejectedRows(plugin, reason[:MAX_TEXT], code, len(rows), packed)
    shortage: tuple[str, int, int, int] | None = None
    texts: list[tuple[str, int]] = []
    for told in describe(attempt.cycle, attempt.pod, nodes.take(rows), reason):
        if isinstance(told, Shortfall):
            shortage = told.resource, told.asked, told.most_free, int(rows[told.position])
        elif len(texts) < MAX_DETAILS:
            texts.append((told.text[:MAX_TEXT], told.number))
    texts.sort(key=lambda one: -one[1])
    return RejectedRows(plugin, reason[:MAX_TEXT], code, len(rows), packed, shortage, tuple(texts))


def _extender_of(rows: Rows, answers: Sequence[ExtenderAnswer]) -> str:
    """The extender that rejected these rows last."""
    for answer in reversed(answers):
        if len(answer.rejected) and np.isin(rows[:1], answer.rejected).all():
            return f"extender {answer.extender}"
    return "extender"


def _some_rows(rows: Rows, size: int) -> SomeRows:
    narrow = _narrow(rows, size)
    if narrow.nbytes <= size // 8:
        return SomeRows(narrow, is_bitmap=False)
    bits = np.zeros(size, np.bool_)
    bits[rows] = True
    return SomeRows(np.packbits(bits), is_bitmap=True)


def _marked(
    charged: Iterable[tuple[str, Code, str, Mask]], names: NodeNames
) -> tuple[RejectedRows, ...]:
    found = []
    for plugin, code, reason, mask in islice(charged, MAX_REASONS):
        bits = np.packbits(mask).tobytes()
        reason = reason[:MAX_TEXT]
        key = plugin, reason, code, bits
        rejected = names.rejected.get(key)
        if rejected is None:
            if len(names.rejected) >= MAX_SHARED:
                names.rejected.clear()
            (rows,) = mask.nonzero()
            rejected = names.rejected[key] = RejectedRows(
                plugin, reason, code, len(rows), _some_rows(rows, len(mask))
            )
        if rejected.count:
            found.append(rejected)
    return tuple(found)


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
    return ScoredRows(board.plugins, board.weights, normalized, raw, board.all_zero, extra)


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
