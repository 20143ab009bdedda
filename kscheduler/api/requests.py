"""Resource requests of a pod, exactly.

Amounts are exact (nano-units) while they are summed and compared, and are rounded once at the
end: two containers of 100.5m ask for 201 milli-CPU, not 202.

Mirrors component-helpers/resource and the scheduler's PodInfo. Differs: nothing.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from kscheduler.api.core import (
    Container,
    ContainerStatus,
    NodeAllocatableResourceClaimStatus,
    Pod,
)
from kscheduler.api.meta import EMPTY, Quantity
from kscheduler.api.quantity import NANO, milli, nano_value, whole
from kscheduler.api.resource_names import CPU, MEMORY, is_counted, is_pod_level

Amounts = dict[str, int]  # resource name → nano-units
Quantities = Mapping[str, Quantity]

DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024
# What a container that names no request is taken to use when nodes are compared.
NON_ZERO_DEFAULTS: Amounts = {
    CPU: DEFAULT_MILLI_CPU * NANO // 1000,
    MEMORY: DEFAULT_MEMORY_BYTES * NANO,
}

RESIZE_PENDING = "PodResizePending"
RESIZE_INFEASIBLE = "Infeasible"
RESIZE_DEFERRED = "Deferred"


class Counting(msgspec.Struct, frozen=True):
    """The parts of a pod that are counted.

    `status` takes resources reported by the kubelet into account, as node accounting does.
    `pod_level` and `pod_level_status` follow the gates PodLevelResources and
    InPlacePodLevelResourcesVerticalScaling; `claims` follows DRANodeAllocatableResources.
    """

    status: bool = False
    pod_level: bool = True
    pod_level_status: bool = True
    claims: bool = False


FROM_SPEC = Counting()
ACCOUNTED = Counting(status=True)


def pod_requests(
    pod: Pod, counting: Counting = FROM_SPEC, defaults: Mapping[str, int] = EMPTY
) -> Amounts:
    """Exact requests; `defaults` stand in for what a container does not mention at all."""
    total = container_requests(pod, counting, defaults)
    if counting.pod_level and has_pod_level_requests(pod):
        # The pod's own figures replace the sums over its containers.
        own = _amounts(pod.spec.resources.requests if pod.spec.resources else EMPTY)
        if counting.status and counting.pod_level_status and pod.status.resources is not None:
            allocated, actuated = _pod_level_reports(pod)
            own = {} if is_resize_infeasible(pod) else own
            _raise_to(own, actuated)
            _raise_to(own, allocated)
        total.update(_pod_level(own))
    _add(total, _amounts(pod.spec.overhead))
    return total


def pod_limits(pod: Pod) -> Amounts:
    """Exact limits by the spec; overhead is added only where there is a limit to add it to."""
    total = container_limits(pod)
    if pod.spec.resources:
        total.update(_pod_level(_amounts(pod.spec.resources.limits)))
    for name, amount in _amounts(pod.spec.overhead).items():
        if total.get(name):
            total[name] += amount
    return total


def non_zero_requests(pod: Pod, counting: Counting = ACCOUNTED) -> tuple[int, int]:
    """(milli-CPU, bytes of memory) with defaults for containers that name none."""
    requests = pod_requests(pod, counting)
    defaults: Mapping[str, int] = NON_ZERO_DEFAULTS
    if counting.pod_level and has_pod_level_requests(pod):
        defaults = {name: NON_ZERO_DEFAULTS[name] for name in (CPU, MEMORY) if name not in requests}
    if defaults:
        requests = pod_requests(pod, counting, defaults)
    return milli(requests.get(CPU, 0)), whole(requests.get(MEMORY, 0))


def in_units(amounts: Mapping[str, int]) -> dict[str, int]:
    """Milli-CPU and whole units of everything the scheduler counts; other names are dropped."""
    return {
        name: milli(amount) if name == CPU else whole(amount)
        for name, amount in amounts.items()
        if is_counted(name)
    }


def has_pod_level_requests(pod: Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and any(map(is_pod_level, resources.requests))


def is_resize_infeasible(pod: Pod) -> bool:
    """The condition's status is not looked at, as upstream does not."""
    return _resize_reason(pod) == RESIZE_INFEASIBLE


def is_resize_deferred(pod: Pod) -> bool:
    return _resize_reason(pod) == RESIZE_DEFERRED


def _resize_reason(pod: Pod) -> str:
    condition = pod.condition(RESIZE_PENDING)
    return condition.reason if condition else ""


