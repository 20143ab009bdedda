"""Score by soft constraints: the fewer matching pods in a node's domains, the better.

A node's raw score is the sum of the matching pods in its domains, each weighted by the logarithm of
the number of domains, so that few large domains do not outweigh many small ones.

Mirrors scoring.go of the plugin.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.status import MAX_NODE_SCORE, Mask, Scores
from kscheduler.plugins.pod_topology_spread.constraints import Constraint
from kscheduler.plugins.pod_topology_spread.domains import SpreadTopology
from kscheduler.plugins.pod_topology_spread.filtering import matching
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.topology import HOSTNAME

Shares = NDArray[np.float64]  # [nodes]


class PreScoreState:
    """The share of each constraint in the scores of the feasible nodes of one attempt.

    With `require_all_labels` a node that lacks the label of one constraint is ignored by all;
    without, only by that one.
    """

    def __init__(
        self,
        constraints: Sequence[Constraint],
        pod: PodInfo,
        nodes: Nodes,
        topology: SpreadTopology,
        *,
        require_all_labels: bool,
    ) -> None:
        self._pod, self._nodes, self._topology = pod, nodes, topology
        self._spread = topology.spread_of(
            nodes, pod, constraints, require_all_labels=require_all_labels
        )
        # [nodes], those that lack the label of some constraint; None if there are none.
        self._ignored: Mask | None = None
        if require_all_labels and not self._spread.labelled.everyone:
            lacking = ~self._spread.labelled.mask.take(nodes.rows)
            self._ignored = lacking if np.count_nonzero(lacking) else None
        # Where no node is scored, there is nothing to add up.
        if self._ignored is not None and self._ignored.all():
            constraints = ()
        self._shares = [self._share(constraint) for constraint in constraints]

    def raw(self) -> Scores:
        if not self._shares:
            return np.zeros(len(self._nodes), np.int64)
        total = self._shares[0]
        for share in self._shares[1:]:
            total = total + share
        scores = rounded(total)
        if self._ignored is not None:
            scores[self._ignored] = 0
        return scores

    def normalized(self, scores: Scores) -> Scores:
        ignored = self._ignored
        scored = scores if ignored is None else scores[~ignored]
        highest = int(scored.max(initial=0))
        if highest == 0:
            normalized = np.full(len(scores), MAX_NODE_SCORE, np.int64)
        else:
            normalized = (highest + int(scored.min()) - scores) * MAX_NODE_SCORE // highest
        if ignored is not None:
            normalized[ignored] = 0
        return normalized

    def _share(self, constraint: Constraint) -> Shares:
        nodes, topology = self._nodes, self._topology
        counts = matching(constraint.selector, self._pod.namespace, nodes)
        scored = slice(None) if self._ignored is None else ~self._ignored
        if constraint.topology_key == HOSTNAME:
            # Each node is a domain of its own, whatever its label says.
            size = len(nodes.rows[scored])
            share = np.multiply(counts.take(nodes.rows), log(size + 2), dtype=np.float64)
            share += float(constraint.max_skew - 1)
            domains = topology.domains(nodes, HOSTNAME)
            if not domains.on_all_nodes:
                share[domains.without_label(nodes)] = 0.0
            return share
        spread = self._spread.domains(constraint)
        places = spread.places.take(nodes.rows)
        # The number of domains that the scored nodes are in.
        seen = np.zeros(spread.domains.width + 1, np.bool_)
        seen[places[scored]] = True
        by_domain = spread.totals(counts) * log(int(np.count_nonzero(seen)) + 2)
        by_domain += float(constraint.max_skew - 1)
        by_domain[-1] = 0.0
        if spread.places is spread.domains.of_row:
            return by_domain.take(places)
        return by_domain.take(spread.domains.at(nodes))


def rounded(numbers: Shares) -> Scores:
    """To the nearest whole number, halves up; numpy's own rounding takes them to the even one."""
    whole = np.floor(numbers)
    whole += numbers - whole >= 0.5
    return whole.astype(np.int64)
