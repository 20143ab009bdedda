"""Reports about pods: what is sent, what is replaced, what is left out."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from msgspec import structs

from kscheduler.api.core import PodCondition
from kscheduler.client.errors import InternalError, Withheld
from kscheduler.client.fence import Fence
from kscheduler.cycle import status_writer
from kscheduler.cycle.status_writer import StatusReport, with_condition
from tests.kit.polling import until

EARLIER = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:01:00Z"


def refused(message="no room", **fields):
    values = {"status": "False", "reason": "Unschedulable", "last_transition_time": LATER}
    return PodCondition(type="PodScheduled", message=message, **(values | fields))


@asynccontextmanager
async def writing(rig):
    running = asyncio.create_task(rig.writer.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()


@pytest.fixture
def rig(make_rig):
    return make_rig()


class TestConditions:
    other = PodCondition(type="Ready", status="False")

    @pytest.mark.parametrize(
        ("before", "new", "want"),
        [
            pytest.param((), refused(), (refused(),), id="first one"),
            pytest.param((other,), refused(), (other, refused()), id="others stay"),
            pytest.param(
                (refused("a", last_transition_time=EARLIER), other),
                refused("b"),
                (refused("b", last_transition_time=EARLIER), other),
                id="same status keeps its place and its time",
            ),
            pytest.param(
                (refused(status="True", last_transition_time=EARLIER),),
                refused(),
                (refused(),),
                id="another status restarts the clock",
            ),
            pytest.param(
                (refused(last_transition_time=EARLIER, observed_generation=1),),
                refused(observed_generation=2),
                (refused(last_transition_time=EARLIER, observed_generation=1),),
                id="a new generation alone is nothing new",
            ),
            pytest.param(
                (refused("a", last_transition_time=EARLIER, observed_generation=1),),
                refused("b", observed_generation=2),
                (refused("b", last_transition_time=EARLIER, observed_generation=2),),
                id="but comes along",
            ),
        ],
    )
    def test_a_condition_is_set(self, before, new, want):
        assert with_condition(before, new) == want

    def test_an_unchanged_condition_is_the_very_same(self):
        before = (refused(last_transition_time=EARLIER),)
        assert with_condition(before, refused()) is before


@pytest.mark.parametrize(
    ("nominated", "want"), [(None, "old"), ("", ""), ("new", "new")], ids=["keep", "clear", "set"]
)
async def test_nominations_are_kept_cleared_or_set(rig, nominated, want):
    pod = rig.add(nominated_node_name="old")
    async with writing(rig):
        rig.writer.report(StatusReport(pod, refused(), nominated))
        await until(lambda: rig.api.patches)
    [(_, status)] = rig.api.patches
    assert status.nominated_node_name == want
    assert status.conditions == (refused(),)


async def test_nothing_new_is_not_sent(rig):
    pod = rig.add(conditions=(refused(),))
    async with writing(rig):
        rig.writer.report(StatusReport(pod, refused(last_transition_time=EARLIER), ""))
        other = rig.add("other")
        rig.writer.report(StatusReport(other, refused(), ""))
        await until(lambda: rig.api.patches)
    assert [pod.name for pod, _ in rig.api.patches] == ["other"]


async def test_the_newest_report_wins(rig):
    pod, other = rig.add(), rig.add("other")
    for message in ("first", "second", "third"):
        rig.writer.report(StatusReport(pod, refused(message), None))
    rig.writer.report(StatusReport(other, refused("other"), None))
    async with writing(rig):
        await until(lambda: len(rig.api.patches) == 2)
    told = {pod.name: status.conditions[0].message for pod, status in rig.api.patches}
    assert told == {"p": "third", "other": "other"}


async def test_a_report_waits_for_the_one_before_about_the_same_pod(rig):
    pod, other = rig.add(), rig.add("other")
    leave = asyncio.Event()
    rig.api.hindrance = leave.wait
    async with writing(rig):
        rig.writer.report(StatusReport(pod, refused("first"), None))
        await until(lambda: rig.api.patches)
        rig.writer.report(StatusReport(pod, refused("second"), None))
        rig.writer.report(StatusReport(other, refused("other"), None))
        await until(lambda: len(rig.api.patches) == 2)
        assert rig.api.patches[-1][0].name == "other"
        leave.set()
        await until(lambda: len(rig.api.patches) == 3)
        assert rig.api.patches[-1][1].conditions[0].message == "second"


async def test_only_so_many_are_sent_at_a_time(rig):
    rig.api.hindrance = asyncio.Event().wait
    async with writing(rig):
        for number in range(20):
            rig.writer.report(StatusReport(rig.add(f"p{number}"), refused(), None))
        await until(lambda: len(rig.api.patches) == status_writer.WRITERS)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(rig.api.patches) == status_writer.WRITERS


@pytest.mark.parametrize("change", ["gone", "recreated", "bound"])
async def test_pods_that_are_none_of_our_business_any_more_are_left_alone(rig, new_pod, change):
    pod, other = rig.add(), rig.add("other")
    if change == "gone":
        del rig.pods[pod.key]
    else:
        fields = {"uid": "new"} if change == "recreated" else {"node": "n1"}
        rig.pods[pod.key] = new_pod(version="2", **fields)
    rig.writer.report(StatusReport(pod, refused(), ""))
    rig.writer.report(StatusReport(other, refused(), ""))
    async with writing(rig):
        await until(lambda: rig.api.patches)
    assert [pod.name for pod, _ in rig.api.patches] == ["other"]


async def test_reports_are_about_the_pod_as_it_is_now(rig):
    pod = rig.add()
    current = rig.change(pod, nominated_node_name="n1")
    rig.writer.report(StatusReport(pod, refused(), ""))
    async with writing(rig):
        await until(lambda: rig.api.patches)
    [(base, status)] = rig.api.patches
    assert base is current
    assert status.nominated_node_name == ""


async def test_what_we_wrote_ourselves_is_known_before_the_informer_tells(rig):
    pod = rig.add()
    await rig.writer.write(StatusReport(pod, None, "n1"))
    await rig.writer.write(StatusReport(pod, refused(), ""))
    (_, nominated), (base, cleared) = rig.api.patches
    assert nominated.nominated_node_name == "n1"
    assert base.status == nominated
    assert cleared.nominated_node_name == ""
    await rig.writer.write(StatusReport(pod, refused(last_transition_time=EARLIER), ""))
    assert len(rig.api.patches) == 2


async def test_what_the_informer_tells_is_newer_than_what_we_wrote(rig):
    pod = rig.add()
    await rig.writer.write(StatusReport(pod, refused(), ""))
    current = rig.change(pod, nominated_node_name="n1")
    await rig.writer.write(StatusReport(pod, refused(), ""))
    assert rig.api.patches[-1][0] is current


async def test_little_is_remembered_of_what_we_wrote(rig, monkeypatch):
    monkeypatch.setattr(status_writer, "MAX_REMEMBERED", 3)
    for number in range(10):
        await rig.writer.write(StatusReport(rig.add(f"p{number}"), refused(), ""))
    assert len(rig.writer._written) == 3


class TestBehindAFence:
    """Reports that may not be sent now, because the lease has run out."""

    @pytest.fixture
    def lease(self, rig):
        lease = SimpleNamespace(held=(1, -1.0))
        lease.fence = rig.writer._fence = Fence(lambda: lease.held)
        return lease

    async def test_they_wait_for_the_renewal_the_newest_of_each_pod(self, rig, lease):
        pod, other = rig.add(), rig.add("other")
        async with writing(rig):
            rig.writer.report(StatusReport(pod, refused("first"), None))
            rig.writer.report(StatusReport(other, refused("other"), None))
            await until(lambda: len(lease.fence._waiting) == status_writer.WRITERS)
            rig.writer.report(StatusReport(pod, refused("second"), None))
            assert rig.api.patches == []
            lease.held = (1, 60.0)
            lease.fence.changed()
            await until(lambda: len(rig.api.patches) == 2)
        told = {pod.name: status.conditions[0].message for pod, status in rig.api.patches}
        assert told == {"p": "second", "other": "other"}

    async def test_one_that_was_withheld_in_the_last_moment_is_sent_later(self, rig, lease):
        pod = rig.add()
        lease.held = (1, 60.0)

        async def close():
            lease.held = (1, -1.0)
            rig.api.hindrance = None
            raise Withheld("Patch", "not sent")

        rig.api.hindrance = close
        async with writing(rig):
            rig.writer.report(StatusReport(pod, refused(), None))
            await until(lambda: len(lease.fence._waiting) == status_writer.WRITERS)
            assert len(rig.api.patches) == 1
            lease.held = (2, 60.0)  # another term: it is about the pod, not about a decision
            lease.fence.changed()
            await until(lambda: len(rig.api.patches) == 2)
        assert rig.api.patches[0][1] == rig.api.patches[1][1]

    async def test_a_pod_that_is_bound_meanwhile_is_left_alone(self, rig, lease, new_pod):
        pod, other = rig.add(), rig.add("other")
        async with writing(rig):
            rig.writer.report(StatusReport(pod, refused(), None))
            rig.writer.report(StatusReport(other, refused(), None))
            await until(lambda: len(lease.fence._waiting) == status_writer.WRITERS)
            rig.pods[pod.key] = new_pod(version="2", node="n1")
            lease.held = (1, 60.0)
            lease.fence.changed()
            await until(lambda: rig.api.patches)
        assert [pod.name for pod, _ in rig.api.patches] == ["other"]


async def test_a_failed_write_is_logged_and_the_next_one_is_tried(rig, log_text):
    pod = rig.add()
    rig.api.hindrance = InternalError("no luck")
    async with writing(rig):
        rig.writer.report(StatusReport(pod, refused("a"), ""))
        await until(lambda: rig.api.patches)
        rig.api.hindrance = None
        rig.writer.report(StatusReport(pod, refused("b"), ""))
        await until(lambda: len(rig.api.patches) == 2)
    assert '"Error updating pod" err="no luck" logger="UnhandledError" pod="ns/p"' in log_text()
    assert rig.api.patches[1][0].status == structs.replace(pod.status)


class TestSettling:
    async def test_what_is_unsent_is_dropped(self, rig):
        pod, other = rig.add(), rig.add("other")
        rig.writer.report(StatusReport(pod, refused(), ""))
        rig.writer.report(StatusReport(other, refused(), ""))
        await rig.writer.settle(pod.uid)
        async with writing(rig):
            await until(lambda: rig.api.patches)
        assert [pod.name for pod, _ in rig.api.patches] == ["other"]

    async def test_what_is_under_way_is_awaited(self, rig):
        pod = rig.add()
        leave = asyncio.Event()
        rig.api.hindrance = leave.wait
        async with writing(rig):
            rig.writer.report(StatusReport(pod, refused(), ""))
            await until(lambda: rig.api.patches)
            settling = asyncio.create_task(rig.writer.settle(pod.uid))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not settling.done()
            leave.set()
            await asyncio.wait_for(settling, 30)

    async def test_who_gives_up_waiting_does_not_disturb_the_write(self, rig):
        pod = rig.add()
        leave = asyncio.Event()
        rig.api.hindrance = leave.wait
        async with writing(rig):
            rig.writer.report(StatusReport(pod, refused(), ""))
            await until(lambda: rig.api.patches)
            settling = asyncio.create_task(rig.writer.settle(pod.uid))
            await asyncio.sleep(0)
            settling.cancel()
            await asyncio.wait({settling})
            leave.set()
            await asyncio.wait_for(rig.writer.settle(pod.uid), 30)

    async def test_a_failed_write_settles_too(self, rig):
        pod = rig.add()
        rig.api.hindrance = InternalError("no luck")
        await rig.writer.write(StatusReport(pod, refused(), ""))
        await asyncio.wait_for(rig.writer.settle(pod.uid), 30)


async def test_idle_is_told_when_the_last_report_is_written_or_dropped(rig):
    told = []
    rig.writer._on_idle = lambda: told.append(len(rig.api.patches))
    first, second = rig.add("first"), rig.add("second")
    leave = asyncio.Event()
    rig.api.hindrance = leave.wait
    async with writing(rig):
        rig.writer.report(StatusReport(first, refused(), None))
        rig.writer.report(StatusReport(second, refused(), None))
        assert rig.writer.busy
        await until(lambda: len(rig.api.patches) == 2)
        assert not told
        leave.set()
        await until(lambda: not rig.writer.busy)
        assert told == [2]
    rig.writer.report(StatusReport(first, refused("never sent"), None))
    await rig.writer.settle(first.uid)
    assert told == [2, 2]
