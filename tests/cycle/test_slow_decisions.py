"""Decisions that take too long, by a clock that only plugins advance."""

import asyncio
import re
import signal
import threading

import pytest
from msgspec import structs

from kscheduler.api.core import Container
from kscheduler.api.meta import OwnerReference
from kscheduler.cycle import slow_decisions
from kscheduler.cycle.attempt import Attempt
from kscheduler.cycle.slow_decisions import DecisionWatch, SlowDecisions, kind_of
from kscheduler.framework.plugin import PostFilterResult
from kscheduler.framework.status import rejected, unschedulable
from kscheduler.metrics import Metrics
from kscheduler.queue import Backoff
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.runtime.plugin_calls import PluginCall
from kscheduler.state.pod_info import PodInfo
from tests.kit.polling import until

NOW = 1_700_000_000.0


@pytest.fixture
def slow_rig(make_rig, scripted):
    """A rig whose Filter takes `rig.slowness` seconds, and rejects every node unless told so."""

    def make(*, seconds=2.0, finds=False, **settings):
        def judge(cycle, pod, nodes):
            rig.spent += rig.slowness
            rig.loop.slow.watch.sample()
            return [] if rig.finds else [unschedulable(nodes.valid, "no room")]

        rig = make_rig(scripted("Quick", filter=[]), scripted("Slow", filter=judge), **settings)
        rig.slowness, rig.finds = seconds, finds
        return rig

    return make


@pytest.fixture
async def running():
    tasks = []

    def start(rig):
        tasks.append(asyncio.create_task(rig.loop.run()))
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
        await asyncio.wait({task})


def slow_events(rig):
    return [told[2] for told in rig.told if told[:2] == ("event", "SlowScheduling")]


def attempts(rig):
    return sum(told[0] == "Slow" for told in rig.told)


class TestTelling:
    def test_pod_plugin_point_and_numbers_are_told(self, slow_rig, log_text):
        rig = slow_rig(seconds=2.44)
        rig.add()
        assert rig.schedule() is None
        assert slow_events(rig) == [
            "Deciding took 2.4s, most of it in Slow (Filter), and all other pods had to wait. "
            "It and pods like it are not tried again before 2.4s have passed."
        ]
        assert (
            '"Scheduling decision took too long" pod="ns/p" duration="2.4s" plugin="Slow" '
            'extensionPoint="Filter" slowDecisions=1 foundNode=false nextAfter="2.4s"'
        ) in log_text()
        (series,) = rig.metrics.kscheduler_slow_decision_duration_seconds._series.items()
        assert series[0] == ("Slow", "Filter")
        assert (series[1].count, round(series[1].sum, 1)) == (1, 2.4)

    def test_of_a_quick_decision_nothing_is_said_or_kept(self, slow_rig):
        rig = slow_rig(seconds=0.9)
        rig.add()
        rig.schedule()
        assert slow_events(rig) == []
        assert len(rig.loop.slow) == 0
        assert rig.loop.slow.watch.take() == {}

    def test_a_pod_that_found_its_node_is_bound(self, slow_rig):
        rig = slow_rig(finds=True)
        rig.add()
        attempt = rig.schedule()
        assert isinstance(attempt, Attempt)
        (note,) = slow_events(rig)
        assert "Pods like it are not tried again before 2s" in note

    def test_the_time_of_preemption_is_preemptions_even_where_it_asks_filters(
        self, slow_rig, scripted, make_rig
    ):
        def judge(cycle, pod, nodes):
            rig.spent += 0.3 if rig.first else 2.0
            rig.loop.slow.watch.sample()
            rig.first = False
            return [unschedulable(nodes.valid, "no room")]

        def preempt(cycle, pod, diagnosis):
            nodes = rig.cache.snapshot()
            for _ in range(2):
                rig.framework.run_filter(cycle, pod, nodes)
            return PostFilterResult(rejected("no"), None)

        rig = make_rig(scripted("Slow", filter=judge), scripted("Preempts", post_filter=preempt))
        rig.first = True
        rig.add()
        rig.schedule()
        assert "Preempts (PostFilter)" in slow_events(rig)[0]

    @pytest.mark.parametrize(
        ("method", "point"),
        [
            ("pre_filter", "PreFilter"),
            ("pre_score", "PreScore"),
            ("score", "Score"),
            ("reserve", "Reserve"),
            ("permit", "Permit"),
        ],
    )
    def test_every_point_of_a_decision_is_known(self, make_rig, scripted, method, point):
        def work(cycle, pod, nodes):
            rig.spent += 2.0
            rig.loop.slow.watch.sample()
            return nodes.rows * 0 if method == "score" else None

        scores = scripted("Scores", score=lambda cycle, pod, nodes: nodes.rows * 0)
        rig = make_rig(scripted("Works", **{method: work}), scores, nodes=("n1", "n2"))
        rig.add()
        rig.schedule()
        assert f"Works ({point})" in slow_events(rig)[0]

    def test_where_no_plugin_was_seen_none_is_named(self, slow_rig, monkeypatch):
        rig = slow_rig()
        monkeypatch.setattr(rig.loop.slow.watch, "sample", lambda: None)
        rig.add()
        rig.schedule()
        assert slow_events(rig)[0].startswith("Deciding took 2s, and all other pods")


