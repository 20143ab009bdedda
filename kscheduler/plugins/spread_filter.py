"""Hard spread constraints at work: how many matching pods each domain has, and may have.

A domain may have at most `max_skew` matching pods more than the one that has the fewest, the pod to
be placed counted in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kscheduler.api.labels import NOTHING, Selector
from kscheduler.framework.verdict import Mask, Rejection, unresolvable, unschedulable
from kscheduler.plugins.spread_constraints import Constraint
from kscheduler.plugins.spread_domains import SpreadDomains, SpreadTopology
from kscheduler.plugins.topology import Totals
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.row_counts import Counts

REASON = "node(s) didn't match pod topology spread constraints"
REASON_MISSING_LABEL = f"{REASON} (missing required label)"


class HardSpread:
    """The constraints of one attempt; follows pods that are added or removed to see what if."""

    __slots__ = ("_namespace", "_tallies")

    def __init__(self, namespace: str, tallies: list[_Tally]) -> None:
        self._namespace = namespace
        self._tallies = tallies

    @classmethod
    def of(
        cls,
        constraints: Sequence[Constraint],
        pod: PodInfo,
        nodes: Nodes,
        topology: SpreadTopology,
    ) -> HardSpread:
        # A node counts for any constraint only if it has the labels for all.
        all_of = tuple(constraint.topology_key for constraint in constraints)
        tallies = []
        for constraint in constraints:
            domains = topology.spread_domains(nodes, pod, constraint, all_of)
            totals = domains.totals(matching(constraint.selector, pod.namespace, nodes))
            joins = constraint.selector.matches(pod.labels)
            tallies.append(_Tally(constraint, domains, totals, joins=joins))
        return cls(pod.namespace, tallies)

    def clone(self) -> HardSpread:
        return HardSpread(self._namespace, [tally.clone() for tally in self._tallies])

    def change(self, pod: PodInfo, row: int, by: int) -> None:
        """As if the pod came to the row, or left it.

        Unlike in the first count a pod that is being deleted counts, and an empty selector matches:
        upstream's habit, which preemption can see.
        """
        if pod.namespace != self._namespace:
            return
        for tally in self._tallies:
            if tally.constraint.selector.matches(pod.labels):
                tally.change(row, by)

    def rejections(self, nodes: Nodes) -> Iterator[Rejection]:
        """A node is rejected by the first constraint it fails, for one reason."""
        unlabelled, skewed = self._tallies[0].failures(nodes)
        for tally in self._tallies[1:]:
            also_unlabelled, also_skewed = tally.failures(nodes)
            unlabelled, skewed = (
                unlabelled | also_unlabelled & ~skewed,
                skewed | also_skewed & ~unlabelled,
            )
        yield unresolvable(unlabelled, REASON_MISSING_LABEL)
        yield unschedulable(skewed, REASON)


class _Tally:
    """One constraint and the matching pods in each of its domains."""

    __slots__ = ("_domains", "_joins", "_most", "_totals", "constraint")

    def __init__(
        self, constraint: Constraint, domains: SpreadDomains, totals: Totals, *, joins: bool
    ) -> None:
        """`joins`: the pod to be placed would count itself."""
        self.constraint = constraint
        self._domains = domains
        self._totals = totals
        # A row outside of all domains is never one too full.
        self._totals[-1] = -np.inf
        self._joins = joins
        self._most: float | None = None

    def clone(self) -> _Tally:
        return _Tally(self.constraint, self._domains, self._totals.copy(), joins=self._joins)

    def change(self, row: int, by: int) -> None:
        self._totals[self._domains.counted_in[row]] += by
        self._most = None

    def failures(self, nodes: Nodes) -> tuple[Mask, Mask]:
        """The nodes without the label, and those whose domain has too many pods already."""
        domains = self._domains.domains
        here = domains.at(nodes)
        return here == domains.width, self._totals.take(here) > self._allowed()

    def _allowed(self) -> float:
        """The most matching pods that a domain may have before this one joins it."""
        if self._most is None:
            self._most = self.constraint.max_skew - self._joins + self._fewest()
        return self._most

    def _fewest(self) -> float:
        if self._domains.number < self.constraint.min_domains:
            return 0
        return float(self._totals[self._domains.inhabited].min())


def matching(selector: Selector, namespace: str, nodes: Nodes) -> Counts:
    """By row, the pods that a constraint counts; one without requirements counts none."""
    if selector.matches_everything:
        selector = NOTHING
    return nodes.index.matching(frozenset((namespace,)), selector, terminating=False)
