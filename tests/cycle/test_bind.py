"""The binding cycle: its steps in order, and every way it can end."""

import asyncio

import pytest

from kscheduler.api.core import Node
from kscheduler.api.meta import ObjectMeta
from kscheduler.client.kube_client import BindingOutcome
from kscheduler.cycle import bind
from kscheduler.framework.cluster_event import ASSIGNED_POD, Action, ClusterEvent, EventWithHint
from kscheduler.framework.plugin import Wait
from kscheduler.framework.status import SKIP, Code, Status, failed, rejected, unschedulable
from kscheduler.state.pod_info import PodInfo
from tests.kit.objects import make_pod as make_kit_pod
from tests.kit.objects import make_pod_info
from tests.kit.polling import until

PROFILE = "default-scheduler"
BOUND = ("event", "Scheduled", "Successfully assigned ns/p to n1")


def holding(scripted, name="Holds", seconds=60.0):
    return scripted(name, permit=Wait(seconds))


def waits_for_room(scripted):
    """A Filter that turns away pods called `w…`, until a pod leaves a node."""

    def judge(cycle, pod, nodes):
        return [unschedulable(nodes.valid, "full")] if pod.name.startswith("w") else []

    plugin = scripted("Full", filter=judge)
    plugin.events_to_register = lambda: [EventWithHint(ClusterEvent(ASSIGNED_POD, Action.DELETE))]
    return plugin


class TestSuccess:
    async def test_a_plain_pod_is_bound_without_further_ado(self, make_rig, scripted):
        rig = make_rig(scripted("B", bind=None), scripted("After", post_bind=None))
        await rig.placed()
        assert rig.told == [("B", "bind"), BOUND, ("After", "post_bind")]
        assert rig.cache.assumed_pod_count == 1
        assert len(rig.queue.in_flight) == 0
        assert rig.where == {}

    async def test_steps_come_in_order(self, make_rig, scripted):
        plugins = [
            scripted("R", reserve=None),
            scripted("P", permit=None),
            scripted("W", pre_bind=None),
            scripted("B", bind=None),
            scripted("A", post_bind=None),
        ]
        rig = make_rig(*plugins)
        await rig.placed()
        assert rig.told == [
            ("R", "reserve"),
            ("P", "permit"),
            ("W", "pre_bind_pre_flight"),
            ("patch", "ns/p"),  # the nomination is there before the work begins
            ("W", "pre_bind"),
            ("B", "bind"),
            BOUND,
            ("A", "post_bind"),
        ]
        [(_, status)] = rig.api.patches
        assert (status.nominated_node_name, status.conditions) == ("n1", ())

    async def test_work_that_is_not_needed_is_neither_announced_nor_done(self, make_rig, scripted):
        rig = make_rig(scripted("W", pre_bind=None, pre_bind_pre_flight=SKIP))
        await rig.placed()
        assert rig.told == [("W", "pre_bind_pre_flight"), ("Binds", "bind"), BOUND]

    async def test_without_the_gate_everybody_works_and_nothing_is_announced(
        self, make_rig, scripted
    ):
        rig = make_rig(scripted("W", pre_bind=None, pre_bind_pre_flight=SKIP), nominates=False)
        await rig.placed()
        assert rig.told == [("W", "pre_bind"), ("Binds", "bind"), BOUND]

    async def test_a_nomination_that_cannot_be_written_keeps_nobody_from_binding(
        self, make_rig, scripted, log_text
    ):
        rig = make_rig(scripted("W", pre_bind=None))
        rig.api.hindrance = bind.CacheError("no luck")
        await rig.placed()
        assert BOUND in rig.told
        assert '"Error updating pod" err="no luck" logger="UnhandledError" pod="ns/p"' in log_text()

    async def test_a_report_about_an_earlier_failure_is_not_sent_after_the_binding(
        self, make_rig, scripted
    ):
        rig = make_rig()
        pod = rig.add()
        rig.writer.report(bind.StatusReport(pod, None, "stale"))
        await rig.bind(rig.schedule())
        assert rig.writer._unsent == {}
        assert rig.api.patches == []

    async def test_metrics(self, make_rig):
        rig = make_rig()
        await rig.placed()
        assert rig.counts("schedule_attempts_total") == {("scheduled", PROFILE): 1}
        assert list(rig.metrics.pod_scheduling_sli_duration_seconds._series) == [("1",)]
        assert sum(rig.metrics.pod_scheduling_attempts._counts) == 1

    async def test_many_attempts_share_a_label(self, make_rig):
        rig = make_rig()
        rig.add()
        queued = rig.queue.pop()
        queued.attempts = 40
        queued.was_flushed_from_unschedulable = True
        await rig.bind(await rig.loop.schedule_one(queued))
        assert list(rig.metrics.pod_scheduling_sli_duration_seconds._series) == [("15+",)]
        assert rig.metrics.pod_scheduled_after_flush_total.value == 1

    async def test_pods_to_activate_are_tried_next(self, make_rig, scripted):
        def activate(cycle, pod, node):
            cycle.pods_to_activate["ns/waiting"] = waiting

        refuse_waiting = waits_for_room(scripted)
        rig = make_rig(refuse_waiting, scripted("A", post_bind=activate))
        rig.add("waiting")
        assert rig.schedule() is None
        assert rig.where == {"unschedulable": ["waiting"]}
        waiting = rig.queue.get("ns/waiting").pod
        await rig.placed()
        assert rig.where == {"active": ["waiting"]}