class TestRest:
    def test_no_event_wakes_the_pod_before_its_rest_is_over(self, slow_rig):
        rig = slow_rig()
        pod = rig.add()
        rig.schedule()
        assert rig.where == {"unschedulable": ["p"]}
        rig.now += 1.5
        rig.queue.activate([PodInfo(pod)], rig.now)
        popped = rig.queue.pop()
        until = rig.loop.slow.postponed_until(popped.pod, rig.now)
        assert until == pytest.approx(NOW + 2, abs=0.1)
        rig.queue.postpone(popped, until, rig.now)
        assert rig.where == {"backoff": ["p"]}
        assert (popped.attempts, len(rig.queue.in_flight)) == (1, 0)
        assert rig.queue.pop() is None  # nor does it leave early because nobody else is there
        rig.now += 2
        rig.queue.flush_backoff_completed(rig.now)
        assert rig.where == {"active": ["p"]}
        assert rig.loop.slow.postponed_until(popped.pod, rig.now) == 0

    def test_an_error_makes_the_pod_wait_as_long(self, make_rig, scripted):
        def fail(cycle, pod, nodes):
            rig.spent += 30.0
            raise ValueError("boom")

        rig = make_rig(scripted("Fails", filter=fail))
        rig.add()
        rig.schedule()
        rig.now += 29
        rig.queue.flush_backoff_completed(rig.now)
        assert rig.where == {"backoff": ["p"]}
        rig.now += 2
        rig.queue.flush_backoff_completed(rig.now)
        assert rig.where == {"active": ["p"]}

    @pytest.mark.parametrize(
        ("times", "seconds", "found", "rest"),
        [
            (1, 1.5, False, 1.5),
            (2, 1.5, False, 2),
            (2, 40, False, 40),
            (3, 1.5, False, 300),
            (3, 10, False, 490),
            (4, 99, False, 3600),
            (1, 1.5, True, 1.5),
            (3, 1.5, True, 73.5),
            (3, 99, True, 3600),
            (1, 9999, True, 3600),
        ],
    )
    def test_how_long(self, times, seconds, found, rest):
        slow = SlowDecisions(Metrics(), None, Backoff())
        assert slow._rest_seconds(times, seconds, found=found) == rest

    @pytest.mark.parametrize("found", [True, False])
    @pytest.mark.parametrize("seconds", [1.01, 2, 6, 30, 73])
    def test_from_the_third_time_on_it_is_two_percent_of_the_time(self, seconds, found):
        slow = SlowDecisions(Metrics(), None, Backoff())
        rests = [slow._rest_seconds(times, seconds, found=found) for times in range(3, 50)]
        assert max(seconds / (seconds + rest) for rest in rests) <= 0.0201

    def test_a_quick_decision_ends_it(self, slow_rig):
        rig = slow_rig(seconds=50)
        for _ in range(3):
            rig.add()
            rig.schedule()
            rig.now += 4000
        # 49 times as long as it took, which is a little more than what the rig adds.
        assert re.search("before 4[01]m[0-9]+s have passed", slow_events(rig)[-1])
        rig.slowness = 0.1
        rig.add()
        rig.schedule()
        assert len(rig.loop.slow) == 0
        rig.slowness = 50
        rig.add()
        rig.schedule()
        assert re.search("before 5[0-9]s have passed", slow_events(rig)[-1])


class TestPodsLikeIt:
    async def test_many_replicas_cost_no_more_than_one(self, slow_rig, running):
        rig = slow_rig(seconds=10.0, finds=True)
        for number in range(200):
            rig.add(f"p{number}")
        running(rig)
        await until(lambda: not rig.where.get("active"))
        assert attempts(rig) == 1
        assert len(rig.where["backoff"]) == 199
        for _ in range(10):
            rig.now += 3600
            rig.queue.flush_backoff_completed(rig.now)
            await until(lambda: not rig.where.get("active"))
        assert attempts(rig) == 11
        assert rig.metrics.kscheduler_postponed_attempts_total.value > 1000

    async def test_others_are_tried_meanwhile(self, slow_rig, running, new_pod):
        rig = slow_rig(finds=True)
        for number in range(5):
            rig.add(f"p{number}")
        other = new_pod("other")
        other = structs.replace(
            other, spec=structs.replace(other.spec, containers=(Container(image="another"),))
        )
        rig.pods[other.key] = other
        rig.queue.add(PodInfo(other), rig.now)
        running(rig)
        await until(lambda: attempts(rig) == 2)
        assert ("event", "Scheduled") in [told[:2] for told in rig.told]
        assert len(rig.where["backoff"]) == 4

    def test_kinds(self, new_pod):
        def owned(pod, uid, *, controller=True):
            owner = OwnerReference(uid=uid, controller=controller)
            metadata = structs.replace(pod.metadata, owner_references=(owner,))
            return structs.replace(pod, metadata=metadata)

        def kind(pod):
            return kind_of(PodInfo(pod))

        a, b = new_pod("a"), new_pod("b")
        elsewhere = structs.replace(a, metadata=structs.replace(a.metadata, namespace="other"))
        changed = structs.replace(a, spec=structs.replace(a.spec, node_selector={"h": "h"}))
        placed = structs.replace(a, spec=structs.replace(a.spec, node_name="n"))
        assert kind(a) == kind(b) == kind(placed)
        assert len({kind(one) for one in (a, elsewhere, changed, owned(a, "1"))}) == 4
        assert kind(owned(a, "1")) == kind(owned(changed, "1")) != kind(owned(a, "2"))
        assert kind(owned(a, "1")) != kind(owned(elsewhere, "1"))
        assert kind(owned(a, "1", controller=False)) == kind(a)

    def test_a_pod_does_not_escape_by_a_change_of_its_spec(self, slow_rig):
        rig = slow_rig(seconds=20)
        pod = rig.add()
        rig.schedule()
        changed = PodInfo(
            structs.replace(pod, spec=structs.replace(pod.spec, node_selector={"h": "h"}))
        )
        assert rig.loop.slow.postponed_until(changed, rig.now + 1) > 0


