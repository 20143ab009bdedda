"""The cycle of real parts: queue, cache, framework, binder, writer; scripted plugins, no clock."""

import asyncio
import random
import time
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec import structs

from kscheduler.api.core import Node, NodeStatus, PodStatus
from kscheduler.api.meta import ObjectMeta
from kscheduler.cycle.attempt import Attempt, at_once
from kscheduler.cycle.bind import Binder
from kscheduler.cycle.failure import FailureHandler
from kscheduler.cycle.loop import SchedulingLoop
from kscheduler.cycle.schedule import SchedulingAlgorithm
from kscheduler.cycle.status_writer import StatusWriter
from kscheduler.decisions.decision_log import DecisionLog
from kscheduler.extension_points import METHOD_OF_POINT
from kscheduler.framework.listers import FixedListers
from kscheduler.framework.status import unschedulable
from kscheduler.metrics import Metrics
from kscheduler.queue import SchedulingQueue
from kscheduler.queue.nominator import Nominator
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.pods_in_pre_bind import PodsInPreBind
from kscheduler.runtime.waiting_pods import WaitingPods
from kscheduler.state.cache import Cache
from kscheduler.state.pod_info import PodInfo
from tests.kit.log import captured_log
from tests.kit.objects import make_pod as kit_pod

PROFILE = "default-scheduler"
NOW = 1_700_000_000.0


def make_pod(
    name="p",
    *,
    version="1",
    deleting=False,
    profile=PROFILE,
    uid="",
    node="",
    requests=None,
    **status,
):
    identity = {
        "namespace": "ns",
        "uid": uid or None,
        "version": version,
        "generation": int(version),
    }
    given = {"scheduler": profile, "node": node, "deleted": deleting, "priority": None}
    return kit_pod(name, **identity, **given, requests=requests, status=PodStatus(**status))


class Scripted:
    """A plugin that answers as told at the points it was told about, and notes that it was asked.

    An answer may be an exception to raise, or a function to call (and to wait for).
    """

    def __init__(self, name, **answers):
        self.name = name
        self.steps = []
        for point, answer in answers.items():
            make = _waiting if point in ("pre_bind", "bind") else _instant
            setattr(self, point, make(self, point, answer))
        if "reserve" in answers and "unreserve" not in answers:
            self.unreserve = _instant(self, "unreserve", None)
        if "pre_bind" in answers and "pre_bind_pre_flight" not in answers:
            self.pre_bind_pre_flight = _instant(self, "pre_bind_pre_flight", None)


def _instant(plugin, point, answer):
    def asked(*args):
        plugin.steps.append(point)
        return _given(answer, args)

    return asked


def _waiting(plugin, point, answer):
    async def asked(*args):
        plugin.steps.append(point)
        given = _given(answer, args)
        return await given if asyncio.iscoroutine(given) else given

    return asked


def _given(answer, args):
    if isinstance(answer, BaseException):
        raise answer
    return answer(*args) if callable(answer) else answer


def refusing(name="Refuses", reason="no room"):
    """A Filter that no node passes."""

    def judge(cycle, pod, nodes):
        return [unschedulable(np.ones(len(nodes), np.bool_), reason)]

    return Scripted(name, filter=judge)


class Api:
    """Takes status patches; each may be made to wait or fail. Tells what became of bindings."""

    def __init__(self, rig):
        self._rig = rig
        self.patches = []
        self.hindrance = None
        # What reading pods shows whose binding got no answer.
        self.outcomes = []

    async def patch_pod_status(self, pod, status):
        if pod.status == status:
            return
        self._rig.told.append(("patch", pod.key))
        self.patches.append((pod, status))
        if isinstance(self.hindrance, Exception):
            raise self.hindrance
        if self.hindrance is not None:
            await self.hindrance()

    async def binding_outcome(self, pod, node):
        self._rig.told.append(("read", pod.key))
        return self.outcomes.pop(0)


