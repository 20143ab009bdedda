"""Setup: everything that must succeed before anything is scheduled, in kube-scheduler's order.

The order matters because a second mistake is only seen when the first is gone: options,
certificate, configuration, API server, port, callers, clients, events, lock, plugins.

Mirrors `Setup` in cmd/kube-scheduler/app/server.go and `Options.Config`.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from kscheduler import logs, plugins
from kscheduler.api.field_errors import aggregate
from kscheduler.api.resources import EVENTS
from kscheduler.app.config import Clients, CompletedConfig, Serving
from kscheduler.app.daemon import Daemon
from kscheduler.app.election import request_seconds
from kscheduler.client.clientcmd.rest_config import RestConfig, check_usable, load_rest_config
from kscheduler.client.events.legacy import LegacyBroadcaster, broadcaster_for
from kscheduler.client.fence import Fence
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
from kscheduler.config.emulation import BINARY, COMPONENT, release_text
from kscheduler.config.feature_gates import FeatureGates, Stage
from kscheduler.config.load import load_config_file
from kscheduler.config.metric_options import metric_selection, read_manifest
from kscheduler.config.model import KubeSchedulerConfiguration
from kscheduler.config.option_checks import problems
from kscheduler.config.options import Options
from kscheduler.config.profiles import Completed, complete
from kscheduler.config.validation import validate
from kscheduler.errors import ConfigError
from kscheduler.gotext.files import reason
from kscheduler.leader_election import Tenure
from kscheduler.metrics import Metrics
from kscheduler.runtime.out_of_tree.registration import register_configured
from kscheduler.serving.delegation import delegate
from kscheduler.serving.listeners import generate_certificate, open_listeners, open_port
from kscheduler.version import KUBERNETES_VERSION, __version__

log = logs.logger(__name__)

DISCOVERY_SECONDS = 32.0
NO_PLUGINS: Mapping[str, Any] = {}
HIDDEN_METRIC = "scheduler_preemption_goroutines_duration_seconds"


@asynccontextmanager
async def setup(
    options: Options,
    gates: FeatureGates,
    *,
    out_of_tree: Mapping[str, Any] = NO_PLUGINS,
    kubeconfig: str = "",
) -> AsyncIterator[Daemon]:
    """A daemon ready to run, its scheduler with all plugins in it; ConfigError has the first thing
    that failed. Ports and connections are closed when the block ends.

    `kubeconfig` is used in place of the one that flags or the configuration file name.
    """
    catalog = plugins.catalog()
    default = default_config(catalog, gates)
    in_default = [str(error) for error in validate(default, catalog, gates)]
    if found := problems(options, gates, in_default):
        raise ConfigError(aggregate(found))
    options, generated = generate_certificate(options)
    config = load_configuration(options, gates, catalog, default)
    rest_config = load_rest_config(
        kubeconfig or config.client_connection.kubeconfig,
        options.master,
        is_flag_ignored=bool(options.config and options.kubeconfig),
    )
    metrics = Metrics(metric_selection(options))
    async with AsyncExitStack() as held:
        serving = None
        port = open_port(options, generated)
        if port is not None:
            held.callback(port.listener.close)
            serving = Serving(port, await delegate(held, options, metrics))
        plain = open_listeners(options)
        held.callback(plain.close)
        warn_of_metric_labels(options)
        clients = await open_clients(held, rest_config, config, metrics)
        events = broadcaster_for(
            KubeClient(clients.events),
            has_events_api=await discover_events_api(clients.events),
            dropped=metrics.kscheduler_events_dropped_total.inc,
            urgent=lambda: clients.scheduling.busy,
        )
        tenure = fence = None
        if config.leader_election.leader_elect:
            check_lock(config.leader_election.resource_lock)
            tenure = Tenure()
            fence = Fence(tenure.held)
        warn_of_hidden_metrics(options)
        registered = register_configured(config, out_of_tree, options.plugin, catalog.in_tree)
        completed = complete(config, catalog.including(registered.values()), gates=gates)
        log_configuration(completed)
        record_build(metrics, gates)
        cc = CompletedConfig(
            options=options,
            gates=gates,
            metrics=metrics,
            out_of_tree=registered,
            completed=completed,
            rest_config=rest_config,
            serving=serving,
            plain=plain,
            clients=clients,
            events=events,
            lease_events=LegacyBroadcaster(KubeClient(clients.scheduling)),
            tenure=tenure,
            fence=fence,
        )
        yield Daemon(cc, cc.new_scheduler())


def load_configuration(
    options: Options, gates: FeatureGates, catalog: Catalog, default: KubeSchedulerConfiguration
) -> KubeSchedulerConfiguration:
    """The file, or the flags that stand in for one.

    Flags without a file are not validated: upstream checks its defaults and then applies them.
    """
    if not options.config:
        return options.with_leader_election(options.with_deprecated(default))
    config = load_config_file(options.config, catalog, gates=gates)
    config = options.with_leader_election(config)
    if found := validate(config, catalog, gates):
        raise ConfigError(aggregate(found))
    return config


def warn_of_metric_labels(options: Options) -> None:
    """Upstream complains about the label manifest even when no flag names one."""
    if options.allow_metric_labels is not None:
        return
    if not options.allow_metric_labels_manifest:
        log.text_error("The manifest file is empty, ignoring.")
    elif not read_manifest(options.allow_metric_labels_manifest):
        log.text_error("empty allow-list mapping supplied, ignoring.")


def warn_of_hidden_metrics(options: Options) -> None:
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
    rest_client_metrics = RestClientMetrics(metrics)
    post = asyncio.get_running_loop().call_soon_threadsafe
    reachability = Reachability()

    def transport(
        agent: str, observer: Observer, timeout_seconds: float | None = None
    ) -> Transport:
        rest_client_metrics.opened()
        return Transport(
            rest_config,
            agent=user_agent(agent),
            qps=connection.qps,
            burst=connection.burst,
            timeout_seconds=timeout_seconds,
            observer=observer,
            reachability=reachability,
        )

    return Clients(
        scheduling=await held.enter_async_context(transport("scheduler", rest_client_metrics)),
        events=await held.enter_async_context(transport("scheduler", rest_client_metrics)),
        # Not entered here: its connections belong to the thread that opens and closes them.
        leader_election=transport(
            "leader-election",
            ThreadsafeObserver(rest_client_metrics, post),
            request_seconds(config.leader_election),
        ),
        reachability=reachability,
    )


async def discover_events_api(client: Transport) -> bool:
    """Whether events.k8s.io/v1 is served. Asked once; a server that cannot say so gets core events
    for good.
    """
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


def log_configuration(completed: Completed) -> None:
    if not log.v(2):
        return
    for effective in completed.plugins.values():
        log.v(2).info(
            "the scheduler starts to work with those plugins", Plugins=effective.for_log()
        )
    log.v(2).info("Using component config", config=to_yaml(completed.written))


def write_config(config: KubeSchedulerConfiguration, path: str) -> None:
    """--write-config-to."""
    text = to_yaml(config)
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as err:
        verb = "open" if err.filename else "write"
        raise ConfigError(f"{verb} {path}: {reason(err)}") from err
    log.info("Wrote configuration", file=path)


def record_build(metrics: Metrics, gates: FeatureGates) -> None:
    """Build, versions and feature gates as metrics: Go's labels, with Python's facts in them."""
    major, minor = BINARY.release
    metrics.kubernetes_build_info.labels(
        str(major),
        str(minor),
        KUBERNETES_VERSION,
        f"kscheduler-{__version__}",
        "",
        "",
        f"python{platform.python_version()}",
        platform.python_implementation(),
        f"{platform.system().lower()}/{platform.machine()}",
    ).set(1)
    emulation = gates.emulation
    metrics.version_info.labels(
        COMPONENT, str(BINARY), release_text(emulation.emulated), release_text(emulation.lowest)
    ).set(1)
    for name, state in gates.states().items():
        stage = "" if state.stage is Stage.GA else state.stage
        metrics.kubernetes_feature_enabled.labels(name, stage).set(int(state.enabled))
