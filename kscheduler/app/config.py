"""The completed configuration: everything that `setup` has read, checked and opened.

Mirrors cmd/kube-scheduler/app/config.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import msgspec

from kscheduler.app.scheduler import Broadcaster, Scheduler, new_scheduler
from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.events.legacy import LegacyBroadcaster
from kscheduler.client.fence import Fence
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.observation import Reachability
from kscheduler.client.transport import Transport
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.model import KubeSchedulerConfiguration
from kscheduler.config.options import Options
from kscheduler.config.profiles import Completed
from kscheduler.leader_election import Tenure
from kscheduler.metrics import Metrics
from kscheduler.plugins import factories
from kscheduler.runtime.out_of_tree.health import Limits
from kscheduler.runtime.out_of_tree.registration import RegisteredPlugin
from kscheduler.serving.delegation import Delegation
from kscheduler.serving.listeners import PlainListeners, SecurePort


class Clients(msgspec.Struct, frozen=True):
    """Connections to the API server, one per purpose, so that none delays another."""

    scheduling: Transport
    events: Transport
    leader_election: Transport  # for the thread that renews the lease
    reachability: Reachability


class Serving(msgspec.Struct, frozen=True):
    """The secure port, and how its callers are authenticated and authorized."""

    port: SecurePort
    delegation: Delegation


class CompletedConfig(msgspec.Struct, frozen=True):
    """The parts of a scheduler and of the daemon around it, open ports and connections included."""

    options: Options
    gates: FeatureGates
    metrics: Metrics
    out_of_tree: Mapping[str, RegisteredPlugin]
    completed: Completed
    rest_config: RestConfig
    serving: Serving | None
    plain: PlainListeners
    clients: Clients
    events: Broadcaster
    lease_events: LegacyBroadcaster
    # The right to write, as the elector keeps it; both None without leader election.
    tenure: Tenure | None
    fence: Fence | None

    @property
    def component_config(self) -> KubeSchedulerConfiguration:
        return self.completed.config

    def new_scheduler(self) -> Scheduler:
        """A scheduler with plugins of its own; --leader-elect-rejoin makes one per term. Raises
        ConfigError if a plugin refuses its arguments.
        """
        return new_scheduler(
            completed=self.completed,
            registry={**factories(), **self.out_of_tree},
            gates=self.gates,
            client=KubeClient(self.clients.scheduling, fence=self.fence),
            broadcaster=self.events,
            metrics=self.metrics,
            max_unschedulable_seconds=self.options.pod_max_in_unschedulable_pods_duration.seconds,
            rng=random.Random(),
            decision_log_bytes=self.options.decision_log_bytes,
            limits=Limits(
                call_seconds=self.options.plugin_timeout.seconds,
                wait_seconds=self.options.plugin_wait_timeout.seconds,
                max_failures=self.options.plugin_max_failures,
            ),
        )
