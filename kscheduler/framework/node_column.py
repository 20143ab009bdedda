"""A number per node, worked out from the Node objects and kept until they change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kscheduler.api.core import Node
from kscheduler.framework.views import NodesView, frozen, nodes_of
from kscheduler.state.nodes_view import Nodes


class NodeColumn:
    """For what a scorer or filter reads off nodes one by one: an annotation, a condition.

        self._load = NodeColumn(lambda node: float(node.metadata.annotations.get("load", 0)))
        …
        load = self._load(nodes)  # [nodes]

    The function is called once per version of a node, not once per pod. Out-of-tree plugins pass
    their view of the nodes, in-tree ones the nodes themselves.
    """

    def __init__(self, number_of: Callable[[Node], float], dtype: DTypeLike = np.float64) -> None:
        self._number_of = number_of
        # By row: the number, and the version of the node that it was read off.
        self._numbers: NDArray[Any] = np.zeros(0, dtype)
        self._seen: list[Node | None] = []
        # How far changes of nodes were read: the generation of all, the position in the log.
        self._generation = -1
        self._read = -1

    def __call__(self, view: NodesView | Nodes) -> NDArray[Any]:
        nodes = view if isinstance(view, Nodes) else nodes_of(view)
        if self._generation != nodes.node_generation:
            self._renew(nodes.whole)
        return self._numbers.take(nodes.rows)

    def _renew(self, whole: Nodes) -> None:
        size, log = len(whole), whole.changed_rows
        rows = None if log is None else log.since(self._read)
        self._resize(size)
        for row in range(size) if rows is None else rows:
            node = whole.node(row) if row < size else None
            if node is not None and self._seen[row] is not node:
                # A free row has a node without a name, which the plugin must not see.
                self._numbers[row] = self._number_of(frozen(node)) if node.name else 0
                self._seen[row] = node
        if log is not None:
            self._read = log.now
        self._generation = whole.node_generation

    def _resize(self, size: int) -> None:
        if len(self._seen) != size:
            numbers = np.zeros(size, self._numbers.dtype)
            kept = min(size, len(self._seen))
            numbers[:kept] = self._numbers[:kept]
            self._numbers = numbers
            self._seen = self._seen[:kept] + [None] * (size - kept)
