"""Leader election against a lease in memory, in time that only passes when everybody waits."""

import asyncio
import random
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.client.errors import Conflict, InternalError
from kscheduler.errors import ConfigError
from kscheduler.leader_election import ElectionConfig, LeaderElector, Observers
from tests.kit.leases import Leases
from tests.kit.log import captured_log

CONFIG = ElectionConfig(
    identity="me",
    lock="kube-system/kube-scheduler",
    lease_seconds=15,
    renew_deadline_seconds=10,
    retry_seconds=2,
)


class VirtualTime(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer when there is nothing else to do."""

    def __init__(self):
        super().__init__()
        self._now = 1000.0
        self._wait = self._selector.select
        self._selector.select = self._select

    def time(self):
        return self._now

    def _select(self, timeout=None):
        ready = self._wait(0)
        if not ready and timeout is None:
            raise AssertionError("everybody waits for ever")
        self._now += 0 if ready else timeout
        return ready


def play(scenario):
    """Runs it to its end, which it must reach within an hour of its own time."""
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(asyncio.wait_for(scenario, 3600))


class Candidate:
    """An elector, what it told, and whether it leads just now."""

    def __init__(self, leases, config=CONFIG):
        self.told = []
        self.gauge = []
        self.slow_paths = 0
        self.renewals = []
        self.leads = asyncio.Event()
        observers = Observers(
            event=self.told.append,
            leading=lambda: self.gauge.append(1),
            standing_by=lambda: self.gauge.append(0),
            slow_path=self._slow,
            renewed=lambda: self.renewals.append(self.elector.tenure.held()),
        )
        clock = asyncio.get_running_loop().time
        self.elector = LeaderElector(leases, config, observers, clock=clock, rng=random.Random(1))
        self.running = asyncio.create_task(self.elector.run(self._lead))

    def _slow(self):
        self.slow_paths += 1

    async def _lead(self):
        self.leads.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.leads.clear()

    async def stop(self):
        self.running.cancel()
        await asyncio.wait({self.running})
        assert self.running.cancelled()


def spec_of(holder, *, seconds=15, transitions=3, renewed="2026-01-01T00:00:00.000000Z"):
    return {
        "holderIdentity": holder,
        "leaseDurationSeconds": seconds,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": renewed,
        "leaseTransitions": transitions,
    }


@pytest.fixture
def log_text():
    with captured_log() as log:
        yield lambda: log.text


def test_a_missing_lease_is_made_renewed_at_once_and_given_back():
    leases = Leases()

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        assert me.elector.is_leader
        await asyncio.sleep(4.5)
        assert leases.spec["holderIdentity"] == "me"
        assert leases.spec["leaseDurationSeconds"] == 15
        assert leases.spec["leaseTransitions"] == 0
        await me.stop()
        assert not me.leads.is_set()
        return me

    me = play(scenario())
    assert leases.requests == [
        ("get", 0),
        ("create", 0),
        ("update", 0),
        ("update", 2),
        ("update", 4),
        ("get", 4.5),
        ("update", 4.5),
    ]
    assert leases.spec["holderIdentity"] == ""
    assert leases.spec["leaseDurationSeconds"] == 1
    assert leases.spec["acquireTime"] == leases.spec["renewTime"]
    assert me.told == ["me became leader", "me stopped leading"]
    assert me.gauge == [0, 1, 0]
    assert me.slow_paths == 0


def test_renewing_keeps_when_the_lease_was_acquired():
    leases = Leases()

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        acquired = leases.spec["acquireTime"]
        await asyncio.sleep(30)
        assert (leases.spec["acquireTime"], leases.spec["leaseTransitions"]) == (acquired, 0)
        assert leases.spec["renewTime"] >= acquired
        await me.stop()

    play(scenario())


def test_an_empty_holder_is_succeeded_at_once_and_strangers_fields_survive():
    leases = Leases(spec_of(""), {"resourceVersion": "1", "labels": {"keep": "me"}})

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        assert leases.lease["metadata"]["labels"] == {"keep": "me"}
        assert leases.spec["leaseTransitions"] == 4
        await me.stop()

    play(scenario())
    assert leases.verbs[:2] == ["get", "update"]
    assert leases.requests[1][1] == 0


@pytest.mark.parametrize(
    "renewed",
    ["1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z", "nonsense"],
    ids=["long ago", "in the future", "unreadable"],
)
def test_a_dead_holder_is_waited_for_from_first_sight_whatever_its_times_say(renewed):
    leases = Leases(spec_of("dead", seconds=6, renewed=renewed))

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        assert leases.spec["leaseTransitions"] == 4
        await me.stop()

    play(scenario())
    polls = [when for verb, when in leases.requests if verb == "get"]
    taken = next(when for verb, when in leases.requests if verb == "update")
    assert 6 <= taken <= 6 + 4.4
    between = [after - before for before, after in pairwise(polls)][:-1]
    assert all(2 <= pause <= 4.4 for pause in between)


def test_a_living_holder_is_waited_for_as_long_as_it_renews():
    leases = Leases()

    async def scenario():
        first = Candidate(leases)
        await first.leads.wait()
        second = Candidate(leases, replace(CONFIG, identity="you"))
        await asyncio.sleep(120)
        assert second.elector.holder == "me"
        assert not second.leads.is_set()
        await first.stop()
        released = asyncio.get_running_loop().time()
        await second.leads.wait()
        assert asyncio.get_running_loop().time() - released <= 4.4
        assert leases.spec["leaseTransitions"] == 1
        await second.stop()

    play(scenario())


def test_a_standby_leaves_without_a_word_to_the_server():
    leases = Leases(spec_of("other"))

    async def scenario():
        me = Candidate(leases)
        await asyncio.sleep(5)
        await me.stop()
        return me

    me = play(scenario())
    assert set(leases.verbs) == {"get"}
    assert leases.spec["holderIdentity"] == "other"
    assert me.told == []


def test_a_stolen_lease_is_missed_for_the_renew_deadline_and_then_left_alone(log_text):
    leases = Leases()

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        await asyncio.sleep(3)
        leases.steal()
        await asyncio.wait({me.running})
        me.running.result()
        assert not me.leads.is_set()
        return me, asyncio.get_running_loop().time() - 1000

    me, ended = play(scenario())
    assert ended == 14  # noticed by the renewal at 4, and ten seconds
    assert leases.spec["holderIdentity"] == "thief"
    assert me.told == ["me became leader", "me stopped leading"]
    assert me.gauge == [0, 1, 0]
    failed = '"Failed to renew lease" lock="kube-system/kube-scheduler"'
    assert f'{failed} err="context deadline exceeded"' in log_text()


def test_a_thief_who_gives_back_in_time_costs_nothing():
    leases = Leases()

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        leases.steal()
        await asyncio.sleep(5)
        assert me.elector.holder == "thief"
        leases.steal(holder="")
        await asyncio.sleep(5)
        assert me.leads.is_set()
        assert leases.spec["holderIdentity"] == "me"
        assert leases.spec["leaseTransitions"] == 1
        await me.stop()

    play(scenario())


def test_a_deleted_lease_is_made_again_and_leading_goes_on():
    leases = Leases()

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        await asyncio.sleep(1)
        leases.lease = None
        await asyncio.sleep(2)
        assert me.leads.is_set()
        assert leases.verbs == ["get", "create", "update", "update", "get", "create"]
        await asyncio.sleep(2)
        assert leases.verbs[-1] == "update"
        leases.lease = None
        await me.stop()
        assert leases.verbs[-1] == "get"
        assert leases.lease is None

    play(scenario())


def test_a_change_by_somebody_else_is_read_and_written_over():
    leases = Leases()

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        await asyncio.sleep(1)
        leases.lease["metadata"] |= {"resourceVersion": "77", "annotations": {"a": "b"}}
        await asyncio.sleep(2)
        assert me.leads.is_set()
        assert leases.lease["metadata"]["annotations"] == {"a": "b"}
        assert leases.spec["leaseTransitions"] == 0
        await me.stop()
        return me

    me = play(scenario())
    assert leases.verbs[3:6] == ["update", "get", "update"]
    assert me.slow_paths == 1


def test_a_server_that_fails_for_a_while_is_tried_until_the_deadline(log_text):
    leases = Leases()

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        await asyncio.sleep(1)
        broken = InternalError("fabricated")
        leases.ahead = {"update": [broken], "get": [broken]}
        await asyncio.sleep(4)
        assert me.leads.is_set()
        await me.stop()

    play(scenario())
    assert [when for _, when in leases.requests[3:6]] == [2, 2, 4]
    told = '"Error retrieving lease lock" err="fabricated" lock="kube-system/kube-scheduler"'
    assert told in log_text()


def test_a_server_that_never_answers_costs_the_lease():
    leases = Leases()

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        leases.ahead = {"update": [asyncio.Event().wait]}
        await asyncio.wait({me.running})
        return asyncio.get_running_loop().time() - 1000

    assert play(scenario()) == 12
    assert leases.spec["holderIdentity"] == ""  # given back as soon as the server answers


def test_giving_back_is_not_tried_for_ever(log_text):
    leases = Leases()

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        leases.ahead = {"get": [asyncio.Event().wait]}
        await me.stop()
        return asyncio.get_running_loop().time() - 1000

    assert play(scenario()) == 10
    assert "Failed to release lease" in log_text()


def test_a_conflict_on_giving_back_is_tried_again():
    leases = Leases()

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        await asyncio.sleep(1)
        leases.ahead = {"update": [Conflict("a renewal came through")]}
        await me.stop()

    play(scenario())
    assert leases.verbs[-4:] == ["get", "update", "get", "update"]
    assert leases.spec["holderIdentity"] == ""


def test_two_who_take_at_once_do_not_both_lead():
    leases = Leases(spec_of("dead", seconds=3))

    async def scenario():
        candidates = [Candidate(leases, replace(CONFIG, identity=str(i))) for i in range(5)]
        for _ in range(200):
            await asyncio.sleep(0.3)
            assert sum(candidate.leads.is_set() for candidate in candidates) <= 1
        assert sum(candidate.leads.is_set() for candidate in candidates) == 1
        for candidate in candidates:
            await candidate.stop()

    play(scenario())


def test_two_who_create_at_once_do_not_both_lead(log_text):
    leases = Leases()

    async def scenario():
        leases.ahead = {"create": [lambda: asyncio.sleep(0.1)]}
        slow = Candidate(leases)
        await asyncio.sleep(0)
        quick = Candidate(leases, replace(CONFIG, identity="quick"))
        await asyncio.sleep(10)
        assert quick.leads.is_set()
        assert not slow.leads.is_set()
        await slow.stop()
        await quick.stop()

    play(scenario())
    assert "Error initially creating lease lock" in log_text()


def test_work_that_fails_ends_leadership_and_gives_the_lease_back(log_text):
    leases = Leases()

    async def work():
        await asyncio.sleep(5)
        raise RuntimeError("broken")

    async def scenario():
        clock = asyncio.get_running_loop().time
        with pytest.raises(RuntimeError, match="broken"):
            await LeaderElector(leases, CONFIG, clock=clock).run(work)

    play(scenario())
    assert leases.spec["holderIdentity"] == ""


def test_work_that_fails_while_it_is_called_off_keeps_nothing_from_ending(log_text):
    leases = Leases()

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("broken")

    async def scenario():
        clock = asyncio.get_running_loop().time
        running = asyncio.create_task(LeaderElector(leases, CONFIG, clock=clock).run(work))
        await asyncio.sleep(5)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()

    play(scenario())
    assert leases.spec["holderIdentity"] == ""
    assert '"Leading ended with an error" err="broken"' in log_text()


def test_a_leader_whose_lease_ran_out_long_ago_is_overdue():
    leases = Leases()
    now = [0.0]

    async def scenario():
        elector = LeaderElector(leases, CONFIG, clock=lambda: now[0])
        assert elector.overdue() is None
        leads = asyncio.Event()

        async def lead():
            leads.set()
            await asyncio.Event().wait()

        running = asyncio.create_task(elector.run(lead))
        await leads.wait()
        now[0] = elector.valid_until + 20
        assert elector.overdue() is None
        now[0] += 1
        assert elector.overdue() == "failed election to renew leadership on lease kube-scheduler"
        leases.steal()
        running.cancel()
        await asyncio.wait({running})
        assert elector.overdue() is None

    play(scenario())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"lease_seconds": 10}, "leaseDuration must be greater than renewDeadline"),
        (
            {"retry_seconds": 9},
            "renewDeadline must be greater than retryPeriod*JitterFactor",
        ),
        ({"retry_seconds": 0}, "retryPeriod must be greater than zero"),
        (
            {"renew_deadline_seconds": 0, "retry_seconds": -1},
            "renewDeadline must be greater than zero",
        ),
        (
            {"lease_seconds": 0, "renew_deadline_seconds": -1, "retry_seconds": -2},
            "leaseDuration must be greater than zero",
        ),
        (
            {"lease_seconds": 0.9, "renew_deadline_seconds": 0.5, "retry_seconds": 0.1},
            "leaseDuration must be at least 1s: leaseDurationSeconds in the lease, by which other "
            "candidates go, counts whole seconds",
        ),
        ({"identity": ""}, "Lock identity is empty"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes, why):
    with pytest.raises(ConfigError) as refused:
        replace(CONFIG, **changes).check()
    assert str(refused.value) == f"couldn't create leader elector: {why}"


def test_a_leader_may_act_for_the_renew_deadline_after_a_renewal_was_sent():
    leases = Leases()

    async def slow():
        await asyncio.sleep(1.5)

    async def scenario():
        me = Candidate(leases)
        assert me.elector.tenure.held()[1] <= 0
        await me.leads.wait()
        assert me.elector.tenure.held()[1] == 10
        await asyncio.sleep(1)
        assert me.elector.tenure.held()[1] == 9
        leases.ahead = {"update": [slow]}
        await asyncio.sleep(3)
        # Sent two seconds ago, answered half a second ago: others may count from the sending.
        assert me.elector.tenure.held()[1] == 8
        await me.stop()
        assert me.elector.tenure.held()[1] <= 0

    play(scenario())


def test_a_loop_that_stands_still_does_not_keep_the_lease():
    leases = Leases()

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        await asyncio.sleep(0.5)
        asyncio.get_running_loop()._now += 30
        assert me.elector.is_leader
        assert me.elector.tenure.held()[1] < 0
        await asyncio.sleep(1)
        assert me.elector.tenure.held()[1] > 8
        await me.stop()

    play(scenario())


def test_a_leader_that_has_seen_its_successor_may_not_act_any_more():
    leases = Leases()

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        await asyncio.sleep(1)
        leases.steal()
        await asyncio.sleep(2)
        assert me.leads.is_set()
        assert me.elector.tenure.held()[1] == 0
        leases.steal(holder="")
        await asyncio.sleep(2.5)
        assert me.elector.tenure.held()[1] > 8
        await me.stop()

    play(scenario())


def test_a_renewal_whose_answer_was_lost_does_not_prolong_what_we_count_on():
    leases = Leases()

    async def stored_but_unanswered():
        leases._store(leases.lease | {"spec": leases.spec | {"renewTime": "2026-01-01T00:00:09Z"}})
        raise InternalError("lost")

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        await asyncio.sleep(1)
        broken = InternalError("fabricated")
        leases.ahead = {"update": [stored_but_unanswered], "get": [broken]}
        await asyncio.sleep(2)
        assert me.elector.tenure.held()[1] == 7
        await me.stop()

    play(scenario())


@pytest.mark.parametrize(
    ("lease", "renew", "held"),
    [
        (15, 10, 10),
        (3, 2, 2),
        (15, 2, 2),
        (2.9, 2.5, 1.6),
        (1.9, 0.9, 0.5),
        (1.5, 1.4, 0.9),
        (1, 0.9, 0.9),
    ],
    ids=[
        "defaults",
        "short",
        "an early deadline",
        "others read whole seconds",
        "nothing would be left",
        "little is cut",
        "the shortest",
    ],
)
def test_what_is_held_ends_before_the_lease_that_others_read(lease, renew, held):
    config = replace(CONFIG, lease_seconds=lease, renew_deadline_seconds=renew)
    assert config.held_seconds == pytest.approx(held)


@given(lease=st.floats(1, 100), deadline=st.floats(0.01, 100), retry=st.floats(0.001, 100))
def test_whatever_is_accepted_is_held_for_a_while_that_ends_before_others_take_over(
    lease, deadline, retry
):
    config = replace(
        CONFIG, lease_seconds=lease, renew_deadline_seconds=deadline, retry_seconds=retry
    )
    assume(not config.problem)
    assert 0 < config.held_seconds < config.written_seconds
    assert config.held_seconds <= config.renew_deadline_seconds


def test_a_term_lasts_until_the_lease_is_seen_with_another_or_given_back():
    leases = Leases()

    async def scenario():
        me = Candidate(leases)
        assert me.elector.tenure.held() == (0, 0.0)
        await me.leads.wait()
        assert me.elector.tenure.held() == (1, 10)
        await asyncio.sleep(5)
        assert me.elector.tenure.held() == (1, 9)
        asyncio.get_running_loop()._now += 30  # it ran out, and nobody took it
        term, left = me.elector.tenure.held()
        assert term == 1
        assert left < 0
        await asyncio.sleep(1)
        assert me.elector.tenure.held()[0] == 1
        leases.steal()
        await asyncio.sleep(2)
        assert me.elector.tenure.held() == (0, 0.0)
        leases.steal(holder="")
        await asyncio.sleep(2)
        assert me.elector.tenure.held()[0] == 2
        await me.stop()
        assert me.elector.tenure.held() == (0, 0.0)

    play(scenario())


def test_every_renewal_is_told():
    leases = Leases()

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        await asyncio.sleep(5)
        await me.stop()
        return me.renewals

    assert play(scenario()) == [(1, 10)] * 4


def test_a_leader_that_is_dead_is_not_kept_in_office(log_text):
    leases = Leases()

    async def scenario():
        elector = LeaderElector(leases, CONFIG, clock=asyncio.get_running_loop().time)
        pulses = [True, True, False]
        await elector.run(asyncio.Event().wait, is_alive=lambda: pulses.pop(0))

    play(scenario())
    assert leases.verbs == ["get", "create", "update", "update", "get", "update"]
    assert leases.spec["holderIdentity"] == ""
    assert "Stopped renewing the lease of a loop that is dead" in log_text()


def test_one_elector_can_run_for_office_again():
    leases = Leases()

    async def scenario():
        me = Candidate(leases)
        await me.leads.wait()
        leases.steal()
        await asyncio.wait({me.running})
        me.running = asyncio.create_task(me.elector.run(me._lead))
        await me.leads.wait()
        assert leases.spec["holderIdentity"] == "me"
        await me.stop()
        return me

    me = play(scenario())
    assert me.gauge == [0, 1, 0, 0, 1, 0]
