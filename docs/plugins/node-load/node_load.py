"""Prefer nodes that really have little to do, whatever pods have asked for.

Something in the cluster writes each node's load in percent, either all of them into one ConfigMap
(by node name) or each into an annotation of its node. The lower the load, the higher the score;
nodes nobody measured get the score in the middle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.framework import (
    ConfigMap,
    CycleState,
    Followed,
    Node,
    NodeColumn,
    NodesView,
    PluginHandle,
    PodView,
    Scores,
    resources,
)

UNKNOWN = 50.0


class NodeLoadArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Where loads are found: in a ConfigMap if one is named, else in an annotation."""

    config_map: str = ""
    namespace: str = "kube-system"
    annotation: str = "example.com/load-percent"

    def __post_init__(self) -> None:
        if not self.config_map and not self.annotation:
            raise ValueError("one of configMap and annotation is needed")


class NodeLoad:
    name = "NodeLoad"
    args_type = NodeLoadArgs

    def __init__(self, args: NodeLoadArgs, handle: PluginHandle) -> None:
        self._unreadable = handle.metrics.counter(
            "node_load_unreadable_total", "Loads that are not numbers."
        ).labels()
        self._key = f"{args.namespace}/{args.config_map}"
        self._annotation = args.annotation
        self._column = NodeColumn(self._load_of)
        self._loads: Mapping[str, str] = {}
        self._generation = -1
        self._maps: Followed[ConfigMap] | None = None
        if args.config_map:
            self._maps = handle.follow(
                resources.CONFIG_MAPS, namespace=args.namespace, name=args.config_map
            )

    def score(self, cycle: CycleState, pod: PodView, nodes: NodesView) -> Scores:
        return (100.0 - self._load(nodes)).astype(np.int64)

    def sign(self, pod: PodView) -> Mapping[str, object]:
        """Nothing of the pod matters here, so pods that are alike otherwise are alike."""
        return {}

    def _load(self, nodes: NodesView) -> NDArray[np.float64]:
        if self._maps is not None and self._maps.generation != self._generation:
            # Another ConfigMap: what was read before is forgotten.
            self._generation = self._maps.generation
            found = self._maps.get(self._key)
            self._loads = {} if found is None else found.data
            self._column = NodeColumn(self._load_of)
        return self._column(nodes)

    def _load_of(self, node: Node) -> float:
        if self._maps is None:
            text = node.metadata.annotations.get(self._annotation)
        else:
            text = self._loads.get(node.name)
        return UNKNOWN if text is None else self._read(text)

    def _read(self, text: str) -> float:
        try:
            load = float(text)
        except ValueError:
            load = math.nan
        if math.isnan(load):
            self._unreadable.inc()
            return UNKNOWN
        return min(max(load, 0.0), 100.0)