class TestPermit:
    async def test_a_held_pod_is_announced_and_waits(self, make_rig, scripted):
        rig = make_rig(holding(scripted))
        pod = rig.add()
        binding = asyncio.create_task(rig.binder.run_binding_cycle(rig.schedule()))
        await until(lambda: rig.api.patches)
        assert not binding.done()
        assert pod.metadata.uid in rig.queue.in_flight
        rig.waiting_pods.get(pod.metadata.uid).allow("Holds")
        await asyncio.wait_for(binding, 30)
        assert rig.told[-2:] == [("Binds", "bind"), BOUND]

    async def test_a_pod_rejected_while_it_waits_is_told_so_like_a_decision(
        self, make_rig, scripted
    ):
        rig = make_rig(scripted("R", reserve=None), holding(scripted))
        pod = rig.add()
        binding = asyncio.create_task(rig.binder.run_binding_cycle(rig.schedule()))
        await until(lambda: rig.api.patches)
        rig.waiting_pods.get(pod.metadata.uid).reject("Holds", "not today")
        await asyncio.wait_for(binding, 30)
        assert rig.told[-2:] == [
            ("R", "unreserve"),
            ("event", "FailedScheduling", "0/1 nodes are available: 1 not today."),
        ]
        assert rig.where == {"unschedulable": ["p"]}
        assert rig.queue.get("ns/p").unschedulable_plugins == {"Holds"}
        assert rig.cache.pod_count == 0
        assert len(rig.queue.in_flight) == 0

    async def test_time_runs_out(self, make_rig, scripted):
        rig = make_rig(holding(scripted, seconds=0.0))
        rig.add()
        await rig.bind(rig.schedule())
        note = rig.told[-1][2]
        assert note == (
            "0/1 nodes are available: 1 rejected due to timeout after waiting 0s at plugin Holds."
        )

    async def test_a_pod_that_is_deleted_while_it_waits_is_told_so_as_well(
        self, make_rig, scripted
    ):
        rig = make_rig(holding(scripted))
        pod = rig.add()
        binding = asyncio.create_task(rig.binder.run_binding_cycle(rig.schedule()))
        await until(lambda: rig.api.patches)
        del rig.pods[pod.key]
        assert rig.waiting_pods.reject(pod.metadata.uid)
        await asyncio.wait_for(binding, 30)
        assert rig.told[-1] == (
            "event",
            "FailedScheduling",
            "0/1 nodes are available: 1 removed.",
        )
        assert rig.where == {}

    async def test_a_pod_preempted_while_it_waits_is_tried_again(self, make_rig, scripted):
        rig = make_rig(holding(scripted))
        pod = rig.add()
        binding = asyncio.create_task(rig.binder.run_binding_cycle(rig.schedule()))
        await until(lambda: rig.api.patches)
        rig.waiting_pods.get(pod.metadata.uid).preempt("Holds", "make room")
        await asyncio.wait_for(binding, 30)
        assert rig.told[-1][2] == "waiting on permit for pod: make room"
        assert rig.where == {"backoff": ["p"]}


