"""Run: configz, events, health, serving, informers, election, loop; and an end in order.

Mirrors `Run` in cmd/kube-scheduler/app/server.go. Differs: the last events are sent before the
process ends, and --leader-elect-rejoin campaigns again instead of ending it.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kscheduler import logs
from kscheduler.app import debugger, memory
from kscheduler.app.advertisement import Advertisement, LeaderEndpoint, own_address
from kscheduler.app.config import CompletedConfig, Serving
from kscheduler.app.election import (
    ElectionThread,
    KubeLease,
    election_config,
    make_elector,
    request_seconds,
)
from kscheduler.app.scheduler import Scheduler, plugin_names
from kscheduler.app.signals import dump_on_signal, stop_on_signals
from kscheduler.client.kube_client import KubeClient
from kscheduler.config.dump import to_json
from kscheduler.errors import KschedulerError
from kscheduler.leader_election import LeaderElector
from kscheduler.plugins import not_built
from kscheduler.serving.access_metrics import SERVING_CERTIFICATE, AccessObserver, Upkeep
from kscheduler.serving.health import PING, Check, ping

if TYPE_CHECKING:
    from kscheduler.serving.explanation.api import ExplanationApi
    from kscheduler.serving.server import Server
    from kscheduler.serving.tls_context import TlsContexts

log = logs.logger(__name__)

OK = 0
FAILED = 1

LAST_EVENTS_SECONDS = 1.0
# The longest that serving waits for the first sync and for the pods that were there, and how often
# it looks.
SCHEDULING_FIRST_SECONDS = 1.0
LOOK_SECONDS = 0.02


async def run(daemon: Daemon) -> int:
    """Schedules until a signal or the loss of the lease; the exit code is kube-scheduler's."""
    log.info("Starting Kubernetes Scheduler", version=daemon.cc.options.reported_version)
    # Nothing reads these here; the line is one that log readers know.
    go_settings = {name: os.environ.get(name, "") for name in ("GOGC", "GOMAXPROCS", "GOTRACEBACK")}
    log.info("Golang settings", **go_settings)
    stop_on_signals(daemon.stopping.set)
    dump_on_signal(lambda: debugger.dump(daemon.scheduler))
    return await daemon.run()


def warn_of_missing_plugins(cc: CompletedConfig) -> None:
    """Warns of configured plugins that this version lacks, before a misplaced pod does."""
    missing = not_built()
    for name in sorted(plugin_names(cc.completed) & missing.keys()):
        log.text_warning(f"Plugin {name} is not available in this version: {missing[name]}")


