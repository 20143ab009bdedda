"""Node leases: every node says it is alive, a few at a time."""

from __future__ import annotations

import heapq
import time

from kscheduler.api.timestamps import format_micro_time
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import LEASES
from kscheduler.sandbox.store import Object

NAMESPACE = "kube-node-lease"
RENEW_SECONDS = 10.0
DURATION_SECONDS = 40
_SPREAD = 97


class NodeLeases:
    """Renews leases in turn so that each is renewed once per period and the load stays even."""

    def __init__(self, registry: Registry, renew_seconds: float = RENEW_SECONDS) -> None:
        self._registry = registry
        self._renew_seconds = renew_seconds
        self._next: dict[str, float] = {}
        self._turns: list[tuple[float, str]] = []  # a heap; entries not in `_next` are void

    def add(self, node: str, uid: str) -> None:
        if node not in self._next:
            # Spread by arrival: nodes that come together do not stay together.
            share = (1 + len(self._next) % _SPREAD) / _SPREAD
            self._schedule(node, time.monotonic() + share * self._renew_seconds)
            self._write(node, uid)

    def pause(self, node: str) -> None:
        """Let the lease of a node run out."""
        self._next.pop(node, None)

    def remove(self, node: str) -> None:
        self.pause(node)
        collection = self._registry.collection(LEASES)
        if collection.get((NAMESPACE, node)) is not None:
            collection.remove((NAMESPACE, node))

    def renew_due(self, now: float) -> None:
        while self._turns and self._turns[0][0] <= now:
            moment, node = heapq.heappop(self._turns)
            if self._next.get(node) == moment:
                self._schedule(node, now + self._renew_seconds)
                self._write(node)

    def _schedule(self, node: str, moment: float) -> None:
        self._next[node] = moment
        heapq.heappush(self._turns, (moment, node))

    def _write(self, node: str, uid: str = "") -> None:
        key = (NAMESPACE, node)
        stored = self._registry.collection(LEASES).get(key)
        moment = format_micro_time(time.time())
        if stored is None:
            self._registry.create(LEASES, NAMESPACE, _new_lease(node, uid, moment))
            return
        lease = stored.decode()
        lease["spec"]["renewTime"] = moment
        self._registry.replace(LEASES, key, lease)


def _new_lease(node: str, uid: str, moment: str) -> Object:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
    return {
        "metadata": {"name": node, "ownerReferences": [owner] if uid else []},
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": DURATION_SECONDS,
            "renewTime": moment,
        },
    }
