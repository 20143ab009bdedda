"""Budgets of pods as a whole (`spec.resources`), given what devices add to their requests.

Mirrors validatePodLevelResourcesCoverDRA of nodeallocatabledynamicresources.go. Differs: of several
resources that are short the first in the pod's order is told, where upstream takes any.
"""

from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.api.quantity import nano_value
from kscheduler.api.requests import Counting, claim_amounts, container_limits, container_requests
from kscheduler.api.resource_names import is_hugepages, is_pod_level

FROM_CONTAINERS = Counting(pod_level=False, claims=True)


def beyond_pod_level(pod: Pod) -> str | None:
    """Why requests or limits of the pod as a whole do not cover what is added, if they do not.

    The API server has checked them against those of the containers alone.
    """
    statuses, resources = pod.status.node_allocatable_resource_claim_statuses, pod.spec.resources
    if resources is None or not statuses:
        return None
    requests = container_requests(pod, FROM_CONTAINERS)
    for name, request in resources.requests.items():
        if is_pod_level(name) and requests.get(name, 0) > nano_value(request):
            return (
                f"pod level request for {name} is insufficient to cover the aggregated "
                "container and node-allocatable DRA requests"
            )
    budget = {name: nano_value(limit) for name, limit in resources.limits.items()}
    limits, added = container_limits(pod), claim_amounts(statuses)
    for name in filter(is_hugepages, budget):
        if limits.get(name, 0) + added.get(name, 0) > budget[name]:
            return (
                f"pod level limit for {name} is insufficient to cover the aggregated "
                "container and node-allocatable DRA limits"
            )
    for container in pod.spec.containers:
        used = [one for one in statuses if container.name in one.containers]
        added = claim_amounts(replace(one, containers=(container.name,)) for one in used)
        for name, limit in container.resources.limits.items():
            if is_hugepages(name) or name not in budget:
                continue
            if nano_value(limit) + added.get(name, 0) > budget[name]:
                return (
                    f"pod level limit for {name} is insufficient to cover the limit "
                    f"and DRA overhead for container {container.name}"
                )
    return None
