"""Pods and nodes as plugins from outside see them: the part of the scheduler's state that stays.

The names here are a promise and change only with a major version, however the columns behind them
are kept. Nothing can be written to: arrays, mappings and API objects are read-only for good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Node, Pod
from kscheduler.framework.frozen import Kept, frozen
from kscheduler.framework.status import Mask
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

Amounts = NDArray[np.int64]  # [nodes]
# By name: the node as it is kept, and what was made of it.
FrozenNodes = dict[str, tuple[Node, Node]]

# Nodes that are gone are forgotten when there are this many, and more than there are nodes.
SPARE_NODES = 1024


class PodView:
    """One pod, as it was when it was asked about."""

    __slots__ = ("_info", "_kept")

    def __init__(self, info: PodInfo, kept: Kept[Any]) -> None:
        self._info = info
        self._kept = kept

    @property
    def name(self) -> str:
        return self._info.name

    @property
    def namespace(self) -> str:
        return self._info.namespace

    @property
    def key(self) -> str:
        """`namespace/name`"""
        return self._info.key

    @property
    def uid(self) -> str:
        return self._info.uid

    @property
    def labels(self) -> Mapping[str, str]:
        return MappingProxyType(self._info.labels)

    @property
    def annotations(self) -> Mapping[str, str]:
        return MappingProxyType(self._info.pod.metadata.annotations)

    @property
    def priority(self) -> int:
        return self._info.priority

    @property
    def node_name(self) -> str:
        """Where it runs or is about to; empty while that is open."""
        return self._info.node_name

    @property
    def terminating(self) -> bool:
        return self._info.terminating

    @property
    def requests(self) -> Mapping[str, int]:
        """What it takes of its node: cpu in thousandths, everything else in whole units."""
        return MappingProxyType(self._info.requests)

    @property
    def pod(self) -> Pod:
        """The API object, with all that the scheduler reads of it."""
        whole: Pod = self._kept.of(self._info.pod)
        return whole

    def __repr__(self) -> str:
        return f"PodView({self.key!r})"


class NodesView:
    """Some nodes as columns: position i of every array is about the same node.

    A row is a node's place in the whole table (`rows[i]`). It stays while the node exists, so that
    arrays of one's own can be kept by row; see `NodeColumn`. Rows that are not `valid` are free.
    """

    __slots__ = ("_columns", "_frozen", "_kept", "_nodes")

    def __init__(self, nodes: Nodes, kept: Kept[Any], frozen_nodes: FrozenNodes) -> None:
        self._nodes = nodes
        self._columns: dict[str, NDArray[Any]] = {}
        self._kept = kept
        self._frozen = frozen_nodes

    def __len__(self) -> int:
        return len(self._nodes.rows)

    @property
    def rows(self) -> NDArray[np.intp]:
        return self._column("rows")

    @property
    def row_count(self) -> int:
        """How many rows the whole table has."""
        return len(self._nodes.whole)

    @property
    def valid(self) -> Mask:
        return self._column("valid")

    @property
    def unschedulable(self) -> Mask:
        return self._column("unschedulable")

    @property
    def pod_count(self) -> Amounts:
        return self._column("pod_count")

    @property
    def max_pods(self) -> Amounts:
        return self._column("max_pods")

    @property
    def resources(self) -> Mapping[str, int]:
        """By name, its column in `allocatable` and `requested`."""
        return MappingProxyType(self._nodes.resources)

    @property
    def allocatable(self) -> NDArray[np.int64]:
        """[nodes, resources]: cpu in thousandths, everything else in whole units."""
        return self._column("allocatable")

    @property
    def requested(self) -> NDArray[np.int64]:
        """[nodes, resources]: what the pods there ask for."""
        return self._column("requested")

    def allocatable_of(self, resource: str) -> Amounts:
        """One resource; nothing everywhere, if no node has it."""
        return self._of(self.allocatable, resource)

    def requested_of(self, resource: str) -> Amounts:
        return self._of(self.requested, resource)

    def label(self, key: str) -> NDArray[np.int32]:
        """The label's value as a small number (see `label_values`), -1 where it is absent."""
        return _read_only(self._nodes.label(key))

    def label_values(self, key: str) -> Mapping[str, int]:
        """The values that nodes have, with their numbers."""
        return MappingProxyType(self._nodes.label_values(key))

    def label_numbers(self, key: str) -> tuple[NDArray[np.int64], Mask]:
        """The label's value as an integer, and where it is one."""
        numbers, valid = self._nodes.label_numbers(key)
        return _read_only(numbers), _read_only(valid)

    @property
    def generation(self) -> int:
        """Another number after any change of a node or of the pods on it."""
        return self._nodes.generation

    @property
    def node_generation(self) -> int:
        """Another number after any change of a Node."""
        return self._nodes.node_generation

    @property
    def names(self) -> Sequence[str]:
        """By position; a free row has no name."""
        return tuple(self._nodes.names)

    def name_of(self, position: int) -> str:
        return self._nodes.name_of(position)

    def row_of(self, name: str) -> int | None:
        return self._nodes.row_of(name)

    def node(self, position: int) -> Node:
        """The API object."""
        node, name = self._nodes.node(position), self._nodes.name_of(position)
        known = self._frozen.get(name)
        if known is None or known[0] is not node:
            known = self._frozen[name] = node, frozen(node)
        return known[1]

    def pods(self, position: int) -> Sequence[PodView]:
        kept = self._kept
        return tuple([PodView(pod, kept) for pod in self._nodes.pods(position)])

    def _of(self, amounts: NDArray[np.int64], resource: str) -> Amounts:
        column = self._nodes.resources.get(resource)
        if column is None:
            return np.zeros(len(self), np.int64)
        return amounts[:, column]

    def _column(self, name: str) -> NDArray[Any]:
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = _read_only(getattr(self._nodes, name))
        return column


class Views:
    """Makes them, and keeps what is dear to make."""

    def __init__(self) -> None:
        self.kept: Kept[Any] = Kept(frozen)
        self._frozen_nodes: FrozenNodes = {}

    def pod(self, info: PodInfo) -> PodView:
        return PodView(info, self.kept)

    def nodes(self, nodes: Nodes) -> NodesView:
        if len(self._frozen_nodes) > 2 * nodes.total + SPARE_NODES:
            self._frozen_nodes.clear()
        return NodesView(nodes, self.kept, self._frozen_nodes)

    def anything(self, item: object) -> Any:
        """What an informer or an event has to tell: a pod, an API object, a plain dict."""
        if isinstance(item, PodInfo):
            return self.pod(item)
        return None if item is None else self.kept.of(item)


def info_of(view: PodView) -> PodInfo:
    return view._info


def nodes_of(view: NodesView) -> Nodes:
    return view._nodes


def whole_of(view: NodesView) -> NodesView:
    """All rows of the table that these nodes are in."""
    return NodesView(view._nodes.whole, view._kept, view._frozen)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory in a way that cannot be made writable again."""
    return np.asarray(memoryview(array).toreadonly())  # type: ignore[arg-type]
