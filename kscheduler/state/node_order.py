"""The order in which nodes are tried: round robin over zones.

Mirrors pkg/scheduler/backend/cache/node_tree.go. Differs: a node is found by its row, so it cannot
be listed twice.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kscheduler.state.columns import read_only

ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


def zone_key(labels: Mapping[str, str]) -> str:
    """One name per failure zone, "" for none; a deprecated label wins over its successor."""
    zone = _first(labels, ZONE_LABELS)
    region = _first(labels, REGION_LABELS)
    return f"{region}:\x00:{zone}" if region or zone else ""


def _first(labels: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((labels[key] for key in keys if key in labels), "")


class NodeOrder:
    """Rows by zone: zones in the order first seen, rows in the order added."""

    def __init__(self) -> None:
        # Dicts are the ordered sets here.
        self._zones: dict[str, dict[int, None]] = {}
        self._zone_of: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._zone_of)

    def put(self, row: int, zone: str) -> None:
        """Adds the row, or moves it to the end of another zone; in its zone it stays in place."""
        if self._zone_of.get(row) == zone:
            return
        self.remove(row)
        self._zones.setdefault(zone, {})[row] = None
        self._zone_of[row] = zone

    def remove(self, row: int) -> None:
        zone = self._zone_of.pop(row, None)
        if zone is not None:
            del self._zones[zone][row]
            if not self._zones[zone]:
                del self._zones[zone]

    def rows(self) -> NDArray[np.intp]:
        """The first row of each zone, then the second of each, and so on."""
        if not self._zones:
            return read_only(np.empty(0, np.intp))
        zones = [np.fromiter(rows, np.intp, len(rows)) for rows in self._zones.values()]
        turns = np.concatenate([np.arange(len(rows)) for rows in zones])
        return read_only(np.concatenate(zones)[np.argsort(turns, kind="stable")])
