"""Evictions: which calls in which order, who is told, and when the pod may be tried again."""

import asyncio

import pytest
from msgspec import structs

from kscheduler.errors import KschedulerError, MissingError
from kscheduler.framework.plugin import PostFilterResult
from kscheduler.framework.status import Code, Status
from kscheduler.runtime.preemption import executor as preemption_executor
from kscheduler.state.pod_info import PodInfo
from tests.plugins.evictions import Stage, make_node, make_pod

HIGH = make_pod("high", "4", priority=10)
TROUBLE = KschedulerError("server trouble")


def victim(name, start, **parts):
    return make_pod(name, "2", node="n1", start=start, **parts)


@pytest.fixture
def two():
    """Both pods of the node must go, `b` last."""
    return Stage([make_node("n1")], [victim("a", 1), victim("b", 2)])


def change(stage, pod):
    stage.listers.pods[pod.key] = pod


class TestOneVictim:
    async def test_is_marked_deleted_and_told(self):
        stage = Stage([make_node("n1")], [victim("a", 1)])
        stage.preempt(HIGH)
        assert stage.calls.told == []
        await stage.settle()
        assert stage.calls.told == [("patch", "a"), ("delete", "a")]
        (condition,) = stage.calls.patches["a"].conditions
        assert condition.last_transition_time
        assert (condition.type, condition.status, condition.reason, condition.message) == (
            "DisruptionTarget",
            "True",
            "PreemptionByScheduler",
            "default-scheduler: preempting to accommodate a higher priority pod",
        )
        assert condition.observed_generation == 7
        note = "Preempted by pod uid-high on node n1"
        assert stage.events == [("a", "Normal", "Preempted", "Preempting", note)]
        assert stage.activated == []
        assert stage.metrics.preemption_victims.count == 1
        assert stage.metrics.preemption_goroutines_execution_total.labels("success").value == 1

    async def test_that_is_marked_already_is_only_deleted(self):
        marked = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "default-scheduler: preempting to accommodate a higher priority pod",
        }
        stage = Stage([make_node("n1")], [victim("a", 1, conditions=[marked])])
        stage.preempt(HIGH)
        await stage.settle()
        assert stage.calls.told == [("delete", "a")]

    async def test_that_is_going_already_is_left_alone(self):
        stage = Stage([make_node("n1")], [victim("a", 1, deleted=True)])
        assert stage.preempt(HIGH).nominated_node == "n1"
        assert stage.plugin.pre_enqueue(PodInfo(HIGH)) is None
        await stage.settle()
        assert (stage.calls.told, stage.events, stage.activated) == ([], [], [])

    @pytest.mark.parametrize("call", ["patch", "delete"])
    async def test_that_is_gone_is_a_success_without_event(self, call):
        stage = Stage([make_node("n1")], [victim("a", 1)])
        stage.calls.failing[call, "a"] = MissingError("gone")
        stage.preempt(HIGH)
        await stage.settle()
        assert stage.calls.told[-1] == (call, "a")
        assert (stage.events, stage.activated) == ([], [])

    async def test_whose_marking_fails_is_not_deleted(self):
        stage = Stage([make_node("n1")], [victim("a", 1)])
        stage.calls.failing["patch", "a"] = TROUBLE
        stage.preempt(HIGH)
        await stage.settle()
        assert stage.calls.told == [("patch", "a")]
        assert (stage.events, stage.activated) == ([], ["high"])
        assert stage.plugin.pre_enqueue(PodInfo(HIGH)) is None
        assert stage.metrics.preemption_goroutines_execution_total.labels("error").value == 1

    async def test_that_was_seen_going_meanwhile_is_left_alone(self):
        stage = Stage([make_node("n1")], [victim("a", 1)])
        stage.preempt(HIGH)
        change(stage, victim("a", 1, deleted=True))
        await stage.settle()
        assert (stage.calls.told, stage.events, stage.activated) == ([], [], [])

    async def test_that_went_while_the_pod_was_gated_wakes_it(self):
        stage = Stage([make_node("n1")], [victim("a", 1)])
        stage.preempt(HIGH)
        del stage.listers.pods["ns/a"]
        await stage.settle()
        assert (stage.calls.told, stage.events, stage.activated) == ([], [], ["high"])

    async def test_a_pod_let_through_early_may_preempt_again(self):
        stage = Stage([make_node("n1")], [victim("a", 1)])
        answer = stage.calls.held["delete", "a"] = asyncio.Event()
        stage.preempt(HIGH)

        def again():
            if stage.calls.told[-1:] == [("delete", "a")] and not answer.is_set():
                stage.preempt(HIGH)
                answer.set()

        await stage.settle(again)
        del stage.listers.pods["ns/a"]
        assert stage.plugin.pre_enqueue(PodInfo(HIGH)) is None
        assert stage.metrics.preemption_goroutines_execution_total.labels("success").value == 2

    @pytest.mark.parametrize("seen", ["gone", "going", "replaced"])
    async def test_the_pod_waits_until_the_victim_is_seen_going(self, seen):
        stage = Stage([make_node("n1")], [victim("a", 1)])
        stage.preempt(HIGH)
        await stage.settle()
        # The API server has said yes, and nobody has heard of it yet.
        assert stage.calls.told[-1] == ("delete", "a")
        assert stage.plugin.pre_enqueue(PodInfo(HIGH)) is not None
        pods = stage.listers.pods
        if seen == "gone":
            del pods["ns/a"]
        elif seen == "going":
            pods["ns/a"] = make_pod("a", node="n1", deleted=True)
        else:
            pods["ns/a"] = structs.replace(
                pods["ns/a"], metadata=structs.replace(pods["ns/a"].metadata, uid="other")
            )
        assert stage.plugin.pre_enqueue(PodInfo(HIGH)) is None
        assert stage.plugin._executor._preemptions == {}

    async def test_the_pod_does_not_wait_for_ever(self, monkeypatch):
        stage = Stage([make_node("n1")], [victim("a", 1)])
        stage.preempt(HIGH)
        await stage.settle()
        assert stage.plugin.pre_enqueue(PodInfo(HIGH)) is not None
        monkeypatch.setattr(preemption_executor, "MAX_WAIT_SECONDS", -1.0)
        assert stage.plugin.pre_enqueue(PodInfo(HIGH)) is None

    async def test_pods_that_never_ask_again_are_forgotten(self, monkeypatch):
        monkeypatch.setattr(preemption_executor, "MIN_BEFORE_CLEANUP", 4)
        names = [f"n{number}" for number in range(20)]
        stage = Stage(
            [make_node(name) for name in names],
            [make_pod(f"v-{name}", "3", node=name) for name in names],
        )
        for number in range(20):
            name = f"p{number}"
            stage.preempt(make_pod(name, "3", priority=10))
            await stage.settle()
            gone = stage.listers.pods.pop(f"ns/{stage.calls.told[-1][1]}")
            stage.cache.remove_pod(PodInfo(gone))
            placed = make_pod(name, "3", priority=10, node=gone.spec.node_name)
            stage.cache.add_pod(PodInfo(placed))
        assert len(stage.plugin._executor._preemptions) < 12

    async def test_an_exception_wakes_the_pod_all_the_same(self):
        stage = Stage([make_node("n1")], [victim("a", 1)])
        stage.calls.failing["delete", "a"] = RuntimeError("a bug")
        stage.preempt(HIGH)
        await stage.settle()
        assert stage.activated == ["high"]
        assert stage.plugin.pre_enqueue(PodInfo(HIGH)) is None


