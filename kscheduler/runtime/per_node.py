"""For plugins that would rather judge one node at a time.

    class SameRack:
        name = "SameRack"

        def filter_node(self, cycle, pod, node):
            if node.labels.get("rack") != pod.labels.get("rack"):
                return rejected("node(s) in another rack")

        def score_node(self, cycle, pod, node):
            return 100 - len(node.pods)

That is a call of Python per node and pod, where a plugin that works on columns pays once for all
nodes. What makes it bearable: what a node looks like is kept until it changes, answers are looked
at once all are there, and Filter asks about no more nodes than the search needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.node_info import NodeInfos
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.status import Code, Mask, Rejection, Scores, Status
from kscheduler.framework.views import NodesView
from kscheduler.runtime.out_of_tree import answers
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

_Sentences = tuple[Code, tuple[str, ...]]


class PerNode:
    """A plugin seen through this adapter; all its other methods are its own."""

    name: str
    per_node = True

    def __init__(self, plugin: Plugin) -> None:
        self._plugin: Any = plugin
        self._infos = NodeInfos()
        for attribute in dir(plugin):
            if not attribute.startswith("_") and not hasattr(type(self), attribute):
                setattr(self, attribute, getattr(plugin, attribute))


class _Filter(PerNode):
    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes | NodesView) -> list[Rejection]:
        ask = self._plugin.filter_node
        found = [ask(cycle, pod, node) for node in self._infos.of(nodes)]
        positions_of: dict[_Sentences, list[int]] = {}
        before, positions = None, []
        for position, status in enumerate(found):
            if status is not None:
                # Most say the same as the one before, and comparing is dear.
                if status is not before:
                    positions = positions_of.setdefault(_sentences(status), [])
                    before = status
                positions.append(position)
        return _rejections(positions_of, len(found))


class _Score(PerNode):
    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes | NodesView) -> Scores:
        ask = self._plugin.score_node
        # Made whole, and checked, like the scores of those who work on columns.
        return np.array([ask(cycle, pod, node) for node in self._infos.of(nodes)])


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


def _sentences(answer: object) -> _Sentences:
    status: Status = answers.status(answer)
    return status.code, status.reasons


def _rejections(positions_of: Mapping[_Sentences, Sequence[int]], size: int) -> list[Rejection]:
    """One per sentence, whoever it was said about."""
    masks: dict[tuple[Code, str], Mask] = {}
    for (code, reasons), positions in positions_of.items():
        if code is not Code.SUCCESS:
            for reason in reasons or ("",):
                mask = masks.setdefault((code, reason), np.zeros(size, np.bool_))
                mask[positions] = True
    return [Rejection(mask, code, reason) for (code, reason), mask in masks.items()]
