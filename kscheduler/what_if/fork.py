"""The fork: a cache, plugins and listers of their own, made from those of the living scheduler.

    LiveScheduler ──contents──▶ Cache (a copy, filled in slices)
                  ──listers──▶ ForkListers (read through; changes are not followed)
                  ──configuration──▶ Frameworks (the same profiles, plugins made anew)

API objects and compiled pods are shared, as they never change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from random import Random
from typing import Any, NoReturn, cast

import msgspec
from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.api.requests import ACCOUNTED, Counting
from kscheduler.api.resource import ResourceClaimTemplate, ResourceSlice
from kscheduler.api.scheduling import PriorityClass
from kscheduler.api.storage import CSINode
from kscheduler.config.catalog import Catalog
from kscheduler.config.profiles import Completed
from kscheduler.cycle.attempt import Attempt, Outcome, at_once
from kscheduler.cycle.schedule import SchedulingAlgorithm
from kscheduler.dra.device_manager import device_manager_of
from kscheduler.errors import KschedulerError
from kscheduler.extension_points import Point
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import ApiCalls, Factory, Gates, Nominator
from kscheduler.framework.listers import Listers
from kscheduler.metrics import Metrics
from kscheduler.plugins import factories
from kscheduler.plugins.default_preemption import DefaultPreemption
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.queue.queueing_hints import QueueingHints
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.handle import OutOfTreeServices, RuntimeHandle
from kscheduler.runtime.profile import build_frameworks
from kscheduler.slices import Slices
from kscheduler.state.cache import Cache, Contents
from kscheduler.state.change_log import ChangeLog
from kscheduler.state.pod_info import PodInfo
from kscheduler.what_if.claims import ForkClaims
from kscheduler.what_if.listers import ForkListers

# At these points plugins act on a decision; only in-tree plugins are known to do so in memory.
ACTING_POINTS = frozenset(
    {
        Point.POST_FILTER,
        Point.RESERVE,
        Point.PERMIT,
        Point.PRE_BIND,
        Point.BIND,
        Point.POST_BIND,
    }
)


class LiveScheduler(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a scheduler that reviews read; they write to none of them."""

    cache: Cache
    listers: Listers
    nominator: Nominator
    gates: Gates
    completed: Completed
    # Plugins as configuration knows them, and their makers; out-of-tree ones included.
    catalog: Catalog
    registry: Mapping[str, Factory]
    # Where the next search for feasible nodes would start.
    next_start_node_index: Callable[[], int]
    # Whether pods wait to be decided, so that a review has to stand back.
    is_busy: Callable[[], bool] = lambda: False
    # Priority classes, which the scheduler itself does not watch; None: those of the lister.
    priority_classes: Callable[[], Awaitable[Iterable[PriorityClass]]] | None = None
    # A template of claims by namespace and name, or None; not watched either.
    claim_template: Callable[[str, str], Awaitable[ResourceClaimTemplate | None]] | None = None
    counting: Counting = ACCOUNTED
    out_of_tree: OutOfTreeServices = msgspec.field(default_factory=OutOfTreeServices)


