"""The resources the sandbox serves, as one table; each is declared in `kinds`, by group."""

from __future__ import annotations

from collections.abc import Iterator

from kscheduler.sandbox.kinds import (
    access,
    core,
    devices,
    events,
    pods,
    registration,
    scheduling,
    storage,
    workloads,
)
from kscheduler.sandbox.kinds.resource import STORED_VERBS, Resource

RESOURCES: tuple[Resource, ...] = (
    *pods.RESOURCES,
    *core.RESOURCES,
    *workloads.CORE_RESOURCES,
    *storage.CORE_RESOURCES,
    *workloads.RESOURCES,
    *workloads.DISCOVERY_RESOURCES,
    *scheduling.DISRUPTION_RESOURCES,
    *scheduling.RESOURCES,
    *storage.RESOURCES,
    *devices.RESOURCES,
    *access.RESOURCES,
    *registration.RESOURCES,
    *scheduling.COORDINATION_RESOURCES,
    *events.RESOURCES,
)

BY_PATH: dict[tuple[str, str, str], Resource] = {
    (row.group, row.version, row.plural): row for row in RESOURCES
}
BY_KIND: dict[tuple[str, str], Resource] = {(row.group_version, row.kind): row for row in RESOURCES}
BY_NAME: dict[str, Resource] = {row.qualified: row for row in RESOURCES}

PODS = BY_NAME["pods"]
NODES = BY_NAME["nodes"]
NAMESPACES = BY_NAME["namespaces"]
EVENTS = BY_NAME["events"]
SERVICES = BY_NAME["services"]
API_SERVICES = BY_NAME["apiservices.apiregistration.k8s.io"]
LEASES = BY_NAME["leases.coordination.k8s.io"]
PRIORITY_CLASSES = BY_NAME["priorityclasses.scheduling.k8s.io"]
POD_DISRUPTION_BUDGETS = BY_NAME["poddisruptionbudgets.policy"]
STORAGE_CLASSES = BY_NAME["storageclasses.storage.k8s.io"]


def namespaced_resources() -> Iterator[Resource]:
    """Stored resources that live and die with their namespace, each storage once."""
    for row in RESOURCES:
        if row.namespaced and not row.shows and row.verbs == STORED_VERBS:
            yield row