class TestFailure:
    @pytest.mark.parametrize(
        ("answers", "note", "result"),
        [
            pytest.param(
                {"pre_bind": failed("boom")},
                'running PreBind plugin "X": boom',
                "error",
                id="pre_bind fails",
            ),
            pytest.param(
                {"pre_bind": rejected("not there")}, "not there", "unschedulable", id="says no"
            ),
            pytest.param(
                {"pre_bind": ValueError("boom")},
                'running PreBind plugin "X": ValueError: boom',
                "error",
                id="pre_bind raises",
            ),
            pytest.param(
                {"pre_bind": None, "pre_bind_pre_flight": failed("boom")},
                'running PreBindPreFlight "X": boom',
                "error",
                id="pre-flight fails",
            ),
            pytest.param(
                {"pre_bind": None, "pre_bind_pre_flight": rejected("no")},
                'PreBindPreFlight X returned "Unschedulable", which is unsupported. '
                "It is supposed to return Success, Skip, or Error status",
                "error",
                id="pre-flight says no",
            ),
            pytest.param(
                {"bind": failed("boom")}, 'running Bind plugin "X": boom', "error", id="bind fails"
            ),
            pytest.param({"bind": rejected("no")}, "no", "unschedulable", id="bind says no"),
        ],
    )
    async def test_everything_is_given_back_and_the_pod_is_tried_again(
        self, make_rig, scripted, answers, note, result
    ):
        rig = make_rig(scripted("R", reserve=None), scripted("X", **answers))
        await rig.placed()
        assert ("R", "unreserve") in rig.told
        assert rig.told[-1] == ("event", "FailedScheduling", note)
        assert rig.cache.pod_count == 0
        assert rig.where == {"backoff": ["p"]}
        assert rig.queue.get("ns/p").rejectors == set()
        assert rig.counts("schedule_attempts_total") == {(result, PROFILE): 1}

    async def test_nobody_binds(self, make_rig, scripted, log_text):
        rig = make_rig(scripted("B", bind=SKIP))
        await rig.placed()
        assert rig.cache.pod_count == 0
        assert rig.where == {"backoff": ["p"]}
        assert '"Failed to bind pod" pod="ns/p"' in log_text()

    async def test_a_nomination_made_on_the_way_is_taken_back(self, make_rig, scripted):
        rig = make_rig(scripted("X", pre_bind=failed("boom")))
        pod = await rig.placed()
        [(_, nominated)] = rig.api.patches
        assert nominated.nominated_node_name == "n1"
        await rig.writer.write(rig.writer._unsent[pod.metadata.uid])
        base, cleared = rig.api.patches[-1]
        assert (base.status.nominated_node_name, cleared.nominated_node_name) == ("n1", "")

    async def test_a_pod_that_waits_and_fails_before_its_turn_waits_no_longer(
        self, make_rig, scripted
    ):
        rig = make_rig(
            holding(scripted),
            scripted("X", pre_bind=None, pre_bind_pre_flight=failed("boom")),
        )
        await rig.placed()
        assert len(rig.waiting_pods) == 0
        assert rig.where == {"backoff": ["p"]}

    async def test_those_who_wait_for_room_hear_before_an_error_is_requeued(
        self, make_rig, scripted
    ):
        rig = make_rig(waits_for_room(scripted), scripted("B", bind=failed("boom")))
        rig.add("w")
        rig.schedule()
        moved = []
        move_all = rig.queue.move_all_to_active_or_backoff_queue

        def watched(event, old, new, now, pre_check=None):
            moved.append((event.label, old.name, rig.where))
            move_all(event, old, new, now, pre_check)

        rig.queue.move_all_to_active_or_backoff_queue = watched
        await rig.placed()
        assert moved == [("AssignedPodDelete", "p", {"unschedulable": ["w"]})]
        assert sorted(rig.where["backoff"]) == ["p", "w"]

    async def test_those_who_wait_for_room_hear_after_a_rejected_pod_is_requeued(
        self, make_rig, scripted
    ):
        rig = make_rig(waits_for_room(scripted), holding(scripted, "Full2", seconds=0.0))
        rig.add("w")
        rig.schedule()
        moved = []
        move_all = rig.queue.move_all_to_active_or_backoff_queue

        def watched(event, old, new, now, pre_check=None):
            waiting = [queued.pod for queued in rig.queue.pending().unschedulable]
            moved.append([pod.name for pod in waiting if pre_check(pod)])
            move_all(event, old, new, now, pre_check)

        rig.queue.move_all_to_active_or_backoff_queue = watched
        await rig.placed()
        assert moved == [["w"]]  # the pod itself waits as well, but its own room is no news to it
        assert rig.where == {"backoff": ["w"], "unschedulable": ["p"]}

    async def test_nobody_hears_of_room_that_did_not_come_free(self, make_rig, scripted, log_text):
        rig = make_rig(scripted("B", bind=failed("already bound")))
        pod = rig.add()
        attempt = rig.schedule()
        bound = rig.change(pod, spec={"node_name": "n1"})
        rig.cache.add_pod(attempt.pod)
        rig.queue.move_all_to_active_or_backoff_queue = None
        await rig.bind(attempt)
        assert rig.cache.pod_count == 1
        assert rig.where == {}
        assert bound.spec.node_name == "n1"
        assert '"ForgetPod failed"' in log_text()

    async def test_an_exception_costs_the_pod_its_attempt_and_nobody_else_anything(
        self, make_rig, log_text
    ):
        rig = make_rig()

        async def broken(uid):
            raise ValueError("a bug")

        rig.writer.settle = broken
        await rig.placed()
        assert rig.where == {"backoff": ["p"]}
        assert rig.cache.pod_count == 0
        assert rig.told[-1] == ("event", "FailedScheduling", "a bug")
        assert '"Binding failed unexpectedly" err="a bug" pod="ns/p" stack=' in log_text()


