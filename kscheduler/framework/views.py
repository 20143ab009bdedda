"""Pods, nodes and API objects as out-of-tree plugins see them: read-only, under names that stay.

The names here change only with a major version, however the columns behind them are kept. Nothing
can be written to. Arrays are read-only memory. Structs are frozen by themselves, but the dicts
inside of them are not, and they are shared: by the informer, by the cache, by pods with equal
specs; so API objects are shown as copies whose mappings are proxies, made when first read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from kscheduler.api.core import Node, Pod
from kscheduler.caches import BoundedCache, size_of
from kscheduler.framework.status import Mask
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

Amounts = NDArray[np.int64]  # [nodes]
# By name: the node as the cache has it, and its frozen copy.
FrozenNodes = dict[str, tuple[Node, Node]]

# Frozen nodes are dropped, all of them, when there are twice as many as nodes and this many more.
SPARE_NODES = 1024


T = TypeVar("T")

# Types of values that cannot be changed.
_IMMUTABLE = frozenset({str, int, float, bool, type(None), bytes})
MAX_FROZEN_BYTES = 16 << 20


def frozen(value: T) -> T:
    """An equal value from which nothing can be reached that can be changed."""
    return _frozen(value)


def _frozen(value: Any) -> Any:
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if issubclass(kind, Struct):
        changes = {}
        for name in value.__struct_fields__:
            field = getattr(value, name)
            if type(field) not in _IMMUTABLE:
                changed = _frozen(field)
                if changed is not field:
                    changes[name] = changed
        return structs.replace(value, **changes) if changes else value
    if issubclass(kind, Mapping):
        return MappingProxyType({key: _frozen(item) for key, item in value.items()})
    if kind is tuple or kind is list:
        return tuple(map(_frozen, value))
    return value


def thawed(value: Any) -> Any:
    """Plain dicts and lists again, fit for JSON."""
    if isinstance(value, Mapping):
        return {key: thawed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [thawed(item) for item in value]
    return value


class FrozenObjects(Generic[T]):
    """Frozen copies of objects, kept by the identity of the original."""

    __slots__ = ("_freeze", "cache")

    def __init__(self, freeze: Callable[[Any], T]) -> None:
        self._freeze = freeze
        self.cache: BoundedCache[int, tuple[Any, T]] = BoundedCache(
            "frozen_objects", MAX_FROZEN_BYTES
        )

    def of(self, original: Any) -> T:
        known = self.cache.get(id(original))
        if known is None:
            # The original is kept as well: while it lives no other object gets its identity.
            known = original, self._freeze(original)
            self.cache.put(id(original), known, 2 * size_of(original, self.cache.largest))
        return known[1]


class PodView:
    """One pod, as it was when it was asked about."""

    __slots__ = ("_info", "_objects")

    def __init__(self, info: PodInfo, objects: FrozenObjects[Any]) -> None:
        self._info = info
        self._objects = objects

    @property
    def name(self) -> str:
        """The name of the pod."""
        return self._info.name

    @property
    def namespace(self) -> str:
        """The namespace of the pod."""
        return self._info.namespace

    @property
    def key(self) -> str:
        """`namespace/name`"""
        return self._info.key

    @property
    def uid(self) -> str:
        """The identity of the pod; another pod of the same name has another."""
        return self._info.uid

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of the pod."""
        return MappingProxyType(self._info.labels)

    @property
    def annotations(self) -> Mapping[str, str]:
        """Annotations of the pod."""
        return MappingProxyType(self._info.pod.metadata.annotations)

    @property
    def priority(self) -> int:
        """The priority; 0 if it has none."""
        return self._info.priority

    @property
    def node_name(self) -> str:
        """The node it runs on or is about to; empty while that is open."""
        return self._info.node_name

    @property
    def terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return self._info.terminating

    @property
    def requests(self) -> Mapping[str, int]:
        """Amounts it takes of its node: cpu in thousandths, everything else in whole units."""
        return MappingProxyType(self._info.requests)

    @property
    def pod(self) -> Pod:
        """The API object, with all that the scheduler reads of it."""
        whole: Pod = self._objects.of(self._info.pod)
        return whole

    def __repr__(self) -> str:
        return f"PodView({self.key!r})"


class NodesView:
    """Some nodes as columns: position i of every array is about the same node.

    A row is a node's place in the whole table (`rows[i]`). It stays while the node exists, so that
    arrays of one's own can be kept by row; see `NodeColumn`. Rows that are not `valid` are free.
    """

    __slots__ = ("_columns", "_frozen", "_nodes", "_objects")

    def __init__(
        self, nodes: Nodes, objects: FrozenObjects[Any], frozen_nodes: FrozenNodes
    ) -> None:
        self._nodes = nodes
        self._columns: dict[str, NDArray[Any]] = {}
        self._objects = objects
        self._frozen = frozen_nodes

    def __len__(self) -> int:
        return len(self._nodes.rows)

    @property
    def rows(self) -> NDArray[np.intp]:
        """[nodes]: by position, the row of the whole table."""
        return self._column("rows")

    @property
    def row_count(self) -> int:
        """The number of rows of the whole table."""
        return len(self._nodes.whole)

    @property
    def valid(self) -> Mask:
        """[nodes]: whether there is a node; False for a free row."""
        return self._column("valid")

    @property
    def unschedulable(self) -> Mask:
        """[nodes]: whether the node is cordoned."""
        return self._column("unschedulable")

    @property
    def pod_count(self) -> Amounts:
        """[nodes]: how many pods are on the node."""
        return self._column("pod_count")

    @property
    def max_pods(self) -> Amounts:
        """[nodes]: how many pods may be on the node."""
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
        """One resource, as pods ask for it; nothing everywhere, if no node has it."""
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
        """The name of the node at a position."""
        return self._nodes.name_of(position)

    def row_of(self, name: str) -> int | None:
        """The row of the whole table that has this node; None if there is none."""
        return self._nodes.row_of(name)

    def node(self, position: int) -> Node:
        """The API object."""
        node, name = self._nodes.node(position), self._nodes.name_of(position)
        known = self._frozen.get(name)
        if known is None or known[0] is not node:
            known = self._frozen[name] = node, frozen(node)
        return known[1]

    def pods(self, position: int) -> Sequence[PodView]:
        """Pods on the node at a position."""
        objects = self._objects
        return tuple([PodView(pod, objects) for pod in self._nodes.pods(position)])

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
    """Makes the views of one plugin, and keeps frozen objects between calls."""

    def __init__(self) -> None:
        self.objects: FrozenObjects[Any] = FrozenObjects(frozen)
        self._frozen_nodes: FrozenNodes = {}

    def pod(self, info: PodInfo) -> PodView:
        return PodView(info, self.objects)

    def nodes(self, nodes: Nodes) -> NodesView:
        if len(self._frozen_nodes) > 2 * nodes.total + SPARE_NODES:
            self._frozen_nodes.clear()
        return NodesView(nodes, self.objects, self._frozen_nodes)

    def item(self, item: object) -> Any:
        """A view of an object of an event: a pod, an API object, a plain dict."""
        if isinstance(item, PodInfo):
            return self.pod(item)
        return None if item is None else self.objects.of(item)


def info_of(view: PodView) -> PodInfo:
    return view._info


def nodes_of(view: NodesView) -> Nodes:
    return view._nodes


def whole_of(view: NodesView) -> NodesView:
    """All rows of the table that these nodes are in."""
    return NodesView(view._nodes.whole, view._objects, view._frozen)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view of the same memory that cannot be made writable again."""
    return np.asarray(memoryview(array).toreadonly())  # type: ignore[arg-type]
