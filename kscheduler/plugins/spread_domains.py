"""Where pods count for a spread constraint: which nodes take part, and which domains there are.

That depends on nodes and on where the deciding pod may go, not on pods that come and go, so it is
remembered for all pods that are alike in this respect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Toleration
from kscheduler.api.node_selector import RequiredNodeAffinity
from kscheduler.api.taints import find_untolerated
from kscheduler.framework.verdict import Mask
from kscheduler.plugins.spread_constraints import Constraint
from kscheduler.plugins.topology import DomainOfRow, Domains, Topology, Totals, added_up
from kscheduler.state.memo import Memo
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.row_counts import Counts

# At 5,000 nodes each is 40 kB.
MAX_KEPT = 64


class Question(NamedTuple):
    """All that the answer depends on besides the nodes.

    `all_of` are keys that a node must have to take part; `affinity` and `tolerations` are the
    pod's, where the constraint honors them. Taints change with `nodes_as_of`, labels are watched
    apart.
    """

    key: str
    all_of: tuple[str, ...]
    affinity: RequiredNodeAffinity | None
    tolerations: tuple[Toleration, ...] | None
    nodes_as_of: int


class SpreadDomains:
    """The domains of a constraint, and the rows that take part in each."""

    __slots__ = ("counted_in", "domains", "inhabited", "number", "places")

    def __init__(self, domains: Domains, taking_part: Mask) -> None:
        self.domains = domains
        width = domains.width
        # Where a missing label is allowed, it is the same as an empty one.
        unlabelled = domains.values.get("", width)
        places = domains.of_row
        if unlabelled != width:
            places = np.where(places == width, unlabelled, places)
        self.places: DomainOfRow = places
        self.counted_in: DomainOfRow = np.where(taking_part, places, width)
        inhabited = np.bincount(self.counted_in, minlength=width + 1)[:width] > 0
        # Domains in which at least one node takes part.
        self.number = int(np.count_nonzero(inhabited))
        self.inhabited: slice | NDArray[np.intp] = (
            slice(0, width) if self.number == width else np.flatnonzero(inhabited)
        )

    def totals(self, counts: Counts) -> Totals:
        """Counts by domain; the last entry, for rows in none, means nothing."""
        return added_up(self.counted_in, counts, self.domains.width)


class SpreadTopology:
    """Remembers until nodes change what matters."""

    def __init__(self, *, numeric_tolerations: bool) -> None:
        self._numeric = numeric_tolerations
        self._topology = Topology()
        self._generation = 0
        self._kept: Memo[Question, SpreadDomains] = Memo(MAX_KEPT)

    def domains(self, nodes: Nodes, key: str) -> Domains:
        return self._topology.domains(nodes, key)

    def spread_domains(
        self, nodes: Nodes, pod: PodInfo, constraint: Constraint, all_of: tuple[str, ...]
    ) -> SpreadDomains:
        """`all_of`: keys that a node must have for its pods to count, beside the constraint's."""
        question = Question(
            constraint.topology_key,
            all_of,
            _affinity(pod) if constraint.honors_affinity else None,
            pod.pod.spec.tolerations if constraint.honors_taints else None,
            nodes.node_generation if constraint.honors_taints else 0,
        )
        return self._answer(nodes, question)

    def _answer(self, nodes: Nodes, question: Question) -> SpreadDomains:
        if nodes.label_generation != self._generation:
            self._kept.clear()
            self._generation = nodes.label_generation
        found = self._kept.get(question)
        if found is None:
            domains = self.domains(nodes, question.key)
            found = SpreadDomains(domains, self._taking_part(nodes.whole, question))
            self._kept.put(question, found)
        return found

    def _taking_part(self, nodes: Nodes, question: Question) -> Mask:
        mask = nodes.valid.copy()
        for key in question.all_of:
            mask &= ~self.domains(nodes, key).outside(nodes)
        if question.affinity is not None:
            mask &= nodes.selector_mask(question.affinity)
        if question.tolerations is not None:
            mask &= ~self._repelled(nodes, question.tolerations)
        return mask

    def _repelled(self, nodes: Nodes, tolerations: Sequence[Toleration]) -> Mask:
        numeric = self._numeric
        repelling = [
            find_untolerated(taints, tolerations, numeric_operators=numeric) is not None
            for taints in nodes.taint_sets
        ]
        return np.array(repelling, np.bool_)[nodes.taint_set]


def _affinity(pod: PodInfo) -> RequiredNodeAffinity | None:
    """Where the pod may go by labels and names of nodes; None is anywhere."""
    spec = pod.pod.spec
    if spec.node_selector or (
        spec.affinity is not None and spec.affinity.node_affinity is not None
    ):
        return pod.required_node_affinity
    return None
