"""Claims of one pod during one attempt, and what Filter and Reserve find out about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kscheduler.api.node_selector import NodeSelectorMatcher
from kscheduler.api.resource import AllocationResult, ResourceClaim
from kscheduler.plugins.dynamic_resources.extended_resources import ExtendedResources, Mappings

if TYPE_CHECKING:
    from kscheduler.dra.shape import AllocationShape


class Variant(msgspec.Struct, frozen=True):
    """Claims to be allocated on some of the nodes: those of the pod, and perhaps the special one.

    The special claim asks for different things where nodes have some of the resources themselves.
    """

    claims: tuple[ResourceClaim, ...]
    shape: AllocationShape
    # The special claim with its requests, and the requests that containers use.
    special: ResourceClaim | None = None
    mappings: Mappings = ()


class PodClaims(msgspec.Struct):
    """State of one attempt. What-ifs share it: pods that are added or removed change nothing.

    `claims` are the pod's own; PreBind replaces them by what it has written.
    """

    claims: list[ResourceClaim] = msgspec.field(default_factory=list)
    # The claim for extended resources; PreBind creates it.
    special: ResourceClaim | None = None
    asked: ExtendedResources | None = None
    # Node selectors of the allocated ones, by position; None where every node will do.
    selectors: dict[int, NodeSelectorMatcher | None] = msgspec.field(default_factory=dict)
    # By the resources that devices serve.
    variants: dict[frozenset[str], Variant | None] = msgspec.field(default_factory=dict)
    is_filtered: bool = False
    # From Reserve on: allocations to be written, by the uid of the claim in flight.
    allocations: dict[str, AllocationResult] = msgspec.field(default_factory=dict)
    mappings: Mappings = ()
    # A claim whose write was called off, or got no answer.
    unanswered: ResourceClaim | None = None

    @property
    def is_empty(self) -> bool:
        return not self.claims and self.special is None

    @property
    def all(self) -> list[ResourceClaim]:
        """The pod's own claims, then the special one."""
        return self.claims if self.special is None else [*self.claims, self.special]

    @property
    def unallocated(self) -> list[ResourceClaim]:
        """The pod's own claims that have no devices yet."""
        return [claim for claim in self.claims if claim.status.allocation is None]

    @property
    def has_to_allocate(self) -> bool:
        return any(claim.status.allocation is None for claim in self.all)


# State of all pods that need no devices; nothing is ever put into it.
NO_CLAIMS = PodClaims()
