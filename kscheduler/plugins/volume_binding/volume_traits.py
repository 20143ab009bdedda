"""PersistentVolumes and claims compiled: what a volume is, and what a claim asks of its volume.

Volumes are compiled once per version. Where a volume can be used from is its node affinity, shared
by all volumes that say the same; a volume of a former in-tree plugin has another one on nodes that
have migrated to the CSI driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kscheduler.api import quantity
from kscheduler.api.core import NodeSelector, PersistentVolume, PersistentVolumeClaim
from kscheduler.api.csi_translation import TranslationError, migration_of, translated
from kscheduler.api.labels import EVERYTHING, Selector, SelectorError, compile_selector
from kscheduler.api.node_selector import NodeSelectorMatcher, compile_node_selector
from kscheduler.api.storage import CSINode
from kscheduler.api.volume_claims import MIGRATED_PLUGINS, STORAGE, requested_storage
from kscheduler.caches import SharedValues, size_of
from kscheduler.errors import KschedulerError
from kscheduler.framework.listers import Lister
from kscheduler.framework.status import Mask, Rows
from kscheduler.state.nodes_view import Nodes, SelectedRows

FILESYSTEM = "Filesystem"
# Distinct node affinities of volumes, some 2 KB each.
MAX_AFFINITY_BYTES = 4 << 20


class ClaimError(KschedulerError):
    """Raised for a claim that cannot be understood."""


class VolumeNodeAffinity:
    """Nodes that a volume can be used from, by their labels. Terms over node names are ignored, as
    upstream ignores them.
    """

    __slots__ = ("_matcher",)

    def __init__(self, required: NodeSelector) -> None:
        matcher = compile_node_selector(required)
        terms = tuple(replace(term, fields=()) for term in matcher.terms)
        self._matcher = NodeSelectorMatcher(terms)

    def mask(self, nodes: Nodes) -> Mask:
        return nodes.selector_mask(self._matcher)

    def rows(self, selected: SelectedRows, nodes: Nodes) -> Rows:
        """Rows of the whole table that can use the volume.

        A look-up for the usual local volume, which names one node by a label; a mask for others.
        """
        terms = self._matcher.terms
        if len(terms) == 1 and not terms[0].errors:
            return np.array(selected.of(terms[0].expressions), np.intp)
        return np.flatnonzero(self.mask(nodes.whole))

    def problem(self, labels: Mapping[str, str]) -> str | None:
        """Why a node with these labels cannot use the volume."""
        if self._matcher.matches(labels, ""):
            return None
        return self._matcher.error or "no matching NodeSelectorTerms"


_affinities: SharedValues[NodeSelector, VolumeNodeAffinity] = SharedValues(
    "volume_reaches", MAX_AFFINITY_BYTES
)
CACHES = (_affinities,)


def node_affinity_of(volume: PersistentVolume) -> VolumeNodeAffinity | None:
    """None for a volume that can be used from everywhere."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    known = _affinities.get(affinity.required)
    if known is None:
        known = VolumeNodeAffinity(affinity.required)
        cost = 2 * size_of(affinity.required, _affinities.largest)
        _affinities.put(affinity.required, known, cost)
    return known


class VolumeTraits(NamedTuple):
    """A volume as far as claims ask; the claim it is bound to is not part of it."""

    # Nanobytes: quantities may be fractions.
    size_nanos: int
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    node_affinity: VolumeNodeAffinity | None
    # The in-tree plugin it is of, by the name that migrated nodes list in their CSINode; its node
    # affinity there; and why it cannot be translated.
    migrated_from: str = ""
    migrated_node_affinity: VolumeNodeAffinity | None = None
    migration_problem: str = ""

    @property
    def size_bytes(self) -> int:
        return quantity.whole(self.size_nanos)


def traits_of(volume: PersistentVolume) -> VolumeTraits:
    spec = volume.spec
    traits = VolumeTraits(
        size_nanos=quantity.nano_value(spec.capacity.get(STORAGE, 0)),
        mode=spec.volume_mode or FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        access_modes=frozenset(spec.access_modes),
        node_affinity=node_affinity_of(volume),
    )
    migration = migration_of(volume)
    if migration is None:
        return traits
    try:
        moved = translated(volume, migration)
    except TranslationError as error:
        return traits._replace(migrated_from=migration.plugin, migration_problem=str(error))
    return traits._replace(
        migrated_from=migration.plugin, migrated_node_affinity=node_affinity_of(moved)
    )


class ClaimDemand(NamedTuple):
    """A claim's demand of its volume."""

    size_nanos: int
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    selector: Selector

    def is_met_by_prebound(self, traits: VolumeTraits) -> bool:
        """Whether a volume that names the claim will do: neither labels nor access modes count."""
        return (
            traits.size_nanos >= self.size_nanos
            and traits.mode == self.mode
            and traits.attributes_class == self.attributes_class
        )


def demand_of(claim: PersistentVolumeClaim) -> ClaimDemand:
    """Raises ClaimError."""
    spec = claim.spec
    try:
        selector = EVERYTHING if spec.selector is None else compile_selector(spec.selector)
    except SelectorError as error:
        raise ClaimError(
            f"error creating internal label selector for claim: {claim.key}: {error}"
        ) from error
    return ClaimDemand(
        size_nanos=quantity.nano_value(requested_storage(claim)),
        mode=spec.volume_mode or FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        access_modes=frozenset(spec.access_modes),
        selector=selector,
    )


def is_migrated(plugin: str, node: CSINode | None) -> bool:
    """Whether the node leaves the volumes of an in-tree plugin to its CSI driver."""
    if node is None or not plugin:
        return False
    return plugin in node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")


class MigratedNodes:
    """Nodes that leave the volumes of an in-tree plugin to its CSI driver, as CSINodes say."""

    def __init__(self, lister: Lister[CSINode]) -> None:
        self._lister = lister
        # By plugin, of which there are a handful, as of these generations of CSINodes and nodes.
        self._masks: dict[str, tuple[tuple[int, int], Mask]] = {}

    def mask(self, plugin: str, nodes: Nodes) -> Mask:
        """By row of the whole table. Costs a loop over all CSINodes after each change of one."""
        generation = self._lister.generation
        if generation is not None:
            as_of = generation, nodes.label_generation
            known_as_of, known = self._masks.get(plugin, (None, None))
            if known is not None and known_as_of == as_of:
                return known
        mask = np.zeros(len(nodes), np.bool_)
        for node in self._lister.items():
            row = nodes.row_of(node.name)
            if row is not None and is_migrated(plugin, node):
                mask[row] = True
        if generation is not None:
            self._masks[plugin] = as_of, mask
        return mask
