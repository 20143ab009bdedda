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
from typing import Any

import numpy as np

from kscheduler.api.core import Node
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.verdict import Code, Mask, Rejection, Scores, Status
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo


class NodeInfo:
    """One node with what runs on it."""

    __slots__ = ("_nodes", "_position")

    def __init__(self, nodes: Nodes, position: int) -> None:
        self._nodes = nodes
        self._position = position

    @property
    def name(self) -> str:
        return self._nodes.name_of(self._position)

    @property
    def node(self) -> Node:
        return self._nodes.node(self._position)

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.metadata.labels

    @property
    def pods(self) -> Sequence[PodInfo]:
        return self._nodes.pods(self._position)

    @property
    def allocatable(self) -> dict[str, int]:
        """By resource: cpu in thousandths, everything else in units; `pods` is how many may run."""
        return self._amounts(self._nodes.allocatable) | {
            "pods": int(self._nodes.max_pods[self._position])
        }

    @property
    def requested(self) -> dict[str, int]:
        """What the pods on the node ask for, in the same units."""
        return self._amounts(self._nodes.requested) | {
            "pods": int(self._nodes.pod_count[self._position])
        }

    def _amounts(self, columns: Any) -> dict[str, int]:
        amounts = columns[self._position].tolist()
        return {name: amounts[column] for name, column in self._nodes.resources.items()}


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
        masks: dict[tuple[Code, str], Mask] = {}
        for position in np.flatnonzero(nodes.valid).tolist():
            status = self._plugin.filter_node(cycle, pod, NodeInfo(nodes, position))
            for sentence in _sentences(status):
                mask = masks.setdefault(sentence, np.zeros(len(nodes), np.bool_))
                mask[position] = True
        for (code, reason), mask in masks.items():
            yield Rejection(mask, code, reason)


class _Score(PerNode):
    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        scores = (
            self._plugin.score_node(cycle, pod, NodeInfo(nodes, position))
            for position in range(len(nodes))
        )
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


def _sentences(status: Status | None) -> list[tuple[Code, str]]:
    if status is None or status.code is Code.SUCCESS:
        return []
    return [(status.code, reason) for reason in status.reasons or ("",)]
