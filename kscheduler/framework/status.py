"""Status, Rejection and Diagnosis: answers of plugins, and what a failed attempt adds up to.

A Filter answers with `Rejection`s: a mask over the nodes it was shown, one sentence each. Every
other extension point answers with a `Status`, or None for success.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.errors import KschedulerError

Mask = NDArray[np.bool_]  # [nodes]
Rows = NDArray[np.intp]  # [nodes]
Scores = NDArray[np.int64]  # [nodes]

MAX_NODE_SCORE = 100
MIN_NODE_SCORE = 0


class Code(IntEnum):
    """Kinds of answers; those that are `rejected` count against a node or a pod."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def text(self) -> str:
        """The name metrics and logs know it by, e.g. `UnschedulableAndUnresolvable`."""
        return _TEXTS[self]

    @property
    def rejected(self) -> bool:
        """Whether the answer is no: unschedulable, for good or for now, or pending."""
        return self in _REJECTED


_TEXTS = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}
_REJECTED = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


@dataclass(frozen=True, slots=True)
class Status:
    """One plugin's answer about the pod as a whole, or about one node of it."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    # With ERROR, whether what the plugin asked the world to do may be done all the same.
    unsettled: bool = field(default=False, compare=False)

    @property
    def message(self) -> str:
        """The reasons in one line."""
        return ", ".join(self.reasons)

    @property
    def rejected(self) -> bool:
        """Whether the answer is no."""
        return self.code.rejected

    def by(self, plugin: str) -> Status:
        """Copy of the answer in the name of a plugin."""
        if self.plugin == plugin:
            return self
        return Status(self.code, self.reasons, plugin, self.unsettled)


SKIP = Status(Code.SKIP)
# Score's answer, by identity, of a plugin that gives zero to every node: it costs no row of scores.
ALL_ZERO: Scores = np.zeros(0, np.int64)


def rejected(reason: str) -> Status:
    """The pod cannot be placed now; preemption might help."""
    return _rejected(reason)


def rejected_for_good(reason: str) -> Status:
    """The pod cannot be placed, and evicting others would not change that."""
    return _rejected_for_good(reason)


# Kept, because a plugin that is asked node by node says the same about thousands of them, and
# making a Status takes longer than looking at a node.
@lru_cache(256)
def _rejected(reason: str) -> Status:
    return Status(Code.UNSCHEDULABLE, (reason,))


@lru_cache(256)
def _rejected_for_good(reason: str) -> Status:
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))


def failed(error: BaseException | str) -> Status:
    """The plugin could not answer."""
    return Status(Code.ERROR, (str(error),), unsettled=is_unsettled(error))


def is_unsettled(error: BaseException | str) -> bool:
    return isinstance(error, KschedulerError) and error.unsettled


class Rejection(NamedTuple):
    """The nodes that one sentence speaks against; the mask covers those the plugin was shown.

    With code ERROR the sentence says why the plugin could not judge them.
    """

    mask: Mask
    code: Code
    reason: str


def unschedulable(mask: Mask, reason: str) -> Rejection:
    """Nodes that cannot take the pod now; evicting pods from them might help."""
    return Rejection(mask, Code.UNSCHEDULABLE, reason)


def unresolvable(mask: Mask, reason: str) -> Rejection:
    """Nodes that cannot take the pod, whatever is evicted from them."""
    return Rejection(mask, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)


class Diagnosis(msgspec.Struct):
    """Why no node fits: per node the plugin that rejected it first, and one status for the rest.

    `charges` is columnar: each entry speaks for many rows. A node appears under one plugin only,
    but may appear in several of that plugin's charges (one per reason).
    """

    charges: list[Charge] = msgspec.field(default_factory=list)
    absent: Status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
    unschedulable_plugins: set[str] = msgspec.field(default_factory=set)
    pending_plugins: set[str] = msgspec.field(default_factory=set)
    pre_filter_message: str = ""
    post_filter_message: str = ""

    def charge(self, plugin: str, rows: Rows, code: Code, reason: str) -> None:
        """Notes that a plugin rejected these rows for a reason."""
        if len(rows):
            self.charges.append(Charge(plugin, rows, code, reason))
            self._blame(plugin, code)

    def acquit(self, rows: Rows) -> None:
        """Drops the charges against these rows; their plugins stay among the rejecting ones."""
        left = [one._replace(rows=one.rows[~np.isin(one.rows, rows)]) for one in self.charges]
        self.charges = [one for one in left if len(one.rows)]

    def blame(self, status: Status) -> None:
        """Remember a rejecting plugin without naming nodes."""
        if status.rejected:
            self._blame(status.plugin, status.code)

    def _blame(self, plugin: str, code: Code) -> None:
        if plugin:
            self.unschedulable_plugins.add(plugin)
            if code is Code.PENDING:
                self.pending_plugins.add(plugin)

    @property
    def charged_rows(self) -> Rows:
        """Rows with an explicit verdict, each once."""
        return distinct_rows([charge.rows for charge in self.charges])

    def status_by_row(self) -> dict[int, Status]:
        """Per row its status: reasons in the order given, under the worst of their codes."""
        found: dict[int, Status] = {}
        for charge in self.charges:
            for row in charge.rows.tolist():
                before = found.get(row)
                if before is None:
                    found[row] = Status(charge.code, (charge.reason,), charge.plugin)
                else:
                    code = max(before.code, charge.code)
                    found[row] = Status(code, (*before.reasons, charge.reason), before.plugin)
        return found


def distinct_rows(some: Sequence[Rows]) -> Rows:
    """Rows that are in any of these, each once, in ascending order.

    By a mask: sorting 5,000 rows takes 50 times as long.
    """
    if not some:
        return np.empty(0, np.intp)
    marked = np.zeros(max([int(rows.max(initial=-1)) for rows in some]) + 1, np.bool_)
    for rows in some:
        marked[rows] = True
    return marked.nonzero()[0]


class Charge(NamedTuple):
    """Rows that one plugin rejected for one reason."""

    plugin: str
    rows: Rows
    code: Code
    reason: str


def fit_error(num_nodes: int, diagnosis: Diagnosis) -> str:
    """The sentence operators know by heart: `0/3 nodes are available: 1 …, 2 ….`"""
    text = f"0/{num_nodes} nodes are available:"
    if diagnosis.pre_filter_message:
        text += f" {diagnosis.pre_filter_message}."
    else:
        text += histogram(num_nodes, diagnosis.charges, diagnosis.absent)
    if diagnosis.post_filter_message:
        text += f" {diagnosis.post_filter_message}"
    return text


def histogram(num_nodes: int, charges: Sequence[Charge], absent: Status) -> str:
    counts: Counter[str] = Counter()
    for charge in charges:
        counts[charge.reason] += len(charge.rows)
    explicit = len(distinct_rows([charge.rows for charge in charges]))
    if explicit < num_nodes:
        for reason in absent.reasons:
            counts[reason] += num_nodes - explicit
    # Sorted as texts, like upstream: "10 …" comes before "2 …".
    ordered = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f" {', '.join(ordered)}." if ordered else ""
