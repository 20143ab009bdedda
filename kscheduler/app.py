"""The composition root: options in, a running scheduler out.

`setup` does what must succeed before anything is scheduled, in kube-scheduler's order, because a
second mistake is only seen when the first is gone: options, certificate, configuration, API server,
port, callers, clients, events, lock, profiles. `main` turns the outcome into an exit code.
"""

import asyncio
import os
import socket
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import uvloop

from kscheduler import logs
from kscheduler.api.field_errors import aggregate
from kscheduler.client.errors import ApiError
from kscheduler.client.files import reason
from kscheduler.client.kubeconfig import RestConfig, load_rest_config
from kscheduler.client.transport import Transport, user_agent
from kscheduler.config.catalog import IN_TREE
from kscheduler.config.defaults import default_config
from kscheduler.config.dump import to_yaml
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.field_errors import aggregate as aggregate_fields
from kscheduler.config.label_manifest import read_manifest
from kscheduler.config.load import load_config_file
from kscheduler.config.model import (
    ClientConnectionConfiguration,
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
)
from kscheduler.config.option_checks import problems
from kscheduler.config.options import Options
from kscheduler.config.plugin_log import plugins_value
from kscheduler.config.profiles import Completed, Registry, complete
from kscheduler.config.validation import validate
from kscheduler.errors import ConfigError
from kscheduler.leader_election import ElectionConfig
from kscheduler.serving.delegation import (
    Authentication,
    Authorization,
    delegated_authentication,
    delegated_authorization,
)
from kscheduler.serving.secure_port import Pem, SecurePort, generate_certificate, open_port

log = logs.logger(__name__)

EVENTS_API = "/apis/events.k8s.io/v1"
DISCOVERY_SECONDS = 32.0
HIDDEN_METRIC = "scheduler_preemption_goroutines_duration_seconds"


@dataclass(frozen=True, slots=True)
class Clients:
    """Connections to the API server, one per purpose, so that none delays another."""

    scheduling: Transport
    events: Transport


@dataclass(frozen=True, slots=True)
class Serving:
    """The secure port and who may use it."""

    port: SecurePort
    authentication: Authentication
    authorization: Authorization


@dataclass(frozen=True, slots=True)
class Setup:
    """All that start-up has made; `has_events_api` is whether events.k8s.io/v1 can be used."""

    options: Options
    gates: FeatureGates
    completed: Completed
    rest_config: RestConfig
    serving: Serving | None
    clients: Clients
    has_events_api: bool

    @property
    def config(self) -> KubeSchedulerConfiguration:
        return self.completed.config


def main(options: Options, gates: FeatureGates) -> int:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_main(options, gates))


async def _main(options: Options, gates: FeatureGates) -> int:
    async with setup(options, gates) as made:
        if options.write_config_to:
            write_config(made.completed.written, options.write_config_to)
            return 0
        return await run(made)


@asynccontextmanager
async def setup(
    options: Options, gates: FeatureGates, *, out_of_tree: Registry | None = None
) -> AsyncIterator[Setup]:
    """Everything up to the first informer; ConfigError tells the first thing that failed."""
    default = default_config(gates)
    check_options(options, gates, default)
    options, generated = generate_certificate(options)
    config = load_configuration(options, gates, default)
    rest_config = load_rest_config(config.client_connection.kubeconfig, options.master)
    async with AsyncExitStack() as held:
        serving = open_serving(options, generated)
        if serving:
            held.callback(serving.port.listener.close)
        tell_of_metric_labels(options)
        clients = await open_clients(held, rest_config, config.client_connection)
        has_events_api = await discover_events_api(clients.events)
        if config.leader_election.leader_elect:
            check_lock(config.leader_election.resource_lock)
        tell_of_hidden_metrics(options)
        completed = complete(config, all_plugins(out_of_tree or {}), gates=gates)
        tell_of_configuration(completed)
        yield Setup(options, gates, completed, rest_config, serving, clients, has_events_api)


def check_options(
    options: Options, gates: FeatureGates, default: KubeSchedulerConfiguration
) -> None:
    if found := problems(options, gates, [str(error) for error in validate(default, gates)]):
        raise ConfigError(aggregate(found))


def load_configuration(
    options: Options, gates: FeatureGates, default: KubeSchedulerConfiguration
) -> KubeSchedulerConfiguration:
    """The file, or the flags that stand in for one.

    Flags without a file are not validated: upstream checks its defaults and then applies them.
    """
    if not options.config:
        return options.with_leader_election(options.with_deprecated(default))
    config = options.with_leader_election(load_config_file(options.config, gates=gates))
    if found := validate(config, gates):
        raise ConfigError(aggregate_fields(found))
    return config


def open_serving(options: Options, generated: Pem | None) -> Serving | None:
    port = open_port(options, generated)
    if port is None:
        return None
    try:
        return Serving(port, delegated_authentication(options), delegated_authorization(options))
    except ConfigError:
        port.listener.close()
        raise


def tell_of_metric_labels(options: Options) -> None:
    """Upstream complains about the label manifest even when nobody asked for one."""
    if options.allow_metric_labels is not None:
        return
    if not options.allow_metric_labels_manifest:
        log.text_error("The manifest file is empty, ignoring.")
    elif not read_manifest(options.allow_metric_labels_manifest):
        log.text_error("empty allow-list mapping supplied, ignoring.")


def tell_of_hidden_metrics(options: Options) -> None:
    if options.show_hidden_metrics_for_version and HIDDEN_METRIC not in options.disabled_metrics:
        log.text_warning(
            f"Hidden metrics ({HIDDEN_METRIC}) have been manually overridden, "
            "showing this very deprecated metric."
        )


async def open_clients(
    held: AsyncExitStack, rest_config: RestConfig, connection: ClientConnectionConfiguration
) -> Clients:
    if connection.qps > 0 and connection.burst <= 0:
        raise ConfigError(
            "burst is required to be greater than 0 when RateLimiter is not set "
            "and QPS is set to greater than 0"
        )

    async def transport() -> Transport:
        return await held.enter_async_context(
            Transport(
                rest_config,
                agent=user_agent("scheduler"),
                qps=connection.qps,
                burst=connection.burst,
            )
        )

    return Clients(scheduling=await transport(), events=await transport())


async def discover_events_api(client: Transport) -> bool:
    """Asked once; a server that cannot say it has the events API gets core events for good."""
    try:
        async with asyncio.timeout(DISCOVERY_SECONDS):
            await client.request("GET", EVENTS_API)
    except (ApiError, TimeoutError):
        return False
    return True


def check_lock(kind: str) -> None:
    """Only leases are left; the older kinds are told apart from nonsense."""
    if kind == "leases":
        return
    problem = f"Invalid lock-type {kind}"
    if kind in ("endpoints", "configmaps", "endpointsleases"):
        problem = f"{kind} lock is removed, migrate to leases"
    elif kind == "configmapsleases":
        problem = f"{kind} lock is removed, migrated to leases"
    raise ConfigError(f"couldn't create resource lock: {problem}")


def all_plugins(out_of_tree: Registry) -> Registry:
    for name in out_of_tree:
        if name in IN_TREE:
            raise ConfigError(f"a plugin named {name} already exists")
    return {**IN_TREE, **out_of_tree}


def tell_of_configuration(completed: Completed) -> None:
    if not log.v(2):
        return
    for effective in completed.plugins.values():
        log.v(2).info(
            "the scheduler starts to work with those plugins", Plugins=plugins_value(effective)
        )
    log.v(2).info("Using component config", config=to_yaml(completed.written))


def write_config(config: KubeSchedulerConfiguration, path: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(to_yaml(config))
    except OSError as err:
        raise ConfigError(f"open {path}: {reason(err)}") from err
    log.info("Wrote configuration", file=path)


async def run(made: Setup) -> int:
    """Schedules until told to stop."""
    log.info("Starting Kubernetes Scheduler", version=made.options.reported_version)
    log.info("Golang settings", **_go_settings(os.environ))
    if made.config.leader_election.leader_elect:
        make_election(made.config.leader_election).check()
    return 0


def make_election(config: LeaderElectionConfiguration) -> ElectionConfig:
    return ElectionConfig(
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        lock=f"{config.resource_namespace}/{config.resource_name}",
        lease_seconds=config.lease_duration.seconds,
        renew_deadline_seconds=config.renew_deadline.seconds,
        retry_seconds=config.retry_period.seconds,
    )


def _go_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Nothing reads them here; the line is one that log readers know."""
    return {name: environ.get(name, "") for name in ("GOGC", "GOMAXPROCS", "GOTRACEBACK")}
