"""The scheduling loop: one pod at a time, whatever the pod or the plugins are up to."""

import asyncio

import pytest

from kscheduler.api.core import NodeAllocatableResourceClaimStatus
from kscheduler.cycle import bind, loop
from kscheduler.framework.added_by_devices import AddedByDevices
from kscheduler.framework.plugin import PostFilterResult, Wait
from kscheduler.framework.status import Code, Status, failed, rejected, unschedulable
from tests.kit.polling import until

PROFILE = "default-scheduler"


@pytest.fixture
async def running():
    """Starts loops, and ends them as the app does."""
    tasks = []

    def start(rig):
        tasks.append(asyncio.create_task(rig.loop.run()))
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()


class TestOneCycle:
    def test_a_placed_pod_is_assumed_and_handed_over(self, make_rig):
        rig = make_rig()
        rig.add(nominated_node_name="n1")
        attempt = rig.schedule()
        assert (attempt.node, attempt.pod.node_name) == ("n1", "n1")
        assert rig.cache.is_assumed(attempt.pod)
        assert rig.queue.nominator.node_of(attempt.pod.uid) is None
        assert attempt.pod.uid in rig.queue.in_flight
        assert sum(rig.metrics.scheduling_algorithm_duration_seconds._counts) == 1

    def test_a_pod_is_assumed_with_what_devices_add_on_its_node(self, make_rig, scripted):
        claim = NodeAllocatableResourceClaimStatus(resource_claim_name="c")
        old = NodeAllocatableResourceClaimStatus(resource_claim_name="old")

        def prepare(cycle, pod, nodes):
            cycle.put(AddedByDevices({"n1": (claim,)}))

        rig = make_rig(scripted("Adds", pre_filter=prepare))
        rig.add(node_allocatable_resource_claim_statuses=(old,))
        assumed = rig.schedule().pod.pod
        assert assumed.status.node_allocatable_resource_claim_statuses == (claim,)

    def test_the_next_decision_sees_the_one_before(self, make_rig):
        rig = make_rig(nodes=("n1", "n2"))
        rig.add("a")
        rig.add("b")
        rig.schedule()
        rig.schedule()
        assert rig.cache.assumed_pod_count == 2

    def test_a_refused_pod_is_told_why(self, make_rig, refusing):
        rig = make_rig(refusing())
        rig.add()
        assert rig.schedule() is None
        assert rig.told[-1] == (
            "event",
            "FailedScheduling",
            "0/1 nodes are available: 1 no room.",
        )
        assert rig.where == {"unschedulable": ["p"]}
        assert rig.queue.get("ns/p").unschedulable_plugins == {"Refuses"}
        assert rig.cache.pod_count == 0

    def test_without_post_filter_plugins_the_log_says_so(
        self, make_rig, refusing, scripted, log_text
    ):
        told = '"No PostFilter plugins are registered, so no preemption will be performed"'
        rig = make_rig(refusing())
        rig.add()
        rig.schedule()
        assert f'{told} pod="ns/p"\n' in log_text()
        rig = make_rig(
            refusing(), scripted("Makes room", post_filter=PostFilterResult(failed("x"), None))
        )
        rig.add()
        rig.schedule()
        assert log_text().count(told) == 1

    def test_an_empty_cluster(self, make_rig, refusing, scripted):
        asked = scripted("Preempts", post_filter=None)
        rig = make_rig(refusing(), asked, nodes=())
        pod = rig.add(nominated_node_name="n1")
        rig.schedule()
        assert rig.told == [("event", "FailedScheduling", "no nodes available to schedule pods")]
        assert rig.where == {"backoff": ["p"]}
        assert rig.writer._unsent[pod.metadata.uid].nominated_node == ""

    @pytest.mark.parametrize(
        ("result", "message", "nominated"),
        [
            pytest.param(
                PostFilterResult(rejected("preemption: no"), ""), " preemption: no", "", id="cannot"
            ),
            pytest.param(
                PostFilterResult(rejected("preemption: never"), None),
                " preemption: never",
                None,
                id="may not",
            ),
            pytest.param(PostFilterResult(failed("boom"), None), " boom", None, id="fails"),
        ],
    )
    def test_what_preemption_says_is_added(
        self, make_rig, refusing, scripted, result, message, nominated
    ):
        rig = make_rig(refusing(), scripted("Preempts", post_filter=result))
        pod = rig.add()
        rig.schedule()
        assert rig.told[-1][2] == "0/1 nodes are available: 1 no room." + message
        assert rig.writer._unsent[pod.metadata.uid].nominated_node == nominated

    def test_a_filter_that_fails_is_an_error(self, make_rig, scripted, log_text):
        rig = make_rig(scripted("F", filter=ValueError("boom")))
        rig.add()
        rig.schedule()
        assert rig.told[-1] == (
            "event",
            "FailedScheduling",
            'running "F" filter plugin: ValueError: boom',
        )
        assert rig.where == {"backoff": ["p"]}
        assert '"Error selecting node for pod"' in log_text()

    def test_a_pod_of_nobodys_profile_is_dropped(self, make_rig, log_text):
        rig = make_rig()
        rig.add(profile="other")
        assert rig.schedule() is None
        assert rig.where == {}
        assert len(rig.queue.in_flight) == 0
        assert (
            '"Error occurred" err="profile not found for scheduler name \\"other\\""' in log_text()
        )

    def test_a_pod_that_is_going_is_not_placed(self, make_rig):
        rig = make_rig()
        pod = rig.add(deleting=True)
        assert rig.schedule() is None
        assert rig.events == [
            (
                PROFILE,
                pod,
                "Warning",
                "FailedScheduling",
                "Scheduling",
                "skip schedule deleting pod: ns/p",
            )
        ]
        assert rig.where == {}
        assert len(rig.queue.in_flight) == 0
        assert rig.counts("schedule_attempts_total") == {}

    def test_a_pod_that_is_on_its_way_already_is_left_alone(self, make_rig):
        rig = make_rig()
        pod = rig.add()
        attempt = rig.schedule()
        rig.queue.done(pod.metadata.uid)
        rig.queue.add(attempt.queued.pod, rig.now)
        assert rig.schedule() is None
        assert rig.where == {}
        assert rig.events == []

    def test_an_exception_in_a_decision_costs_the_pod_its_attempt(self, make_rig, log_text):
        rig = make_rig()
        rig.loop.algorithm.schedule_pod = None
        rig.add()
        assert rig.schedule() is None
        assert rig.where == {"backoff": ["p"]}
        assert rig.told[-1][2] == "'NoneType' object is not callable"
        assert '"Scheduling failed unexpectedly" err="' in log_text()
        assert "Traceback" in log_text()

    def test_an_exception_after_the_decision_takes_the_assumption_back(
        self, make_rig, scripted, log_text
    ):
        rig = make_rig(scripted("Holds", permit=Wait(60)), scripted("R", reserve=None))
        rig.framework.hold = None
        rig.add()
        assert rig.schedule() is None
        assert rig.cache.pod_count == 0
        assert rig.where == {"backoff": ["p"]}
        assert ("R", "unreserve") in rig.told

    @pytest.mark.parametrize("point", ["reserve", "permit"])
    @pytest.mark.parametrize(
        ("answer", "note", "place"),
        [
            pytest.param(
                rejected("no"), "0/1 nodes are available: 1 no.", "unschedulable", id="no"
            ),
            pytest.param(failed("boom"), 'running {} plugin "X": boom', "backoff", id="fails"),
        ],
    )
    def test_reserve_and_permit_may_say_no(self, make_rig, scripted, point, answer, note, place):
        rig = make_rig(scripted("R", reserve=None), scripted("X", **{point: answer}))
        rig.queue.move_all_to_active_or_backoff_queue = (
            None  # room that was only just taken is no news to anybody
        )
        pod = rig.add()
        assert rig.schedule() is None
        assert rig.told[-1][2] == note.format(point.capitalize())
        assert ("R", "unreserve") in rig.told
        assert rig.where == {place: ["p"]}
        assert rig.cache.pod_count == 0
        assert rig.writer._unsent[pod.metadata.uid].nominated_node == ""

    def test_pods_to_activate_are_tried_next(self, make_rig, scripted):
        def activate(cycle, pod, node):
            cycle.pods_to_activate["ns/waiting"] = rig.queue.get("ns/waiting").pod
            cycles.append(cycle)

        def judge(cycle, pod, nodes):
            return [unschedulable(nodes.valid, "no")] if pod.name == "waiting" else []

        cycles = []
        rig = make_rig(scripted("R", reserve=activate), scripted("F", filter=judge))
        rig.add("waiting")
        rig.schedule()
        assert rig.where == {"unschedulable": ["waiting"]}
        rig.add()
        rig.schedule()
        assert rig.where == {"active": ["waiting"]}
        assert cycles[0].pods_to_activate == {}


