"""Filter by hard constraints: how many matching pods each domain has, and may have.

A domain may have at most `max_skew` matching pods more than the one that has the fewest, the pod to
be placed counted in.

Mirrors filtering.go of the plugin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kscheduler import logs
from kscheduler.api.labels import NOTHING, Selector
from kscheduler.framework.in_tree import MAX_DETAILS, Detail, UpdatePods
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


class PreFilterState:
    """The constraints of one attempt, kept up to date with pods that are added or removed in a
    what-if.

    A constraint over a label that no node has rejects every node that those before it let pass, so
    that those after it need not be evaluated; `_label_missing` is that label, if there is one.
    """

    __slots__ = ("_counts", "_label_missing", "_namespace")

    def __init__(
        self, namespace: str, counts: list[_ConstraintCounts], *, label_missing: str | None
    ) -> None:
        self._namespace = namespace
        self._counts = counts
        self._label_missing = label_missing

    @classmethod
    def of(
        cls,
        constraints: Sequence[Constraint],
        pod: PodInfo,
        nodes: Nodes,
        topology: SpreadTopology,
    ) -> PreFilterState:
        # A node counts for any constraint only if it has the labels for all.
        spread = topology.spread_of(nodes, pod, constraints, require_all_labels=True)
        counts: list[_ConstraintCounts] = []
        for constraint in constraints:
            if constraint.topology_key not in nodes.label_keys:
                return cls(pod.namespace, counts, label_missing=constraint.topology_key)
            domains = spread.domains(constraint)
            totals = domains.totals(matching(constraint.selector, pod.namespace, nodes))
            self_match = constraint.selector.matches(pod.labels)
            counts.append(_ConstraintCounts(constraint, domains, totals, self_match=self_match))
        return cls(pod.namespace, counts, label_missing=None)

    def clone(self) -> PreFilterState:
        counts = [one.clone() for one in self._counts]
        return PreFilterState(self._namespace, counts, label_missing=self._label_missing)

    def update_with_pod(self, pod: PodInfo, row: int, by: int) -> None:
        """As if the pod were added to the row (`by` 1) or removed from it (-1).

        Unlike in the first count a pod that is being deleted counts, and an empty selector matches.
        That looks wrong, is what upstream does, and can be seen in preemption.
        """
        if pod.namespace != self._namespace:
            return
        for counts in self._counts:
            if counts.constraint.selector.matches(pod.labels):
                counts.add(row, by)

    def track_pods(self, pods: Sequence[PodInfo], row_of_pod: Rows) -> UpdatePods:
        """Track many pods on many rows, see `TracksPodsByRow`."""
        own = [number for number, pod in enumerate(pods) if pod.namespace == self._namespace]
        selectors = [counts.constraint.selector for counts in self._counts]
        keys = frozenset(one.key for selector in selectors for one in selector)
        labelled = LabelledPods(pods, own, keys)
        updates = []
        for counts, selector in zip(self._counts, selectors, strict=True):
            matches = np.zeros(len(pods), np.bool_)
            matches[labelled.selected(selector)] = True
            updates.append(counts.track_pods(matches, row_of_pod))

        def update(which: Rows, by: int) -> None:
            for update_counts in updates:
                update_counts(which, by)

        return update

    def rejections(self, nodes: Nodes) -> Iterator[Rejection]:
        """A node is rejected by the first constraint it fails, for one reason."""
        unlabelled: Mask | None = None
        skewed: Mask | None = None
        for counts in self._counts:
            also_unlabelled, also_skewed = counts.failures(nodes)
            if unlabelled is None or skewed is None:
                unlabelled, skewed = also_unlabelled, also_skewed
                continue
            unlabelled, skewed = (
                unlabelled | also_unlabelled & ~skewed,
                skewed | also_skewed & ~unlabelled,
            )
        if self._label_missing is not None:
            unlabelled = np.ones(len(nodes), np.bool_) if skewed is None else ~skewed
        assert unlabelled is not None
        yield unresolvable(unlabelled, REASON_MISSING_LABEL)
        if skewed is not None:
            yield unschedulable(skewed, REASON)

    def log_rejected(self, v: logs.Verbose, pod: logs.ObjectRef, nodes: Nodes) -> None:
        """For each of these nodes, all rejected, the first constraint it fails."""
        failures = [(counts, *counts.failures(nodes)) for counts in self._counts]
        for position, name in enumerate(nodes.names):
            node = logs.ObjectRef("", name)
            unlabelled = self._label_missing
            for counts, lacks_label, is_skewed in failures:
                if lacks_label[position]:
                    unlabelled = counts.constraint.topology_key
                    break
                if is_skewed[position]:
                    what = (
                        "Node failed spreadConstraint: "
                        "matchNum + selfMatchNum - minMatchNum > maxSkew"
                    )
                    v.info(what, pod=pod, node=node, **counts.skew(nodes, position))
                    unlabelled = None
                    break
            if unlabelled is not None:
                what = "Node doesn't have required topology label for spread constraint"
                v.info(what, pod=pod, node=node, topologyKey=unlabelled)

    def describe_rejected(self, nodes: Nodes, reason: str) -> Iterator[Detail]:
        """Per constraint the nodes, all rejected, that fail it, and the numbers of the best one."""
        if reason == REASON_MISSING_LABEL:
            if self._label_missing is not None:
                yield Detail(f"label {self._label_missing} is missing", len(nodes))
            for counts in self._counts[:MAX_DETAILS]:
                missing = int(np.count_nonzero(counts.failures(nodes)[0]))
                if missing:
                    yield Detail(f"label {counts.constraint.topology_key} is missing", missing)
            return
        for counts in self._counts[:MAX_DETAILS]:
            skewed = np.flatnonzero(counts.failures(nodes)[1])
            if len(skewed):
                yield Detail(counts.least_skewed(nodes, skewed), len(skewed))


class _ConstraintCounts:
    """One constraint and the matching pods in each of its domains.

    For what-ifs on many rows at once (`track_pods`) there is beside the totals of each domain, by
    row, how many pods that row's domain has more, or less, because of pods added to or removed from
    that very row. So each row is judged as if nothing had happened on the others.
    """

    __slots__ = ("_by_row", "_domains", "_max_count", "_self_match", "_totals", "constraint")

    def __init__(
        self, constraint: Constraint, domains: SpreadDomains, totals: Totals, *, self_match: bool
    ) -> None:
        """`self_match`: whether the pod to be placed counts itself."""
        self.constraint = constraint
        self._domains = domains
        self._totals = totals
        # [domains + 1]; a row without the label, in the last entry, never has too many.
        self._totals[-1] = -np.inf
        self._self_match = self_match
        # Worked out when asked for, see `_allowed`.
        self._max_count: float | None = None
        # [rows], see above; None unless pods are tracked by row.
        self._by_row: Totals | None = None

    def clone(self) -> _ConstraintCounts:
        twin = _ConstraintCounts(
            self.constraint, self._domains, self._totals.copy(), self_match=self._self_match
        )
        if self._by_row is not None:
            twin._by_row = self._by_row.copy()
        return twin

    def track_pods(self, matches: Mask, row_of_pod: Rows) -> UpdatePods:
        """`matches`: which of the pods the constraint counts."""
        size, weights = len(self._domains.counted_in), matches.astype(np.float64)
        if self._by_row is None:
            self._by_row = np.zeros(size)
        changes = self._by_row

        def update(which: Rows, by: int) -> None:
            nonlocal changes
            changes += by * added_up(row_of_pod[which], weights[which], size - 1)

        return update

    def add(self, row: int, by: int) -> None:
        self._totals[self._domains.counted_in[row]] += by
        self._max_count = None

    def failures(self, nodes: Nodes) -> tuple[Mask, Mask]:
        """Nodes without the label, and nodes whose domain has too many pods already."""
        domains = self._domains.domains
        here = domains.at(nodes)
        unlabelled = here == domains.width
        if self._by_row is None:
            return unlabelled, self._totals.take(here) > self._allowed()
        counted = self._domains.counted_in.take(nodes.rows)
        changes = self._by_row.take(nodes.rows)
        there = self._totals.take(here) + np.where(counted == here, changes, 0)
        return unlabelled, there > self._allowed_by_row(here, there)

    def skew(self, nodes: Nodes, position: int) -> dict[str, object]:
        """The numbers that a node is judged by, under upstream's names."""
        one = nodes.take([nodes.rows[position]])
        here = self._domains.domains.at(one)
        there = self._totals.take(here)
        allowed: Totals | float = self._allowed()
        if self._by_row is not None:
            counted = self._domains.counted_in.take(one.rows)
            there = there + np.where(counted == here, self._by_row.take(one.rows), 0)
            allowed = self._allowed_by_row(here, there)
        max_skew, self_match = self.constraint.max_skew, int(self._self_match)
        return {
            "topologyKey": self.constraint.topology_key,
            "matchNum": int(there[0]),
            "selfMatchNum": self_match,
            "minMatchNum": int(np.ravel(allowed)[0]) - max_skew + self_match,
            "maxSkew": max_skew,
        }

    def least_skewed(self, nodes: Nodes, skewed: Rows) -> str:
        """Of these positions the one with the fewest matching pods, in words."""
        there = self._totals.take(self._domains.domains.at(nodes).take(skewed))
        numbers = self.skew(nodes, int(skewed[int(there.argmin())]))
        one = self.constraint
        return (
            f"spread over {one.topology_key}: {numbers['matchNum']} matching pods at least, "
            f"{numbers['minMatchNum']} in the emptiest domain, maxSkew {one.max_skew}"
        )

    def _allowed(self) -> float:
        """The most matching pods that a domain may have before this one is added to it."""
        if self._max_count is None:
            domains = self._domains
            # With fewer domains than required, the global minimum counts as 0.
            min_match = 0.0
            if domains.number >= self.constraint.min_domains:
                min_match = float(self._totals[domains.inhabited].min())
            self._max_count = self.constraint.max_skew - self._self_match + min_match
        return self._max_count

    def _allowed_by_row(self, here: DomainOfRow, there: Totals) -> Totals | float:
        """`_allowed` by node, where its domain `here` has `there` pods because of changes on its
        own row, and all other domains what they had.
        """
        domains = self._domains
        if domains.number < self.constraint.min_domains:
            return self._allowed()
        totals = np.full(len(self._totals), np.inf)
        totals[domains.inhabited] = self._totals[domains.inhabited]
        mine = np.where(np.isfinite(totals).take(here), there, np.inf)
        # The minimum over the other domains: that of all, or the second lowest in the lowest.
        emptiest = int(totals.argmin())
        fewest, totals[emptiest] = totals[emptiest], np.inf
        others = np.where(here == emptiest, totals.min(), fewest)
        return self.constraint.max_skew - self._self_match + np.minimum(mine, others)


def matching(selector: Selector, namespace: str, nodes: Nodes) -> Counts:
    """Pods that a constraint counts, by row; one without requirements counts none."""
    if selector.matches_everything:
        selector = NOTHING
    return nodes.index.matching(frozenset((namespace,)), selector, terminating=False)