def unsettled(text="no answer"):
    return Status(Code.ERROR, (text,), unsettled=True)


def answering(*answers):
    """A bind that gives these answers, one after the other."""
    left = list(answers)
    return lambda *_: left.pop(0)


class TestUnsettled:
    """Bindings without an answer: may have taken effect, or do so yet."""

    @pytest.fixture(autouse=True)
    def _at_once(self, monkeypatch):
        monkeypatch.setattr(bind, "UNSETTLED_SECONDS", 0.0)

    TOLD = ("event", "FailedScheduling", 'running Bind plugin "B": no answer')

    async def test_it_is_tried_again_on_the_same_node_until_it_is_answered(
        self, make_rig, scripted
    ):
        plugin = scripted("B", bind=answering(unsettled(), unsettled(), None))
        rig = make_rig(plugin, nodes=("n1", "n2"))
        rig.add()
        attempt = rig.schedule()
        await rig.bind(attempt)
        assert [one for one in rig.told if one[0] != "patch"] == [
            ("B", "bind"),
            self.TOLD,
            ("B", "bind"),
            self.TOLD,
            ("B", "bind"),
            ("event", "Scheduled", f"Successfully assigned ns/p to {attempt.node}"),
        ]
        assert rig.cache.assumed_pod_count == 1
        assert rig.where == {}
        assert attempt.queued.attempts == 3
        assert rig.counts("schedule_attempts_total") == {
            ("error", PROFILE): 2,
            ("scheduled", PROFILE): 1,
        }

    async def test_its_room_is_taken_all_the_while(self, make_rig, scripted):
        answer = asyncio.Event()

        async def at_last():
            await answer.wait()

        plugin = scripted("B", bind=answering(unsettled(), at_last()))
        rig = make_rig(plugin)
        rig.add()
        binding = asyncio.create_task(rig.binder.run_binding_cycle(rig.schedule()))
        await until(lambda: plugin.steps.count("bind") == 2)
        assert rig.cache.assumed_pod_count == 1
        assert rig.where == {}
        answer.set()
        await asyncio.wait_for(binding, 30)
        assert rig.cache.assumed_pod_count == 1

    async def test_a_conflict_with_the_request_before_is_a_success(self, make_rig, scripted):
        rig = make_rig(scripted("B", bind=answering(unsettled(), failed("already assigned"))))
        rig.api.outcomes = [BindingOutcome.BOUND]
        await rig.placed()
        assert rig.told[-1] == BOUND
        assert rig.cache.assumed_pod_count == 1

    async def test_a_refusal_ends_it_if_the_pod_will_never_be_there(self, make_rig, scripted):
        rig = make_rig(scripted("B", bind=answering(unsettled(), failed("not found"))))
        rig.api.outcomes = [BindingOutcome.NEVER]
        await rig.placed()
        assert rig.told[-1] == ("event", "FailedScheduling", 'running Bind plugin "B": not found')
        assert rig.cache.pod_count == 0
        assert rig.where == {"backoff": ["p"]}

    @pytest.mark.parametrize("outcome", [BindingOutcome.NOT_YET, BindingOutcome.UNREADABLE])
    async def test_a_refusal_says_nothing_about_the_request_before(
        self, make_rig, scripted, outcome
    ):
        answers = answering(unsettled(), failed("forbidden"), failed("forbidden"), None)
        rig = make_rig(scripted("B", bind=answers))
        rig.api.outcomes = [outcome, outcome]
        await rig.placed()
        assert rig.told[-1] == BOUND
        assert rig.cache.assumed_pod_count == 1

    async def test_a_refusal_ends_it_when_no_server_works_on_the_request_any_more(
        self, make_rig, scripted, monkeypatch
    ):
        monkeypatch.setattr(bind, "REQUEST_SECONDS", 0.0)
        rig = make_rig(scripted("B", bind=answering(unsettled(), failed("forbidden"))))
        rig.api.outcomes = [BindingOutcome.NOT_YET]
        await rig.placed()
        assert rig.cache.pod_count == 0
        assert rig.where == {"backoff": ["p"]}

    async def test_the_watch_tells_that_it_took_effect(self, make_rig, scripted):
        rig = make_rig(scripted("B", bind=answering(unsettled())))
        rig.add()
        attempt = rig.schedule()
        tell = rig.failures.report

        def told_and_bound(*args, **fields):
            tell(*args, **fields)
            rig.cache.add_pod(attempt.pod)

        rig.failures.report = told_and_bound
        await rig.bind(attempt)
        assert rig.told[-1] == BOUND
        assert (rig.cache.pod_count, rig.cache.assumed_pod_count) == (1, 0)

    async def test_the_watch_tells_that_the_pod_is_gone(self, make_rig, scripted):
        rig = make_rig(scripted("B", bind=answering(unsettled())))
        pod = rig.add()
        attempt = rig.schedule()
        tell = rig.failures.report

        def told_and_deleted(*args, **fields):
            tell(*args, **fields)
            del rig.pods[pod.key]
            rig.cache.forget(attempt.pod)

        rig.failures.report = told_and_deleted
        await rig.bind(attempt)
        assert rig.plugins[0].steps == ["bind"]
        assert rig.cache.pod_count == 0
        assert rig.where == {}

    async def test_a_node_that_is_gone_has_no_room_to_keep(self, make_rig, scripted):
        rig = make_rig(scripted("B", bind=answering(unsettled())))
        rig.add()
        attempt = rig.schedule()
        rig.cache.remove_node(Node(metadata=ObjectMeta(name="n1")))
        await rig.bind(attempt)
        assert rig.plugins[0].steps == ["bind"]
        assert rig.cache.pod_count == 0
        assert rig.where == {"backoff": ["p"]}


