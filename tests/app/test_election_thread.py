"""The elector beside the main loop: in office while that computes, and out when it should be."""

import asyncio
import json
import sys
import threading
import time

import pytest

from kscheduler.app import election
from kscheduler.app.election import ElectionThread, make_elector
from kscheduler.client.credentials import Exec, ExecPlugin
from kscheduler.leader_election import ElectionConfig, LeaderElector, Observers
from kscheduler.metrics import Metrics
from tests.kit.leases import Leases
from tests.kit.polling import until

CONFIG = ElectionConfig(
    identity="me",
    lock="kube-system/kube-scheduler",
    lease_seconds=60,
    renew_deadline_seconds=30,
    retry_seconds=0.01,
)
SOON_LOST = ElectionConfig("me", CONFIG.lock, 1, 0.2, 0.01)


class Wire:
    """What carries the elector's requests; notes which thread opens and closes it."""

    def __init__(self):
        self.threads = []

    async def __aenter__(self):
        self.threads.append(threading.current_thread().name)

    async def __aexit__(self, *_):
        self.threads.append(threading.current_thread().name)


class Lead:
    """The work of a leader, and the order of what happens around it."""

    def __init__(self):
        self.steps = []
        self.began = asyncio.Event()
        self.work = asyncio.Event().wait

    async def __call__(self):
        assert threading.current_thread() is threading.main_thread()
        self.steps.append("began")
        self.began.set()
        try:
            await self.work()
        finally:
            self.steps.append("ended")


@pytest.fixture
def leases():
    return Leases()


@pytest.fixture
async def lead():
    return Lead()


def thread_for(leases, config=CONFIG, wire=None, observers=None):
    return ElectionThread(LeaderElector(leases, config, observers), wire or Wire())


async def begun(thread, lead):
    running = asyncio.create_task(thread.run(lead))
    await asyncio.wait_for(lead.began.wait(), 30)
    return running


async def cancelled(task):
    task.cancel()
    await asyncio.wait({task}, timeout=30)
    assert task.cancelled()


def election_threads():
    return [one for one in threading.enumerate() if one.name == "leader-election"]


async def test_the_lease_is_renewed_while_the_main_loop_computes(leases, lead):
    thread = thread_for(leases)
    running = await begun(thread, lead)
    before = len(leases.requests)
    deadline = time.monotonic() + 10
    # One step of the main loop, which never waits for anything.
    while len(leases.requests) < before + 20:
        assert time.monotonic() < deadline
    assert thread.elector.tenure.held()[1] > 29
    assert lead.steps == ["began"]
    await cancelled(running)


async def test_the_work_ends_before_the_lease_is_given_back(leases, lead):
    wire = Wire()
    running = await begun(thread_for(leases, wire=wire), lead)
    release = leases.update

    async def update(lease):
        if not lease["spec"]["holderIdentity"]:
            lead.steps.append("released")
        return await release(lease)

    leases.update = update
    await cancelled(running)
    assert lead.steps == ["began", "ended", "released"]
    assert wire.threads == ["leader-election"] * 2
    assert election_threads() == []


async def test_to_be_cancelled_twice_is_no_reason_to_leave_anything_behind(leases, lead):
    async def slow_to_end():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)

    lead.work = slow_to_end
    running = await begun(thread_for(leases), lead)
    running.cancel()
    await asyncio.sleep(0.01)
    await cancelled(running)
    assert lead.steps == ["began", "ended"]
    assert leases.spec["holderIdentity"] == ""


async def test_one_that_is_cancelled_at_once_leaves_no_thread(leases, lead):
    running = asyncio.create_task(thread_for(leases).run(lead))
    await asyncio.sleep(0)
    await cancelled(running)
    assert election_threads() == []


async def test_a_standby_is_cancelled_without_having_led(lead):
    leases = Leases({"holderIdentity": "other", "leaseDurationSeconds": 3600})
    running = asyncio.create_task(thread_for(leases).run(lead))
    await until(lambda: leases.requests)
    await cancelled(running)
    assert lead.steps == []


async def test_work_that_fails_is_told_to_who_runs_it(leases, lead):
    async def fail():
        raise ValueError("a bug")

    lead.work = fail
    with pytest.raises(ValueError, match="a bug"):
        await asyncio.wait_for(thread_for(leases).run(lead), 30)
    assert leases.spec["holderIdentity"] == ""


