"""Score by preferred terms: what the pods in a node's domains are worth.

A node's raw score is the sum of the weights of all terms that draw the pod to the node's domains or
push it away: the pod's own preferred terms about others, theirs about it, and a little for every
required affinity term of others that it would match.

Mirrors scoring.go of the plugin.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kscheduler.framework.status import MAX_NODE_SCORE, Scores
from kscheduler.plugins.inter_pod_affinity.domain_counts import counts_by
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.row_counts import Counts, Sums
from kscheduler.state.topology import Domains, Topology, Totals

# Topology key, weight (negative for anti-affinity), pods by row that count with it.
WeightedCounts = tuple[str, int, Counts | Sums]


class PreScoreState:
    """Scores of each domain (upstream's topologyScore) for one attempt."""

    def __init__(self, terms: Iterable[WeightedCounts], nodes: Nodes, topology: Topology) -> None:
        # Whether any pod counts, even if weights cancel each other out.
        self.has_scores = False
        # By topology key.
        self._scores: dict[str, tuple[Domains, Totals]] = {}
        # There are a hundred weights and perhaps thousands of terms: domains are added up per key
        # and weight.
        weighted = counts_by([((key, weight), counts) for key, weight, counts in terms])
        for (key, weight), counts in weighted.items():
            if not np.count_nonzero(counts):
                continue
            domains = topology.domains(nodes, key)
            scores = domains.totals(counts)
            counted = domains.on_all_nodes or bool(np.count_nonzero(scores))
            self.has_scores = self.has_scores or counted
            if weight != 1:
                scores *= weight
            if key in self._scores:
                scores += self._scores[key][1]
            self._scores[key] = domains, scores

    def raw(self, nodes: Nodes) -> Scores:
        total: Totals | None = None
        for domains, scores in self._scores.values():
            here = scores.take(domains.at(nodes))
            total = here if total is None else total + here
        return np.zeros(len(nodes), np.int64) if total is None else total.astype(np.int64)


def normalized(scores: Scores) -> Scores:
    """0 for the worst node, 100 for the best, the others between; 0 for all if all are equal."""
    # For a hundred nodes ten times faster than min() and max().
    lowest = scores.item(scores.argmin())
    spread = scores.item(scores.argmax()) - lowest
    if spread == 0:
        return np.zeros(len(scores), np.int64)
    # Divided before multiplied, as upstream does: 29/50 becomes 57, not 58.
    shares = (scores - lowest) / spread
    shares *= MAX_NODE_SCORE
    return shares.astype(np.int64)
