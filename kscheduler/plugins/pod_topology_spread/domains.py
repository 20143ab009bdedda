"""Domains of spread constraints, and the nodes whose pods count in each.

They depend on nodes and on where the pod may go, not on pods that come and go, so they are kept for
all pods that are alike in this respect.

A pod may have any number of constraints. What they have in common (the nodes that have all of the
keys, that the pod's node affinity allows and whose taints it tolerates) is worked out once for all
of them; what is left for each is a few arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Toleration
from kscheduler.api.node_selector import RequiredNodeAffinity
from kscheduler.api.taints import TolerationIndex
from kscheduler.caches import BoundedCache, size_of
from kscheduler.framework.status import Mask
from kscheduler.plugins.pod_topology_spread.constraints import Constraint
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.row_counts import Counts
from kscheduler.state.topology import DomainOfRow, Domains, Topology, Totals, added_up

# At 5,000 nodes each entry is 80 kB.
MAX_SPREAD_BYTES = 4 << 20
# Masks of nodes, 5 kB at 5,000 nodes, each with the keys, affinity and tolerations that it is for.
MAX_PARTICIPATION_BYTES = 1 << 20


class SpreadDomains:
    """The domains of a constraint, and the rows whose pods count in each."""

    __slots__ = ("counted_in", "domains", "inhabited", "number", "places")

    def __init__(self, domains: Domains, counted_nodes: Mask) -> None:
        self.domains = domains
        width = domains.width
        # [rows], the domain of each. Where a missing label is allowed, it is the same as an empty
        # one.
        unlabelled = domains.empty_value
        places = domains.of_row
        if unlabelled != width:
            places = np.where(places == width, unlabelled, places)
        self.places: DomainOfRow = places
        # [rows], the domain where pods on the row count, or `width`.
        self.counted_in: DomainOfRow = np.where(counted_nodes, places, width)
        # Domains in which the pods of at least one node count.
        inhabited = np.bincount(self.counted_in, minlength=width + 1)[:width] > 0
        self.number = int(np.count_nonzero(inhabited))
        self.inhabited: slice | NDArray[np.intp] = (
            slice(0, width) if self.number == width else np.flatnonzero(inhabited)
        )

    def totals(self, counts: Counts) -> Totals:
        """Counts by domain, [domains + 1]; the last entry, for rows in none, means nothing."""
        return added_up(self.counted_in, counts, self.domains.width)


class LabelledNodes:
    """Nodes that have all of several keys. Equal only to itself, as it is part of cache keys."""

    __slots__ = ("everyone", "mask")

    def __init__(self, nodes: Nodes, keys: Sequence[str], topology: Topology) -> None:
        """`nodes` are all rows of the table."""
        mask = nodes.valid.copy()
        if not nodes.label_keys >= set(keys):
            mask[:] = False
        else:
            for key in keys:
                domains = topology.domains(nodes, key)
                if not domains.on_all_nodes:
                    mask &= ~domains.without_label(nodes)
        self.mask = mask
        # Whether every node has them.
        self.everyone = bool((mask == nodes.valid).all())


class CountedNodes:
    """Nodes whose pods count, for all constraints that honor the same. Equal only to itself."""

    __slots__ = ("mask",)

    def __init__(self, mask: Mask) -> None:
        self.mask = mask


_Honored = tuple[LabelledNodes, RequiredNodeAffinity | None, tuple[Toleration, ...] | None, int]


class SpreadTopology:
    """Domains and counted nodes, kept until labels of nodes change; taints are part of the keys."""

    def __init__(self, *, numeric_tolerations: bool) -> None:
        self._numeric = numeric_tolerations
        self._topology = Topology()
        self._generation = 0
        self._labelled: BoundedCache[tuple[str, ...], LabelledNodes] = BoundedCache(
            "spread_labelled_nodes", MAX_PARTICIPATION_BYTES
        )
        self._counted_nodes: BoundedCache[_Honored, CountedNodes] = BoundedCache(
            "spread_participating_nodes", MAX_PARTICIPATION_BYTES
        )
        self._domains: BoundedCache[tuple[str, CountedNodes], SpreadDomains] = BoundedCache(
            "spread_domains", MAX_SPREAD_BYTES
        )
        self.caches = (*self._topology.caches, self._labelled, self._counted_nodes, self._domains)

    def domains(self, nodes: Nodes, key: str) -> Domains:
        return self._topology.domains(nodes, key)

    def spread_of(
        self,
        nodes: Nodes,
        pod: PodInfo,
        constraints: Sequence[Constraint],
        *,
        require_all_labels: bool,
    ) -> PodSpreadDomains:
        """With `require_all_labels`, pods count only on nodes with the labels of all of them."""
        if nodes.label_generation != self._generation:
            self._labelled.clear()
            self._counted_nodes.clear()
            self._domains.clear()
            self._generation = nodes.label_generation
        keys = tuple(
            [constraint.topology_key for constraint in constraints] if require_all_labels else ()
        )
        labelled = self._labelled.get(keys)
        if labelled is None:
            labelled = LabelledNodes(nodes.whole, keys, self._topology)
            cost = labelled.mask.nbytes + size_of(keys, self._labelled.largest)
            self._labelled.put(keys, labelled, cost)
        return PodSpreadDomains(self, nodes, pod, labelled)

    def spread_domains(self, nodes: Nodes, key: str, counted_nodes: CountedNodes) -> SpreadDomains:
        found = self._domains.get((key, counted_nodes))
        if found is None:
            found = SpreadDomains(self.domains(nodes, key), counted_nodes.mask)
            self._domains.put((key, counted_nodes), found, 2 * found.counted_in.nbytes)
        return found

    def counted_nodes(
        self,
        nodes: Nodes,
        labelled: LabelledNodes,
        affinity: RequiredNodeAffinity | None,
        tolerations: tuple[Toleration, ...] | None,
    ) -> CountedNodes:
        """`affinity` and `tolerations` are the pod's, where they are honored."""
        taints_as_of = 0 if tolerations is None else nodes.taint_generation
        honored = (labelled, affinity, tolerations, taints_as_of)
        found = self._counted_nodes.get(honored)
        if found is None:
            mask = labelled.mask
            if affinity is not None:
                mask = mask & nodes.whole.selector_mask(affinity)
            if tolerations is not None:
                # Judged per distinct list of taints, of which there are a handful.
                index = TolerationIndex(tolerations, numeric_operators=self._numeric)
                repels = [
                    index.first_untolerated(taints) is not None for taints in nodes.whole.taint_sets
                ]
                mask = mask & ~np.array(repels, np.bool_)[nodes.whole.taint_set]
            found = CountedNodes(mask)
            kept_alive = size_of((affinity, tolerations), self._counted_nodes.largest)
            self._counted_nodes.put(honored, found, mask.nbytes + kept_alive)
        return found