class Fork:
    """A scheduler's core on a copy of the cluster."""

    def __init__(
        self,
        live: LiveScheduler,
        completed: Completed,
        metrics: Metrics,
        rng: Random,
        asked: Collection[str] = (),
    ) -> None:
        """ConfigError if a plugin refuses its arguments. Empty until `fill`. `asked`: keys of pods
        that are asked about; room nominated for pods that are called so is theirs.
        """
        self.cache = Cache(logged=False)
        self.listers = ForkListers(live.listers)
        services = live.out_of_tree
        handle = RuntimeHandle(
            gates=live.gates,
            listers=self.listers,
            snapshot=self.cache.snapshot,
            nominator=_nominated_others(live.nominator, frozenset(asked)),
            activate=lambda pods: None,
            client=cast("ApiCalls", ReadOnlyClient()),
            recorder=_NoEvents(),
            metrics=metrics,
            rng=rng,
            # The watchdog is the process's one; faults in a review do not count elsewhere.
            out_of_tree=OutOfTreeServices(
                limits=services.limits, watchdog=services.watchdog, follow=services.follow
            ),
        )
        self._devices = device_manager_of(handle)
        self.claims = ForkClaims(self.listers, self.cache, self._devices.claims)
        self.frameworks = build_frameworks(
            _judging(completed), live.registry, lambda _: handle, handle.shared_objects
        )
        config = completed.config
        # Without opportunistic batching: every pod is judged on all nodes, and ties are told.
        self._algorithm = SchedulingAlgorithm(
            metrics,
            rng=rng,
            percentage_of_nodes_to_score=config.percentage_of_nodes_to_score or 0,
        )
        registrations = {name: one.events for name, one in self.frameworks.items()}
        self.hints = QueueingHints(registrations, lambda *_: None)
        self._algorithm.next_start_node_index = live.next_start_node_index()
        self._cycle_number = 0

    async def fill(self, contents: Contents, slices: Slices) -> None:
        """Copies nodes and pods, and lets plugins know the objects that they follow."""
        for node in contents.nodes:
            self.cache.add_node(node)
            if slices.due():
                await slices.rest()
        for pod in contents.pods:
            self.cache.add_pod(pod)
            if slices.due():
                await slices.rest()
        if next(iter(self.listers.lister(ResourceSlice).items()), None) is not None:
            # Made when it is first asked for; it has to follow slices before the first decision.
            _ = self._devices.allocator
        for _ in self.listers.deliveries():
            if slices.due():
                await slices.rest()

    async def equip(self, copies: Mapping[str, Sequence[str]], slices: Slices) -> None:
        """Gives nodes that were added like others what their drivers would publish: a CSINode, and
        the devices of the model, all of them free. `copies`: by the name of the model.
        """
        if not copies:
            return
        devices: dict[str, list[ResourceSlice]] = {}
        for item in self.listers.lister(ResourceSlice).items():
            node = item.spec.node_name
            if node is not None and node in copies:
                devices.setdefault(node, []).append(item)
        csi_nodes = self.listers.lister(CSINode)
        for model, names in copies.items():
            csi_node = csi_nodes.get(model)
            for name in names:
                if csi_node is not None:
                    metadata = replace(csi_node.metadata, name=name)
                    self.listers.put(replace(csi_node, metadata=metadata))
                for item in devices.get(model, ()):
                    self.listers.put(_of_node(item, name))
                if slices.due():
                    await slices.rest()

    def decide(self, pod: PodInfo) -> tuple[Attempt, Outcome]:
        """One decision, from its start to its end; nothing is assumed yet."""
        self.listers.put(pod.pod)
        self._cycle_number += 1
        framework = self.frameworks[pod.pod.spec.scheduler_name]
        queued = QueuedPodInfo(pod, timestamp=0.0, attempts=1)
        nodes = self.cache.snapshot()
        attempt = Attempt(queued, framework, CycleState(), nodes, self._cycle_number)
        return attempt, at_once(self._algorithm.schedule_pod(attempt))

    def preemption(self, framework: Framework) -> DefaultPreemption | None:
        plugins = framework.plugins_at.get(Point.POST_FILTER, ())
        return next((one for one in plugins if isinstance(one, DefaultPreemption)), None)

    def close(self) -> None:
        for framework in self.frameworks.values():
            framework.close()


def _of_node(item: ResourceSlice, node: str) -> ResourceSlice:
    """The slice as the driver on another node would publish it, in a pool of that node."""
    pool = replace(item.spec.pool, name=f"{item.spec.pool.name}/{node}")
    metadata = replace(item.metadata, name=f"{item.name}/{node}")
    return replace(item, metadata=metadata, spec=replace(item.spec, node_name=node, pool=pool))


def _judging(completed: Completed) -> Completed:
    """The configuration without what out-of-tree plugins do once a decision is made."""
    in_tree = factories()
    plugins = {
        name: replace(
            effective,
            by_point={
                point: tuple(one for one in names if point not in ACTING_POINTS or one in in_tree)
                for point, names in effective.by_point.items()
            },
        )
        for name, effective in completed.plugins.items()
    }
    return replace(completed, plugins=plugins)


class ReadOnlyClient:
    """A client that refuses every call: a review writes nothing."""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def refuse(*args: object, **kwargs: object) -> NoReturn:
            raise KschedulerError(f"a placement review makes no API calls, not even {name}")

        return refuse


def _nominated_others(nominator: Nominator, hidden: Collection[str]) -> Nominator:
    nominated = chain.from_iterable(map(nominator.pods_for_node, nominator.nodes))
    is_one_hidden = any(pod.key in hidden for pod in nominated)
    return _NominatedOthers(nominator, hidden) if is_one_hidden else nominator


class _NominatedOthers:
    """The nominations of the living scheduler but those of these pods, by key."""

    def __init__(self, nominator: Nominator, hidden: Collection[str]) -> None:
        self._nominator = nominator
        self._hidden = hidden

    @property
    def nodes(self) -> Collection[str]:
        return [node for node in self._nominator.nodes if self.pods_for_node(node)]

    @property
    def changes(self) -> ChangeLog[str]:
        return self._nominator.changes

    def pods_for_node(self, node: str, /) -> Sequence[PodInfo]:
        pods = self._nominator.pods_for_node(node)
        return [pod for pod in pods if pod.key not in self._hidden]

    def node_of(self, uid: str, /) -> str | None:
        return self._nominator.node_of(uid)


class _NoEvents:
    def event(self, regarding: Pod, kind: str, reason: str, action: str, note: str, /) -> None:
        """Nothing has happened that a user should be told of."""
