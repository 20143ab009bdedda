"""The resources the sandbox serves, as one table; each is declared in `kinds`, by group."""

from __future__ import annotations

from collections.abc import Iterator

from kscheduler.sandbox.kinds import (
    access,
    batch,
    core,
    devices,
    events,
    inert,
    metrics,
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
    *batch.RESOURCES,
    *workloads.DISCOVERY_RESOURCES,
    *scheduling.DISRUPTION_RESOURCES,
    *scheduling.RESOURCES,
    *storage.RESOURCES,
    *devices.RESOURCES,
    *access.RESOURCES,
    *registration.RESOURCES,
    *scheduling.COORDINATION_RESOURCES,
    *events.RESOURCES,
    *inert.RESOURCES,
    *metrics.RESOURCES,
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
CLAIMS = BY_NAME["persistentvolumeclaims"]
REPLICATION_CONTROLLERS = BY_NAME["replicationcontrollers"]
REPLICA_SETS = BY_NAME["replicasets.apps"]
DEPLOYMENTS = BY_NAME["deployments.apps"]
STATEFUL_SETS = BY_NAME["statefulsets.apps"]
DAEMON_SETS = BY_NAME["daemonsets.apps"]
CONTROLLER_REVISIONS = BY_NAME["controllerrevisions.apps"]
JOBS = BY_NAME["jobs.batch"]
CRON_JOBS = BY_NAME["cronjobs.batch"]
LEASES = BY_NAME["leases.coordination.k8s.io"]
PRIORITY_CLASSES = BY_NAME["priorityclasses.scheduling.k8s.io"]
POD_DISRUPTION_BUDGETS = BY_NAME["poddisruptionbudgets.policy"]
STORAGE_CLASSES = BY_NAME["storageclasses.storage.k8s.io"]


def namespaced_resources() -> Iterator[Resource]:
    """Stored resources that live and die with their namespace, each storage once."""
    for row in RESOURCES:
        if row.namespaced and not row.shows and row.verbs == STORED_VERBS:
            yield row
