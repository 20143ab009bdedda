"""Nodes one by one, for plugins that are asked about one at a time.

A decision changes one node, and the next one asks about thousands. So each property of a node is
worked out when it is first read, and kept until the node or the pods on it change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from sys import intern
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from kscheduler.api.core import Node
from kscheduler.framework.views import NodesView, PodView, nodes_of, whole_of
from kscheduler.state.change_log import ChangeLog
from kscheduler.state.nodes_view import Nodes

V = TypeVar("V")


class NodeInfo:
    """One node with what runs on it, for reading only."""

    __slots__ = ("_row", "_table", "allocatable", "labels", "name", "node", "pods", "requested")

    _table: _Table
    _row: int
    name: str
    node: Node
    labels: Mapping[str, str]
    pods: Sequence[PodView]
    # By resource: cpu in thousandths, everything else in units; `pods` is how many may run.
    allocatable: Mapping[str, int]
    # What the pods on the node ask for, in the same units.
    requested: Mapping[str, int]

    def __init__(self, table: _Table, row: int) -> None:
        _keep(self, "_table", table)
        _keep(self, "_row", row)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name} of a node is read-only")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name} of a node is read-only")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Called for a property that was not read yet."""
            read = _READ.get(name)
            if read is None:
                raise AttributeError(f"a node has no {name}")
            value = read(self._table, self._row)
            _keep(self, name, value)
            return value


_keep = object.__setattr__


class _ReadOnly(dict[str, V]):
    """Like a MappingProxyType of a dict, which takes half as long again to look something up."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def _refuse(self, *_: object, **__: object) -> NoReturn:
            raise TypeError("what a node has is read-only")

        __setitem__ = __delitem__ = __ior__ = _refuse
        clear = pop = popitem = setdefault = update = _refuse


class _Table:
    """All rows of the table under question, which may be a what-if; `whole` is behind `shown`."""

    __slots__ = ("shown", "whole")

    whole: Nodes
    shown: NodesView


class NodeInfos:
    """NodeInfos by row; those of rows that changed since they were last shown are made anew."""

    def __init__(self) -> None:
        self._table = _Table()
        # [rows] of NodeInfo; an array of objects, because `take` picks out thousands at once.
        self._infos = np.empty(0, object)
        self._resources: tuple[str, ...] = ()
        self._log: ChangeLog[int] | None = None
        self._read = 0

    def of(self, view: NodesView) -> Sequence[NodeInfo]:
        """By position."""
        nodes = nodes_of(view)
        log = nodes.changed_rows
        # A what-if has no log of changes: what is worked out for it is not kept.
        table = _Table() if log is None else self._table
        table.whole, table.shown = nodes.whole, whole_of(view)
        if log is None:
            return [NodeInfo(table, row) for row in nodes.rows.tolist()]
        self._renew(nodes.whole, log)
        infos = self._infos if nodes.whole is nodes else self._infos.take(nodes.rows)
        return infos.tolist()

    def _renew(self, whole: Nodes, log: ChangeLog[int]) -> None:
        """May be interrupted at any time by the watchdog: then all of it is done again."""
        resources, table = tuple(whole.resources), self._table
        same = log is self._log and resources == self._resources
        changed = log.since(self._read) if same else None
        if changed is None:
            size = len(whole)
            self._infos = np.fromiter((NodeInfo(table, row) for row in range(size)), object, size)
        else:
            for row in changed:
                self._infos[row] = NodeInfo(table, row)
        self._read, self._resources, self._log = log.now, resources, log


def _labels(node: Node) -> Mapping[str, str]:
    """With one string for all nodes that have the same: equal strings spread over memory cost a
    plugin that compares thousands of them more than the comparison itself.
    """
    labels = node.metadata.labels
    return _ReadOnly({intern(key): intern(value) for key, value in labels.items()})


def _amounts(columns: Mapping[str, int], cells: Any, pods: Any) -> Mapping[str, int]:
    numbers = cells.tolist()
    amounts = {name: numbers[column] for name, column in columns.items()}
    amounts["pods"] = int(pods)
    return _ReadOnly(amounts)


_READ: dict[str, Callable[[_Table, int], Any]] = {
    "name": lambda table, row: table.whole.name_of(row),
    "node": lambda table, row: table.shown.node(row),
    "labels": lambda table, row: _labels(table.whole.node(row)),
    "pods": lambda table, row: tuple(table.shown.pods(row)),
    "allocatable": lambda table, row: _amounts(
        table.whole.resources, table.whole.allocatable[row], table.whole.max_pods[row]
    ),
    "requested": lambda table, row: _amounts(
        table.whole.resources, table.whole.requested[row], table.whole.pod_count[row]
    ),
}