class TestSeveralVictims:
    async def test_the_last_one_waits_for_the_others(self, two):
        two.calls.held["delete", "a"] = asyncio.Event()
        two.preempt(HIGH)
        await two.settle(lambda: ("delete", "a") in two.calls.told)
        assert two.calls.told == [("patch", "a"), ("delete", "a")]

    async def test_all_go_in_the_end(self, two):
        two.preempt(HIGH)
        await two.settle()
        assert two.calls.told == [
            ("patch", "a"),
            ("delete", "a"),
            ("patch", "b"),
            ("delete", "b"),
        ]
        assert [name for name, *_ in two.events] == ["a", "b"]

    async def test_after_a_failure_the_last_one_is_spared(self, two):
        two.calls.failing["delete", "a"] = TROUBLE
        two.preempt(HIGH)
        await two.settle()
        assert two.calls.told == [("patch", "a"), ("delete", "a")]
        assert two.activated == ["high"]

    async def test_the_gate_opens_when_the_last_one_is_seen_going(self, two):
        two.calls.held["delete", "b"] = asyncio.Event()
        two.preempt(HIGH)
        opened = []

        def deleting_last():
            if ("delete", "b") not in two.calls.told:
                return False
            opened.append(two.plugin.pre_enqueue(PodInfo(HIGH)) is None)
            change(two, victim("b", 2, deleted=True))
            opened.append(two.plugin.pre_enqueue(PodInfo(HIGH)) is None)
            del two.listers.pods["ns/b"]
            opened.append(two.plugin.pre_enqueue(PodInfo(HIGH)) is None)
            return True

        await two.settle(deleting_last)
        assert opened == [False, True, True]

    async def test_the_gate_is_shut_while_others_go(self, two):
        two.calls.held["delete", "a"] = asyncio.Event()
        two.preempt(HIGH)
        shut = []

        def deleting_first():
            if ("delete", "a") not in two.calls.told:
                return False
            change(two, victim("a", 1, deleted=True))
            shut.append(two.plugin.pre_enqueue(PodInfo(HIGH)) is not None)
            return True

        await two.settle(deleting_first)
        assert shut == [True]


