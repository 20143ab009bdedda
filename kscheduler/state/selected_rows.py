"""Rows that selectors select, for thousands of selectors that select one node or a few each.

Local volumes and the storage of single nodes are selected that way: each by a label that hardly any
other node has. A mask per selector would cost a look at every node; here the rows of a label are
sorted by value once, and then every such selector is a look-up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kscheduler.api.labels import Operator, Selector
from kscheduler.state.nodes_view import Nodes


class SelectedRows:
    """Made for one pass over selectors; good as long as no label changes."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes.whole
        self._by_value: dict[str, dict[str, list[int]]] = {}

    def of(self, selector: Selector) -> Sequence[int]:
        if len(selector.requirements) == 1:
            (requirement,) = selector.requirements
            if requirement.operator is Operator.IN:
                by_value = self._rows_by_value(requirement.key)
                found = [by_value.get(value, []) for value in requirement.values]
                return found[0] if len(found) == 1 else [row for some in found for row in some]
        selected: list[int] = np.flatnonzero(self._nodes.selector_mask(selector)).tolist()
        return selected

    def _rows_by_value(self, key: str) -> dict[str, list[int]]:
        known = self._by_value.get(key)
        if known is None:
            rows: list[list[int]] = [[] for _ in range(self._nodes.label_count(key) + 1)]
            for row, code in enumerate(self._nodes.label(key).tolist()):
                rows[code].append(row)
            values = self._nodes.label_values(key)
            known = self._by_value[key] = {value: rows[code] for value, code in values.items()}
        return known
