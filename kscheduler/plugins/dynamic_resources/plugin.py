"""DynamicResources: a pod goes where its claims have devices, or can get some.

Mirrors pkg/scheduler/framework/plugins/dynamicresources, without pod groups: pods of a group wait
for each other's allocations like any others. Differs: the time limit of a search for devices counts
for all nodes together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

import numpy as np

from kscheduler import logs
from kscheduler.api.core import Pod
from kscheduler.api.node_selector import NodeSelectorMatcher, compile_node_selector
from kscheduler.api.requests import is_resize_deferred
from kscheduler.api.resource import AllocationResult, ResourceClaim
from kscheduler.api.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from kscheduler.dra.device_manager import device_manager_of
from kscheduler.dra.errors import AllocationError
from kscheduler.errors import KschedulerError
from kscheduler.extension_points import Point
from kscheduler.framework.added_by_devices import AddedByDevices, ClaimStatuses
from kscheduler.framework.cluster_event import EventWithHint
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.handle import Handle
from kscheduler.framework.in_tree import MAX_DETAILS, Detail
from kscheduler.framework.plugin import PostFilterResult, PreFlight
from kscheduler.framework.status import (
    ALL_ZERO,
    SKIP,
    Code,
    Diagnosis,
    Mask,
    Rejection,
    Rows,
    Scores,
    Status,
    failed,
    rejected,
    rejected_for_good,
    unresolvable,
)
from kscheduler.plugins.dynamic_resources.args import (
    DEFAULT_BINDING_TIMEOUT,
    DynamicResourcesArgs,
    has_binding_conditions,
)
from kscheduler.plugins.dynamic_resources.claims import (
    claims_of,
    lacking_devices,
    score_of,
    skips_node_operations,
)
from kscheduler.plugins.dynamic_resources.events import ClaimEvents
from kscheduler.plugins.dynamic_resources.extended_resources import (
    Mappings,
    extended_resources_of,
    is_in_memory,
    requests_and_mappings,
    served_by_devices,
    special_claim_for,
    with_requests,
    without_others,
)
from kscheduler.plugins.dynamic_resources.node_allocatable import NodeAllocatable
from kscheduler.plugins.dynamic_resources.pre_bind import ClaimWriter, DeviceBindingError, is_ready
from kscheduler.plugins.dynamic_resources.state import NO_CLAIMS, PodClaims, Variant
from kscheduler.plugins.helper.normalize_score import share_of_best
from kscheduler.state.nodes import feature_bits
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)
pre_filter_log = logs.logger(__name__, "PreFilter.DynamicResources")
post_filter_log = logs.logger(__name__, "PostFilter.DynamicResources")

NOT_PREPARED = "not found"
NOT_SIGNABLE = "pods with dra resource claims are not signable"
CANNOT_ALLOCATE = "cannot allocate all claims"
INVALID_POOLS = "invalid resource pools were encountered"
NOT_AVAILABLE = "resourceclaim not available on the node"
CANNOT_FIT = "cannot fit resource"
LEFT_BEHIND = "cannot schedule extended resource claim"
DEALLOCATED = "deallocation of ResourceClaim completed"
DELETED = "deletion of ResourceClaim completed"
NOT_ALLOCATED = "claim allocation not found for node"

OPTIONAL_NODE_OPERATIONS = feature_bits(["DRAOptionalNodeOperations"])

ON_ALL_NODES: frozenset[str] = frozenset()


@plugin(
    args=DynamicResourcesArgs,
    reads=(RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES, DEVICE_TAINT_RULES),
    gate="DynamicResourceAllocation",
    weight=2,
    also_at=(Point.POD_GROUP_POST_FILTER,),
)
class DynamicResources:
    name = "DynamicResources"

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        gates = handle.gates
        self._handle = handle
        self._devices = device_manager_of(handle)
        self._passes_resizes = gates.enabled("InPlacePodVerticalScalingSchedulerPreemption")
        self._accept_group = gates.enabled("DRAWorkloadResourceClaims")
        self._prioritizes = gates.enabled("DRAPrioritizedList")
        self._waits_for_devices = has_binding_conditions(gates)
        self._node_allocatable: NodeAllocatable | None = None
        if gates.enabled("DRANodeAllocatableResources"):
            self._node_allocatable = NodeAllocatable(
                handle, self._devices, accept_group=self._accept_group
            )
        self._filter_seconds = 0.0
        if args.filter_timeout is not None and gates.enabled("DRASchedulerFilterTimeout"):
            self._filter_seconds = args.filter_timeout.seconds
        self._writer = ClaimWriter(
            handle,
            self._devices.claims,
            accept_group=self._accept_group,
            waits_for_devices=self._waits_for_devices,
            binding_timeout=(args.binding_timeout or DEFAULT_BINDING_TIMEOUT).seconds,
        )
        self._events = ClaimEvents(
            self._devices.claims, handle.listers.lister(Pod), accept_group=self._accept_group
        )

    def events_to_register(self) -> Sequence[EventWithHint]:
        return self._events.registrations()

    def sign(self, pod: PodInfo) -> Mapping[str, object] | Status:
        return rejected(NOT_SIGNABLE) if pod.pod.spec.resource_claims else {}

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if not pod.pod.spec.resource_claims:
            return None
        try:
            claims_of(pod.pod, self._devices.claims, accept_group=self._accept_group)
        except KschedulerError as error:
            return rejected_for_good(str(error))
        return None

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if self._passes_resizes and is_resize_deferred(pod.pod):
            return SKIP
        cycle.put(NO_CLAIMS)
        if self._node_allocatable is not None:
            cycle.put(AddedByDevices())
        own, v = pod.pod.spec.resource_claims, pre_filter_log.v(5)
        if not own and not pod.prefixed_requests and not v:
            return SKIP
        claims: list[ResourceClaim] = []
        if own:
            try:
                claims = claims_of(pod.pod, self._devices.claims, accept_group=self._accept_group)
            except KschedulerError as error:
                return rejected_for_good(str(error))
        if v:
            refs = [logs.ref(claim) for claim in claims]
            v.info("pod resource claims", pod=logs.ref(pod.pod), resourceclaims=refs)
        asked = extended_resources_of(pod, self._devices.classes)
        if not claims and asked is None:
            return SKIP
        state = PodClaims()
        cycle.put(state)
        for index, claim in enumerate(claims):
            status = self._check(state, index, claim, pod)
            if status is not None:
                return status
        if asked is not None:
            state.asked = asked
            state.special = self._devices.claims.special_claim_of(pod.pod) or special_claim_for(
                pod.pod
            )
        state.claims = claims
        return None

    def _check(
        self, state: PodClaims, index: int, claim: ResourceClaim, pod: PodInfo
    ) -> Status | None:
        """Prepare one claim of the pod's own, or say why the pod cannot be placed anywhere."""
        if claim.status.allocation is not None:
            selector = claim.status.allocation.node_selector
            compiled = None if selector is None else compile_node_selector(selector)
            if compiled is not None and compiled.error is not None:
                return failed(compiled.error)
            state.selectors[index] = compiled
            return None
        if self._devices.claims.is_in_flight(claim.uid):
            self._devices.claims.await_allocation(claim.uid, pod)
            return rejected_for_good(
                f"resource claim {claim.key} is in the process of being allocated"
            )
        for request in claim.spec.devices.requests:
            where = f"resource claim {claim.key}, request {request.name}"
            classes: list[tuple[str, str]] = []
            if request.exactly is not None:
                classes = [(request.name, request.exactly.device_class_name)]
            elif not request.first_available:
                return rejected_for_good(f"{where}: unknown request type")
            elif not self._prioritizes:
                return rejected_for_good(
                    f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled"
                )
            else:
                classes = [
                    (f"{request.name}/{one.name}", one.device_class_name)
                    for one in request.first_available
                ]
            for name, of_class in classes:
                if not of_class:
                    return failed(f"request {name}: unsupported request type")
                if self._devices.classes.get(of_class) is None:
                    return rejected_for_good(
                        f"request {name}: device class {of_class} does not exist"
                    )
        return None

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        state = cycle.get(PodClaims)
        if state is None:
            yield Rejection(nodes.valid, Code.ERROR, NOT_PREPARED)
            return
        state.is_filtered = True
        if state.special is not None and state.special.spec.devices.requests:
            yield unresolvable(nodes.valid, LEFT_BEHIND)
            return
        # Each node is rejected for the first reason only.
        passed = nodes.valid
        lacking = None if state.asked is None else without_others(state.asked, nodes)
        if lacking is not None:
            yield unresolvable(lacking, CANNOT_FIT)
            passed = passed & ~lacking
        added = cycle.get(AddedByDevices)
        adding = self._node_allocatable
        if adding is not None and adding.is_needed:
            for index, reason in adding.shared_claims(state.claims, pod.pod):
                beyond = self._out_of_reach(state, index, nodes)
                within = passed if beyond is None else passed & ~beyond
                yield unresolvable(within, reason)
                passed = passed & ~within
        deadline = None
        if self._filter_seconds:
            deadline = self._handle.clock() + self._filter_seconds
        for served, variant in self._variants(state, pod, nodes):
            if variant is None:
                continue
            within = passed if served is None else passed & served
            verdicts = self._devices.allocator.verdicts(
                variant.shape, variant.claims, nodes, within, deadline
            )
            passed = passed & ~(verdicts.cannot_allocate | verdicts.invalid_pools)
            yield unresolvable(verdicts.cannot_allocate & within, CANNOT_ALLOCATE)
            yield unresolvable(verdicts.invalid_pools & within, INVALID_POOLS)
            for text, positions in _by_text(verdicts.errors).items():
                mask = np.zeros(len(nodes), np.bool_)
                mask[positions] = True
                yield Rejection(mask & within, Code.ERROR, text)
                passed = passed & ~mask
        if adding is not None and added is not None and adding.is_needed:
            for served, variant in self._variants(state, pod, nodes):
                within = passed if served is None else passed & served
                for short in adding.rejections(added, state, variant, pod.pod, nodes, within):
                    yield short
                    passed = passed & ~short.mask
        for unavailable in self._unavailable(state, nodes).values():
            yield unresolvable(unavailable & passed, NOT_AVAILABLE)
            passed = passed & ~unavailable

    def describe_rejected(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, reason: str
    ) -> Iterator[Detail]:
        """The requests that lack devices, with the numbers there are, or the claims out of reach.

        Nodes that look alike are one: of more looks than MAX_DETAILS, the most common are told.
        """
        state = cycle.get(PodClaims)
        if state is None:
            return
        if reason == NOT_AVAILABLE:
            for index, mask in islice(self._unavailable(state, nodes).items(), MAX_DETAILS):
                beyond = int(np.count_nonzero(mask))
                if beyond:
                    key = state.claims[index].key
                    yield Detail(f"devices of resource claim {key} are elsewhere", beyond)
        elif reason == CANNOT_ALLOCATE:
            told: dict[str, int] = {}
            for served, variant in self._variants(state, pod, nodes):
                if variant is not None:
                    some = nodes if served is None else nodes.take(served)
                    found = self._devices.allocator.inventories(variant.shape, some, MAX_DETAILS)
                    for count, devices in found:
                        for text in lacking_devices(variant, devices):
                            told[text] = told.get(text, 0) + count
            yield from (Detail(*one) for one in islice(told.items(), MAX_DETAILS))

    def _variants(
        self, state: PodClaims, pod: PodInfo, nodes: Nodes
    ) -> Iterator[tuple[Mask | None, Variant | None]]:
        """The claims to allocate, by the nodes on which they are the same; None: nothing to."""
        if state.asked is None:
            yield None, self._variant(state, pod, ON_ALL_NODES)
            return
        for served in served_by_devices(state.asked, nodes):
            yield served.nodes, self._variant(state, pod, served.resources)

    def _variant(self, state: PodClaims, pod: PodInfo, resources: frozenset[str]) -> Variant | None:
        if resources in state.variants:
            return state.variants[resources]
        claims, special = state.unallocated, None
        mappings: Mappings = ()
        if resources and state.special is not None and state.asked is not None:
            class_of = {name: state.asked.by_devices[name] for name in resources}
            requests, mappings = requests_and_mappings(pod.pod, class_of)
            special = with_requests(state.special, requests)
            claims = [*claims, special]
        variant = None
        if claims:
            shape = self._devices.allocator.shape_of(claims)
            variant = Variant(tuple(claims), shape, special, mappings)
        state.variants[resources] = variant
        return variant

    def _unavailable(self, state: PodClaims, nodes: Nodes) -> Mapping[int, Mask]:
        """By position of allocated claims, the nodes where they cannot be used; others are left
        out.
        """
        found: dict[int, Mask] = {}
        for index in state.selectors:
            if state.claims[index].status.allocation is None:
                continue
            if self._is_lost(state.claims[index]):
                found[index] = nodes.valid
                continue
            beyond = self._out_of_reach(state, index, nodes)
            if beyond is not None:
                found[index] = beyond
        return found

    def _out_of_reach(self, state: PodClaims, index: int, nodes: Nodes) -> Mask | None:
        """Nodes from which devices of an allocated claim cannot be used; None if there are none."""
        allocation, selector = state.claims[index].status.allocation, state.selectors[index]
        masks = []
        if selector is not None:
            masks.append(~_selected(selector, nodes))
        if allocation is not None and skips_node_operations(allocation):
            bit = np.uint64(OPTIONAL_NODE_OPERATIONS)
            masks.append((nodes.declared_features & bit) == 0)
        return np.logical_or.reduce(masks) & nodes.valid if masks else None

    def _is_lost(self, claim: ResourceClaim) -> bool:
        """Whether devices of the claim failed to become ready, or took too long."""
        if not self._waits_for_devices:
            return False
        try:
            return not is_ready(claim) and self._writer.is_overdue(claim)
        except DeviceBindingError:
            return True

    def post_filter(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """A claim that keeps the pod from every node loses its devices, if nobody else uses it."""
        nothing = PostFilterResult(Status(Code.UNSCHEDULABLE))
        state = cycle.get(PodClaims)
        if self._passes_resizes and is_resize_deferred(pod.pod):
            return nothing
        if state is None:
            return PostFilterResult(failed(NOT_PREPARED))
        if state.is_empty:
            if v := post_filter_log.v(5):
                v.info("No new claims to deallocate", pod=logs.ref(pod.pod))
            return nothing
        in_the_way = self._in_the_way(state, pod.pod, diagnosis)
        if in_the_way:
            claim = self._handle.rng.choice(in_the_way)
            work, done = partial(self._writer.deallocate, claim, pod.pod), DEALLOCATED
        elif state.special is not None and not is_in_memory(state.special):
            work, done = partial(self._writer.delete, state.special), DELETED
        else:
            return nothing

        async def prepared() -> PostFilterResult:
            try:
                await work()
            except KschedulerError as error:
                return PostFilterResult(failed(error))
            return PostFilterResult(rejected(done))

        return PostFilterResult(nothing.status, preparation=prepared)

    def _in_the_way(self, state: PodClaims, pod: Pod, diagnosis: Diagnosis) -> list[ResourceClaim]:
        """Claims of the pod's own without which some node would not have been rejected."""
        rows: list[Rows] = [
            charge.rows
            for charge in diagnosis.charges
            if charge.plugin == self.name and charge.reason == NOT_AVAILABLE
        ]
        if not rows:
            return []
        nodes = self._handle.snapshot().take(np.concatenate(rows))
        found = []
        for index, mask in self._unavailable(state, nodes).items():
            claim = state.claims[index]
            users = {one.uid for one in claim.status.reserved_for}
            if mask.any() and users <= {pod.uid}:
                found.append(claim)
        return found

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        state = cycle.get(PodClaims)
        if (
            state is None
            or state is NO_CLAIMS
            or not self._prioritizes
            or not state.has_to_allocate
        ):
            return ALL_ZERO
        scores = np.zeros(len(nodes), np.int64)
        fixed = sum(
            score_of(claim, claim.status.allocation)
            for claim in state.claims
            if claim.status.allocation is not None
        )
        for served, variant in self._variants(state, pod, nodes):
            if variant is None:
                continue
            verdicts = self._devices.allocator.verdicts(
                variant.shape, variant.claims, nodes, served, None
            )
            points = verdicts.scores + fixed
            scores = points if served is None else np.where(served, points, scores)
        return scores

    def normalize(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        return share_of_best(scores)

    def reserve(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None:
        state = cycle.get(PodClaims)
        if state is None:
            return failed(NOT_PREPARED)
        if not state.has_to_allocate:
            return None
        nodes = self._handle.snapshot()
        row = nodes.row_of(node)
        if not state.is_filtered or row is None:
            return failed(NOT_ALLOCATED) if state.unallocated else None
        nodes = nodes.take(np.array([row]))
        variant = next(one for served, one in self._variants(state, pod, nodes) if _holds(served))
        if variant is None:
            return None
        try:
            results = self._devices.allocator.allocate(variant.shape, variant.claims, nodes.node(0))
        except AllocationError:
            # Extenders were asked meanwhile, and slices or claims have changed.
            return failed(NOT_ALLOCATED)
        if variant.special is not None:
            state.special, state.mappings = variant.special, variant.mappings
        for claim, allocation in zip(variant.claims, results, strict=True):
            self._reserve_claim(state, claim, allocation)
        return None

    def _reserve_claim(
        self, state: PodClaims, claim: ResourceClaim, allocation: AllocationResult
    ) -> None:
        state.allocations[claim.uid] = allocation
        self._devices.claims.reserve(claim, allocation)
        if v := log.v(5):
            v.info(
                "Reserved resource in allocation result",
                claim=logs.ref(claim),
                uid=claim.uid,
                resourceVersion=claim.metadata.resource_version,
            )

    def unreserve(
        self, cycle: CycleState, pod: PodInfo, node: str
    ) -> Callable[[], Awaitable[None]] | None:
        state = cycle.get(PodClaims)
        if state is None or state.is_empty:
            return None
        for uid in state.allocations:
            if state.unanswered is None or uid != state.unanswered.uid:
                self._handle.activate(self._devices.claims.release(uid))
        added = _added(cycle, node)
        if added or self._writer.has_to_give_back(state, pod.pod):
            return partial(self._writer.give_back, state, pod.pod, added)
        return None

    def pre_bind_pre_flight(
        self, cycle: CycleState, pod: PodInfo, node: str
    ) -> PreFlight | Status | None:
        state = cycle.get(PodClaims)
        if state is None:
            return failed(NOT_PREPARED)
        return PreFlight(allow_parallel=True, has_work=not state.is_empty)

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None:
        state = cycle.get(PodClaims)
        if state is None:
            return failed(NOT_PREPARED)
        try:
            await self._writer.bind(state, pod, node, _added(cycle, node))
        except KschedulerError as error:
            return failed(error)
        return None


def _selected(selector: NodeSelectorMatcher, nodes: Nodes) -> Mask:
    """The nodes that a claim's devices can be used from, which usually is one, named."""
    if len(selector.terms) != 1 or selector.terms[0].expressions.requirements:
        return nodes.selector_mask(selector)
    fields = selector.terms[0].fields
    if len(fields) != 1 or fields[0].negated:
        return nodes.selector_mask(selector)
    mask: Mask = nodes.rows == nodes.row_of(fields[0].value)
    return mask


def _by_text(errors: Mapping[int, str]) -> Mapping[str, list[int]]:
    positions: dict[str, list[int]] = {}
    for position, text in errors.items():
        positions.setdefault(text, []).append(position)
    return positions


def _added(cycle: CycleState, node: str) -> ClaimStatuses:
    added = cycle.get(AddedByDevices)
    return () if added is None else added.on(node)


def _holds(served: Mask | None) -> bool:
    return served is None or bool(served[0])
