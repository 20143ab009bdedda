"""Puts a scheduler together: cache, queue, plugins and cycle around one API server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from kscheduler import caches
from kscheduler.api.core import Pod
from kscheduler.api.requests import Counting
from kscheduler.api.resources import PODS, Resource
from kscheduler.api.timestamps import steady_time
from kscheduler.app import garbage
from kscheduler.app.extending import Extending, kept_for
from kscheduler.app.informers import Following
from kscheduler.app.memory import age_caches, caches_of
from kscheduler.client.events.broadcaster import EventBroadcaster, Recorder, reference_to
from kscheduler.client.events.legacy import LegacyBroadcaster
from kscheduler.client.informers.informer import InformerFactory, Registration
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.observation import InformerObserver
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.model import KubeSchedulerConfiguration
from kscheduler.config.profiles import Completed, EffectivePlugins
from kscheduler.cycle.batching import Batching
from kscheduler.cycle.bind import Binder
from kscheduler.cycle.extended import ExtendedScheduler
from kscheduler.cycle.failure import FailureHandler
from kscheduler.cycle.loop import SchedulingLoop
from kscheduler.cycle.schedule import Scheduler as Decider
from kscheduler.cycle.status_writer import StatusWriter
from kscheduler.event_handlers import EventHandlers
from kscheduler.extension_points import Point
from kscheduler.metrics import Metrics
from kscheduler.queue.backoff import Backoff
from kscheduler.queue.queue import SchedulingQueue
from kscheduler.runtime.background import Background
from kscheduler.runtime.extenders.extenders import Extenders
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.handle import Factory, Handle
from kscheduler.runtime.out_of_tree.health import Limits
from kscheduler.runtime.out_of_tree.support import Support
from kscheduler.runtime.pods_in_pre_bind import PodsInPreBind
from kscheduler.runtime.profile import build_frameworks
from kscheduler.runtime.waiting_pods import WaitingPods
from kscheduler.state.cache import Cache
from kscheduler.state.change_log import ChangeLog
from kscheduler.state.pod_info import PodInfo

Broadcaster = EventBroadcaster | LegacyBroadcaster

# What metrics call the informers of a scheduler.
INFORMERS = "kube-scheduler"


class PodRecorder:
    """Events about pods, in the name of one profile."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def event(self, regarding: Pod, kind: str, reason: str, action: str, note: str, /) -> None:
        self._recorder.record(
            reference_to(PODS, regarding), type=kind, reason=reason, action=action, note=note
        )


class Nominations:
    """The queue's nominator, for plugins, which are made before the queue is."""

    queue: SchedulingQueue

    @property
    def nodes(self) -> Collection[str]:
        return self.queue.nominator.nodes

    @property
    def changes(self) -> ChangeLog[str]:
        return self.queue.nominator.changes

    def pods_for_node(self, node: str, /) -> Sequence[PodInfo]:
        return self.queue.nominator.pods_for_node(node)

    def node_of(self, uid: str, /) -> str | None:
        return self.queue.nominator.node_of(uid)


