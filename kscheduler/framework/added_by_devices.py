"""AddedByDevices: what devices add to a pod's requests, from Filter to the moment it is assumed."""

from __future__ import annotations

import msgspec

from kscheduler.api.core import NodeAllocatableResourceClaimStatus

ClaimStatuses = tuple[NodeAllocatableResourceClaimStatus, ...]


class AddedByDevices(msgspec.Struct):
    """By node, the `nodeAllocatableResourceClaimStatuses` of the pod if it went there.

    In the memory of an attempt only with the gate DRANodeAllocatableResources; then a pod is
    assumed with what is here for its node, whatever its status said before. What-ifs share it.
    """

    by_node: dict[str, ClaimStatuses] = msgspec.field(default_factory=dict)

    def on(self, node: str) -> ClaimStatuses:
        return self.by_node.get(node, ())
