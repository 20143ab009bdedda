"""One scheduler: cache, queue, plugins and cycle around one API server.

Mirrors pkg/scheduler/scheduler.go (`New`, `Run`). Differs: the informers belong to the scheduler,
because with --leader-elect-rejoin both are made anew.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from kscheduler import caches
from kscheduler.api.core import Pod
from kscheduler.api.requests import Counting
from kscheduler.api.resources import PODS
from kscheduler.api.timestamps import steady_time
from kscheduler.app import memory
from kscheduler.app.extenders import connection_to, objects_to_keep_whole
from kscheduler.app.informers import Informers
from kscheduler.client.events.broadcaster import EventBroadcaster, Recorder, reference_to
from kscheduler.client.events.legacy import LegacyBroadcaster
from kscheduler.client.extender import ExtenderHttp
from kscheduler.client.informers.informer import InformerFactory, Registration
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.observation import InformerObserver
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.profiles import Completed
from kscheduler.cycle.bind import Binder
from kscheduler.cycle.failure import FailureHandler
from kscheduler.cycle.loop import SchedulingLoop
from kscheduler.cycle.refused_pods import RefusedPods
from kscheduler.cycle.schedule import SchedulingAlgorithm
from kscheduler.cycle.status_writer import StatusWriter
from kscheduler.decisions.decision_log import DecisionLog
from kscheduler.event_handlers import EventHandlers, add_all_event_handlers
from kscheduler.framework.handle import Factory
from kscheduler.metrics import Metrics
from kscheduler.plugins import resources_read
from kscheduler.queue.backoff_queue import Backoff
from kscheduler.queue.nominator import Nominator
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.runtime.background import Background
from kscheduler.runtime.extenders.extender import Extender
from kscheduler.runtime.extenders.extenders import Extenders
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.handle import OutOfTreeServices, RuntimeHandle
from kscheduler.runtime.out_of_tree.health import Limits
from kscheduler.runtime.pods_in_pre_bind import PodsInPreBind
from kscheduler.runtime.profile import build_frameworks
from kscheduler.runtime.waiting_pods import WaitingPods
from kscheduler.state.cache import Cache
from kscheduler.state.pod_info import PodInfo

Broadcaster = EventBroadcaster | LegacyBroadcaster

# The informers' name in metrics.
INFORMERS = "kube-scheduler"


class PodRecorder:
    """Events about pods, in the name of one profile."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def event(self, regarding: Pod, kind: str, reason: str, action: str, note: str, /) -> None:
        self._recorder.record(
            reference_to(PODS, regarding), type=kind, reason=reason, action=action, note=note
        )


class Scheduler(msgspec.Struct, frozen=True):
    """The parts of one scheduler; `sync` it, then `run` it."""

    informers: Informers
    frameworks: Mapping[str, Framework]
    cache: Cache
    queue: SchedulingQueue
    loop: SchedulingLoop
    writer: StatusWriter
    refused_pods: RefusedPods
    background: Background
    out_of_tree: OutOfTreeServices
    extender_connections: Sequence[ExtenderHttp]
    # None if no decisions are kept.
    decisions: DecisionLog | None
    handlers: Sequence[Registration[Any]]
    # The source of all choices by chance.
    rng: random.Random

    @property
    def in_sync(self) -> bool:
        return all(handler.has_synced for handler in self.handlers)

    @property
    def is_busy(self) -> bool:
        """Whether pods wait to be decided, or to be bound."""
        return self.queue.ready or self.cache.assumed_pod_count > 0

    async def sync(self, tasks: asyncio.TaskGroup) -> None:
        """Starts the informers; returns when every handler has got its whole initial list.

        Nothing is decided before that: what arrives in slices is then a whole.
        """
        factory = self.informers.factory
        memory.freeze()
        factory.start(tasks)
        await factory.wait_for_sync()
        await factory.wait_for_handlers(self.handlers)
        memory.set_aside()
        shed = (lambda: None) if self.decisions is None else self.decisions.shed
        tasks.create_task(memory.age_caches(self.caches, shed), name="caches/aging")

    def caches(self) -> Iterator[caches.Cache]:
        return memory.caches_of(self.cache, self.frameworks.values())

    async def run(self) -> None:
        """Schedules until cancelled; a scheduler that has run is not run again."""
        self.cache.foreign_binds.noticed = True
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.writer.run(), name="status-writer")
                tasks.create_task(self.refused_pods.run(), name="refused-pods")
                tasks.create_task(self.background.run(), name="background")
                tasks.create_task(self.out_of_tree.background.run(), name="plugins")
                tasks.create_task(self.loop.run(), name="scheduling-loop")
        finally:
            for framework in self.frameworks.values():
                framework.close()
            for connection in self.extender_connections:
                await connection.close()


