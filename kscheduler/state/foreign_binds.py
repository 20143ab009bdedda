"""Foreign binds: pods that somebody else put on nodes while this scheduler leads.

Two schedulers that share nodes decide on what each has seen, and either may be late. A bind by
another is therefore numbered as it is seen, and kept by node: a placement that is on its way to the
API server is looked at again if its node has a higher number than there was when it was decided,
and only then. Where there is no rival, no number ever changes and nothing is kept.
"""

from __future__ import annotations


class ForeignBinds:
    """Numbers of foreign binds, the last one by node; at most one entry per node there is."""

    def __init__(self) -> None:
        # Off until this instance leads: until then all binds are somebody else's.
        self.noticed = False
        # The number of the latest one anywhere; 0 before the first.
        self.latest = 0
        self._latest_on: dict[str, int] = {}

    def add(self, node: str) -> None:
        self.latest += 1
        self._latest_on[node] = self.latest

    def any_since(self, number: int, node: str) -> bool:
        """Whether this node has got a foreign pod since `latest` was this number."""
        return self.latest != number and self._latest_on.get(node, 0) > number

    def forget_node(self, node: str) -> None:
        self._latest_on.pop(node, None)
