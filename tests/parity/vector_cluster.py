"""A recorded cluster brought to life: real configuration, state, queue and plugins around it."""

import json
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain
from random import Random

from msgspec.structs import replace

from kscheduler.api.core import Node, Pod
from kscheduler.api.decode import convert
from kscheduler.api.field_errors import aggregate
from kscheduler.api.requests import Counting
from kscheduler.client.kube_client import KubeClient
from kscheduler.config.defaults import default_config
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.load import load_config
from kscheduler.config.profiles import Completed, complete
from kscheduler.config.validation import validate
from kscheduler.cycle.schedule import SchedulingAlgorithm
from kscheduler.errors import ConfigError
from kscheduler.framework.listers import FixedLister
from kscheduler.metrics import Metrics
from kscheduler.plugins import catalog, factories
from kscheduler.queue.nominator import Nominator
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.profile import build_frameworks
from kscheduler.state.cache import Cache
from kscheduler.state.pod_info import PodInfo
from tests.parity.vector_api import RecordedApi, RecordedObjects

# Preemption decides the same with it, but the recorder had to see it evict.
RECORDED_WITH = {"SchedulerAsyncPreemption": False}
FINISHED = ("Succeeded", "Failed")
# The first pod placed starts one second after this, the next two seconds after, and so on.
FIRST_START = datetime(2030, 1, 1, tzinfo=UTC)


class Listers:
    """Objects as informers hold them; pods are what has become of them."""

    def __init__(self, objects: RecordedObjects, cluster: "Cluster") -> None:
        self._objects = objects
        self._pods = FixedLister(Pods(cluster))

    def lister(self, kind):
        return self._pods if kind is Pod else self._objects.lister(kind)


class Pods(Mapping[str, Pod]):
    """Pods as they are, by key."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster

    def __getitem__(self, key: str) -> Pod:
        known = self._cluster.pending.get(key) or self._cluster.bound[key]
        return known.pod

    def __iter__(self) -> Iterator[str]:
        return chain(self._cluster.pending, self._cluster.bound)

    def __len__(self) -> int:
        return len(self._cluster.pending) + len(self._cluster.bound)


class SilentRecorder:
    def event(self, *_: object) -> None:
        pass


class Cluster:
    """Everything one scenario needs; it changes only as the recording says it did."""

    def __init__(self, scenario: dict) -> None:
        self.gates = FeatureGates.defaults().apply(RECORDED_WITH | (scenario.get("features") or {}))
        self.completed = _completed(scenario.get("config"), self.gates)
        self._counting = _counting(self.gates)
        objects = RecordedObjects(scenario["objects"])
        self.api = RecordedApi(scenario["objects"], objects)
        self.cache = Cache()
        self.bound: dict[str, PodInfo] = {}
        self._fill(objects)
        self.pending = {
            pod.key: pod
            for pod in (self.compiled(convert(one, Pod)) for one in scenario["pending"])
        }
        self.nominator = Nominator(self.pending.get, None)
        for pod in self.pending.values():
            self.nominator.add(pod)
        self._metrics = Metrics()
        self.listers = Listers(objects, self)
        self.frameworks = build_frameworks(
            self.completed, factories(), lambda _name: self._handle()
        )
        self.algorithm = SchedulingAlgorithm(
            self._metrics, rng=Random(0), percentage_of_nodes_to_score=100
        )
        self._placed = 0

    def compiled(self, pod: Pod) -> PodInfo:
        return PodInfo(pod, self._counting)

    def queue_order(self) -> list[str]:
        """The pods that are not gated, as the queue hands them out."""
        queue = SchedulingQueue(self.frameworks, self._metrics)
        for position, pod in enumerate(self.pending.values()):
            if pod.pod.spec.scheduler_name in self.frameworks:
                queue.add(pod, float(position))
        order = []
        while (queued := queue.pop()) is not None:
            order.append(queued.key)
        return order

    def place(self, pod: PodInfo, node: str) -> PodInfo:
        """Assumes the pod; later ones see it on the node."""
        self._placed += 1
        started = FIRST_START + timedelta(seconds=self._placed)
        status = replace(pod.pod.status, start_time=started.strftime("%Y-%m-%dT%H:%M:%SZ"))
        placed = self.compiled(replace(pod.pod, status=status)).assigned_to(node)
        self.nominator.remove(pod.uid)
        del self.pending[pod.key]
        self.cache.assume(placed)
        self.bound[pod.key] = placed
        return placed

    def take_back(self, pod: PodInfo) -> None:
        """The pod could not be reserved for: it is pending again."""
        self.evict([pod.key])
        self.pending[pod.key] = pod

    def evict(self, keys: Collection[str]) -> None:
        for key in keys:
            victim = self.bound.pop(key)
            if self.cache.is_assumed(victim):
                self.cache.forget(victim)
            else:
                self.cache.remove_pod(victim)

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Promises the node to the pod, in its status as well; "" ends a promise."""
        status = replace(pod.pod.status, nominated_node_name=node)
        self.pending[pod.key] = changed = self.compiled(replace(pod.pod, status=status))
        self.nominator.add(changed)

    def denominate_below(self, priority: int, node: str) -> None:
        """Pods of lower priority lose the promise of this node."""
        for other in self.nominator.pods_for_node(node):
            if other.priority < priority:
                self.nominate(other, "")

    def _fill(self, objects: RecordedObjects) -> None:
        for node in objects.lister(Node).items():
            self.cache.add_node(node)
        for pod in objects.lister(Pod).items():
            if pod.status.phase not in FINISHED:
                bound = self.bound[pod.key] = self.compiled(pod)
                self.cache.add_pod(bound)

    def _handle(self) -> RuntimeHandle:
        return RuntimeHandle(
            gates=self.gates,
            listers=self.listers,
            snapshot=self.cache.snapshot,
            nominator=self.nominator,
            activate=lambda pods: None,
            client=KubeClient(self.api),
            recorder=SilentRecorder(),
            metrics=self._metrics,
            rng=Random(0),
        )


def _completed(config: dict | None, gates: FeatureGates) -> Completed:
    if config is None:
        loaded = default_config(catalog(), gates)
    else:
        loaded = load_config(json.dumps(config).encode(), catalog(), gates=gates)
    errors = validate(loaded, catalog(), gates)
    if errors:
        raise ConfigError(aggregate(errors))
    return complete(loaded, catalog(), gates=gates)


def _counting(gates: FeatureGates) -> Counting:
    return Counting(
        status=True,
        pod_level=gates.enabled("PodLevelResources"),
        pod_level_status=gates.enabled("InPlacePodLevelResourcesVerticalScaling"),
        claims=gates.enabled("DRANodeAllocatableResources"),
    )