def new_scheduler(
    *,
    completed: Completed,
    registry: Mapping[str, Factory],
    gates: FeatureGates,
    client: KubeClient,
    broadcaster: Broadcaster,
    metrics: Metrics,
    max_unschedulable_seconds: float,
    rng: random.Random,
    decision_log_bytes: int = 0,
    limits: Limits | None = None,
) -> Scheduler:
    """A scheduler, not yet started; ConfigError if a plugin refuses its arguments.

    Plugins that `registry` does not have run nowhere, but the collections that they read are
    watched all the same, as upstream watches them.
    """
    config = completed.config
    factory = InformerFactory(
        client,
        objects_to_keep_whole(config.extenders),
        observer=InformerObserver(metrics, INFORMERS),
    )
    names = plugin_names(completed)
    informers = Informers(factory, resources_read(names))
    extender_connections = [connection_to(one, client.fence) for one in config.extenders]
    extenders = Extenders(map(Extender, config.extenders, extender_connections), informers=factory)
    cache = Cache()
    recorders = {name: PodRecorder(broadcaster.recorder(name)) for name in completed.plugins}
    waiting_pods, in_pre_bind = WaitingPods(), PodsInPreBind()
    background = Background()
    out_of_tree = OutOfTreeServices(limits=limits or Limits(), follow=informers.follow)

    # Three knots, each tied by a name that is bound further down and looked up only once pods are
    # being scheduled: plugins nominate and activate pods of the queue, which sorts pods by a
    # plugin; the queue lets no pod skip backoff while failures are being written, and the writer
    # reports when they are.
    nominator = Nominator(lambda key: queue.pod_info(key), informers.pods)

    def activate(pods: Iterable[PodInfo]) -> None:
        queue.activate(pods, steady_time())

    def handle_for(profile: str) -> RuntimeHandle:
        return RuntimeHandle(
            gates=gates,
            listers=informers,
            snapshot=cache.snapshot,
            nominator=nominator,
            activate=activate,
            client=client,
            recorder=recorders[profile],
            metrics=metrics,
            waiting_pods=waiting_pods,
            pods_in_pre_bind=in_pre_bind,
            background=background,
            extenders=extenders,
            rng=rng,
            out_of_tree=out_of_tree,
        )

    frameworks = build_frameworks(without(completed, names - registry.keys()), registry, handle_for)
    backoff = Backoff(
        config.pod_initial_backoff_seconds,
        config.pod_max_backoff_seconds,
        windows=gates.enabled("SchedulerPopFromBackoffQ"),
    )
    queue = SchedulingQueue(
        frameworks,
        metrics,
        nominator=nominator,
        backoff=backoff,
        max_unschedulable_seconds=max_unschedulable_seconds,
        counts_pre_hints=gates.enabled("SchedulerPreQueueingHints"),
        is_reporting=lambda: writer.busy,
        later=lambda step: asyncio.get_running_loop().call_soon(step),
        hold=factory.hold,
    )
    writer = StatusWriter(client, informers.pods, fence=client.fence, on_idle=queue.reported)
    decisions = None
    if decision_log_bytes:
        decisions = DecisionLog(decision_log_bytes)
        out_of_tree.health.listen(decisions.fault)
    failures = FailureHandler(queue, informers.pods, recorders.__getitem__, writer, metrics)
    binder = Binder(
        cache=cache,
        queue=queue,
        failures=failures,
        writer=writer,
        recorder=recorders.__getitem__,
        metrics=metrics,
        pods_in_pre_bind=in_pre_bind,
        extenders=extenders,
        reader=client,
        nominates=gates.enabled("NominatedNodeNameForExpectation"),
        decisions=decisions,
    )
    algorithm = SchedulingAlgorithm(
        metrics,
        rng=rng,
        percentage_of_nodes_to_score=config.percentage_of_nodes_to_score or 0,
        batching=gates.enabled("OpportunisticBatching"),
        extenders=extenders,
    )
    loop = SchedulingLoop(
        queue=queue,
        cache=cache,
        frameworks=frameworks,
        algorithm=algorithm,
        extenders=extenders,
        binder=binder,
        failures=failures,
        recorder=recorders.__getitem__,
        metrics=metrics,
        rng=rng,
        decisions=decisions,
        backoff=backoff,
    )
    refused_pods = RefusedPods(client, broadcaster.recorder, metrics)
    events = EventHandlers(
        cache,
        queue,
        frameworks,
        metrics,
        waiting_pods=waiting_pods,
        vanished=refused_pods.vanished,
        compile_pod=partial(PodInfo, counting=counting(gates)),
    )
    kept = [] if decisions is None else [decisions]
    metrics.watch_caches(lambda: chain(memory.caches_of(cache, frameworks.values()), kept))
    return Scheduler(
        informers,
        frameworks,
        cache,
        queue,
        loop,
        writer,
        refused_pods,
        background,
        out_of_tree,
        extender_connections,
        decisions,
        handlers=add_all_event_handlers(informers, events),
        rng=rng,
    )


def counting(gates: FeatureGates) -> Counting:
    """The resources of a pod that count against its node, as the feature gates have it."""
    return Counting(
        status=True,
        pod_level=gates.enabled("PodLevelResources"),
        pod_level_status=gates.enabled("InPlacePodLevelResourcesVerticalScaling"),
        claims=gates.enabled("DRANodeAllocatableResources"),
    )


def without(completed: Completed, missing: Collection[str]) -> Completed:
    """A copy of the configuration as if these plugins ran nowhere."""
    plugins = {
        name: replace(
            effective,
            by_point={
                point: tuple(plugin for plugin in names if plugin not in missing)
                for point, names in effective.by_point.items()
            },
        )
        for name, effective in completed.plugins.items()
    }
    return replace(completed, plugins=plugins)


def plugin_names(completed: Completed) -> set[str]:
    """All plugins that run at some point of some profile."""
    return {
        name
        for effective in completed.plugins.values()
        for names in effective.by_point.values()
        for name in names
    }
