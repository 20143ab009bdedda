"""All controllers of a cluster, started together."""

from __future__ import annotations

import asyncio

from kscheduler.sandbox.controllers.cluster_roles import ClusterRoleAggregationController
from kscheduler.sandbox.controllers.controller import Controller
from kscheduler.sandbox.controllers.cron_jobs import CronJobController
from kscheduler.sandbox.controllers.daemon_sets import DaemonSetController
from kscheduler.sandbox.controllers.deployments import DeploymentController
from kscheduler.sandbox.controllers.disruption import DisruptionController
from kscheduler.sandbox.controllers.garbage_collector import GarbageCollector
from kscheduler.sandbox.controllers.jobs import FIRST_BACKOFF_SECONDS, JobController
from kscheduler.sandbox.controllers.node_lifecycle import (
    GRACE_SECONDS,
    NodeLifecycleController,
    PodGarbageCollector,
    TaintEvictionController,
)
from kscheduler.sandbox.controllers.owned_pods import PodIndex
from kscheduler.sandbox.controllers.replica_sets import (
    ReplicaSetController,
    ReplicationControllerController,
)
from kscheduler.sandbox.controllers.resource_claims import ResourceClaimController
from kscheduler.sandbox.controllers.stateful_sets import StatefulSetController
from kscheduler.sandbox.controllers.volumes import VolumeControllers
from kscheduler.sandbox.registry import Registry

# Syncs that come later than this are not waited for when the cluster is asked whether it rests:
# the next minute of a CronJob, the end of a grace period.
_SOON_SECONDS = 1.5


class ControllerManager:
    """Controllers of the sandbox, as kube-controller-manager has those of a real cluster."""

    def __init__(
        self,
        registry: Registry,
        *,
        node_grace_seconds: float = GRACE_SECONDS,
        node_gone_seconds: float = PodGarbageCollector.QUARANTINE_SECONDS,
        job_backoff_seconds: float = FIRST_BACKOFF_SECONDS,
    ) -> None:
        self._pods = pods = PodIndex(registry)
        jobs = JobController(registry, pods)
        jobs.first_backoff_seconds = job_backoff_seconds
        self._controllers: tuple[Controller, ...] = (
            ReplicaSetController(registry, pods),
            ReplicationControllerController(registry, pods),
            DeploymentController(registry, pods),
            StatefulSetController(registry, pods),
            DaemonSetController(registry, pods),
            jobs,
            CronJobController(registry),
            GarbageCollector(registry),
            DisruptionController(registry, pods),
            NodeLifecycleController(registry, pods, grace_seconds=node_grace_seconds),
            TaintEvictionController(registry, pods),
            PodGarbageCollector(registry, pods, quarantine_seconds=node_gone_seconds),
            ClusterRoleAggregationController(registry),
        )
        self._others = (VolumeControllers(registry), ResourceClaimController(registry))

    @property
    def is_idle(self) -> bool:
        """Whether no controller has anything to do, now or in a moment."""
        return all(one.is_idle(_SOON_SECONDS) for one in self._controllers)

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for one in self._controllers:
                    tasks.create_task(one.run(), name=f"sandbox/{one.name}")
                for other in self._others:
                    tasks.create_task(other.run(), name=f"sandbox/{type(other).__name__}")
        finally:
            self._pods.close()
