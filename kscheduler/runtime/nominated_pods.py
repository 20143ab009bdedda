"""Which nominated pods a pod must leave room for, row by row.

Those of the same or a higher priority, and not the pod itself. Between two attempts few nominations
change, so what is known for a priority is kept, and only the nodes whose nominations changed are
looked at again.
"""

from __future__ import annotations

from kscheduler.caches import BoundedCache
from kscheduler.framework.handle import Nominator
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.nominated import Promised
from kscheduler.state.pod_info import PodInfo

# Pods that preempt are of few priorities; for each a few columns as long as the table are kept.
MAX_BYTES = 4 << 20
BYTES_PER_ROW = 64
NOBODY = ""


class Promises:
    def __init__(self, nominator: Nominator) -> None:
        self._nominator = nominator
        self._kept: BoundedCache[int, _Kept] = BoundedCache("nominated_rows", MAX_BYTES)
        self.caches = (self._kept,)

    def beside(self, pod: PodInfo, nodes: Nodes) -> Promised:
        """As they are seen by this pod; good until the next question."""
        kept = self._kept.get(pod.priority)
        if kept is None:
            kept = _Kept(self._nominator, pod.priority)
            self._kept.put(pod.priority, kept, BYTES_PER_ROW * len(nodes.whole))
        kept.look(pod.uid, nodes)
        return kept.promised


class _Kept:
    """What pods of one priority must leave room for."""

    promised: Promised

    def __init__(self, nominator: Nominator, priority: int) -> None:
        self._nominator = nominator
        self._priority = priority
        # Until when nominations and the rows of nodes were followed, and who asked last: nobody
        # stands in the own way.
        self._changes_seen = -1
        self._rows_seen = -1
        self._asked_by = NOBODY

    def look(self, uid: str, nodes: Nodes) -> None:
        changes, rows = self._nominator.changes, nodes.label_generation
        names = changes.since(self._changes_seen)
        if names is None or rows != self._rows_seen:
            self.promised = Promised(len(nodes.whole))
            names = set(self._nominator.nodes)
        elif uid != self._asked_by:
            node_of = self._nominator.node_of
            names.update(name for name in (node_of(self._asked_by), node_of(uid)) if name)
        elif not names:
            return
        for name in names:
            self._renew(name, uid, nodes)
        self._changes_seen, self._rows_seen, self._asked_by = changes.now, rows, uid

    def _renew(self, name: str, uid: str, nodes: Nodes) -> None:
        row = nodes.row_of(name)
        if row is not None:
            pods = self._nominator.pods_for_node(name)
            least = self._priority
            self.promised.put(
                row, [pod for pod in pods if pod.priority >= least and pod.uid != uid]
            )
