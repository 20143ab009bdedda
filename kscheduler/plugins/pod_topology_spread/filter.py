"""Hard spread constraints at work: how many matching pods each domain has, and may have.

A domain may have at most `max_skew` matching pods more than the one that has the fewest, the pod to
be placed counted in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kscheduler.api.labels import NOTHING, Selector
from kscheduler.framework.in_tree import UpdatePods
from kscheduler.framework.status import Mask, Rejection, Rows, unresolvable, unschedulable
from kscheduler.plugins.pod_topology_spread.constraints import Constraint
from kscheduler.plugins.pod_topology_spread.domains import SpreadDomains, SpreadTopology
from kscheduler.state.labelled_pods import LabelledPods
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.row_counts import Counts
from kscheduler.state.topology import DomainOfRow, Totals, added_up

REASON = "node(s) didn't match pod topology spread constraints"
REASON_MISSING_LABEL = f"{REASON} (missing required label)"


class HardSpread:
    """The constraints of one attempt; follows pods that are added or removed to see what if.

    A constraint over a label that no node has rejects every node that those before it let pass, so
    that those after it need not be looked at; `_unlabelled` says that there is one.
    """

    __slots__ = ("_namespace", "_tallies", "_unlabelled")

    def __init__(self, namespace: str, tallies: list[_Tally], *, unlabelled: bool) -> None:
        self._namespace = namespace
        self._tallies = tallies
        self._unlabelled = unlabelled

    @classmethod
    def of(
        cls,
        constraints: Sequence[Constraint],
        pod: PodInfo,
        nodes: Nodes,
        topology: SpreadTopology,
    ) -> HardSpread:
        # A node counts for any constraint only if it has the labels for all.
        spread = topology.spread_of(nodes, pod, constraints, every_label=True)
        tallies: list[_Tally] = []
        for constraint in constraints:
            if constraint.topology_key not in nodes.label_keys:
                return cls(pod.namespace, tallies, unlabelled=True)
            domains = spread.domains(constraint)
            totals = domains.totals(matching(constraint.selector, pod.namespace, nodes))
            joins = constraint.selector.matches(pod.labels)
            tallies.append(_Tally(constraint, domains, totals, joins=joins))
        return cls(pod.namespace, tallies, unlabelled=False)

    def clone(self) -> HardSpread:
        tallies = [tally.clone() for tally in self._tallies]
        return HardSpread(self._namespace, tallies, unlabelled=self._unlabelled)

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

    def track_pods(self, pods: Sequence[PodInfo], row_of_pod: Rows) -> UpdatePods:
        """The same for many pods on many rows, each row in a world of its own."""
        own = [number for number, pod in enumerate(pods) if pod.namespace == self._namespace]
        selectors = [tally.constraint.selector for tally in self._tallies]
        keys = frozenset(one.key for selector in selectors for one in selector)
        labelled = LabelledPods(pods, own, keys)
        updates = []
        for tally, selector in zip(self._tallies, selectors, strict=True):
            counts = np.zeros(len(pods), np.bool_)
            counts[labelled.selected(selector)] = True
            updates.append(tally.track_pods(counts, row_of_pod))

        def update(which: Rows, by: int) -> None:
            for update_tally in updates:
                update_tally(which, by)

        return update

    def rejections(self, nodes: Nodes) -> Iterator[Rejection]:
        """A node is rejected by the first constraint it fails, for one reason."""
        unlabelled: Mask | None = None
        skewed: Mask | None = None
        for tally in self._tallies:
            also_unlabelled, also_skewed = tally.failures(nodes)
            if unlabelled is None or skewed is None:
                unlabelled, skewed = also_unlabelled, also_skewed
                continue
            unlabelled, skewed = (
                unlabelled | also_unlabelled & ~skewed,
                skewed | also_skewed & ~unlabelled,
            )
        if self._unlabelled:
            unlabelled = np.ones(len(nodes), np.bool_) if skewed is None else ~skewed
        assert unlabelled is not None
        yield unresolvable(unlabelled, REASON_MISSING_LABEL)
        if skewed is not None:
            yield unschedulable(skewed, REASON)


class _Tally:
    """One constraint and the matching pods in each of its domains."""

    __slots__ = ("_domains", "_joins", "_most", "_own", "_totals", "constraint")

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
        # Where every row is in a world of its own: how many more pods its domain has in that.
        self._own: Totals | None = None

    def clone(self) -> _Tally:
        twin = _Tally(self.constraint, self._domains, self._totals.copy(), joins=self._joins)
        if self._own is not None:
            twin._own = self._own.copy()
        return twin

    def track_pods(self, counts: Mask, row_of_pod: Rows) -> UpdatePods:
        """`counts`: which of the pods matter here."""
        size, weights = len(self._domains.counted_in), counts.astype(np.float64)
        if self._own is None:
            self._own = np.zeros(size)
        own = self._own

        def update(which: Rows, by: int) -> None:
            nonlocal own
            own += by * added_up(row_of_pod[which], weights[which], size - 1)

        return update

    def change(self, row: int, by: int) -> None:
        self._totals[self._domains.counted_in[row]] += by
        self._most = None

    def failures(self, nodes: Nodes) -> tuple[Mask, Mask]:
        """The nodes without the label, and those whose domain has too many pods already."""
        domains = self._domains.domains
        here = domains.at(nodes)
        unlabelled = here == domains.width
        if self._own is None:
            return unlabelled, self._totals.take(here) > self._allowed()
        counted = self._domains.counted_in.take(nodes.rows)
        own = self._own.take(nodes.rows)
        there = self._totals.take(here) + np.where(counted == here, own, 0)
        return unlabelled, there > self._allowed_beside(here, there)

    def _allowed(self) -> float:
        """The most matching pods that a domain may have before this one joins it."""
        if self._most is None:
            self._most = self.constraint.max_skew - self._joins + self._fewest()
        return self._most

    def _allowed_beside(self, here: DomainOfRow, there: Totals) -> Totals | float:
        """The same by node, when its domain has so many pods in the node's own world."""
        domains = self._domains
        if domains.number < self.constraint.min_domains:
            return self._allowed()
        totals = np.full(len(self._totals), np.inf)
        totals[domains.inhabited] = self._totals[domains.inhabited]
        mine = np.where(np.isfinite(totals).take(here), there, np.inf)
        emptiest = int(totals.argmin())
        fewest, totals[emptiest] = totals[emptiest], np.inf
        others = np.where(here == emptiest, totals.min(), fewest)
        return self.constraint.max_skew - self._joins + np.minimum(mine, others)

    def _fewest(self) -> float:
        if self._domains.number < self.constraint.min_domains:
            return 0
        return float(self._totals[self._domains.inhabited].min())


def matching(selector: Selector, namespace: str, nodes: Nodes) -> Counts:
    """By row, the pods that a constraint counts; one without requirements counts none."""
    if selector.matches_everything:
        selector = NOTHING
    return nodes.index.matching(frozenset((namespace,)), selector, terminating=False)
