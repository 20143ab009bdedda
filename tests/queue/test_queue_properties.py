"""Whatever happens, in whatever order: no pod is lost, doubled or forgotten.

A model remembers which pods exist and which are being tried; the queue must agree with it, its
gauges must agree with itself, and each event must move exactly those pods that a look at every
single waiting pod would move.
"""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kscheduler.framework.cluster_event import (
    ANY_CHANGE,
    ASSIGNED_POD,
    NODE,
    TARGET_POD,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.queue import Backoff
from kscheduler.queue.queueing_hints import QueueingStrategy

START = 1_700_000_000.0
PROFILES = ("default-scheduler", "other")
PLUGINS = ("fit", "taint", "gang", "gate")
EVENTS = (
    ClusterEvent(NODE, Action.ADD),
    ClusterEvent(NODE, Action.DELETE),
    ClusterEvent(NODE, Action.UPDATE_NODE_LABEL),
    ClusterEvent(NODE, Action.UPDATE_NODE_TAINT),
    ClusterEvent(ASSIGNED_POD, Action.DELETE),
    ANY_CHANGE,
)

names = st.sampled_from([f"pod{number}" for number in range(6)])
plugin_sets = st.frozensets(st.sampled_from(PLUGINS), max_size=2)


def picky(pod, old, new):
    """An opinion that differs by pod and by object, and is sometimes an error."""
    match (len(pod.labels) + (new or 0)) % 3:
        case 0:
            return Hint.QUEUE
        case 1:
            return Hint.SKIP
        case _:
            raise ValueError(new)


REGISTERED = {
    "fit": [
        EventWithHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), picky),
        EventWithHint(ClusterEvent(ASSIGNED_POD, Action.DELETE)),
    ],
    "taint": [EventWithHint(ClusterEvent(NODE, Action.UPDATE_NODE_TAINT), picky)],
    "gang": [EventWithHint(ClusterEvent(NODE, Action.ALL), picky)],
    "gate": [EventWithHint(ClusterEvent(TARGET_POD, Action.UPDATE_POD_LABEL))],
}


def gated_by_label(pod):
    return pod.labels.get("gate") == "closed"