@dataclass(slots=True)
class Scheduler:
    """One scheduler, assembled and not yet started."""

    following: Following
    frameworks: Mapping[str, Framework]
    cache: Cache
    queue: SchedulingQueue
    loop: SchedulingLoop
    writer: StatusWriter
    background: Background
    outside: Support
    extending: Extending
    handlers: Sequence[Registration[Any]]

    @property
    def in_sync(self) -> bool:
        return all(handler.has_synced for handler in self.handlers)

    async def sync(self, tasks: asyncio.TaskGroup) -> None:
        """Start following; return when every handler has got its whole initial list.

        Nothing is decided before that: what arrives in slices is then a whole.
        """
        factory = self.following.factory
        garbage.set_aside()
        factory.start(tasks)
        await factory.wait_for_sync()
        await factory.wait_for_handlers(self.handlers)
        garbage.set_aside()
        tasks.create_task(age_caches(self.caches), name="caches/aging")

    def caches(self) -> Iterator[caches.Cache]:
        return caches_of(self.cache, self.frameworks.values())

    async def run(self) -> None:
        """Schedule until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.writer.run(), name="status-writer")
                tasks.create_task(self.background.run(), name="background")
                tasks.create_task(self.outside.background.run(), name="plugins")
                tasks.create_task(self.loop.run(), name="scheduling-loop")
        finally:
            for framework in self.frameworks.values():
                framework.close()
            await self.extending.close()


@dataclass(slots=True)
class Assembler:
    """What a scheduler is made of.

    `completed` names only plugins that `registry` has; `resources` are the collections besides pods
    and nodes that are watched, also those of plugins that are not built.
    """

    completed: Completed
    resources: Collection[Resource]
    registry: Mapping[str, Factory]
    gates: FeatureGates
    client: KubeClient
    broadcaster: Broadcaster
    metrics: Metrics
    max_unschedulable_seconds: float
    rng: random.Random
    limits: Limits = field(default_factory=Limits)

    def assemble(self) -> Scheduler:
        configured = self._config.extenders
        observer = InformerObserver(self.metrics, INFORMERS)
        factory = InformerFactory(self.client, kept_for(configured), observer=observer)
        following = Following(factory, self.resources)
        extending = Extending(configured, factory, self.client.fence)
        cache = Cache()
        recorders = {
            name: PodRecorder(self.broadcaster.recorder(name)) for name in self.completed.plugins
        }
        nominations = Nominations()
        waiting_pods, in_pre_bind = WaitingPods(), PodsInPreBind()
        background = Background()
        outside = Support(limits=self.limits, follow=following.follow)
        frameworks = self._frameworks(
            following,
            cache,
            recorders,
            nominations,
            waiting_pods,
            in_pre_bind,
            background,
            outside,
            extending.extenders,
        )
        writer = StatusWriter(self.client, following.pods, fence=self.client.fence)
        queue = nominations.queue = self._queue(frameworks, following, writer)
        writer.on_idle = queue.reported
        failures = FailureHandler(
            queue, following.pods, recorders.__getitem__, writer, self.metrics
        )
        binder = Binder(
            cache=cache,
            queue=queue,
            failures=failures,
            writer=writer,
            recorder=recorders.__getitem__,
            metrics=self.metrics,
            pods_in_pre_bind=in_pre_bind,
            extenders=extending.extenders,
            reader=self.client,
            nominates=self.gates.enabled("NominatedNodeNameForExpectation"),
        )
        scheduler, extended = self._decider(extending.extenders), None
        if extending.extenders:
            extended = ExtendedScheduler(scheduler, extending.extenders, self.metrics)
        loop = SchedulingLoop(
            queue=queue,
            cache=cache,
            frameworks=frameworks,
            scheduler=scheduler,
            extended=extended,
            binder=binder,
            failures=failures,
            recorder=recorders.__getitem__,
            metrics=self.metrics,
            rng=self.rng,
            backoff=self._backoff,
        )
        events = EventHandlers(
            cache,
            queue,
            frameworks,
            self.metrics,
            waiting_pods=waiting_pods,
            compile_pod=partial(PodInfo, counting=_counting(self.gates)),
        )
        handlers = subscribe(following, events)
        self.metrics.watch_caches(partial(caches_of, cache, frameworks.values()))
        return Scheduler(
            following,
            frameworks,
            cache,
            queue,
            loop,
            writer,
            background,
            outside,
            extending,
            handlers,
        )

    @property
    def _config(self) -> KubeSchedulerConfiguration:
        return self.completed.config

    @property
    def _backoff(self) -> Backoff:
        return Backoff(
            self._config.pod_initial_backoff_seconds,
            self._config.pod_max_backoff_seconds,
            windows=self.gates.enabled("SchedulerPopFromBackoffQ"),
        )

    def _frameworks(
        self,
        following: Following,
        cache: Cache,
        recorders: Mapping[str, PodRecorder],
        nominations: Nominations,
        waiting_pods: WaitingPods,
        in_pre_bind: PodsInPreBind,
        background: Background,
        outside: Support,
        extenders: Extenders,
    ) -> dict[str, Framework]:
        def handle_for(profile: str) -> Handle:
            return Handle(
                gates=self.gates,
                listers=following,
                snapshot=cache.snapshot,
                nominator=nominations,
                activate=lambda pods: nominations.queue.activate(pods, steady_time()),
                client=self.client,
                recorder=recorders[profile],
                metrics=self.metrics,
                waiting_pods=waiting_pods,
                pods_in_pre_bind=in_pre_bind,
                background=background,
                extenders=extenders,
                rng=self.rng,
                outside=outside,
            )

        return build_frameworks(self.completed, self.registry, handle_for)

    def _queue(
        self, frameworks: Mapping[str, Framework], following: Following, writer: StatusWriter
    ) -> SchedulingQueue:
        return SchedulingQueue(
            frameworks,
            self.metrics,
            backoff=self._backoff,
            max_unschedulable_seconds=self.max_unschedulable_seconds,
            pods=following.pods,
            is_reporting=lambda: writer.busy,
            later=lambda step: asyncio.get_running_loop().call_soon(step),
            hold=following.factory.hold,
        )

    def _decider(self, extenders: Extenders) -> Decider:
        percentage = self._config.percentage_of_nodes_to_score or 0
        batches = self.gates.enabled("OpportunisticBatching")
        return Decider(
            rng=self.rng,
            percentage_of_nodes_to_score=percentage,
            batching=Batching(self.metrics) if batches else None,
            extenders=extenders,
        )


def _counting(gates: FeatureGates) -> Counting:
    """What of a pod counts against its node."""
    return Counting(
        status=True,
        pod_level=gates.enabled("PodLevelResources"),
        pod_level_status=gates.enabled("InPlacePodLevelResourcesVerticalScaling"),
        claims=gates.enabled("DRANodeAllocatableResources"),
    )


def without(completed: Completed, missing: Collection[str]) -> Completed:
    """The same configuration as if these plugins ran nowhere."""
    plugins = {name: _without(one, missing) for name, one in completed.plugins.items()}
    return replace(completed, plugins=plugins)


def _without(effective: EffectivePlugins, missing: Collection[str]) -> EffectivePlugins:
    by_point: dict[Point, tuple[str, ...]] = {
        point: tuple(name for name in names if name not in missing)
        for point, names in effective.by_point.items()
    }
    return replace(effective, by_point=by_point)


def plugin_names(completed: Completed) -> set[str]:
    """All plugins that run at some point of some profile."""
    return {
        name
        for effective in completed.plugins.values()
        for names in effective.by_point.values()
        for name in names
    }


def subscribe(following: Following, events: EventHandlers) -> list[Registration[Any]]:
    """Connect informers to what they feed, and to who waits for changes in them."""
    handlers: list[Registration[Any]] = [
        following.pods.add_handler(events.pods),
        following.nodes.add_handler(events.nodes),
    ]
    for resource in events.needed_resources():
        informer = following.of_event(resource)
        if informer is not None:
            handlers.append(informer.add_handler(events.others(resource)))
    return handlers