class TestInMemory:
    """A victim that is not bound yet goes back into the queue; the API server hears nothing."""

    IN_MEMORY = "Preempted by pod uid-high on node n1 (in kube-scheduler memory)."

    def wait(self, stage, name):
        pod = PodInfo(stage.listers.pods[f"ns/{name}"])
        return stage.handle.waiting_pods.add(pod, {"Permit": 60.0}, 0.0)

    async def test_a_pod_that_waits_for_permission(self):
        stage = Stage([make_node("n1")], [victim("a", 1)])
        waiting = self.wait(stage, "a")
        stage.preempt(HIGH)
        await stage.settle()
        decision = waiting.expire(0.0)
        assert (decision.code, decision.message) == (Code.ERROR, "preempted")
        assert decision.plugin == "DefaultPreemption"
        assert stage.calls.told == []
        assert stage.events == [("a", "Normal", "Preempted", "Preempting", self.IN_MEMORY)]
        assert stage.activated == ["high"]

    async def test_a_pod_that_has_its_permission_is_deleted(self):
        stage = Stage([make_node("n1")], [victim("a", 1)])
        self.wait(stage, "a").allow("Permit")
        stage.preempt(HIGH)
        await stage.settle()
        assert stage.calls.told == [("patch", "a"), ("delete", "a")]

    async def test_only_the_last_victim_would_have_woken_the_pod(self, two):
        self.wait(two, "a")
        two.preempt(HIGH)
        await two.settle()
        assert two.calls.told == [("patch", "b"), ("delete", "b")]
        assert two.activated == []

    async def test_a_pod_that_is_being_prepared(self):
        stage = Stage([make_node("n1")], [victim("a", 1)])
        ended = []

        async def prepare():
            with stage.handle.pods_in_pre_bind.registered("uid-a") as entry:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    ended.append((entry.called_off, entry.was_cancelled_only_by_us()))

        preparing = asyncio.create_task(prepare())
        await asyncio.sleep(0)
        stage.preempt(HIGH)
        await stage.settle()
        await preparing
        assert ended == [("preempted by DefaultPreemption", True)]
        assert (stage.calls.told, stage.activated) == ([], ["high"])
        assert stage.events[0][-1] == self.IN_MEMORY