class TestMakingRoom:
    """PostFilter found a node, but someone must leave it first."""

    @pytest.mark.parametrize(
        ("work", "message", "nominated"),
        [
            pytest.param(
                PostFilterResult(Status(Code.SUCCESS, ("preempting",)), "n1"),
                "preempting",
                "n1",
                id="done",
            ),
            pytest.param(PostFilterResult(failed("no luck")), "no luck", None, id="fails"),
            pytest.param(
                ValueError("boom"),
                'running PostFilter plugin "Preempts": ValueError: boom',
                None,
                id="raises",
            ),
        ],
    )
    async def test_the_attempt_ends_when_the_room_is_made(
        self, make_rig, refusing, scripted, running, work, message, nominated
    ):
        async def prepare():
            if isinstance(work, Exception):
                raise work
            return work

        result = PostFilterResult(Status(Code.SUCCESS), None, prepare)
        rig = make_rig(refusing(), scripted("Preempts", post_filter=result))
        pod = rig.add()
        running(rig)
        await until(lambda: rig.events)
        assert rig.events[0][5] == f"0/1 nodes are available: 1 no room. {message}"
        assert rig.writer._unsent[pod.metadata.uid].nominated_node == nominated
        assert rig.where == {"unschedulable": ["p"]}


class TestRunning:
    async def test_pods_are_bound_as_they_come(self, make_rig, running):
        rig = make_rig()
        running(rig)
        for number in range(3):
            rig.add(f"p{number}")
        await until(lambda: len(rig.events) == 3)
        rig.add("late")
        await until(lambda: len(rig.events) == 4)
        assert {event[3] for event in rig.events} == {"Scheduled"}
        # Though no plugin had anything to do there.
        took = rig.metrics.framework_extension_point_duration_seconds
        assert took.labels("PreBind", "Success", "default-scheduler").count == 4
        assert rig.metrics.goroutines.labels("binding").value == 0

    async def test_an_idle_loop_does_nothing(self, make_rig, running):
        rig = make_rig()
        pops = []
        pop = rig.queue.pop
        rig.queue.pop = lambda: pops.append(1) or pop()
        running(rig)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(pops) == 1

    async def test_a_slow_binding_holds_up_nobody(self, make_rig, scripted, running):
        leave = asyncio.Event()

        async def slow():
            await leave.wait()

        rig = make_rig(scripted("B", bind=lambda cycle, pod, node: slow()))
        running(rig)
        for number in range(5):
            rig.add(f"p{number}")
        await until(lambda: rig.plugins[0].steps.count("bind") == 5)
        assert rig.metrics.goroutines.labels("binding").value == 5
        leave.set()
        await until(lambda: len(rig.events) == 5)

    async def test_deciding_waits_when_too_many_are_being_bound(
        self, make_rig, scripted, running, monkeypatch
    ):
        monkeypatch.setattr(bind, "MAX_BINDING", 2)
        leave = asyncio.Event()

        async def slow():
            await leave.wait()

        rig = make_rig(scripted("B", bind=lambda cycle, pod, node: slow()))
        running(rig)
        for number in range(10):
            rig.add(f"p{number}")
        for _ in range(50):
            await asyncio.sleep(0)
        assert rig.cache.assumed_pod_count <= 3
        assert len(rig.queue.pending().active) >= 7
        leave.set()
        await until(lambda: len(rig.events) == 10)

    async def test_pods_held_back_do_not_keep_others_from_being_decided(
        self, make_rig, scripted, running, monkeypatch
    ):
        monkeypatch.setattr(bind, "MAX_BINDING", 1)

        def last_one_frees_all(cycle, pod, node):
            if pod.name != "p4":
                return Wait(60)
            for waiting in rig.waiting_pods:
                waiting.allow("Gang")
            return None

        rig = make_rig(scripted("Gang", permit=last_one_frees_all))
        running(rig)
        for number in range(5):
            rig.add(f"p{number}")
        await until(lambda: len(rig.events) == 5)

    async def test_bindings_are_abandoned_at_the_end(self, make_rig, scripted):
        abandoned = []

        async def for_ever():
            try:
                await asyncio.Event().wait()
            finally:
                abandoned.append(1)

        rig = make_rig(scripted("B", bind=lambda cycle, pod, node: for_ever()))
        task = asyncio.create_task(rig.loop.run())
        rig.add()
        await until(lambda: rig.plugins[0].steps)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert abandoned == [1]
        assert len(rig.queue.in_flight) == 0
        assert rig.events == []

    async def test_who_backs_off_is_tried_again_in_time(self, make_rig, scripted, running):
        answers = iter([failed("boom")])
        rig = make_rig(scripted("B", bind=lambda *_: next(answers, None)))
        running(rig)
        rig.now += 0.95  # the flush comes on the second
        rig.add()
        await until(lambda: rig.where == {"backoff": ["p"]})
        rig.now += 10
        await until(lambda: len(rig.events) == 2)
        assert [event[3] for event in rig.events] == ["FailedScheduling", "Scheduled"]

    async def test_who_waited_too_long_is_tried_without_a_reason(
        self, make_rig, refusing, running, monkeypatch
    ):
        monkeypatch.setattr(loop, "UNSCHEDULABLE_FLUSH_SECONDS", 0.01)
        rig = make_rig(refusing())
        running(rig)
        rig.add()
        await until(lambda: rig.where == {"unschedulable": ["p"]})
        rig.now += 301
        await until(lambda: len(rig.events) == 2)

    async def test_the_size_of_the_cache_is_told(self, make_rig, running, monkeypatch):
        monkeypatch.setattr(loop, "CACHE_METRICS_SECONDS", 0.01)
        rig = make_rig()
        running(rig)
        rig.add()
        sizes = {("nodes",): 1, ("pods",): 1, ("assumed_pods",): 1}
        await until(lambda: rig.counts("cache_size") == sizes)
