"""Decisions of the real plugins, kept and explained."""

from random import Random

import pytest

from kscheduler.api.core import Pod
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.load import load_config
from kscheduler.config.profiles import complete
from kscheduler.cycle.attempt import Attempt, Placement, Unschedulable, at_once
from kscheduler.cycle.failure import Failure
from kscheduler.cycle.schedule import SchedulingAlgorithm
from kscheduler.decisions.decision_log import DecisionLog
from kscheduler.decisions.explain import decision_of
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.listers import FixedListers
from kscheduler.framework.status import Code, Status
from kscheduler.metrics import Metrics
from kscheduler.plugins import catalog, factories
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.runtime.profile import build_frameworks
from kscheduler.state.pod_info import PodInfo
from tests.kit.clusters import FixedNominator, cache_of, make_handle

CONFIG = b'{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration"}'


class Listed(FixedListers):
    """Objects that pods can be added to."""

    def __init__(self, objects):
        super().__init__(objects)
        self._pods = self._by_kind.setdefault(Pod, {})

    def add(self, pod):
        self._pods[pod.key] = pod

    def clear(self):
        self._pods.clear()


class Decider:
    """A scheduler's core that keeps its decisions; victims of preemption stay where they are."""

    def __init__(self, nodes, pods=(), objects=(), nominated=None):
        gates = FeatureGates.defaults()
        completed = complete(load_config(CONFIG, catalog(), gates=gates), catalog(), gates=gates)
        self.cache = cache_of(nodes, map(PodInfo, pods))
        self.listed = Listed([*objects, *pods])
        self.handle = make_handle(
            listers=self.listed,
            snapshot=self.cache.snapshot,
            nominator=FixedNominator(nominated),
        )
        self.handle.gates = gates
        frameworks = build_frameworks(completed, factories(), lambda _: self.handle)
        self.framework = frameworks["default-scheduler"]
        self.algorithm = SchedulingAlgorithm(Metrics(), rng=Random(0))
        self.log = DecisionLog()

    def decide(self, pod, **fields):
        """The decision, as it is told."""
        self.place(pod, **fields)
        return decision_of(self.log.get(pod.namespace, pod.name))

    def place(self, pod, *, attempts=1, now=10.0):
        """One attempt, kept in the log."""
        queued = QueuedPodInfo(PodInfo(pod), timestamp=now, attempts=attempts)
        attempt = Attempt(queued, self.framework, CycleState(), self.cache.snapshot())
        outcome = at_once(self.algorithm.schedule_pod(attempt))
        self.log.decided(attempt, outcome, now)
        assert attempt.record is not None
        failure = None
        if isinstance(outcome, Unschedulable):
            self.listed.add(pod)
            found = self.framework.run_post_filter(attempt.cycle, attempt.pod, outcome.diagnosis)
            status = Status(Code.UNSCHEDULABLE, (outcome.message,))
            failure = Failure(status, nominated_node=found.nominated_node)
        elif not isinstance(outcome, Placement):
            failure = Failure(outcome.status)
        self.log.ended(attempt, failure, now)


@pytest.fixture(name="decider")
def _decider():
    return Decider