class Daemon:
    """A scheduler and what surrounds it while it runs.

    With --leader-elect-rejoin, a lost lease costs the scheduler and all it knows, and `scheduler`
    becomes another one.
    """

    def __init__(self, cc: CompletedConfig, scheduler: Scheduler) -> None:
        self.cc = cc
        self.scheduler = scheduler
        self._advertisement: Advertisement | None = None
        if cc.serving is not None:
            self._advertisement = Advertisement(cc.serving.port.listener, cc.rest_config.server)
        self._tls: TlsContexts | None = None
        self.election = _election(cc, self._annotations, self._renewed)
        self.synced = False
        self.stopping = asyncio.Event()
        self._synced_once = asyncio.Event()
        # None until the secure port is served.
        self.explanations: ExplanationApi | None = None

    @property
    def elector(self) -> LeaderElector | None:
        return None if self.election is None else self.election.elector

    @property
    def leads(self) -> bool:
        """Whether this instance schedules; without election it does once it is in sync."""
        return self.synced if self.elector is None else self.elector.is_leader

    @property
    def delays_cache(self) -> bool:
        """Whether informers start only when the lease is won, to spare a standby the memory."""
        return self.elector is not None and self.cc.component_config.delay_cache_until_active

    @property
    def rejoins(self) -> bool:
        return self.elector is not None and self.cc.options.leader_elect_rejoin

    async def run(self) -> int:
        """Runs everything until a signal or the loss of the lease; returns the exit code.

        Raises ConfigError if the election's durations do not fit each other: flags without a file
        are checked here and not in setup, as upstream does.
        """
        if self.elector is not None:
            self.elector.config.check()
        warn_of_missing_plugins(self.cc)
        memory.set_aside()
        self.cc.clients.reachability.begin()
        running = asyncio.get_running_loop()
        self.cc.metrics.kscheduler_tasks.labels().read_from(
            lambda: float(len(asyncio.all_tasks(running)))
        )
        async with asyncio.TaskGroup() as tasks:
            around = [
                tasks.create_task(logs.flush_regularly(), name="logs"),
                tasks.create_task(self.cc.events.run(), name="events"),
                tasks.create_task(self.cc.lease_events.run(), name="lease-events"),
            ]
            around.append(tasks.create_task(self.serve(), name="serving"))
            if self.cc.serving is not None and self.cc.options.leader_service:
                endpoint = LeaderEndpoint(
                    KubeClient(self.cc.clients.events, fence=self.cc.fence),
                    self.cc.options.leader_service,
                    address=lambda: own_address(self.cc.rest_config.server),
                    port=self.cc.serving.port.listener.getsockname()[1],
                    leads=lambda: self.leads and self.synced,
                )
                around.append(tasks.create_task(endpoint.run(), name="leader-endpoint"))
            work = tasks.create_task(self.schedule(), name="scheduling")
            stop = tasks.create_task(self.stopping.wait(), name="signals")
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            lost_lease = not self.stopping.is_set()
            # Serving goes on until the end, and readyz says from here on why it is not ready.
            self.stopping.set()
            self._end_watches()
            work.cancel()
            await asyncio.wait({work})
            # Upstream drops the events it has not sent; a moment's patience saves most of them.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_EVENTS_SECONDS):
                    await self.cc.events.drained()
                    await self.cc.lease_events.drained()
            self.cc.events.shutdown()
            self.cc.lease_events.shutdown()
            for task in reversed(around):
                task.cancel()
        if self.elector is None:
            # Upstream ends so, with exit code 1, whatever the reason was.
            raise KschedulerError("finished without leader elect")
        if lost_lease:
            log.error(None, "Leaderelection lost")
            return FAILED
        log.info("Requested to terminate, exiting")
        return OK

    async def schedule(self) -> None:
        """One term in office, or with --leader-elect-rejoin one after the other."""
        await self._serve_term()
        while self.rejoins:
            log.error(None, "Leaderelection lost, campaigning again")
            self.synced = False
            self._end_watches()
            self.cc.metrics.forget_state()
            self.scheduler = self.cc.new_scheduler()
            # The last scheduler was kept out of the collector's rounds; now it is garbage.
            memory.unfreeze()
            await self._serve_term()

    async def _serve_term(self) -> None:
        """Informers, election, loop; when leadership ends, so do the reflectors."""
        try:
            async with asyncio.TaskGroup() as reflectors:
                if not self.delays_cache:
                    await self._sync(reflectors)
                if self.election is None:
                    await self.scheduler.run()
                else:
                    await self.election.run(lambda: self._lead(reflectors))
                raise _OverError
        except* _OverError:
            pass

    def _annotations(self) -> Mapping[str, str]:
        """Annotations of the lease; read by the election's thread."""
        return {} if self._advertisement is None else self._advertisement.annotations

    def _renewed(self) -> None:
        """The lease was written: writes may go on, and the next renewal tells what is true then."""
        assert self.cc.fence is not None
        self.cc.fence.changed()
        self._advertise()

    def _advertise(self) -> None:
        if self._advertisement is not None and self._tls is not None:
            self._advertisement.refresh(self._tls.certificate(time.monotonic()))

    def _end_watches(self) -> None:
        """Watches end, as nothing is told here any more; one would keep the port from closing."""
        if self.explanations is not None:
            self.explanations.end_watches()

    async def _lead(self, reflectors: asyncio.TaskGroup) -> None:
        if self.delays_cache:
            log.info("Starting informers and waiting for sync...")
            await self._sync(reflectors)
            log.info("Sync completed")
        await self.scheduler.run()

    async def _sync(self, reflectors: asyncio.TaskGroup) -> None:
        await self.scheduler.sync(reflectors)
        self.synced = True
        self._synced_once.set()
        log.v(3).info("Handlers synced")

    async def serve(self) -> None:
        """Serves the secure port, and the plain listeners that were asked for, until cancelled.

        The modules that answer take 0.2 s to import, those that understand certificates among
        them: as long as listing 5,000 nodes takes. And a key has to be made. Pods that have waited
        for this start go first, but not for long. The sockets are listening already, so that a
        client which connects meanwhile only waits.
        """
        plain = self.cc.plain
        if self.cc.serving is None and plain.health is None and plain.metrics is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SCHEDULING_FIRST_SECONDS):
                await self._synced_once.wait()
                while self.leads and self.scheduler.is_busy:  # noqa: ASYNC110 (one look is cheap)
                    await asyncio.sleep(LOOK_SECONDS)
        await asyncio.to_thread(load_serving, self.cc.serving)
        if self._advertisement is not None:
            await asyncio.to_thread(self._advertisement.look_up)
        async with asyncio.TaskGroup() as tasks:
            if self.cc.serving is not None:
                trust = self.cc.serving.delegation.refresh_trust()
                tasks.create_task(trust, name="serving/trust")
            for server in self.servers():
                tasks.create_task(server.run(), name="serving")

    def servers(self) -> list[Server]:
        from kscheduler.app.explanation import explanation_sources
        from kscheduler.serving import endpoints, gate
        from kscheduler.serving.explanation.api import ExplanationApi, install_discovery
        from kscheduler.serving.server import Server
        from kscheduler.serving.tls_context import TlsContexts

        gates, metrics = self.cc.gates, self.cc.metrics
        sources = endpoints.Sources(
            checks=self.checks(),
            collect=metrics.registry.collect,
            reset=metrics.reset,
            configz=self.configz,
            pods=lambda: self.scheduler.informers.pods.items(),
            leads=lambda: self.leads,
            flags=self.cc.options.texts if gates.enabled("ComponentFlagz") else None,
            emulated=gates.emulation.emulated if gates.enabled("ComponentStatusz") else None,
            profiles=self.cc.component_config.enable_profiling,
        )
        servers: list[Server] = []
        serving, plain = self.cc.serving, self.cc.plain
        if serving is not None:
            callers = serving.delegation
            pages = endpoints.all_pages(sources)
            install_discovery(pages)
            self.explanations = ExplanationApi(
                explanation_sources(self), callers.authorizer, metrics
            )
            guarded = gate.guarded(
                pages,
                callers.authenticator,
                callers.authorizer,
                AccessObserver(metrics),
                self.explanations,
            )
            upkeep = Upkeep(metrics, SERVING_CERTIFICATE)
            self._tls = TlsContexts(serving.port, callers.trust, upkeep)
            self._advertise()
            servers.append(Server(gate.presented(guarded), serving.port.listener, self._tls))
        for listener, make_pages in (
            (plain.health, endpoints.health_pages),
            (plain.metrics, endpoints.metrics_pages),
        ):
            if listener is not None:
                handler = gate.presented(gate.read_only(make_pages(sources)))
                servers.append(Server(handler, listener))
        return servers

    def checks(self) -> Mapping[str, list[Check]]:
        """Health checks by endpoint, in the order in which ?verbose shows them."""

        def shutting_down() -> str | None:
            return "process is shutting down" if self.stopping.is_set() else None

        def not_synced() -> str | None:
            return None if self.synced else "handlers are not fully synchronized"

        def failing_plugins() -> str:
            # Asked for at each look: after a lost lease the daemon has another scheduler.
            return self.scheduler.out_of_tree.health.troubles()

        ready = [Check("shutdown", shutting_down), Check("sched-handler-sync", not_synced)]
        if self.cc.out_of_tree:
            # Always passes: a plugin that fails is set aside, which is no reason to restart.
            ready.append(Check("outside-plugins", ping, failing_plugins))
        if self.elector is None:
            return {"healthz": [PING], "livez": [PING], "readyz": ready}
        election = Check("leaderElection", self.elector.overdue)
        return {"healthz": [election], "livez": [PING], "readyz": [election, *ready]}

    def configz(self) -> bytes:
        completed = self.cc.completed
        # Upstream's logging of the configuration at -v=2 changes it in place, and configz with it.
        shown = completed.written if log.v(2) else completed.config
        return f'{{"componentconfig":{to_json(shown)}}}'.encode()


