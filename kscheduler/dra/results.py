"""Results: an AllocationResult for each claim, from the devices that a search has picked.

Mirrors the second half of Allocate in structured/internal/*. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from kscheduler.api.core import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kscheduler.api.resource import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from kscheduler.dra.capacity import consumption
from kscheduler.dra.devices import Reach
from kscheduler.dra.errors import AllocationError
from kscheduler.dra.features import AllocatorFeatures, Implementation
from kscheduler.dra.search import Pick, Solution
from kscheduler.dra.shape import AllocationShape, Alternative

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"


class Results:
    """Writes results. `new_share_id` gives another id each time."""

    def __init__(self, features: AllocatorFeatures, new_share_id: Callable[[], str]) -> None:
        self._features = features
        self._new_share_id = new_share_id

    def of(
        self,
        shape: AllocationShape,
        claims: Sequence[ResourceClaim],
        node: Node,
        solution: Solution,
    ) -> list[AllocationResult]:
        """One result per claim; raises AllocationError for slices that cannot be told about."""
        results = []
        for number, claim in enumerate(claims):
            picks = solution.picks[number]
            chosen = [
                request.alternatives[index]
                for request, index in zip(
                    shape.claims[number].requests, solution.chosen[number], strict=True
                )
            ]
            devices = DeviceAllocationResult(
                results=tuple([self._device(pick) for pick in picks]),
                config=tuple(_configuration(claim, chosen)),
            )
            results.append(AllocationResult(devices, self._node_selector(claim, picks, node)))
        return results

    def _device(self, pick: Pick) -> DeviceRequestAllocationResult:
        alternative, device = pick.alternative, pick.candidate.device
        driver, pool, name = device.id
        result = DeviceRequestAllocationResult(
            request=alternative.full_name,
            driver=driver,
            pool=pool,
            device=name,
            admin_access=True if alternative.admin_access else None,
            tolerations=alternative.request.tolerations,
        )
        more: dict[str, object] = {}
        if self._features.device_binding_and_status and device.device.binding_conditions:
            more["binding_conditions"] = device.device.binding_conditions
        if self._features.device_binding_and_status and device.device.binding_failure_conditions:
            more["binding_failure_conditions"] = device.device.binding_failure_conditions
        if device.type.shared:
            more["share_id"] = self._new_share_id()
            # From the device itself, and not from its kind: the spelling is the device's.
            consumed = consumption(
                alternative.request.capacity,
                device.device.capacity,
                fractional=self._features.fractional_capacity_range,
            )
            if consumed:
                more["consumed_capacity"] = {one.name: str(one.amount) for one in consumed}
        if self._features.implementation is Implementation.EXPERIMENTAL:
            skipped = device.slice.slice.spec.skip_node_operations
            if skipped:
                more["skip_node_operations"] = skipped
        return replace(result, **more) if more else result

    def check(self, claims: Sequence[ResourceClaim], node: Node, solution: Solution) -> None:
        """Raises AllocationError if `of` would."""
        for claim, picks in zip(claims, solution.picks, strict=True):
            if any(pick.candidate.device.type.reach is Reach.UNSUPPORTED for pick in picks):
                self._node_selector(claim, picks, node)

    def _node_selector(
        self, claim: ResourceClaim, picks: Sequence[Pick], node: Node
    ) -> NodeSelector | None:
        """The nodes from which all devices can be reached; None for all nodes."""
        fields: list[NodeSelectorRequirement] = []
        expressions: list[NodeSelectorRequirement] = []
        for pick in picks:
            device = pick.candidate.device
            if device.type.reach is Reach.ONE_NODE:
                only = NodeSelectorRequirement("metadata.name", "In", (node.name,))
                return NodeSelector((NodeSelectorTerm(match_fields=(only,)),))
            within = device.slice.slice.spec
            where = device.device if within.per_device_node_selection else within
            terms = where.node_selector.node_selector_terms if where.node_selector else ()
            if device.type.reach is Reach.UNSUPPORTED:
                raise AllocationError(
                    f"create NodeSelector for claim {claim.name}: "
                    f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
                )
            for term in terms:
                _add_new(term.match_fields, fields)
                _add_new(term.match_expressions, expressions)
        if not fields and not expressions:
            return None
        return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def _add_new(some: Iterable[NodeSelectorRequirement], to: list[NodeSelectorRequirement]) -> None:
    for one in some:
        if not any(
            (one.key, one.operator, set(one.values)) == (old.key, old.operator, set(old.values))
            for old in to
        ):
            to.append(one)


def _configuration(
    claim: ResourceClaim, chosen: Sequence[Alternative]
) -> list[DeviceAllocationConfiguration]:
    """Of the classes, each once, and then of the claim; what is for all requests names none."""
    found: list[DeviceAllocationConfiguration] = []
    classes: dict[str, DeviceClass] = {}
    served: dict[str, list[str]] = {}
    for alternative in chosen:
        assert alternative.device_class is not None
        name = alternative.device_class.name
        classes[name] = alternative.device_class
        served.setdefault(name, []).append(alternative.full_name)
    for name, device_class in classes.items():
        requests = tuple(served[name])
        found += [
            DeviceAllocationConfiguration(FROM_CLASS, requests, config.opaque)
            for config in device_class.spec.config
        ]
    spec = claim.spec.devices
    # By request: its name, and that of the subrequest it got.
    names = [{one.name, got.full_name} for one, got in zip(spec.requests, chosen, strict=True)]
    found += [
        DeviceAllocationConfiguration(FROM_CLAIM, config.requests, config.opaque)
        for config in spec.config
        if not config.requests or any(one & set(config.requests) for one in names)
    ]
    return [
        replace(one, requests=())
        if one.requests and all(some & set(one.requests) for some in names)
        else one
        for one in found
    ]
