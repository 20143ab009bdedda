"""Filter: the nodes that can take the pod.

A plugin sees all nodes at once. Each node is charged to the first plugin that rejects it, with all
of that plugin's reasons; later plugins are not asked about it. The table stays whole while most of
it is in play (its columns are then views, not copies) and is narrowed once few nodes are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np

from kscheduler import logs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.in_tree import FilterPlugin
from kscheduler.framework.status import Charge, Code, Mask, Rejection, Rows, Status
from kscheduler.metrics import Counter, Metrics
from kscheduler.runtime.plugin_calls import PluginCalls, calls_plugins
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

_count: Callable[[Mask], int] = np.count_nonzero  # five times faster than any() on a mask

# The lowest -v at which a plugin says something about a node it rejects.
REJECTED_NODES_FROM = 4
# Copying the columns of a few nodes pays when the table is at least this long and sparse.
NARROW_FROM = 256
NARROW_BELOW = 8


class _Hit(NamedTuple):
    """Rows that one sentence of a plugin speaks against."""

    plugin: str
    rows: Rows
    mask: Mask
    code: Code
    reason: str


class Filtered:
    """The rows that passed, and for the others the plugin that rejected them and why.

    Rejections are kept as masks, and become Charges when they are read: most pods find a node, and
    then nothing reads them.
    """

    __slots__ = ("_hits", "count", "errors", "passed", "rows")

    def __init__(self, rows: Rows, passed: Mask | None = None, count: int | None = None) -> None:
        """`passed` marks some of these rows, None stands for all of them."""
        self.rows = rows
        self.passed = passed
        self.count = len(rows) if count is None else count
        # Plugins that could not judge a row; the reason is the whole text.
        self.errors: list[Charge] = []
        self._hits: list[_Hit] = []

    @property
    def feasible(self) -> Rows:
        return self.rows if self.passed is None else self.rows[self.passed]

    @property
    def has_charges(self) -> bool:
        return bool(self._hits)

    @property
    def charges(self) -> list[Charge]:
        return [
            Charge(plugin, rows[mask], code, reason)
            for plugin, rows, mask, code, reason in self._hits
        ]

    def marked(
        self, table: Rows, within: Rows | None = None
    ) -> Iterator[tuple[str, Code, str, Mask]]:
        """Plugin, code and reason of the charges against rows of the table, or some of them, with a
        mask over the table, to be read at once.
        """
        is_within = None
        if within is not None:
            is_within = np.zeros(len(table), np.bool_)
            is_within[within] = True
        for plugin, own, mask, code, reason in self._hits:
            charged = mask
            if own is not table:
                charged = np.zeros(len(table), np.bool_)
                charged[own[mask]] = True
            yield plugin, code, reason, charged if is_within is None else charged & is_within

    def charge(self, plugin: str, rows: Rows, mask: Mask, code: Code, reason: str) -> None:
        """The marked ones of these rows did not pass."""
        if code.rejected:
            self._hits.append(_Hit(plugin, rows, mask, code, reason))
        else:
            text = f'running "{plugin}" filter plugin: {reason}'
            self.errors.append(Charge(plugin, rows[mask], Code.ERROR, text))

    def also(self, other: Filtered) -> None:
        """Take over what was found out about rows that are not ours."""
        self._hits += other._hits
        self.errors += other.errors


class _Call(NamedTuple):
    name: str
    ask: Callable[[CycleState, PodInfo, Nodes], Iterable[Rejection]]
    evaluations: Counter
    # Called once per node it is shown, so it is shown only those that are still feasible.
    per_node: bool
    # Judges each node by itself.
    local: bool
    # Says in the log, for each node that the plugin rejected, what its reason leaves out.
    log_rejected: Callable[[CycleState, PodInfo, Nodes], None] | None


class Filtering:
    """Runs the Filter plugins."""

    def __init__(self, profile: str, metrics: Metrics, plugins: Sequence[FilterPlugin]) -> None:
        self._point = PluginCalls("Filter", profile, metrics)
        self._calls = [
            _Call(
                plugin.name,
                plugin.filter,
                self._point.evaluations(plugin.name),
                getattr(plugin, "per_node", False),
                getattr(plugin, "local", False),
                getattr(plugin, "log_rejected", None),
            )
            for plugin in plugins
        ]
        self._node_by_node = [plugin.name for plugin in self._calls if plugin.per_node]

    def is_local(self, cycle: CycleState) -> bool:
        """Whether all plugins that are not skipped judge each node by itself."""
        return all(plugin.local or plugin.name in cycle.skip_filter for plugin in self._calls)

    def is_node_by_node(self, cycle: CycleState) -> bool:
        """Whether a plugin that is not skipped is called once per node."""
        return any(name not in cycle.skip_filter for name in self._node_by_node)

    def observe(self, status: Status | None, started: float) -> None:
        """The search for feasible nodes is over, nominated pods included."""
        self._point.observe(status, started)

    @calls_plugins("Filter", by="plugin")
    def run_filter(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, within: Mask | None = None
    ) -> Filtered:
        """Judge all these nodes, or those of them that `within` marks.

        `alive` is [nodes]: nodes that no plugin has rejected so far. A plugin's answers, one mask
        per reason, may overlap; each is counted among the nodes that were alive before the plugin.
        """
        alive = nodes.valid if within is None else within
        left, size = _count(alive), len(nodes)
        result = Filtered(nodes.rows)
        skip, sampled = cycle.skip_filter, cycle.sampled
        verbose = bool(log.v(REJECTED_NODES_FROM))
        for plugin in self._calls:
            if plugin.name in skip:
                continue
            if not left:
                break
            if left < size and (
                plugin.per_node or (left * NARROW_BELOW < size and size >= NARROW_FROM)
            ):
                nodes, size = nodes.take(alive), left
                alive = np.ones(left, np.bool_)
            plugin.evaluations.value += left
            started = perf_counter() if sampled else 0.0
            remaining, worst = alive, Code.SUCCESS
            try:
                for mask, code, reason in plugin.ask(cycle, pod, nodes):
                    if not _count(mask):
                        continue
                    hit = mask & alive
                    if not _count(hit):
                        continue
                    remaining = remaining & ~hit
                    worst = max(worst, code)
                    result.charge(plugin.name, nodes.rows, hit, code, reason)
            except Exception as error:
                status = self._point.exception_status(plugin.name, error)
                result.charge(plugin.name, nodes.rows, alive, Code.ERROR, status.message)
                remaining, worst = np.zeros_like(alive), Code.ERROR
            else:
                if verbose and plugin.log_rejected is not None and remaining is not alive:
                    plugin.log_rejected(cycle, pod, nodes.take(alive & ~remaining))
            if sampled:
                self._point.observe_plugin(plugin.name, worst, started)
            if remaining is not alive:
                alive, left = remaining, _count(remaining)
        result.rows, result.count = nodes.rows, left
        result.passed = None if left == size else alive
        return result
