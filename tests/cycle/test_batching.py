"""Opportunistic batching: when a pod inherits, what it gets, and when it does not."""

import random
from time import perf_counter

import msgspec
import pytest

from kscheduler.api.core import Node, Pod
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.load import load_config
from kscheduler.config.profiles import complete
from kscheduler.cycle.attempt import Attempt, Placement, at_once
from kscheduler.cycle.batching import MAX_BATCH_AGE_SECONDS
from kscheduler.cycle.schedule import SchedulingAlgorithm
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.listers import FixedListers
from kscheduler.metrics import Metrics
from kscheduler.plugins import catalog, factories
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.profile import build_frameworks
from kscheduler.state.cache import Cache
from kscheduler.state.pod_info import PodInfo

# With the default constraints of PodTopologySpread no pod can be signed.
CONFIG = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: PodTopologySpread
    args: {defaultingType: List}
"""


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch):
    """An inheritance expires soon; on a machine that stands still, before the next pod comes."""
    now = perf_counter()
    monkeypatch.setattr("kscheduler.cycle.batching.perf_counter", lambda: now)


class Nobody:
    nodes = ()

    def pods_for_node(self, node):
        return ()


class Cluster:
    def __init__(self, *, cpus, batching=True):
        self.metrics = Metrics()
        self.cache = Cache()
        gates = FeatureGates.defaults()
        completed = complete(
            load_config(CONFIG, catalog(), gates=gates),
            catalog(),
            gates=gates,
        )
        handle = RuntimeHandle(
            gates=gates,
            listers=FixedListers(),
            snapshot=self.cache.snapshot,
            nominator=Nobody(),
            activate=lambda pods: None,
            client=None,
            recorder=None,
            metrics=self.metrics,
        )
        self.framework = build_frameworks(completed, factories(), lambda name: handle)[
            "default-scheduler"
        ]
        self.algorithm = SchedulingAlgorithm(self.metrics, rng=random.Random(0), batching=batching)
        self.number = 0
        for index, cpu in enumerate(cpus):
            self.cache.add_node(node(f"n{index}", cpu))

    def place(self, pod, *, skip=0):
        self.number += 1 + skip
        queued = QueuedPodInfo(pod, timestamp=0.0, signature=self.framework.sign(pod))
        nodes = self.cache.snapshot()
        attempt = Attempt(queued, self.framework, CycleState(), nodes, self.number)
        outcome = at_once(self.algorithm.schedule_pod(attempt))
        if isinstance(outcome, Placement):
            self.cache.assume(pod.assigned_to(outcome.node))
        return outcome

    def attempts(self, result):
        return self.metrics.batch_attempts_total.labels("default-scheduler", result).value

    def flushed(self, reason):
        return self.metrics.batch_cache_flushed_total.labels("default-scheduler", reason).value


def node(name, cpu):
    allocatable = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    return msgspec.convert(
        {"metadata": {"name": name, "uid": name}, "status": {"allocatable": allocatable}}, Node
    )


def pod(name, cpu="1", **status):
    requests = {"cpu": cpu, "memory": "1Gi"}
    spec = {
        "schedulerName": "default-scheduler",
        "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}],
    }
    metadata = {"name": name, "namespace": "default", "uid": name}
    return PodInfo(msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod))


def test_like_pods_in_a_row_inherit_and_go_where_they_would_have_gone():
    with_hints, without = Cluster(cpus=[8, 7, 6, 5]), Cluster(cpus=[8, 7, 6, 5], batching=False)
    for number in range(8):
        first = with_hints.place(pod(f"p{number}"))
        assert first.node == without.place(pod(f"p{number}")).node
    assert with_hints.attempts("hint_used") > 0
    assert with_hints.attempts("no_hint") + with_hints.attempts("hint_used") == 8


def test_a_full_node_is_left_out_of_the_inheritance():
    cluster = Cluster(cpus=[1, 1, 1])
    assert {cluster.place(pod(f"p{number}")).node for number in range(3)} == {"n0", "n1", "n2"}
    assert cluster.attempts("hint_used") == 2


@pytest.mark.parametrize(
    ("second", "skip", "reason"),
    [
        pytest.param(pod("other", cpu="2"), 0, "pod_incompatible", id="another kind of pod"),
        pytest.param(pod("late"), 1, "pod_skipped", id="someone in between"),
        pytest.param(pod("nominated", nominatedNodeName="n1"), 0, "pod_nominated", id="nominated"),
    ],
)
def test_others_do_not_inherit(second, skip, reason):
    cluster = Cluster(cpus=[4, 4, 4])
    cluster.place(pod("first"))
    cluster.place(second, skip=skip)
    assert cluster.attempts("hint_used") == 0
    assert cluster.flushed(reason) == 1


def test_an_inheritance_expires(monkeypatch):
    cluster = Cluster(cpus=[4, 4, 4])
    cluster.place(pod("first"))
    now = cluster.algorithm._batch._by_profile["default-scheduler"].created_at
    late = now + MAX_BATCH_AGE_SECONDS + 0.001
    monkeypatch.setattr("kscheduler.cycle.batching.perf_counter", lambda: late)
    cluster.place(pod("second"))
    assert cluster.flushed("expired") == 1


def test_a_node_that_went_away_voids_the_inheritance():
    cluster = Cluster(cpus=[4, 4, 4])
    chosen = cluster.place(pod("first")).node
    cluster.cache.remove_node(node("n0" if chosen != "n0" else "n1", 4))
    assert isinstance(cluster.place(pod("second")), Placement)
    assert cluster.flushed("node_missing") == 1


@pytest.mark.parametrize("gone", ["n0", "n1", "n2"])
def test_the_chosen_node_or_one_at_the_end_of_the_table_may_be_the_one_that_went(gone):
    cluster = Cluster(cpus=[4, 4, 4])
    cluster.place(pod("first"))
    cluster.cache.remove_node(node(gone, 4))
    assert cluster.place(pod("second")).node != gone
    assert cluster.flushed("node_missing") == 1
    assert cluster.attempts("no_hint") == 2


def test_a_new_node_in_the_place_of_one_that_went_inherits_nothing():
    cluster = Cluster(cpus=[4, 4, 4])
    chosen = cluster.place(pod("first")).node
    cluster.cache.remove_node(node("n0" if chosen != "n0" else "n1", 4))
    cluster.cache.add_node(node("new", 4))
    assert isinstance(cluster.place(pod("second")), Placement)
    assert cluster.flushed("node_missing") == 1


def test_a_node_that_comes_voids_no_inheritance():
    cluster = Cluster(cpus=[4, 4, 4])
    cluster.place(pod("first"))
    cluster.cache.add_node(node("new", 4))
    cluster.place(pod("second"))
    assert cluster.attempts("hint_used") == 1


def test_where_there_was_no_choice_nothing_is_left():
    cluster = Cluster(cpus=[4])
    cluster.place(pod("first"))
    cluster.place(pod("second"))
    assert cluster.flushed("empty_list") == 2
    assert cluster.attempts("no_hint") == 2