def container_requests(
    pod: Pod, counting: Counting, defaults: Mapping[str, int] = EMPTY
) -> Amounts:
    """Without the pod's own: per resource the maximum of requested, allocated and actuated totals.

    Upstream takes it on the pod's totals, not per container.
    """
    spec = _aggregate(pod, lambda container: container.resources.requests, defaults)
    claims: Amounts = {}
    if counting.claims:
        claims = claim_amounts(pod.status.node_allocatable_resource_claim_statuses)
    _add(spec, claims)
    if not counting.status:
        return spec
    infeasible = is_resize_infeasible(pod)
    status = pod.status
    if (
        counting.pod_level_status
        and status.allocated_resources is not None
        and status.resources is not None
        # EMPTY itself stands for a map that was not sent; one that was sent empty counts.
        and status.resources.requests is not EMPTY
    ):
        allocated, actuated = _pod_level_reports(pod)
    elif not infeasible and not _statuses(pod):
        return spec
    else:
        reported = _Reported(pod, infeasible=infeasible)
        allocated = _aggregate(pod, reported.allocated, defaults)
        _add(allocated, claims)
        actuated = _aggregate(pod, reported.actuated, defaults)
    total = {} if infeasible else spec
    _raise_to(total, actuated)
    _raise_to(total, allocated)
    return total


def container_limits(pod: Pod) -> Amounts:
    """Limits by the spec, without the pod's own."""
    return _aggregate(pod, lambda container: container.resources.limits, EMPTY)


def _aggregate(
    pod: Pod, resources_of: Callable[[Container], Quantities], defaults: Mapping[str, int]
) -> Amounts:
    """The need at the worst moment: all running together, or one init container starting.

    A restartable init container (a sidecar) stays from its turn on, so it counts in both.
    """
    running: Amounts = {}
    for container in pod.spec.containers:
        _add(running, {**defaults, **_amounts(resources_of(container))})
    starting: Amounts = {}
    sidecars: Amounts = {}
    for container in pod.spec.init_containers:
        own = {**defaults, **_amounts(resources_of(container))}
        if container.restartable:
            _add(running, own)
            _add(sidecars, own)
            _raise_to(starting, sidecars)
        else:
            _add(own, sidecars)
            _raise_to(starting, own)
    _raise_to(running, starting)
    return running


def _statuses(pod: Pod) -> tuple[ContainerStatus, ...]:
    return (*pod.status.container_statuses, *pod.status.init_container_statuses)


class _Reported:
    """Resources that the kubelet reports for containers, falling back on their requests."""

    def __init__(self, pod: Pod, *, infeasible: bool) -> None:
        # Reversed, so that the first status of a name wins.
        self._status = {status.name: status for status in reversed(_statuses(pod))}
        self._infeasible = infeasible

    def allocated(self, container: Container) -> Quantities:
        status = self._status.get(container.name)
        if status is not None and status.allocated_resources is not None:
            return status.allocated_resources
        # A resize that cannot happen must not count through the back door.
        return EMPTY if self._infeasible else container.resources.requests

    def actuated(self, container: Container) -> Quantities:
        status = self._status.get(container.name)
        if status is not None and status.resources is not None:
            requests = status.resources.requests
            if requests is not EMPTY:
                return requests
        return self.allocated(container)


def _pod_level_reports(pod: Pod) -> tuple[Amounts, Amounts]:
    resources = pod.status.resources
    return (
        _amounts(pod.status.allocated_resources or EMPTY),
        _amounts(resources.requests if resources else EMPTY),
    )


def _pod_level(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if is_pod_level(name)}


def claim_amounts(claims: Iterable[NodeAllocatableResourceClaimStatus]) -> Amounts:
    """Amounts that devices add to cpu, memory and the like, by the claims' status."""
    total: Amounts = {}
    for claim in claims:
        for mapping in claim.mapping:
            if mapping.quantity is not None:
                _add(total, {mapping.name: nano_value(mapping.quantity)})
        for overhead in claim.overhead:
            amount = nano_value(overhead.per_pod) if overhead.per_pod is not None else 0
            if overhead.per_container is not None:
                amount += nano_value(overhead.per_container) * len(claim.containers)
            _add(total, {overhead.name: amount})
    return total


def _amounts(quantities: Quantities) -> Amounts:
    return {name: nano_value(quantity) for name, quantity in quantities.items()}


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, other: Mapping[str, int]) -> None:
    """Per resource the greater of both; a resource of only one side is kept as it is."""
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount
