"""Where pods count for a spread constraint: which nodes take part, and which domains there are.

That depends on nodes and on where the deciding pod may go, not on pods that come and go, so it is
remembered for all pods that are alike in this respect.

A pod may have any number of constraints. What they have in common (the nodes that have all of the
keys, that the pod's affinity allows and its tolerations do not shut out) is worked out once for
all of them; what is left for each is a few arrays.
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
    """The domains of a constraint, and the rows that take part in each."""

    __slots__ = ("counted_in", "domains", "inhabited", "number", "places")

    def __init__(self, domains: Domains, taking_part: Mask) -> None:
        self.domains = domains
        width = domains.width
        # Where a missing label is allowed, it is the same as an empty one.
        unlabelled = domains.empty_value
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


class Labelled:
    """The nodes that have all of several keys. Equal only to itself."""

    __slots__ = ("everyone", "mask")

    def __init__(self, nodes: Nodes, keys: Sequence[str], topology: Topology) -> None:
        """`nodes` are all rows of the table."""
        mask = nodes.valid.copy()
        if not nodes.label_keys >= set(keys):
            mask[:] = False
        else:
            for key in keys:
                domains = topology.domains(nodes, key)
                if not domains.reach_all:
                    mask &= ~domains.outside(nodes)
        self.mask = mask
        # Whether every node has them.
        self.everyone = bool((mask == nodes.valid).all())


class TakingPart:
    """The nodes whose pods count, for all constraints that honor the same. Equal only to itself."""

    __slots__ = ("mask",)

    def __init__(self, mask: Mask) -> None:
        self.mask = mask


_Honored = tuple[Labelled, RequiredNodeAffinity | None, tuple[Toleration, ...] | None, int]


class SpreadTopology:
    """Remembers until nodes change what matters."""

    def __init__(self, *, numeric_tolerations: bool) -> None:
        self._numeric = numeric_tolerations
        self._topology = Topology()
        self._generation = 0
        self._labelled: BoundedCache[tuple[str, ...], Labelled] = BoundedCache(
            "spread_labelled_nodes", MAX_PARTICIPATION_BYTES
        )
        self._taking_part: BoundedCache[_Honored, TakingPart] = BoundedCache(
            "spread_participating_nodes", MAX_PARTICIPATION_BYTES
        )
        self._kept: BoundedCache[tuple[str, TakingPart], SpreadDomains] = BoundedCache(
            "spread_domains", MAX_SPREAD_BYTES
        )
        self.caches = (*self._topology.caches, self._labelled, self._taking_part, self._kept)

    def domains(self, nodes: Nodes, key: str) -> Domains:
        return self._topology.domains(nodes, key)

    def spread_of(
        self, nodes: Nodes, pod: PodInfo, constraints: Sequence[Constraint], *, every_label: bool
    ) -> PodSpread:
        """With `every_label`, pods count only on nodes that have the labels of all constraints."""
        if nodes.label_generation != self._generation:
            self._labelled.clear()
            self._taking_part.clear()
            self._kept.clear()
            self._generation = nodes.label_generation
        keys = tuple([constraint.topology_key for constraint in constraints] if every_label else ())
        labelled = self._labelled.get(keys)
        if labelled is None:
            labelled = Labelled(nodes.whole, keys, self._topology)
            cost = labelled.mask.nbytes + size_of(keys, self._labelled.largest)
            self._labelled.put(keys, labelled, cost)
        return PodSpread(self, nodes, pod, labelled)

    def spread_domains(self, nodes: Nodes, key: str, taking_part: TakingPart) -> SpreadDomains:
        found = self._kept.get((key, taking_part))
        if found is None:
            found = SpreadDomains(self.domains(nodes, key), taking_part.mask)
            self._kept.put((key, taking_part), found, 2 * found.counted_in.nbytes)
        return found

    def taking_part(
        self,
        nodes: Nodes,
        labelled: Labelled,
        affinity: RequiredNodeAffinity | None,
        tolerations: tuple[Toleration, ...] | None,
    ) -> TakingPart:
        """`affinity` and `tolerations` are the pod's, where they are honored."""
        taints_as_of = 0 if tolerations is None else nodes.taint_generation
        honored = (labelled, affinity, tolerations, taints_as_of)
        found = self._taking_part.get(honored)
        if found is None:
            mask = labelled.mask
            if affinity is not None:
                mask = mask & nodes.whole.selector_mask(affinity)
            if tolerations is not None:
                mask = mask & ~self._repelled(nodes.whole, tolerations)
            found = TakingPart(mask)
            kept_alive = size_of((affinity, tolerations), self._taking_part.largest)
            self._taking_part.put(honored, found, mask.nbytes + kept_alive)
        return found

    def _repelled(self, nodes: Nodes, tolerations: Sequence[Toleration]) -> Mask:
        index = TolerationIndex(tolerations, numeric_operators=self._numeric)
        repelling = [index.first_untolerated(taints) is not None for taints in nodes.taint_sets]
        return np.array(repelling, np.bool_)[nodes.taint_set]


class PodSpread:
    """The domains of the constraints of one pod, for one attempt."""

    __slots__ = ("_nodes", "_pod", "_taking_part", "_topology", "labelled")

    def __init__(
        self, topology: SpreadTopology, nodes: Nodes, pod: PodInfo, labelled: Labelled
    ) -> None:
        self._topology = topology
        self._nodes = nodes
        self._pod = pod
        self.labelled = labelled
        # By what is honored: affinity, taints.
        self._taking_part: dict[tuple[bool, bool], TakingPart] = {}

    def domains(self, constraint: Constraint) -> SpreadDomains:
        honors = constraint.honors_affinity, constraint.honors_taints
        taking_part = self._taking_part.get(honors)
        if taking_part is None:
            taking_part = self._taking_part[honors] = self._topology.taking_part(
                self._nodes,
                self.labelled,
                _affinity(self._pod) if constraint.honors_affinity else None,
                self._pod.pod.spec.tolerations if constraint.honors_taints else None,
            )
        return self._topology.spread_domains(self._nodes, constraint.topology_key, taking_part)


def _affinity(pod: PodInfo) -> RequiredNodeAffinity | None:
    """Where the pod may go by labels and names of nodes; None is anywhere."""
    spec = pod.pod.spec
    if spec.node_selector or (
        spec.affinity is not None and spec.affinity.node_affinity is not None
    ):
        return pod.required_node_affinity
    return None