class TestBounds:
    def decide(self, slow, pod, *, seconds=2.0, now=NOW):
        slow.decided(QueuedPodInfo(PodInfo(pod), now), seconds, found=True, now=now)

    @pytest.fixture
    def slow(self, make_rig):
        return make_rig().loop.slow

    def pod(self, new_pod, number):
        pod = new_pod(f"p{number}")
        return structs.replace(
            pod, spec=structs.replace(pod.spec, node_selector={"h": f"{number}"})
        )

    def test_so_many_are_remembered_and_no_more(self, slow, new_pod, monkeypatch):
        monkeypatch.setattr(slow_decisions, "MAX_RECORDS", 10)
        for number in range(50):
            self.decide(slow, self.pod(new_pod, number))
        assert len(slow) == 10
        assert slow.postponed_until(PodInfo(self.pod(new_pod, 49)), NOW) > 0

    def test_what_rested_long_ago_is_forgotten(self, slow, new_pod):
        for number in range(3):
            self.decide(slow, self.pod(new_pod, number))
        for _ in range(6):
            self.decide(slow, new_pod("quick"), seconds=0.1, now=NOW + 9000)
        assert len(slow) == 0


class TestWatch:
    def test_a_decision_is_interrupted_to_look_at_it(self, make_rig, scripted, monkeypatch):
        monkeypatch.setattr(slow_decisions, "SAMPLE_SECONDS", 0.001)

        def work(cycle, pod, nodes):
            while not rig.loop.slow.watch._samples:
                sum(range(1000))
            rig.spent += 2
            return []

        rig = make_rig(scripted("Works", filter=work))
        rig.add()
        with rig.loop.slow.watch.at_work():
            rig.schedule()
        assert "Works (Filter)" in slow_events(rig)[0]
        assert "decision-watch" not in {thread.name for thread in threading.enumerate()}
        signal.raise_signal(slow_decisions.SAMPLE_SIGNAL)  # a late one harms nobody

    def test_no_thread_looks_at_the_stack_of_another(self, make_rig, scripted, monkeypatch):
        """It would end the process now and then: CPython 3.11 does not keep them apart."""
        monkeypatch.setattr(slow_decisions, "SAMPLE_SECONDS", 0.001)
        looking = set()

        def plugin_in_stack(frame):
            looking.add(threading.current_thread())
            return PluginCall("Works", "Filter")

        def work(cycle, pod, nodes):
            while not rig.loop.slow.watch._samples:
                sum(range(1000))
            return []

        monkeypatch.setattr(slow_decisions, "plugin_in_stack", plugin_in_stack)
        rig = make_rig(scripted("Works", filter=work))
        rig.add()
        with rig.loop.slow.watch.at_work():
            rig.schedule()
        assert looking == {threading.main_thread()}

    def test_elsewhere_than_in_the_main_thread_nothing_is_interrupted(self):
        threads = []

        def run():
            with DecisionWatch().at_work():
                threads.extend(thread.name for thread in threading.enumerate())

        thread = threading.Thread(target=run, name="another")
        thread.start()
        thread.join()
        assert "another" in threads
        assert "decision-watch" not in threads

    def test_between_decisions_it_sees_nothing(self):
        watch = DecisionWatch(lambda: 100.0)
        watch.sample()
        watch.begin(1.0)
        watch.end()
        watch.sample()
        assert watch.take() == {}

    def test_waiting_for_others_is_not_deciding(self, make_rig):
        rig = make_rig()
        slow, queued = rig.loop.slow, QueuedPodInfo(PodInfo(rig.add()), NOW)
        slow.watch.begin(1.0)
        slow.watch.end()
        slow.decided(queued, slow.watch.seconds_in_plugins, found=True, now=NOW)
        assert slow_events(rig) == []
        slow.watch._samples[PluginCall("Slow", "Filter")] = 10
        slow.decided(queued, slow.watch.seconds_in_plugins, found=True, now=NOW)
        assert "Deciding took 2s, most of it in Slow" in slow_events(rig)[0]