def load_serving(serving: Serving | None) -> None:
    """Imports the modules that answer requests, learns whom to trust, and makes the certificate
    if none was given.
    """
    importlib.import_module("kscheduler.serving.endpoints")
    importlib.import_module("kscheduler.app.explanation")
    importlib.import_module("kscheduler.serving.explanation.api")
    importlib.import_module("kscheduler.serving.server")
    if serving is not None:
        if serving.delegation.published is not None:
            serving.delegation.published.take_first()
        serving.port.make_pair()


class _OverError(Exception):
    """Ends the group of reflectors."""


def _election(
    cc: CompletedConfig,
    annotations: Callable[[], Mapping[str, str]],
    renewed: Callable[[], object],
) -> ElectionThread | None:
    config = cc.component_config.leader_election
    if cc.tenure is None or cc.fence is None:
        return None
    transport = cc.clients.leader_election
    elector = make_elector(
        KubeLease(
            transport,
            config.resource_namespace,
            config.resource_name,
            request_seconds(config),
            annotations,
        ),
        election_config(config),
        cc.lease_events.recorder(cc.component_config.profiles[0].scheduler_name),
        cc.metrics,
        tenure=cc.tenure,
        renewed=renewed,
        post=asyncio.get_running_loop().call_soon_threadsafe,
    )
    return ElectionThread(elector, transport)
