"""Setup: what must succeed before anything is scheduled, in kube-scheduler's order.

The order matters because a second mistake is only seen when the first is gone: options,
certificate, configuration, API server, port, callers, clients, events, lock, profiles.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kscheduler import logs, plugins
from kscheduler.api.field_errors import aggregate
from kscheduler.api.resources import EVENTS
from kscheduler.app import build_facts
from kscheduler.app.election import request_seconds
from kscheduler.client.clientcmd.rest_config import RestConfig, check_usable, load_rest_config
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.observation import (
    Observer,
    Reachability,
    RestClientMetrics,
    ThreadsafeObserver,
)
from kscheduler.client.transport import Transport, user_agent
from kscheduler.config.catalog import Catalog
from kscheduler.config.defaults import default_config
from kscheduler.config.dump import to_yaml
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.field_errors import aggregate as aggregate_fields
from kscheduler.config.label_manifest import read_manifest
from kscheduler.config.load import load_config_file
from kscheduler.config.metric_selection import metric_selection
from kscheduler.config.model import KubeSchedulerConfiguration
from kscheduler.config.option_checks import problems
from kscheduler.config.options import Options
from kscheduler.config.plugin_log import plugins_value
from kscheduler.config.profiles import Completed, complete, named_plugins
from kscheduler.config.validation import validate
from kscheduler.errors import ConfigError
from kscheduler.gotext.files import reason
from kscheduler.metrics import Metrics
from kscheduler.runtime.out_of_tree.args import check_all
from kscheduler.runtime.out_of_tree.registration import Outside, register
from kscheduler.serving.delegation import Delegation, delegate
from kscheduler.serving.plain_listener import PlainListeners, open_listeners
from kscheduler.serving.secure_port import Pem, SecurePort, generate_certificate, open_port

log = logs.logger(__name__)

DISCOVERY_SECONDS = 32.0
NO_PLUGINS: Mapping[str, Any] = {}
HIDDEN_METRIC = "scheduler_preemption_goroutines_duration_seconds"


@dataclass(frozen=True, slots=True)
class Clients:
    """Connections to the API server, one per purpose, so that none delays another."""

    scheduling: Transport
    events: Transport
    leader_election: Transport  # for the thread that renews the lease
    reachability: Reachability


@dataclass(frozen=True, slots=True)
class Serving:
    """The secure port and who may use it."""

    port: SecurePort
    delegation: Delegation


@dataclass(frozen=True, slots=True)
class Setup:
    """All that start-up has made; `has_events_api` is whether events.k8s.io/v1 can be used."""

    options: Options
    gates: FeatureGates
    metrics: Metrics
    out_of_tree: Mapping[str, Outside]
    completed: Completed
    rest_config: RestConfig
    serving: Serving | None
    plain: PlainListeners
    clients: Clients
    has_events_api: bool

    @property
    def config(self) -> KubeSchedulerConfiguration:
        return self.completed.config


@asynccontextmanager
async def setup(
    options: Options, gates: FeatureGates, *, out_of_tree: Mapping[str, Any] = NO_PLUGINS
) -> AsyncIterator[Setup]:
    """Everything up to the first informer; ConfigError tells the first thing that failed."""
    catalog = plugins.catalog()
    default = default_config(catalog, gates)
    check_options(options, gates, catalog, default)
    options, generated = generate_certificate(options)
    config = load_configuration(options, gates, catalog, default)
    rest_config = load_rest_config(config.client_connection.kubeconfig, options.master)
    metrics = Metrics(metric_selection(options))
    async with AsyncExitStack() as held:
        serving = await open_serving(held, options, generated, metrics)
        plain = open_listeners(options)
        held.callback(plain.close)
        tell_of_metric_labels(options)
        clients = await open_clients(held, rest_config, config, metrics)
        has_events_api = await discover_events_api(clients.events)
        if config.leader_election.leader_elect:
            check_lock(config.leader_election.resource_lock)
        tell_of_hidden_metrics(options)
        outside = register_plugins(config, options.plugin, out_of_tree, catalog)
        completed = complete(config, catalog.including(outside.values()), gates=gates)
        tell_of_configuration(completed)
        build_facts.record(metrics, gates)
        yield Setup(
            options=options,
            gates=gates,
            metrics=metrics,
            out_of_tree=outside,
            completed=completed,
            rest_config=rest_config,
            serving=serving,
            plain=plain,
            clients=clients,
            has_events_api=has_events_api,
        )


def check_options(
    options: Options, gates: FeatureGates, catalog: Catalog, default: KubeSchedulerConfiguration
) -> None:
    in_default = [str(error) for error in validate(default, catalog, gates)]
    if found := problems(options, gates, in_default):
        raise ConfigError(aggregate(found))


def load_configuration(
    options: Options, gates: FeatureGates, catalog: Catalog, default: KubeSchedulerConfiguration
) -> KubeSchedulerConfiguration:
    """The file, or the flags that stand in for one.

    Flags without a file are not validated: upstream checks its defaults and then applies them.
    """
    if not options.config:
        return options.with_leader_election(options.with_deprecated(default))
    config = options.with_leader_election(load_config_file(options.config, catalog, gates=gates))
    if found := validate(config, catalog, gates):
        raise ConfigError(aggregate_fields(found))
    return config


async def open_serving(
    held: AsyncExitStack, options: Options, generated: Pem | None, metrics: Metrics
) -> Serving | None:
    port = open_port(options, generated)
    if port is None:
        return None
    held.callback(port.listener.close)
    return Serving(port, await delegate(held, options, metrics))


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
    held: AsyncExitStack,
    rest_config: RestConfig,
    config: KubeSchedulerConfiguration,
    metrics: Metrics,
) -> Clients:
    connection = config.client_connection
    check_usable(rest_config)
    if connection.qps > 0 and connection.burst <= 0:
        raise ConfigError(
            "burst is required to be greater than 0 when RateLimiter is not set "
            "and QPS is set to greater than 0"
        )
    observer = RestClientMetrics(metrics)
    reachability = Reachability()

    def transport(
        agent: str, told: Observer | None = None, timeout_seconds: float | None = None
    ) -> Transport:
        observer.opened()
        return Transport(
            rest_config,
            agent=user_agent(agent),
            qps=connection.qps,
            burst=connection.burst,
            timeout_seconds=timeout_seconds,
            observer=told or observer,
            reachability=reachability,
        )

    return Clients(
        scheduling=await held.enter_async_context(transport("scheduler")),
        events=await held.enter_async_context(transport("scheduler")),
        # Its connections belong to the thread that opens and closes them.
        leader_election=transport(
            "leader-election",
            ThreadsafeObserver(observer, asyncio.get_running_loop().call_soon_threadsafe),
            request_seconds(config.leader_election),
        ),
        reachability=reachability,
    )


async def discover_events_api(client: Transport) -> bool:
    """Asked once; a server that cannot say it has the events API gets core events for good."""
    try:
        async with asyncio.timeout(DISCOVERY_SECONDS):
            return await KubeClient(client).serves(EVENTS.api_version)
    except TimeoutError:
        return False


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


def register_plugins(
    config: KubeSchedulerConfiguration,
    specs: Sequence[str],
    given: Mapping[str, Any],
    catalog: Catalog,
) -> Mapping[str, Outside]:
    """The out-of-tree plugins, whose arguments in the configuration were checked."""
    outside = register(given, specs, named_plugins(config), catalog.in_tree)
    if found := list(check_all(config, {name: one.args_type for name, one in outside.items()})):
        raise ConfigError(aggregate_fields(found))
    return outside


def tell_of_configuration(completed: Completed) -> None:
    if not log.v(2):
        return
    for effective in completed.plugins.values():
        log.v(2).info(
            "the scheduler starts to work with those plugins", Plugins=plugins_value(effective)
        )
    log.v(2).info("Using component config", config=to_yaml(completed.written))


def write_config(config: KubeSchedulerConfiguration, path: str) -> None:
    text = to_yaml(config)
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as err:
        verb = "open" if err.filename else "write"
        raise ConfigError(f"{verb} {path}: {reason(err)}") from err
    log.info("Wrote configuration", file=path)