class TestPreemptionInPreBind:
    async def test_work_that_is_called_off_fails_the_attempt(self, make_rig, scripted):
        started = asyncio.Event()

        async def work():
            started.set()
            await asyncio.Event().wait()

        rig = make_rig(scripted("W", pre_bind=lambda *_: work()))
        pod = rig.add()
        binding = asyncio.create_task(rig.binder.run_binding_cycle(rig.schedule()))
        await asyncio.wait_for(started.wait(), 30)
        assert rig.in_pre_bind.get(pod.metadata.uid).cancel("make room")
        await asyncio.wait_for(binding, 30)
        assert rig.told[-1] == (
            "event",
            "FailedScheduling",
            'running PreBind plugin "W": make room',
        )
        assert rig.where == {"backoff": ["p"]}
        assert ("Binds", "bind") not in rig.told


class TestCancellation:
    @pytest.mark.parametrize("stage", ["permit", "pre_bind", "bind"])
    async def test_cancelling_ends_the_work_without_a_verdict(self, make_rig, scripted, stage):
        async def for_ever():
            await asyncio.Event().wait()

        answer = Wait(60) if stage == "permit" else (lambda *_: for_ever())
        plugin = scripted("X", **{stage: answer})
        rig = make_rig(plugin)
        rig.add()
        binding = asyncio.create_task(rig.binder.run_binding_cycle(rig.schedule()))
        await until(lambda: stage in plugin.steps)
        await asyncio.sleep(0)
        binding.cancel()
        await asyncio.wait({binding})
        assert binding.cancelled()
        assert rig.events == []


