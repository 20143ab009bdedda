"""Run: serve, follow the cluster, win the lease, schedule; and end in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from kscheduler import logs, plugins
from kscheduler.app import debugger, garbage
from kscheduler.app.election import KubeLease, election_config, make_elector, request_seconds
from kscheduler.app.election_thread import ElectionThread
from kscheduler.app.scheduler import Assembler, Broadcaster, Scheduler, plugin_names, without
from kscheduler.app.signals import stop_on_signals, tell_on_signal
from kscheduler.app.startup import Setup
from kscheduler.client.events.legacy import LegacyBroadcaster, broadcaster_for
from kscheduler.client.fence import Fence
from kscheduler.client.kube_client import KubeClient
from kscheduler.config.dump import to_json
from kscheduler.errors import KschedulerError
from kscheduler.leader_election import LeaderElector
from kscheduler.runtime.out_of_tree.health import Limits
from kscheduler.serving import endpoints, gate
from kscheduler.serving.access_metrics import SERVING_CERTIFICATE, AccessObserver, Upkeep
from kscheduler.serving.health import PING, Check, ping
from kscheduler.serving.plain_listener import read_only
from kscheduler.serving.server import Server
from kscheduler.serving.tls_context import TlsContexts

log = logs.logger(__name__)

OK = 0
FAILED = 1

LAST_EVENTS_SECONDS = 1.0


@dataclass(slots=True)
class Daemon:
    """A scheduler and what surrounds it while it runs.

    With --leader-elect-rejoin, a lost lease costs the scheduler and all it knows; `assemble` makes
    the next one.
    """

    made: Setup
    assemble: Callable[[], Scheduler]
    scheduler: Scheduler
    broadcaster: Broadcaster
    lease_events: LegacyBroadcaster
    election: ElectionThread | None
    synced: bool = False
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def elector(self) -> LeaderElector | None:
        return None if self.election is None else self.election.elector

    @property
    def delays_cache(self) -> bool:
        """Follow the cluster only while leading, to spare a standby the memory."""
        return self.elector is not None and self.made.config.delay_cache_until_active

    @property
    def rejoins(self) -> bool:
        return self.elector is not None and self.made.options.leader_elect_rejoin

    async def run(self) -> int:
        """Until a signal or the loss of the lease; the exit code is kube-scheduler's."""
        self.made.clients.reachability.begin()
        async with asyncio.TaskGroup() as tasks:
            around = [
                tasks.create_task(logs.flush_regularly(), name="logs"),
                tasks.create_task(self.broadcaster.run(), name="events"),
                tasks.create_task(self.lease_events.run(), name="lease-events"),
            ]
            around.extend(
                tasks.create_task(server.run(), name="serving") for server in self._servers()
            )
            if self.made.serving is not None:
                trust = self.made.serving.delegation.follow()
                around.append(tasks.create_task(trust, name="serving/trust"))
            work = tasks.create_task(self._work(), name="scheduling")
            stop = tasks.create_task(self.stopping.wait(), name="signals")
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            lost_lease = not self.stopping.is_set()
            self.stopping.set()
            work.cancel()
            await asyncio.wait({work})
            await self._send_last_events()
            for task in reversed(around):
                task.cancel()
        return self._conclude(lost_lease=lost_lease)

    async def _send_last_events(self) -> None:
        """Upstream drops what it has not sent; a moment's patience saves most of it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_EVENTS_SECONDS):
                await self.broadcaster.drained()
                await self.lease_events.drained()
        self.broadcaster.shutdown()
        self.lease_events.shutdown()

    def _conclude(self, *, lost_lease: bool) -> int:
        if self.elector is None:
            raise KschedulerError("finished without leader elect")
        if lost_lease:
            log.error(None, "Leaderelection lost")
            return FAILED
        log.info("Requested to terminate, exiting")
        return OK

    async def _work(self) -> None:
        await self._serve_term()
        while self.rejoins:
            log.error(None, "Leaderelection lost, campaigning again")
            self.synced = False
            self.made.metrics.forget_state()
            self.scheduler = self.assemble()
            # The last scheduler was kept out of the collector's rounds; now it is garbage.
            garbage.look_again()
            await self._serve_term()

    async def _serve_term(self) -> None:
        """Follow the cluster and schedule; when leadership ends, so do the reflectors."""
        try:
            async with asyncio.TaskGroup() as reflectors:
                await self._follow_and_lead(reflectors)
                raise _OverError
        except* _OverError:
            pass

    async def _follow_and_lead(self, reflectors: asyncio.TaskGroup) -> None:
        if not self.delays_cache:
            await self._sync(reflectors)
        if self.election is None:
            await self._lead(reflectors)
        else:
            await self.election.run(lambda: self._lead(reflectors))

    async def _lead(self, reflectors: asyncio.TaskGroup) -> None:
        if self.delays_cache:
            log.info("Starting informers and waiting for sync...")
            await self._sync(reflectors)
            log.info("Sync completed")
        await self.scheduler.run()

    async def _sync(self, reflectors: asyncio.TaskGroup) -> None:
        await self.scheduler.sync(reflectors)
        self.synced = True
        log.v(3).info("Handlers synced")

    def _servers(self) -> Iterator[Server]:
        """The secure port, and the plain listeners that were asked for."""
        sources = self._sources()
        serving, plain = self.made.serving, self.made.plain
        if serving is not None:
            callers = serving.delegation
            guard = gate.guarded(
                endpoints.all_pages(sources),
                callers.authenticator,
                callers.authorizer,
                AccessObserver(self.made.metrics),
            )
            upkeep = Upkeep(self.made.metrics, SERVING_CERTIFICATE)
            tls = TlsContexts(serving.port, callers.trust, upkeep)
            yield Server(gate.presented(guard), serving.port.listener, tls)
        if plain.health is not None:
            yield Server(gate.presented(read_only(endpoints.health_pages(sources))), plain.health)
        if plain.metrics is not None:
            yield Server(gate.presented(read_only(endpoints.metrics_pages(sources))), plain.metrics)

    def _sources(self) -> endpoints.Sources:
        gates, metrics = self.made.gates, self.made.metrics
        return endpoints.Sources(
            checks=self._checks(),
            collect=metrics.registry.collect,
            reset=metrics.reset,
            configz=self._configz,
            pods=lambda: self.scheduler.following.pods.items(),
            leads=lambda: self.synced if self.elector is None else self.elector.is_leader,
            flags=self.made.options.texts if gates.enabled("ComponentFlagz") else None,
            emulated=gates.emulation.emulated if gates.enabled("ComponentStatusz") else None,
            profiles=self.made.config.enable_profiling,
        )

    def _checks(self) -> Mapping[str, list[Check]]:
        shutdown = Check("shutdown", self._shutting_down)
        sync = Check("sched-handler-sync", self._not_synced)
        outside: list[Check] = []
        if self.made.out_of_tree:
            outside.append(Check("outside-plugins", ping, self._failing_plugins))
        if self.elector is None:
            return {"healthz": [PING], "livez": [PING], "readyz": [shutdown, sync, *outside]}
        election = Check("leaderElection", self.elector.overdue)
        return {
            "healthz": [election],
            "livez": [PING],
            "readyz": [election, shutdown, sync, *outside],
        }

    def _failing_plugins(self) -> str:
        return self.scheduler.outside.health.troubles()

    def _shutting_down(self) -> str | None:
        return "process is shutting down" if self.stopping.is_set() else None

    def _not_synced(self) -> str | None:
        return None if self.synced else "handlers are not fully synchronized"

    def _configz(self) -> bytes:
        completed = self.made.completed
        shown = completed.written if log.v(2) else completed.config
        return f'{{"componentconfig":{to_json(shown)}}}'.encode()


class _OverError(Exception):
    """Ends the group of reflectors."""


async def run(made: Setup) -> int:
    """Schedules until told to stop."""
    log.info("Starting Kubernetes Scheduler", version=made.options.reported_version)
    log.info("Golang settings", **_go_settings(os.environ))
    daemon = build(made)
    stop_on_signals(daemon.stopping.set)
    tell_on_signal(lambda: debugger.tell(daemon.scheduler))
    return await daemon.run()


def build(made: Setup) -> Daemon:
    """Everything that can still be wrong with the configuration is found here."""
    lease_events = LegacyBroadcaster(KubeClient(made.clients.scheduling))
    election = _election(made, lease_events)
    fence = None if election is None else _fence(election.elector)
    _tell_what_is_missing(made)
    broadcaster = broadcaster_for(
        KubeClient(made.clients.events),
        has_events_api=made.has_events_api,
        dropped=made.metrics.kscheduler_events_dropped_total.inc,
        urgent=lambda: made.clients.scheduling.busy,
    )
    assemble = Assembler(
        completed=without(made.completed, plugins.not_built()),
        resources=plugins.resources_read(plugin_names(made.completed)),
        registry={**plugins.factories(), **made.out_of_tree},
        gates=made.gates,
        client=KubeClient(made.clients.scheduling, fence=fence),
        broadcaster=broadcaster,
        metrics=made.metrics,
        max_unschedulable_seconds=made.options.pod_max_in_unschedulable_pods_duration.seconds,
        rng=random.Random(),
        limits=Limits(
            call_seconds=made.options.plugin_timeout.seconds,
            wait_seconds=made.options.plugin_wait_timeout.seconds,
            max_failures=made.options.plugin_max_failures,
        ),
    ).assemble
    return Daemon(made, assemble, assemble(), broadcaster, lease_events, election)


def _election(made: Setup, events: LegacyBroadcaster) -> ElectionThread | None:
    config = made.config.leader_election
    if not config.leader_elect:
        return None
    lease = KubeLease(
        made.clients.leader_election,
        config.resource_namespace,
        config.resource_name,
        request_seconds(config),
    )
    recorder = events.recorder(made.config.profiles[0].scheduler_name)
    post = asyncio.get_running_loop().call_soon_threadsafe
    elector = make_elector(lease, election_config(config), recorder, made.metrics, post)
    return ElectionThread(elector, made.clients.leader_election)


def _fence(elector: LeaderElector) -> Fence:
    """Keeps writes back while the lease has run out, and lets them go when it is renewed."""
    fence = Fence(elector.held)
    post = asyncio.get_running_loop().call_soon_threadsafe
    elector.observers.renewed = partial(post, fence.changed)
    return fence


def _tell_what_is_missing(made: Setup) -> None:
    """Nobody should find out from a misplaced pod what this version cannot do yet."""
    missing = plugins.not_built()
    for name in sorted(plugin_names(made.completed) & missing.keys()):
        log.text_warning(f"Plugin {name} is not available in this version: {missing[name]}")


def _go_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Nothing reads them here; the line is one that log readers know."""
    return {name: environ.get(name, "") for name in ("GOGC", "GOMAXPROCS", "GOTRACEBACK")}