class TestTwoPreemptors:
    HIGHER = make_pod("higher", "4", priority=20)

    async def test_one_request_serves_both(self):
        stage = Stage([make_node("n1")], [victim("a", 1)])
        stage.preempt(HIGH)
        stage.preempt(self.HIGHER)
        await stage.settle()
        assert stage.calls.told == [("patch", "a"), ("delete", "a")]
        assert len(stage.events) == 1

    async def test_a_failure_is_a_failure_for_both(self):
        stage = Stage([make_node("n1")], [victim("a", 1)])
        stage.calls.failing["delete", "a"] = TROUBLE
        answer = stage.calls.held["delete", "a"] = asyncio.Event()
        stage.preempt(HIGH)
        stage.preempt(self.HIGHER)
        turns = iter(range(200))
        await stage.settle(lambda: next(turns) == 50 and answer.set())
        assert stage.calls.told == [("patch", "a"), ("delete", "a")]
        assert sorted(stage.activated) == ["high", "higher"]

    async def test_until_it_is_seen_going_no_second_request_is_sent(self):
        stage = Stage([make_node("n1")], [victim("a", 1)])
        stage.preempt(HIGH)
        await stage.settle()
        stage.preempt(self.HIGHER)
        await stage.settle()
        assert len(stage.calls.told) == 2

    async def test_a_failed_request_may_be_sent_again(self):
        stage = Stage([make_node("n1")], [victim("a", 1)])
        stage.calls.failing["delete", "a"] = TROUBLE
        stage.preempt(HIGH)
        await stage.settle()
        stage.calls.failing.clear()
        stage.preempt(HIGH)
        await stage.settle()
        assert stage.calls.told.count(("delete", "a")) == 2
        assert len(stage.events) == 1


class TestNominations:
    def nominated_pods(self, priority=1, **parts):
        pod = make_pod("nominated", priority=priority, **parts)
        return {"n1": [PodInfo(pod)]}

    async def test_of_lower_priority_are_cleared_first(self):
        nominated_pods = self.nominated_pods(nominated="n1")
        stage = Stage([make_node("n1")], [victim("a", 1)], nominated_pods=nominated_pods)
        stage.preempt(HIGH)
        await stage.settle()
        assert stage.calls.told[0] == ("patch", "nominated")
        assert stage.calls.patches["nominated"].nominated_node_name == ""

    @pytest.mark.parametrize(
        "parts",
        [
            pytest.param({"priority": 10, "nominated": "n1", "cpu": "0"}, id="no lower priority"),
            pytest.param({}, id="only here, not in its status"),
        ],
    )
    async def test_others_stay(self, parts):
        stage = Stage(
            [make_node("n1")], [victim("a", 1)], nominated_pods=self.nominated_pods(**parts)
        )
        stage.preempt(HIGH)
        await stage.settle()
        assert ("patch", "nominated") not in stage.calls.told

    async def test_a_failure_stops_nothing_but_wakes_the_pod(self):
        nominated_pods = self.nominated_pods(nominated="n1")
        stage = Stage([make_node("n1")], [victim("a", 1)], nominated_pods=nominated_pods)
        stage.calls.failing["patch", "nominated"] = TROUBLE
        stage.preempt(HIGH)
        await stage.settle()
        assert stage.calls.told[1:] == [("patch", "a"), ("delete", "a")]
        assert stage.activated == ["high"]


class TestWithinTheAttempt:
    """Without SchedulerAsyncPreemption the attempt waits for the evictions."""

    @pytest.fixture
    def stage(self):
        nominated_pods = {"n1": [PodInfo(make_pod("nominated", priority=1, nominated="n1"))]}
        return Stage(
            [make_node("n1")],
            [victim("a", 1), victim("b", 2)],
            asynchronous=False,
            nominated_pods=nominated_pods,
        )

    async def test_all_are_evicted_and_then_nominations_cleared(self, stage):
        result = stage.preempt(HIGH)
        assert stage.calls.told == []
        assert await result.preparation() == PostFilterResult(result.status, "n1")
        assert sorted(stage.calls.told[:4]) == [
            ("delete", "a"),
            ("delete", "b"),
            ("patch", "a"),
            ("patch", "b"),
        ]
        assert stage.calls.told[4:] == [("patch", "nominated")]
        assert stage.metrics.preemption_victims.count == 1

    async def test_a_failure_is_the_answer(self, stage):
        stage.calls.failing["delete", "b"] = TROUBLE
        problem = await stage.preempt(HIGH).preparation()
        assert problem == PostFilterResult(Status(Code.ERROR, ("preemption: server trouble",)))
        assert ("patch", "nominated") not in stage.calls.told

    async def test_nominations_that_cannot_be_cleared_are_no_failure(self, stage):
        stage.calls.failing["patch", "nominated"] = TROUBLE
        answer = await stage.preempt(HIGH).preparation()
        assert (answer.status.code, answer.nominated_node) == (Code.SUCCESS, "n1")