class TestRoom:
    async def test_only_so_many_are_bound_at_a_time(self, make_rig, scripted, monkeypatch):
        monkeypatch.setattr(bind, "MAX_BINDING", 2)
        leave = asyncio.Event()

        async def slow():
            await leave.wait()

        rig = make_rig(scripted("B", bind=lambda *_: slow()))
        for number in range(3):
            rig.add(f"p{number}")
        attempts = [rig.schedule() for _ in range(3)]
        bindings = [
            asyncio.create_task(rig.binder.run_binding_cycle(attempt)) for attempt in attempts
        ]
        room = asyncio.create_task(rig.binder.caught_up())
        for _ in range(10):
            await asyncio.sleep(0)
        assert rig.plugins[0].steps == ["bind", "bind"]
        assert not room.done()
        leave.set()
        await asyncio.wait_for(asyncio.gather(room, *bindings), 30)

    async def test_only_so_many_are_nominated_at_a_time(self, make_rig, scripted, monkeypatch):
        monkeypatch.setattr(bind, "MAX_BINDING", 2)
        leave = asyncio.Event()
        rig = make_rig(scripted("W", pre_bind=None))
        rig.api.hindrance = leave.wait
        for number in range(3):
            rig.add(f"p{number}")
        attempts = [rig.schedule() for _ in range(3)]
        bindings = [
            asyncio.create_task(rig.binder.run_binding_cycle(attempt)) for attempt in attempts
        ]
        room = asyncio.create_task(rig.binder.caught_up())
        for _ in range(10):
            await asyncio.sleep(0)
        assert (len(rig.api.patches), room.done()) == (2, False)
        leave.set()
        await asyncio.wait_for(asyncio.gather(room, *bindings), 30)

    @pytest.mark.parametrize("stage", ["permit", "pre_bind"])
    async def test_pods_that_are_held_back_take_no_room(
        self, make_rig, scripted, monkeypatch, stage
    ):
        monkeypatch.setattr(bind, "MAX_BINDING", 1)

        async def for_ever():
            await asyncio.Event().wait()

        answer = Wait(60) if stage == "permit" else (lambda *_: for_ever())
        plugin = scripted("X", **{stage: answer})
        rig = make_rig(plugin)
        for number in range(3):
            rig.add(f"p{number}")
        attempts = [rig.schedule() for _ in range(3)]
        bindings = [
            asyncio.create_task(rig.binder.run_binding_cycle(attempt)) for attempt in attempts
        ]
        await until(lambda: plugin.steps.count(stage) == 3)
        await asyncio.wait_for(rig.binder.caught_up(), 30)
        for binding in bindings:
            binding.cancel()
        await asyncio.wait(bindings)


