"""Answers by row, kept between attempts.

How full a node is, or whether a pod fits there, changes only with that node and the pods on it, and
between two attempts few nodes change. So the answers for all rows are kept, and only those of rows
that changed are worked out again: one by one in plain Python, because numpy takes as long for one
node as for some hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from kscheduler.caches import BoundedCache, size_of
from kscheduler.state.nodes_view import Nodes

Q = TypeVar("Q", bound=Hashable)
Answers = NDArray[Any]  # [nodes]

# At 5,000 nodes the answers to one question are 40 kB.
MAX_BYTES = 4 << 20
# With more rows than this to look at again, numpy is faster.
MAX_ONE_BY_ONE = 12


class _Kept:
    __slots__ = ("answers", "as_of")

    def __init__(self) -> None:
        # None until the question is asked a second time: many never are.
        self.answers: Answers | None = None
        self.as_of = 0


class RowMemo(Generic[Q]):
    """Answers by row; all that they depend on beyond the row must be in the question.

    `of_nodes` answers for any nodes it is shown, in an array of its own. `of_row` answers the same
    for one row of a whole table, or None where the row is too unusual for it.
    """

    def __init__(
        self,
        of_nodes: Callable[[Q, Nodes], Answers],
        of_row: Callable[[Q, Nodes, int], int | None],
        name: str,
    ) -> None:
        self._of_nodes = of_nodes
        self._of_row = of_row
        self.cache: BoundedCache[Q, _Kept] = BoundedCache(name, MAX_BYTES)

    def __call__(self, question: Q, nodes: Nodes) -> Answers:
        """The answers for these nodes; the array is the caller's."""
        answers = self.look(question, nodes)
        return answers.copy() if nodes.whole is nodes else answers

    def look(self, question: Q, nodes: Nodes) -> Answers:
        """The answers, to be read at once: the array may change with the next question."""
        changed = nodes.changed_rows
        if changed is None:
            return self._of_nodes(question, nodes)
        kept = self.cache.get(question)
        if kept is None:
            self._keep(question, _Kept())
            return self._of_nodes(question, nodes)
        answers, now = kept.answers, changed.now
        if answers is None or kept.as_of != now:
            rows = changed.since(kept.as_of)
            if answers is None or rows is None or not self._renew(question, nodes, answers, rows):
                grows = answers is None or rows is None
                answers = kept.answers = self._of_nodes(question, nodes.whole)
                if grows:
                    self._keep(question, kept)
            kept.as_of = now
        return answers if nodes.whole is nodes else answers.take(nodes.rows)

    def _keep(self, question: Q, kept: _Kept) -> None:
        size = size_of(question, self.cache.largest)
        self.cache.put(question, kept, size if kept.answers is None else size + kept.answers.nbytes)

    def _renew(self, question: Q, nodes: Nodes, answers: Answers, rows: Iterable[int]) -> bool:
        """Brings the answers of these rows up to date, unless that is better left to numpy."""
        rows = list(rows)
        if len(rows) > MAX_ONE_BY_ONE:
            return False
        whole = nodes.whole
        for row in rows:
            answer = self._of_row(question, whole, row)
            if answer is None:
                return False
            answers[row] = answer
        return True