class PodSpreadDomains:
    """The domains of the constraints of one pod, for one attempt."""

    __slots__ = ("_counted_nodes", "_nodes", "_pod", "_topology", "labelled")

    def __init__(
        self, topology: SpreadTopology, nodes: Nodes, pod: PodInfo, labelled: LabelledNodes
    ) -> None:
        self._topology = topology
        self._nodes = nodes
        self._pod = pod
        self.labelled = labelled
        # By what is honored: affinity, taints.
        self._counted_nodes: dict[tuple[bool, bool], CountedNodes] = {}

    def domains(self, constraint: Constraint) -> SpreadDomains:
        honors = constraint.honors_affinity, constraint.honors_taints
        counted_nodes = self._counted_nodes.get(honors)
        if counted_nodes is None:
            affinity, tolerations = None, None
            if constraint.honors_affinity:
                spec = self._pod.pod.spec
                node_affinity = spec.affinity.node_affinity if spec.affinity is not None else None
                # None where the pod may go anywhere: shared by all such pods.
                if spec.node_selector or node_affinity is not None:
                    affinity = self._pod.required_node_affinity
            if constraint.honors_taints:
                tolerations = self._pod.pod.spec.tolerations
            counted_nodes = self._counted_nodes[honors] = self._topology.counted_nodes(
                self._nodes, self.labelled, affinity, tolerations
            )
        return self._topology.spread_domains(self._nodes, constraint.topology_key, counted_nodes)
