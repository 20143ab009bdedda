"""AllocationShape: claims compiled for allocation.

Claims with equal specs have the same shape, whatever their names: pods of one template ask for the
same. Texts that name a claim get its name when they are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kscheduler.api.resource import (
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from kscheduler.dra.constraints import Constraint, DistinctAttribute, MatchAttribute
from kscheduler.dra.errors import AllocationError
from kscheduler.dra.features import AllocatorFeatures, Implementation
from kscheduler.framework.listers import Lister

# The API's limit of devices per claim.
MAX_RESULTS = 32
# The API's limit of subrequests; the first of them scores this much.
MAX_SUBREQUESTS = 8

ALL = "All"
EXACT_COUNT = "ExactCount"


@dataclass(frozen=True, slots=True)
class Selector:
    """A CEL expression with its place in a class or request."""

    expression: str
    position: int
    # Empty for a selector of the claim.
    class_name: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Alternative:
    """A request of one kind of device, or one of the subrequests of a firstAvailable.

    `number` counts the alternatives of all claims, `constraints` are numbers among the claim's.
    """

    number: int
    name: str
    # With the name of the request that it is a subrequest of.
    full_name: str
    request: ExactDeviceRequest | DeviceSubRequest
    device_class: DeviceClass | None
    selectors: tuple[Selector, ...]
    constraints: tuple[int, ...]
    derived_attributes: Mapping[str, str]
    # What is wrong with it: the rest of a text that begins with the claim.
    failure: str = ""

    @property
    def all_devices(self) -> bool:
        return self.request.allocation_mode == ALL

    @property
    def admin_access(self) -> bool:
        return isinstance(self.request, ExactDeviceRequest) and bool(self.request.admin_access)


@dataclass(frozen=True, slots=True, eq=False)
class RequestShape:
    name: str
    alternatives: tuple[Alternative, ...]
    # Whether the alternatives are subrequests: then results name and scores count them.
    prioritized: bool
    failure: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintShape:
    attribute: str
    distinct: bool

    def begin(self, *, lists: bool) -> Constraint:
        """The constraint with no devices yet."""
        return DistinctAttribute(lists=lists) if self.distinct else MatchAttribute(lists=lists)


@dataclass(frozen=True, slots=True, eq=False)
class ClaimShape:
    requests: tuple[RequestShape, ...]
    constraints: tuple[ConstraintShape, ...]
    # What is wrong with a constraint; looked at after the requests.
    failure: str = ""


@dataclass(slots=True, eq=False)
class AllocationShape:
    """Requests and constraints of some claims, in the order of the claims.

    `key` identifies the specs. `see_used` is whether devices in use matter: for "all devices", and
    for admin access.
    """

    claims: tuple[ClaimShape, ...]
    key: bytes
    alternatives: tuple[Alternative, ...] = field(init=False)
    see_used: bool = field(init=False)

    def __post_init__(self) -> None:
        self.alternatives = tuple(
            alternative
            for claim in self.claims
            for request in claim.requests
            for alternative in request.alternatives
        )
        self.see_used = any(one.all_devices or one.admin_access for one in self.alternatives)

    def failure(self, claims: Sequence[ResourceClaim]) -> str | None:
        """The first thing that is wrong with the claims on any node, if no node comes before."""
        try:
            for claim, shape in zip(claims, self.claims, strict=True):
                least = 0
                for request in shape.requests:
                    if request.failure:
                        return f"claim {claim.key}{request.failure}"
                    for alternative in request.alternatives:
                        if alternative.failure:
                            return f"claim {claim.key}{alternative.failure}"
                        if alternative.all_devices:
                            return None
                    fewest = min(one.request.count for one in request.alternatives)
                    check_limit(claim, request, fewest, least)
                    least += fewest
                if shape.failure:
                    return f"claim {claim.key}{shape.failure}"
        except AllocationError as error:
            return str(error)
        return None


def check_limit(claim: ResourceClaim, request: RequestShape, fewest: int, least: int) -> None:
    """Raises AllocationError if a claim cannot hold the devices of one more request.

    `fewest` is what the request wants at least, `least` what those before it want at least.
    """
    if fewest > MAX_RESULTS - least:
        raise AllocationError(
            f"claim {claim.key}, request {request.name}: adding {fewest} devices exceeds the "
            f"claim limit of {MAX_RESULTS}, with {least} already accounted for"
        )


class ShapeCompiler:
    """Makes shapes, with the checks that do not depend on a node.

    Mirrors the first half of Allocate. Failures are kept in the shape: they are told when the
    search gets there, because a request before may have failed on a node already.
    """

    def __init__(self, classes: Lister[DeviceClass], features: AllocatorFeatures) -> None:
        self._classes = classes
        self._features = features
        self._numbered = 0

    def compile(self, claims: Sequence[ResourceClaim], key: bytes) -> AllocationShape:
        self._numbered = 0
        return AllocationShape(tuple([self._claim(claim) for claim in claims]), key)

    def _claim(self, claim: ResourceClaim) -> ClaimShape:
        spec = claim.spec.devices
        requests = tuple([self._request(one, spec.constraints) for one in spec.requests])
        constraints, failure = [], ""
        knows_distinct = self._features.implementation is not Implementation.STABLE
        for position, one in enumerate(spec.constraints):
            if one.match_attribute is not None:
                constraints.append(ConstraintShape(one.match_attribute, distinct=False))
            elif one.distinct_attribute is not None and knows_distinct:
                constraints.append(ConstraintShape(one.distinct_attribute, distinct=True))
            else:
                problem = "empty constraint (unsupported constraint type?)"
                failure = f", constraint #{position}: {problem}"
                break
        return ClaimShape(requests, tuple(constraints), failure)

    def _request(
        self, request: DeviceRequest, constraints: Sequence[DeviceConstraint]
    ) -> RequestShape:
        alternatives = request.first_available or (request.exactly or ExactDeviceRequest(),)
        compiled = tuple([self._alternative(request, one, constraints) for one in alternatives])
        prioritized = bool(request.first_available)
        failure = ""
        if prioritized and not self._features.prioritized_list:
            problem = "has subrequests, but the DRAPrioritizedList feature is disabled"
            failure = f", request {request.name}: {problem}"
        elif (
            not self._features.consumable_capacity
            and self._features.implementation is not Implementation.STABLE
        ):
            problem = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
            kind = "subrequest" if prioritized else "request"
            for one in compiled:
                if one.request.capacity is not None:
                    failure = f", {kind} {one.name}: {problem}"
                    break
        return RequestShape(request.name, compiled, prioritized, failure)

    def _alternative(
        self,
        parent: DeviceRequest,
        request: ExactDeviceRequest | DeviceSubRequest,
        constraints: Sequence[DeviceConstraint],
    ) -> Alternative:
        sub = isinstance(request, DeviceSubRequest)
        name = request.name if isinstance(request, DeviceSubRequest) else parent.name
        full_name = f"{parent.name}/{name}" if sub else name
        device_class = self._classes.get(request.device_class_name)
        selectors = [
            Selector(one.cel.expression if one.cel else "", position, class_name)
            for class_name, some in (
                (request.device_class_name, device_class.spec.selectors if device_class else ()),
                ("", request.selectors),
            )
            for position, one in enumerate(some)
        ]
        self._numbered += 1
        problem = self._problem(request, device_class)
        return Alternative(
            number=self._numbered - 1,
            name=name,
            full_name=full_name,
            request=request,
            device_class=device_class,
            selectors=tuple(selectors),
            constraints=tuple(
                [
                    position
                    for position, one in enumerate(constraints)
                    if not one.requests or parent.name in one.requests or full_name in one.requests
                ]
            ),
            derived_attributes={one.name: one.expression for one in request.derived_attributes},
            failure=f", request {name}{problem}" if problem else "",
        )

    def _problem(
        self, request: ExactDeviceRequest | DeviceSubRequest, device_class: DeviceClass | None
    ) -> str:
        """The fault of a request, as text that follows the request's name."""
        if request.derived_attributes and not self._features.derived_attributes:
            return ": cannot handle request with derived attributes, the feature is disabled"
        for position, selector in enumerate(request.selectors):
            if selector.cel is None:
                problem = "CEL expression empty (unsupported selector type?)"
                return f", selector #{position}: {problem}"
        if (
            isinstance(request, ExactDeviceRequest)
            and request.admin_access is not None
            and not self._features.admin_access
        ):
            return ": admin access is requested, but the feature is disabled"
        class_name = request.device_class_name
        if not class_name:
            return ": missing device class name (unsupported request type?)"
        if device_class is None:
            missing = f'deviceclass.resource.k8s.io "{class_name}" not found'
            return f": could not retrieve device class {class_name}: {missing}"
        if request.allocation_mode not in (ALL, EXACT_COUNT):
            return f": unsupported count mode {request.allocation_mode}"
        return ""