async def test_a_lost_lease_ends_the_work_and_closes_the_fence(leases, lead):
    thread = thread_for(leases, SOON_LOST)
    running = await begun(thread, lead)
    leases.steal()
    await asyncio.wait_for(running, 30)
    assert lead.steps == ["began", "ended"]
    assert thread.elector.tenure.held() == (0, 0.0)
    assert leases.spec["holderIdentity"] == "thief"


async def test_the_fence_closes_by_itself_while_the_main_loop_computes(leases, lead):
    """Renewals fail, and nobody is there to hear of it."""
    thread = thread_for(leases, SOON_LOST)
    running = await begun(thread, lead)
    leases.lease["spec"] = {"holderIdentity": "thief", "leaseDurationSeconds": 3600}
    leases.lease["metadata"] = {"resourceVersion": "77"}
    deadline = time.monotonic() + 10
    while thread.elector.tenure.held()[1] > 0:
        assert time.monotonic() < deadline
    assert lead.steps == ["began"]
    await asyncio.wait_for(running, 30)
    assert lead.steps == ["began", "ended"]


async def test_a_main_loop_that_is_dead_is_no_leader_for_ever(leases, lead, monkeypatch):
    monkeypatch.setattr(election, "SILENCE_SECONDS", 0.2)
    thread = thread_for(leases)
    running = await begun(thread, lead)
    seen, since = 0, time.monotonic()
    deadline = since + 10
    while time.monotonic() < since + 1.0:
        assert time.monotonic() < deadline
        if len(leases.requests) > seen:
            seen, since = len(leases.requests), time.monotonic()
    assert leases.spec["holderIdentity"] == "me"  # it runs out by itself
    await asyncio.wait_for(running, 30)
    assert lead.steps == ["began", "ended"]


async def test_a_main_loop_that_answers_leads_for_ever(leases, lead, monkeypatch):
    monkeypatch.setattr(election, "SILENCE_SECONDS", 0.05)
    running = await begun(thread_for(leases), lead)
    await until(lambda: len(leases.requests) > 50)
    assert not running.done()
    await cancelled(running)


async def test_one_thread_after_the_other_can_run_for_office(leases, lead):
    thread = thread_for(leases)
    await cancelled(await begun(thread, lead))
    lead.began.clear()
    await cancelled(await begun(thread, lead))
    assert lead.steps == ["began", "ended"] * 2


async def test_credentials_come_from_a_program_of_its_own(leases, lead):
    """Programs can be run from this thread, too."""
    status = {"token": "t"}
    answer = json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "status": status})
    plugin = ExecPlugin(Exec(sys.executable, ("-c", f"print({answer!r})")))
    headers, get = [], leases.get

    async def authorized():
        headers.append(await plugin.authorization())
        return await get()

    leases.get = authorized
    await cancelled(await begun(thread_for(leases), lead))
    assert headers == ["Bearer t"] * 2


async def test_what_is_told_is_told_in_the_main_thread_and_in_order(leases, lead):
    told = []

    def note(what):
        told.append((what, threading.current_thread() is threading.main_thread()))

    def post(what):
        loop.call_soon_threadsafe(note, what)

    loop = asyncio.get_running_loop()
    observers = Observers(
        event=post, leading=lambda: post("leading"), standing_by=lambda: post("standing by")
    )
    await cancelled(await begun(thread_for(leases, observers=observers), lead))
    assert told == [
        (what, True)
        for what in (
            "standing by",
            "me became leader",
            "leading",
            "standing by",
            "me stopped leading",
        )
    ]


async def test_the_slow_path_is_not_shown_before_it_was_taken(lead):
    class Lease(Leases):
        reference = None

    class Recorder:
        def record(self, regarding, **fields):
            pass

    leases, metrics = Lease(), Metrics()
    post = asyncio.get_running_loop().call_soon_threadsafe
    elector = make_elector(leases, CONFIG, Recorder(), metrics, post=post)
    running = await begun(ElectionThread(elector, Wire()), lead)
    assert not metrics.leader_election_slowpath_total
    leases.lease["metadata"] = {"resourceVersion": "77"}
    await until(lambda: metrics.leader_election_slowpath_total)
    assert metrics.leader_election_slowpath_total.labels("kube-scheduler").value == 1
    await cancelled(running)
