"""The room that decisions take: what the log counts is what the process pays, whatever is in it."""

import gc
import json
import tracemalloc

import numpy as np
import pytest

from kscheduler.cycle.attempt import Attempt, Unschedulable
from kscheduler.cycle.failure import Failure
from kscheduler.decisions import record
from kscheduler.decisions.decision_log import DecisionLog
from kscheduler.decisions.explain import decision_of
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Charge, Code, Diagnosis, Status
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.state.pod_info import PodInfo
from tests.kit.objects import make_node, make_pod

NODES = 1000
TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}


def cluster(size=NODES):
    return [
        make_node(
            f"node-{number:05d}",
            labels={"zone": f"z{number % 3}"},
            allocatable={"cpu": f"{2000 + number * 7 % 5000}m", "memory": "16Gi", "pods": "110"},
            taints=[TAINT] if number % 4 == 0 else [],
        )
        for number in range(size)
    ]


SHAPES = {
    "scored": {},
    "scored, some rejected": {"requests": {"cpu": "5"}},
    "one fits": {"nodeSelector": {"zone": "z1"}, "requests": {"cpu": "6990m"}},
    "rejected by all": {"requests": {"cpu": "64"}},
    "rejected for several reasons": {"nodeSelector": {"zone": "z1"}, "requests": {"cpu": "7"}},
    "long names": {"namespace": "n" * 63, "labels": {"app": "x" * 63}},
}


@pytest.fixture(scope="module", name="nodes")
def _nodes():
    return cluster()


@pytest.mark.parametrize("shape", SHAPES)
def test_the_log_counts_the_memory_that_it_takes(decider, nodes, shape):
    core = decider(nodes)
    long = "p" * 240 if shape == "long names" else "pod"

    def decide(number):
        # As from the watch: every pod has strings of its own.
        fields = json.loads(json.dumps(SHAPES[shape]))
        core.place(make_pod(f"{long}-{number}", uid=f"u{number:035d}", **fields))
        core.listed.clear()

    for number in range(20):
        decide(number)
    core.log = log = DecisionLog()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(20, 220):
        decide(number)
    # Caches of plugins grow meanwhile; what is left when the log is gone is theirs.
    gc.collect()
    filled = tracemalloc.get_traced_memory()[0]
    counted, entries = log.bytes, log.entries
    names = log._names.bytes
    core.log = None
    del log
    gc.collect()
    paid = filled - tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert entries == 200
    assert before < filled
    # Names of nodes are the nodes' own as long as these are there.
    assert paid / 1.3 < counted - names < paid * 1.3, (paid / entries, (counted - names) / entries)


def test_rejections_that_records_share_go_with_the_set_of_nodes(decider):
    core = decider(cluster())
    core.place(make_pod("before"))
    names = core.log._names
    assert names.rejected
    core.cache.add_node(make_node("one-more"))
    core.place(make_pod("after"))
    assert core.log._names is not names
    assert not names.rejected


@pytest.fixture(name="attempt_at")
def _attempt_at(decider, nodes):
    """Makes attempts that fail for reasons of the test's own."""
    core = decider(nodes)

    def make(name, number=1):
        pod = PodInfo(make_pod(name))
        queued = QueuedPodInfo(pod, timestamp=0.0, attempts=number)
        return Attempt(queued, core.framework, CycleState(), core.cache.snapshot())

    return make


def keep(log, attempt, diagnosis, now=1.0):
    refusal = Unschedulable(diagnosis, NODES)
    log.decided(attempt, refusal, now)
    log.ended(attempt, Failure(Status(Code.UNSCHEDULABLE, (refusal.message,))), now)


def test_a_reason_for_each_node_is_put_together(attempt_at):
    log = DecisionLog()
    charges = [
        Charge("Mine", np.array([row], np.intp), Code.UNSCHEDULABLE, f"reason {row} " + "x" * 5000)
        for row in range(NODES)
    ]
    keep(log, attempt_at("p"), Diagnosis(charges))
    last = decision_of(log.get("default", "p")).last
    assert len(last.rejections) == record.MAX_REASONS
    assert sum(one.count for one in last.rejections) == NODES
    assert max(len(one.reason) for one in last.rejections) == record.MAX_TEXT
    assert len(last.message) == record.MAX_TEXT
    assert log.bytes < 600_000


def test_a_week_of_waiting_takes_the_room_of_two_attempts(attempt_at):
    log = DecisionLog()
    room = []
    for number in range(1, 2017):  # every five minutes
        rows = np.arange(NODES if number % 2 else NODES // 2)
        charge = Charge("Mine", rows, Code.UNSCHEDULABLE, f"no room, says {number % 500}")
        keep(log, attempt_at("p", number), Diagnosis([charge]), now=300.0 * number)
        room.append(log.bytes)
    decision = decision_of(log.get("default", "p"))
    assert decision.attempts == sum(one.count for one in decision.outcomes) == 2016
    assert (decision.first.number, decision.last.number) == (1, 2016)
    assert room[-1] <= max(room[:40])


def test_ten_thousand_messages_stay_within_the_bytes_of_the_log(attempt_at):
    log = DecisionLog(1 << 20)
    for number in range(10_000):
        charge = Charge("Mine", np.arange(3), Code.UNSCHEDULABLE, f"{number} " + "y" * 900)
        keep(log, attempt_at(f"{'p' * 240}-{number}"), Diagnosis([charge]))
    assert log.bytes <= 1 << 20
    assert log.entries + log.evictions == 10_000
    assert log.entries < 1000


def test_a_log_that_sheds_keeps_the_newer_half(attempt_at):
    log = DecisionLog()
    for number in range(100):
        charge = Charge("Mine", np.arange(3), Code.UNSCHEDULABLE, f"{number:03d} " + "y" * 900)
        keep(log, attempt_at(f"p-{number:03d}"), Diagnosis([charge]))
    before = log.bytes
    log.shed()
    assert 0.4 * before < log.bytes <= 0.5 * before
    assert log.get("default", "p-099")
    assert not log.get("default", "p-000")
