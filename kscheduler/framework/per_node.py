"""For plugins that would rather judge one node at a time.

    class SameRack:
        name = "SameRack"

        def filter_node(self, cycle, pod, node):
            if node.labels.get("rack") != pod.labels.get("rack"):
                return rejected("node(s) in another rack")

        def score_node(self, cycle, pod, node):
            return 100 - len(node.pods)

This is the slow path: a Python call per node and pod, some microseconds each, where a plugin that
works on columns pays once for all nodes. Fine for a few hundred nodes, or behind plugins that leave
few; a plugin that matters on a large cluster should implement `filter` and `score` itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Node
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.verdict import Code, Mask, Rejection, Scores, Status
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo


class NodeInfo:
    """One node with what runs on it."""

    __slots__ = ("_position", "_rows")

    def __init__(self, rows: Rows, position: int) -> None:
        self._rows = rows
        self._position = position

    @property
    def name(self) -> str:
        return self._rows.nodes.name_of(self._position)

    @property
    def node(self) -> Node:
        return self._rows.nodes.node(self._position)

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.metadata.labels

    @property
    def pods(self) -> Sequence[PodInfo]:
        return self._rows.nodes.pods(self._position)

    @property
    def allocatable(self) -> dict[str, int]:
        """By resource: cpu in thousandths, everything else in units; `pods` is how many may run."""
        return self._rows.allocatable(self._position)

    @property
    def requested(self) -> dict[str, int]:
        """What the pods on the node ask for, in the same units."""
        return self._rows.requested(self._position)


class Rows:
    """The nodes of one question, with their columns as plain numbers once somebody looks at one."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes

    def allocatable(self, position: int) -> dict[str, int]:
        return dict(zip(self._names, self._allocatable[position], strict=True))

    def requested(self, position: int) -> dict[str, int]:
        return dict(zip(self._names, self._requested[position], strict=True))

    @cached_property
    def _names(self) -> tuple[str, ...]:
        by_column = sorted(self.nodes.resources.items(), key=lambda entry: entry[1])
        return (*(name for name, _ in by_column), "pods")

    @cached_property
    def _allocatable(self) -> list[list[int]]:
        return self._amounts(self.nodes.allocatable, self.nodes.max_pods)

    @cached_property
    def _requested(self) -> list[list[int]]:
        return self._amounts(self.nodes.requested, self.nodes.pod_count)

    def _amounts(self, columns: NDArray[np.int64], pods: NDArray[np.int64]) -> list[list[int]]:
        used = sorted(self.nodes.resources.values())
        amounts: list[list[int]] = np.column_stack((columns[:, used], pods)).tolist()
        return amounts


class PerNode:
    """A plugin seen through this adapter; all its other methods are its own."""

    name: str
    per_node = True

    def __init__(self, plugin: Plugin) -> None:
        self._plugin: Any = plugin
        for attribute in dir(plugin):
            if not attribute.startswith("_") and not hasattr(type(self), attribute):
                setattr(self, attribute, getattr(plugin, attribute))


class _Filter(PerNode):
    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        hit: dict[tuple[Code, str], list[int]] = {}
        rows, ask = Rows(nodes), self._plugin.filter_node
        for position in np.flatnonzero(nodes.valid).tolist():
            status = ask(cycle, pod, NodeInfo(rows, position))
            if status is not None:
                for sentence in _sentences(status):
                    hit.setdefault(sentence, []).append(position)
        for (code, reason), positions in hit.items():
            mask: Mask = np.zeros(len(nodes), np.bool_)
            mask[positions] = True
            yield Rejection(mask, code, reason)


class _Score(PerNode):
    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        rows, ask = Rows(nodes), self._plugin.score_node
        scores = (ask(cycle, pod, NodeInfo(rows, position)) for position in range(len(nodes)))
        # Made whole, and checked, like the scores of those who work on columns.
        return np.fromiter(scores, np.float64, len(nodes))


class _FilterAndScore(_Filter, _Score):
    pass


def adapted(plugin: Plugin) -> Plugin:
    """The plugin itself if it works on columns, or a plugin that asks it node by node."""
    filters, scores = hasattr(plugin, "filter_node"), hasattr(plugin, "score_node")
    if filters and scores:
        return _FilterAndScore(plugin)
    if filters:
        return _Filter(plugin)
    return _Score(plugin) if scores else plugin


def _sentences(status: Status) -> list[tuple[Code, str]]:
    if status.code is Code.SUCCESS:
        return []
    return [(status.code, reason) for reason in status.reasons or ("",)]
