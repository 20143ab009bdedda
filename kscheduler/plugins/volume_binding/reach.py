"""From which nodes a volume can be used. Volumes with equal demands share one `Reach`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kscheduler.api.core import NodeSelector, PersistentVolume
from kscheduler.api.node_selector import NodeSelectorMatcher, compile_node_selector
from kscheduler.caches import SharedValues, size_of
from kscheduler.framework.status import Mask, Rows
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.selected_rows import SelectedRows

# Distinct demands of volumes that are there, some 2 KB each.
MAX_REACH_BYTES = 4 << 20


class Reach:
    """The nodes whose labels one demand allows. Their names are not looked at, as upstream does
    not.
    """

    __slots__ = ("_matcher",)

    def __init__(self, required: NodeSelector) -> None:
        matcher = compile_node_selector(required)
        terms = tuple(replace(term, fields=()) for term in matcher.terms)
        self._matcher = NodeSelectorMatcher(terms)

    def mask(self, nodes: Nodes) -> Mask:
        return nodes.selector_mask(self._matcher)

    def rows(self, selected: SelectedRows, nodes: Nodes) -> Rows:
        """The rows of the whole table that can use the volume."""
        terms = self._matcher.terms
        if len(terms) == 1 and not terms[0].errors:
            return np.array(selected.of(terms[0].expressions), np.intp)
        return np.flatnonzero(self.mask(nodes.whole))

    def problem(self, labels: Mapping[str, str]) -> str | None:
        """Why a node with these labels cannot use the volume."""
        if self._matcher.matches(labels, ""):
            return None
        return self._matcher.error or "no matching NodeSelectorTerms"


_reaches: SharedValues[NodeSelector, Reach] = SharedValues("volume_reaches", MAX_REACH_BYTES)
CACHES = (_reaches,)


def reach_of(volume: PersistentVolume) -> Reach | None:
    """None for a volume that can be used from everywhere."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    reach = _reaches.get(affinity.required)
    if reach is None:
        reach = Reach(affinity.required)
        _reaches.put(affinity.required, reach, 2 * size_of(affinity.required, _reaches.largest))
    return reach