class Rig:
    """What happened, in order, is in `told`; `now` is the time."""

    def __init__(self, *plugins, nodes=("n1",), nominates=True, extenders=None):
        self.now = NOW
        # Seconds that decisions took without anybody having to wait for it.
        self.spent = 0.0
        self.told = []
        self.pods = {}
        self.metrics = Metrics()
        self.cache = Cache()
        for name in nodes:
            allocatable = {"pods": "110", "cpu": "4"}
            status = NodeStatus(allocatable=allocatable, capacity=allocatable)
            self.cache.add_node(Node(metadata=ObjectMeta(name=name, uid=name), status=status))
        self.waiting_pods = WaitingPods()
        self.in_pre_bind = PodsInPreBind()
        binds = any(hasattr(plugin, "bind") for plugin in plugins)
        self.plugins = (*plugins, *(() if binds else (Scripted("Binds", bind=None),)))
        for plugin in self.plugins:
            plugin.steps = Steps(self.told, plugin.name)
        self.framework = self._framework()
        nominator = Nominator(lambda key: self.queue.pod_info(key), self.pods)
        self.queue = SchedulingQueue({PROFILE: self.framework}, self.metrics, nominator=nominator)
        self.framework._handle.nominator = self.queue.nominator
        self.api = Api(self)
        self.decisions = DecisionLog()
        self.writer = StatusWriter(self.api, self.pods)
        self.failures = FailureHandler(
            self.queue,
            self.pods,
            self.recorder,
            self.writer,
            self.metrics,
            wall_clock=lambda: self.now,
        )
        self.binder = Binder(
            cache=self.cache,
            queue=self.queue,
            failures=self.failures,
            writer=self.writer,
            recorder=self.recorder,
            metrics=self.metrics,
            pods_in_pre_bind=self.in_pre_bind,
            extenders=extenders,
            reader=self.api,
            nominates=nominates,
            decisions=self.decisions,
            clock=lambda: self.now,
        )
        self.loop = SchedulingLoop(
            queue=self.queue,
            cache=self.cache,
            frameworks={PROFILE: self.framework},
            algorithm=SchedulingAlgorithm(self.metrics, rng=random.Random(0), extenders=extenders),
            extenders=extenders,
            binder=self.binder,
            failures=self.failures,
            recorder=self.recorder,
            metrics=self.metrics,
            rng=random.Random(0),
            decisions=self.decisions,
            clock=lambda: self.now,
            timer=lambda: time.perf_counter() + self.spent,
        )

    def _framework(self):
        handle = RuntimeHandle(
            gates=SimpleNamespace(enabled=lambda name: False),
            listers=FixedListers(),
            snapshot=self.cache.snapshot,
            nominator=SimpleNamespace(nodes=(), pods_for_node=lambda node: []),
            activate=lambda pods: self.queue.activate(pods, self.now),
            client=None,
            recorder=None,
            metrics=self.metrics,
            waiting_pods=self.waiting_pods,
            pods_in_pre_bind=self.in_pre_bind,
            profile_name=PROFILE,
        )
        by_time = SimpleNamespace(name="ByTime", sort_key=lambda queued: queued.timestamp)
        everyone = (*self.plugins, by_time)
        plugins_at = {
            point: [plugin for plugin in everyone if hasattr(plugin, method)]
            for point, method in METHOD_OF_POINT.items()
        }
        return Framework(handle, plugins_at, weights={plugin.name: 1 for plugin in everyone})

    def recorder(self, profile):
        def event(regarding, kind, reason, action, note):
            self.told.append(("event", reason, note))
            self.events.append((profile, regarding, kind, reason, action, note))

        return SimpleNamespace(event=event)

    @property
    def events(self):
        return self.__dict__.setdefault("_events", [])

    def add(self, name="p", **fields):
        """A pending pod, as the informer brings it."""
        pod = make_pod(name, **fields)
        self.pods[pod.key] = pod
        self.queue.add(PodInfo(pod), self.now)
        return pod

    def change(self, pod, *, spec=None, **status):
        """A newer version of a pod arrives, in the lister only."""
        version = str(int(pod.metadata.resource_version) + 1)
        newer = structs.replace(
            pod,
            metadata=structs.replace(pod.metadata, resource_version=version),
            spec=structs.replace(pod.spec, **(spec or {})),
            status=structs.replace(pod.status, **status),
        )
        self.pods[pod.key] = newer
        return newer

    def schedule(self):
        """One scheduling cycle of whoever is next."""
        return at_once(self.loop.schedule_one(self.queue.pop()))

    async def bind(self, attempt):
        assert isinstance(attempt, Attempt)
        await asyncio.wait_for(self.binder.run_binding_cycle(attempt), 30)

    async def placed(self, name="p", **fields):
        """A pod from its arrival to the end of its binding cycle."""
        pod = self.add(name, **fields)
        await self.bind(self.schedule())
        return pod

    @property
    def where(self):
        pending = self.queue.pending()
        places = {
            "active": pending.active,
            "backoff": pending.backoff,
            "unschedulable": pending.unschedulable,
        }
        found = {place: [queued.pod.name for queued in pods] for place, pods in places.items()}
        return {place: names for place, names in found.items() if names}

    def counts(self, family):
        """Values by label values, zeros left out."""
        found = getattr(self.metrics, family)._series
        return {labels: series.value for labels, series in found.items() if series.value}

    def check(self):
        """Nobody is both waiting and on its way, and nobody is lost."""
        waiting = {queued.uid for queued in self.queue.pending().pods}
        assumed = {pod.uid for pod in self.cache.pods if self.cache.is_assumed(pod)}
        assert not waiting & assumed
        assert not waiting & set(self.queue.in_flight)
        assert len(self.waiting_pods) == 0
        assert self.in_pre_bind._pods == {}
        kept = self.decisions.all()
        tables = {id(one.names): one.names for entry in kept for one in (entry.first, entry.last)}
        assert self.decisions.bytes == sum(
            [*(entry.measure() for entry in kept), *(names.bytes for names in tables.values())]
        )


class Steps(list):
    """A plugin's steps, noted in the rig's own order as well."""

    def __init__(self, told, name):
        super().__init__()
        self._told, self._name = told, name

    def append(self, step):
        super().append(step)
        self._told.append((self._name, step))


@pytest.fixture
def make_rig():
    """Builds rigs, and checks them when the test is over."""
    made = []

    def make(*plugins, **settings):
        made.append(Rig(*plugins, **settings))
        return made[-1]

    yield make
    for rig in made:
        rig.check()


@pytest.fixture(name="scripted", scope="session")
def _scripted():
    return Scripted


@pytest.fixture(name="refusing", scope="session")
def _refusing():
    return refusing


@pytest.fixture(name="new_pod", scope="session")
def _new_pod():
    return make_pod


@pytest.fixture
def log_text():
    with captured_log(verbosity=3) as log:
        yield lambda: log.text
