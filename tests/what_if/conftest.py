"""A scheduler's core with the real plugins, and reviews of it."""

import json
from random import Random

import msgspec
import pytest

from kscheduler.api.explanation import NodesToAdd, PlacementReview, PlacementReviewSpec
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.load import load_config
from kscheduler.config.profiles import complete
from kscheduler.cycle.attempt import Attempt, Placement, at_once
from kscheduler.cycle.schedule import SchedulingAlgorithm
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.listers import FixedListers
from kscheduler.metrics import Metrics
from kscheduler.plugins import catalog, factories
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.runtime.profile import build_frameworks
from kscheduler.state.cache_dump import dump
from kscheduler.state.pod_info import PodInfo
from kscheduler.what_if import LiveScheduler, Reviewer
from tests.kit.clusters import FixedNominator, cache_of, make_handle

CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def completed(**fields):
    gates = FeatureGates.defaults()
    config = load_config(json.dumps({**CONFIG, **fields}).encode(), catalog(), gates=gates)
    return complete(config, catalog(), gates=gates)


class World:
    """A living scheduler: `decide` places pods for real, `review` asks."""

    def __init__(self, nodes, pods=(), objects=(), **config):
        self.cache = cache_of(nodes, [PodInfo(pod) for pod in pods])
        self.listers = FixedListers(objects)
        self.gates = FeatureGates.defaults()
        self.completed = completed(**config)
        handle = make_handle(listers=self.listers, snapshot=self.cache.snapshot)
        handle.gates = self.gates
        self.frameworks = build_frameworks(self.completed, factories(), lambda _: handle)
        self.algorithm = SchedulingAlgorithm(Metrics(), rng=Random(5), batching=True)
        self.live = LiveScheduler(
            cache=self.cache,
            listers=self.listers,
            nominator=FixedNominator(),
            gates=self.gates,
            completed=self.completed,
            catalog=catalog(),
            registry=factories(),
            next_start_node_index=lambda: self.algorithm.next_start_node_index,
        )
        self._serial = 0

    def decide(self, pod):
        """The node that the pod gets, or "" ; it is assumed there."""
        info = PodInfo(pod)
        self._serial += 1
        framework = self.frameworks[pod.spec.scheduler_name]
        queued = QueuedPodInfo(info, timestamp=0.0, signature=framework.sign(info))
        attempt = Attempt(queued, framework, CycleState(), self.cache.snapshot(), self._serial)
        outcome = at_once(self.algorithm.schedule_pod(attempt))
        if not isinstance(outcome, Placement):
            return ""
        self.cache.assume(info.assigned_to(outcome.node))
        return outcome.node

    def dump(self):
        return list(dump(self.cache)), self.cache.snapshot().generation

    async def review(self, *pods, reviewer=None, add_nodes=(), **fields):
        """The status; that the living state is as it was is checked every time."""
        before = self.dump()
        spec = PlacementReviewSpec(
            pods=tuple(map(raw, pods)),
            add_nodes=tuple(NodesToAdd(**one) for one in add_nodes),
            **fields,
        )
        try:
            answer = await (reviewer or Reviewer(self.live)).review(PlacementReview(spec=spec))
        finally:
            assert self.dump() == before
        return answer.status


def raw(value):
    return msgspec.Raw(json.dumps(value).encode())


def nodes_of(status):
    return [placement.node for placement in status.placements]


@pytest.fixture
def world():
    return World