def machine(make_pod, make_profile, make_harness, *, windows):
    class QueueMachine(RuleBasedStateMachine):
        attempts = Bundle("attempts")

        def __init__(self):
            super().__init__()
            profiles = {
                PROFILES[0]: make_profile(REGISTERED, {"gate": gated_by_label}),
                PROFILES[1]: make_profile({"fit": REGISTERED["taint"]}),
            }
            self.h = make_harness(
                profiles, backoff=Backoff(windows=windows), max_in_flight_events=5
            )
            self.queue = self.h.queue
            self.now = START
            self.pods = {}
            self.trying = {}
            self.serial = 0

        def compiled(self, name, uid, labels):
            profile = PROFILES[name == "pod5"]
            return make_pod(name, uid=uid, labels=labels, profile=profile, priority=len(labels))

        @rule(name=names, labels=st.dictionaries(st.sampled_from(["gate", "x"]), st.just("closed")))
        def add_or_update(self, name, labels):
            old = self.pods.get(name)
            self.serial += 1
            uid = old.uid if old else f"{name}-{self.serial}"
            new = self.pods[name] = self.compiled(name, uid, labels)
            if old is None:
                self.queue.add(new, self.now)
            else:
                self.queue.update(old, new, self.now)

        @rule(name=names)
        def replace_by_another_of_the_name(self, name):
            if (old := self.pods.get(name)) is not None:
                self.serial += 1
                new = self.pods[name] = self.compiled(name, f"{name}-{self.serial}", {})
                self.queue.update(old, new, self.now)

        @rule(name=names)
        def delete(self, name):
            if (pod := self.pods.pop(name, None)) is not None:
                self.queue.delete(pod)

        @rule(target=attempts)
        def pop(self):
            ready = self.queue.ready
            queued = self.queue.pop()
            assert ready or queued is None
            if queued is not None:
                assert queued.uid not in self.trying
                self.trying[queued.uid] = queued
            return queued

        @rule(queued=consumes(attempts), by=plugin_sets, pending=plugin_sets)
        def fail(self, queued, by, pending):
            if queued is None:
                return
            del self.trying[queued.uid]
            known = self.pods.get(queued.pod.name)
            if known is None or known.uid != queued.uid:
                self.queue.done(queued.uid)
                return
            self.h.fail(queued, by=by, pending=pending, now=self.now, pod=known)

        @rule(queued=consumes(attempts))
        def bind(self, queued):
            if queued is None:
                return
            del self.trying[queued.uid]
            self.queue.done(queued.uid)
            known = self.pods.get(queued.pod.name)
            if known is not None and known.uid == queued.uid:
                del self.pods[queued.pod.name]
                self.queue.delete(known)

        @rule(event=st.sampled_from(EVENTS), new=st.one_of(st.none(), st.integers(0, 2)))
        def event(self, event, new):
            new = None if event.is_wildcard else new
            waiting = self.queue.pending().unschedulable
            woken = [queued for queued in waiting if self.would_wake(queued, event, new)]
            self.queue.move_all_to_active_or_backoff_queue(event, None, new, self.now)
            still = set(self.queue.pending().unschedulable)
            assert set(waiting) - still == {
                queued for queued in woken if queued not in still or not queued.gated
            }

        def would_wake(self, queued, event, new):
            """What a look at this one pod says."""
            hints = self.queue.hints
            if not hints.is_event_of_interest(event):
                return False
            waits_for = hints.interested_in(event).plugins
            if queued.gated and not event.is_wildcard and queued.gating_plugin not in waits_for:
                return False
            return (
                hints.is_pod_worth_requeuing(queued, event, None, new) is not QueueingStrategy.SKIP
            )

        @rule(name=names)
        def activate(self, name):
            if (pod := self.pods.get(name)) is not None:
                self.queue.activate([pod], self.now)

        @rule(seconds=st.sampled_from([0.4, 1, 3, 11, 400]))
        def time_passes(self, seconds):
            self.now += seconds
            self.queue.flush_backoff_completed(self.now)
            self.queue.flush_unschedulable_leftover(self.now)

        @invariant()
        def every_pod_is_in_exactly_one_place(self):
            self.h.check()
            waiting = {queued.uid for queued in self.queue.pending().pods}
            trying = set(self.queue.in_flight)
            assert trying == set(self.trying)
            assert not waiting & trying
            assert waiting | trying >= {pod.uid for pod in self.pods.values()}
            assert waiting <= {pod.uid for pod in self.pods.values()}

        @invariant()
        def waiting_pods_are_the_latest_version(self):
            for queued in self.queue.pending().pods:
                assert queued.pod is self.pods[queued.pod.name]

        @precondition(lambda self: not self.trying)
        @invariant()
        def nothing_is_remembered_when_nobody_is_tried(self):
            assert self.queue.in_flight.entries() == []

        def teardown(self):
            """Time alone brings every pod back that no gate holds."""
            for queued in list(self.trying.values()):
                self.fail(queued, frozenset({"fit"}), frozenset())
            expected = {
                pod.name
                for pod in self.pods.values()
                if pod.pod.spec.scheduler_name != PROFILES[0] or not gated_by_label(pod)
            }
            self.now += 10_000
            self.queue.flush_unschedulable_leftover(self.now)
            self.queue.flush_backoff_completed(self.now)
            popped = list(iter(self.queue.pop, None))
            assert expected <= {queued.pod.name for queued in popped}
            for queued in popped:
                self.queue.done(queued.uid)
            self.h.check_on_the_way_out()

    return QueueMachine


@pytest.mark.parametrize("windows", [True, False], ids=["early pops", "no early pops"])
def test_no_pod_is_lost_doubled_or_forgotten(make_pod, fake_profile, new_harness, windows):
    run_state_machine_as_test(
        machine(make_pod, fake_profile, new_harness, windows=windows),
        settings=settings(max_examples=60, stateful_step_count=40, deadline=None),
    )


parked_pods = st.lists(
    st.tuples(plugin_sets, plugin_sets, st.integers(0, 2), st.sampled_from((*PROFILES, "gone"))),
    min_size=1,
    max_size=12,
)


@settings(deadline=None)
@given(pods=parked_pods, event=st.sampled_from(EVENTS), new=st.integers(0, 2))
def test_an_event_moves_whom_a_look_at_everyone_would_move(
    make_pod, fake_profile, new_harness, pods, event, new
):
    profiles = {
        PROFILES[0]: fake_profile(REGISTERED),
        PROFILES[1]: fake_profile({"fit": REGISTERED["taint"]}),
    }
    h = new_harness(profiles)
    new = None if event.is_wildcard else new
    for number, (by, pending, labels, profile) in enumerate(pods):
        pod = make_pod(f"p{number}", labels=dict.fromkeys("ab"[:labels], ""), profile=profile)
        if by | pending:
            h.parked(pod, by=by, pending=pending, now=START)
    waiting = h.queue.pending().unschedulable
    hints = h.queue.hints
    woken = {
        queued.key
        for queued in waiting
        if hints.is_event_of_interest(event)
        and hints.is_pod_worth_requeuing(queued, event, None, new) is not QueueingStrategy.SKIP
    }
    h.queue.move_all_to_active_or_backoff_queue(event, None, new, START)
    still = {queued.key for queued in h.queue.pending().unschedulable}
    assert {queued.key for queued in waiting} - still == woken
    h.check_on_the_way_out()
