"""Which nodes leave a former in-tree plugin's volumes to its CSI driver: their CSINode says so."""

from __future__ import annotations

import numpy as np

from kscheduler.api.storage import CSINode
from kscheduler.api.volume_claims import MIGRATED_PLUGINS
from kscheduler.framework.listers import Lister
from kscheduler.framework.status import Mask
from kscheduler.state.nodes_view import Nodes


def is_migrated(plugin: str, node: CSINode | None) -> bool:
    if node is None or not plugin:
        return False
    return plugin in node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")


class Migrated:
    def __init__(self, lister: Lister[CSINode]) -> None:
        self._lister = lister
        # By plugin, as of these generations of CSINodes and nodes.
        self._masks: dict[str, tuple[tuple[int, int], Mask]] = {}

    def mask(self, plugin: str, nodes: Nodes) -> Mask:
        """The rows of the whole table where the driver is in charge."""
        generation = self._lister.generation
        if generation is None:
            return self._looked_up(plugin, nodes)
        as_of = generation, nodes.label_generation
        known = self._masks.get(plugin)
        if known is None or known[0] != as_of:
            known = self._masks[plugin] = as_of, self._looked_up(plugin, nodes)
        return known[1]

    def _looked_up(self, plugin: str, nodes: Nodes) -> Mask:
        mask = np.zeros(len(nodes), np.bool_)
        for node in self._lister.items():
            row = nodes.row_of(node.name)
            if row is not None and is_migrated(plugin, node):
                mask[row] = True
        return mask
