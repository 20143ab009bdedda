"""Preferred affinity and anti-affinity at work: what pods around a node are worth.

A node's raw score is the sum of the weights of all terms that draw the pod to the node's domains or
push it away: the pod's own preferences about others, theirs about it, and a little for every
required affinity of others that it would serve.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kscheduler.framework.status import MAX_NODE_SCORE, Scores
from kscheduler.plugins.inter_pod_affinity.domain_counts import counts_by
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.row_counts import Counts, Sums
from kscheduler.state.topology import Domains, Topology, Totals

# Topology key, weight, pods by row.
Opinion = tuple[str, int, Counts | Sums]


class Preferences:
    """The worth of each domain for one attempt."""

    def __init__(self, opinions: Iterable[Opinion], nodes: Nodes, topology: Topology) -> None:
        # Whether anything was counted, be it that opinions cancel each other out.
        self.exist = False
        self._worth: dict[str, tuple[Domains, Totals]] = {}
        # By weight, of which there are a hundred, so that domains are looked at no more often.
        weighed = counts_by([((key, weight), counts) for key, weight, counts in opinions])
        for (key, weight), counts in weighed.items():
            if not np.count_nonzero(counts):
                continue
            domains = topology.domains(nodes, key)
            worth = domains.totals(counts)
            self.exist = self.exist or domains.reach_all or bool(np.count_nonzero(worth))
            if weight != 1:
                worth *= weight
            if key in self._worth:
                worth += self._worth[key][1]
            self._worth[key] = domains, worth

    def raw(self, nodes: Nodes) -> Scores:
        total: Totals | None = None
        for domains, worth in self._worth.values():
            here = worth.take(domains.at(nodes))
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