@pytest.mark.parametrize("code", [Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE])
def test_a_rejection_is_told_as_of_one_node(code):
    failure = bind.rejection(Status(code, ("b", "a"), "P"))
    assert failure.status.message == "0/1 nodes are available: 1 a, 1 b."
    assert failure.rejected
    assert (failure.unschedulable_plugins, failure.pending_plugins) == ({"P"}, frozenset())


def test_a_pending_rejection_names_its_plugin_twice():
    failure = bind.rejection(Status(Code.PENDING, ("soon",), "P"))
    assert (failure.unschedulable_plugins, failure.pending_plugins) == ({"P"}, {"P"})


class TestForeignBinds:
    """Others put pods on the node while a pod of ours is on its way there. A node has four CPUs."""

    @staticmethod
    def foreign(rig, name, *, cpu="3", node="n1", uid=""):
        """A pod that another scheduler has placed, as event handlers put it into the cache."""
        asked = {"cpu": cpu}
        placed = make_pod_info(name, namespace="ns", uid=uid or name, node=node, requests=asked)
        assert not rig.cache.add_pod(placed)
        rig.cache.foreign_binds.add(node)

    async def test_a_pod_whose_room_is_taken_while_it_waits_is_not_bound(self, make_rig, scripted):
        rig = make_rig(scripted("R", reserve=None), holding(scripted))
        pod = rig.add(requests={"cpu": "2"})
        binding = asyncio.create_task(rig.binder.run_binding_cycle(rig.schedule()))
        await until(lambda: rig.api.patches)
        self.foreign(rig, "other")
        rig.waiting_pods.get(pod.metadata.uid).allow("Holds")
        await asyncio.wait_for(binding, 30)
        assert rig.told[-2:] == [
            ("R", "unreserve"),
            (
                "event",
                "FailedScheduling",
                'node "n1" has too little left (cpu): another scheduler has placed pods there '
                "since it was chosen",
            ),
        ]
        assert ("Binds", "bind") not in rig.told
        assert rig.where == {"backoff": ["p"]}
        assert rig.counts("kscheduler_conflicts_total") == {("node-taken",): 1}
        assert [known.name for known in rig.cache.pods] == ["other"]

    async def test_nothing_is_prepared_for_it_either(self, make_rig, scripted):
        rig = make_rig(scripted("W", pre_bind=None), holding(scripted))
        pod = rig.add(requests={"cpu": "2"})
        binding = asyncio.create_task(rig.binder.run_binding_cycle(rig.schedule()))
        await until(lambda: rig.api.patches)
        self.foreign(rig, "other")
        rig.waiting_pods.get(pod.metadata.uid).allow("Holds")
        await asyncio.wait_for(binding, 30)
        assert ("W", "pre_bind") not in rig.told

    async def test_a_pod_whose_room_is_taken_during_pre_bind_is_not_bound(self, make_rig, scripted):
        rig = make_rig(scripted("W", pre_bind=lambda *_: self.foreign(rig, "other")))
        rig.add(requests={"cpu": "2"})
        await rig.bind(rig.schedule())
        assert ("W", "pre_bind") in rig.told
        assert ("Binds", "bind") not in rig.told
        assert rig.where == {"backoff": ["p"]}

    async def test_host_ports_can_be_taken_as_well(self, make_rig, scripted):
        rig = make_rig()
        pod = make_kit_pod("p", namespace="ns", host_port=80)
        rig.pods[pod.key] = pod
        rig.queue.add(PodInfo(pod), rig.now)
        attempt = rig.schedule()
        rig.cache.add_pod(make_pod_info("other", node="n1", host_port=80))
        rig.cache.foreign_binds.add("n1")
        await rig.bind(attempt)
        assert 'node "n1" has too little left (host ports): ' in rig.told[-1][2]

    async def test_a_pod_that_still_fits_is_bound(self, make_rig, scripted):
        rig = make_rig(scripted("W", pre_bind=lambda *_: self.foreign(rig, "other", cpu="2")))
        rig.add(requests={"cpu": "2"})
        await rig.bind(rig.schedule())
        assert BOUND in rig.told
        assert rig.counts("kscheduler_conflicts_total") == {}

    async def test_of_two_pods_one_gives_way(self, make_rig, scripted):
        rig = make_rig()
        rig.add("first", requests={"cpu": "2"})
        rig.add("second", requests={"cpu": "2"})
        first, second = rig.schedule(), rig.schedule()
        self.foreign(rig, "other", cpu="2")
        await rig.bind(first)
        await rig.bind(second)
        assert rig.where == {"backoff": ["first"]}
        assert ("event", "Scheduled", "Successfully assigned ns/second to n1") in rig.told

    async def test_a_node_that_was_too_full_before_the_decision_is_not_looked_at_again(
        self, make_rig
    ):
        """Filter has judged it, by its own rules."""
        rig = make_rig()
        self.foreign(rig, "other", cpu="9")
        rig.add(requests={"cpu": "2"})
        await rig.bind(rig.schedule())
        assert BOUND in rig.told

    async def test_a_pod_that_another_has_placed_elsewhere_is_not_sent(self, make_rig, scripted):
        rig = make_rig(nodes=("n1", "n2"))
        pod = rig.add()
        attempt = rig.schedule()
        elsewhere = "n2" if attempt.node == "n1" else "n1"
        self.foreign(rig, "p", node=elsewhere, uid=pod.metadata.uid)
        rig.change(pod, spec={"node_name": elsewhere})
        await rig.bind(attempt)
        assert ("Binds", "bind") not in rig.told
        note = f'another scheduler has assigned pod ns/p to node "{elsewhere}"'
        assert rig.told[-1] == ("event", "FailedScheduling", note)
        assert rig.counts("kscheduler_conflicts_total") == {("already-bound",): 1}
        assert rig.where == {}
        assert {known.name: known.node_name for known in rig.cache.pods} == {"p": elsewhere}

    async def test_a_refused_binding_of_an_assigned_pod_is_counted(self, make_rig, scripted):
        refusal = failed('pod p is already assigned to node "n2"')
        rig = make_rig(scripted("B", bind=refusal))
        await rig.placed()
        assert rig.counts("kscheduler_conflicts_total") == {("already-bound",): 1}
        assert rig.counts("kscheduler_foreign_binds_total") == {}

    @pytest.mark.parametrize("is_told", [False, True])
    async def test_a_pod_that_another_has_bound_to_the_same_node_is_bound(
        self, make_rig, scripted, is_told
    ):
        """The watch cannot tell it from ours, and it keeps what was reserved for it."""

        def refused(cycle, pod, node):
            assert not is_told or rig.cache.add_pod(pod)
            return failed('pod p is already assigned to node "n1"')

        rig = make_rig(scripted("R", reserve=None), scripted("B", bind=refused))
        await rig.placed()
        assert rig.told == [("R", "reserve"), ("B", "bind"), BOUND]
        assert rig.counts("kscheduler_conflicts_total") == {("already-bound",): 1}
        assert rig.counts("kscheduler_foreign_binds_total") == {("own-pod",): 1}
        assert (rig.cache.pod_count, rig.cache.assumed_pod_count) == (1, int(not is_told))

    async def test_a_binding_that_may_have_taken_effect_is_not_given_up(
        self, make_rig, scripted, monkeypatch
    ):
        def bind_twice(cycle, pod, node):
            if rig.cache.foreign_binds.latest:
                return None
            self.foreign(rig, "other")
            return unsettled()

        monkeypatch.setattr(bind, "UNSETTLED_SECONDS", 0.0)
        rig = make_rig(scripted("B", bind=bind_twice))
        rig.add(requests={"cpu": "2"})
        await rig.bind(rig.schedule())
        assert BOUND in rig.told
