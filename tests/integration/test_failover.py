"""A leader that goes away in any manner: its heir takes over in time, and nobody else writes.

FAILOVER_ROUNDS=20 pytest tests/integration/test_failover.py -k killed -s
"""

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import web

from tests.integration.cluster import pod
from tests.integration.replicas import (
    LEASE_SECONDS,
    MOST_POLL_SECONDS,
    holder,
    lease,
    replica,
)
from tests.kit.checker import binding_violations, violations
from tests.kit.manifests import node_manifest
from tests.kit.polling import until

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("FAILOVER_ROUNDS", "1"))
PODS_PER_ROUND = 60
HOSTS = ("127.0.0.1", "localhost")
# Slow enough to be struck in the middle of its work.
SLOWLY = {"clientConnection": {"qps": 20, "burst": 5}}
# On a slow machine a lease may be lost without anybody's help.
STAYING = {**SLOWLY, "flags": ("--leader-elect-rejoin",)}
PLUGINS = Path(__file__).with_name("labelled_plugins.py")
UNNOTED = " was bound by []"


def create_pods(cluster, name, count=PODS_PER_ROUND):
    cluster.create(*(pod(f"{name}-{number}", cpu="1") for number in range(count)))


class Places:
    """Where pods were put, as the store has it: a killed client's request may be carried out
    without anybody noting its answer.
    """

    def __init__(self, cluster):
        self.by_pod = {}
        cluster.api.store["pods"].listen(self._note)

    def _note(self, change):
        if node_name := change.stored.fields.get("spec.nodeName"):
            self.by_pod.setdefault(change.stored.key, set()).add(node_name)

    def __len__(self):
        return len(self.by_pod)


@pytest.fixture
def places(cluster):
    return Places(cluster)


def assert_sound(cluster, places):
    """Everything is placed, once, and where it fits."""
    assert cluster.waiting() == []
    assert {len(nodes) for nodes in places.by_pod.values()} == {1}
    unsound = binding_violations(cluster.sent, cluster.pods(), ["default-scheduler"])
    assert [problem for problem in unsound if not problem.endswith(UNNOTED)] == []
    assert violations(cluster.nodes(), cluster.pods()) == []


async def leader_and_heir(cluster, stack, **config):
    """Two replicas, the first of which leads."""
    return [await campaigning(cluster, stack, host, **config) for host in HOSTS]


async def campaigning(cluster, stack, host, **config):
    """A replica that is ready to lead, or does."""
    started = await stack.enter_async_context(replica(cluster, host, **config))
    await until(lambda: started.polls > 1)
    return started


def kill_leader(replicas):
    """Whoever that is: on a slow machine one may have lost the lease to the other before."""
    heir, leader = sorted(replicas, key=lambda one: one.renewed_at)
    leader.signal(signal.SIGKILL)
    return leader, heir


def late_looks(leader, heir):
    """How often the heir looked at a lease that it knew to have run out, its taking it included.

    What it saw with its first look after the last renewal it knew when it looked the second time.
    """
    looks = [when for when in heir.looks if leader.renewed_at < when < heir.renewed_at]
    return len([when for when in looks if when > looks[1] + LEASE_SECONDS])


async def test_heirs_of_killed_leaders_take_over_in_time_and_finish_their_work(cluster, places):
    """There is room for exactly these pods: one placed or counted twice would not fit."""
    room = str(PODS_PER_ROUND * ROUNDS // 10)
    cluster.create(*(node_manifest(f"n{number}", cpu=room, pods=room) for number in range(10)))
    waits = []
    async with AsyncExitStack() as stack:
        replicas = await leader_and_heir(cluster, stack, **STAYING)
        for number in range(ROUNDS):
            done = number * PODS_PER_ROUND
            create_pods(cluster, f"r{number}")
            await until(lambda few=done + 10: len(places) > few)
            before = holder(cluster)
            leader, heir = kill_leader(replicas)
            killed = time.monotonic()
            assert len(places) < done + PODS_PER_ROUND
            await until(lambda gone=before: holder(cluster) != gone)
            waits.append(time.monotonic() - killed)
            assert late_looks(leader, heir) <= 1
            await until(lambda every=done + PODS_PER_ROUND: len(places) == every)
            for place, one in enumerate(replicas):
                if not one.runs:
                    replicas[place] = await campaigning(cluster, stack, one.host, **STAYING)
    print(f"{ROUNDS} rounds, took over after {min(waits):.2f}-{max(waits):.2f} s")
    assert lease(cluster)["leaseTransitions"] >= ROUNDS
    assert_sound(cluster, places)


def keep_from_renewing(cluster, host):
    """Its renewals get no answer that would help."""

    async def refuse(request):
        if request.host.startswith(host) and "/leases/" in request.path:
            return web.Response(status=500)
        return None

    cluster.api.interceptors.append(refuse)


@pytest.mark.parametrize("strike", [signal.SIGSTOP, signal.SIGUSR1], ids=["process", "loop"])
async def test_a_leader_that_stood_still_writes_nothing_after_its_lease(cluster, places, strike):
    """If only its loop stands still, it loses the lease because it cannot renew it."""
    cluster.create(*(node_manifest(f"n{number}", cpu="10") for number in range(10)))
    async with AsyncExitStack() as stack:
        leader, heir = await leader_and_heir(cluster, stack, **SLOWLY)
        create_pods(cluster, "p", 100)
        await until(lambda: len(places) > 10)
        first = holder(cluster)
        leader.signal(strike)
        if strike == signal.SIGUSR1:
            keep_from_renewing(cluster, leader.host)
        await until(lambda: holder(cluster) != first)
        # What it had sent before it stood still was answered long ago.
        resumed = time.monotonic()
        leader.signal(signal.SIGCONT)
        assert await asyncio.wait_for(leader.process.wait(), 60) == 1
        await until(lambda: not cluster.waiting())
    assert leader.binds_since(resumed) == []
    assert heir.bindings
    assert_sound(cluster, places)


async def test_a_leader_whose_loop_stands_still_stays_in_office_and_goes_on(cluster, places):
    cluster.create(*(node_manifest(f"n{number}", cpu="10") for number in range(10)))
    async with AsyncExitStack() as stack:
        leader, heir = await leader_and_heir(cluster, stack, **SLOWLY)
        create_pods(cluster, "p", 60)
        await until(lambda: len(places) > 10)
        first = holder(cluster)
        leader.signal(signal.SIGUSR1)
        stopped, renewals = time.monotonic(), leader.renewals
        await until(lambda: time.monotonic() > stopped + LEASE_SECONDS + 2 * MOST_POLL_SECONDS)
        bound = len(leader.bindings)
        assert bound < 60
        assert leader.renewals > renewals + LEASE_SECONDS
        leader.signal(signal.SIGCONT)
        await until(lambda: not cluster.waiting())
        assert holder(cluster) == first
        assert lease(cluster)["leaseTransitions"] == 0
        assert leader.process.returncode is None
    assert heir.bindings == []
    assert_sound(cluster, places)


async def test_a_leader_whose_plugin_computes_for_longer_than_the_lease_stays_in_office(
    cluster, places
):
    """One call of pure Python takes nearly three times the lease."""
    cluster.create(node_manifest("n1", cpu="10"), node_manifest("n2", cpu="10"))
    computing = {
        "flags": ("--plugin", f"{PLUGINS}:Scorer", "--plugin-timeout=0"),
        "election": {
            "leaderElect": True,
            "leaseDuration": "3s",
            "renewDeadline": "2s",
            "retryPeriod": "400ms",
        },
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"score": {"enabled": [{"name": "Scorer"}]}},
            }
        ],
    }
    async with AsyncExitStack() as stack:
        leader, heir = await leader_and_heir(cluster, stack, **computing)
        first = holder(cluster)
        slow = {"fault": "compute", "seconds": "8"}
        started = time.monotonic()
        cluster.create(pod("slow", labels=slow), pod("innocent"))
        await until(lambda: len(places) == 2)
        assert time.monotonic() > started + 8
        assert holder(cluster) == first
        assert lease(cluster)["leaseTransitions"] == 0
        assert leader.process.returncode is None
    assert heir.bindings == []
    assert_sound(cluster, places)


async def test_a_leader_that_stood_still_and_was_not_missed_goes_on(cluster, places):
    """Nobody else campaigns: it renews its lease first, and binds then."""
    cluster.create(*(node_manifest(f"n{number}", cpu="10") for number in range(10)))
    async with replica(cluster, HOSTS[0], **SLOWLY) as leader:
        create_pods(cluster, "p", 60)
        await until(lambda: len(places) > 10)
        renewals = []
        cluster.api.hooks.append(
            lambda exchange: (
                renewals.append(time.monotonic())
                if exchange.method == "PUT" and "/leases/" in exchange.path
                else None
            )
        )
        # Between two renewals: one that is under way would be found to have taken too long.
        await until(lambda: renewals)
        bound = len(leader.bindings)
        await until(lambda: len(leader.bindings) > bound + 1)
        leader.signal(signal.SIGSTOP)
        stopped = time.monotonic()
        await until(lambda: time.monotonic() > stopped + LEASE_SECONDS)
        # What it had sent before it stood still was answered long ago.
        resumed = time.monotonic()
        leader.signal(signal.SIGCONT)
        await until(lambda: not cluster.waiting())
        again = next(when for when in renewals if when > resumed)
        late = [when for when, _ in leader.bindings if when > resumed]
        assert min(late) > again
        assert leader.process.returncode is None
    assert_sound(cluster, places)


async def test_clocks_that_jump_by_an_hour_change_nothing(cluster, places):
    cluster.create(*(node_manifest(f"n{number}", cpu="10") for number in range(10)))
    async with AsyncExitStack() as stack:
        leader, heir = await leader_and_heir(cluster, stack)
        first = holder(cluster)
        cluster.create(pod("too-big", cpu="11"))
        for number, jump in enumerate([signal.SIGHUP, signal.SIGWINCH, signal.SIGWINCH]):
            leader.signal(jump)
            (heir if number else leader).signal(signal.SIGWINCH)
            create_pods(cluster, f"j{number}", 10)
            await until(lambda every=10 * number + 10: len(places) == every)
        settled = time.monotonic()
        await until(lambda: time.monotonic() > settled + LEASE_SECONDS + MOST_POLL_SECONDS)
        cluster.create(node_manifest("big", cpu="11"))
        await until(lambda: cluster.place("too-big") == "big")
        assert holder(cluster) == first
        assert lease(cluster)["leaseTransitions"] == 0
        assert heir.bindings == []
    assert_sound(cluster, places)


async def test_a_leader_that_rejoins_starts_over_without_ending(cluster, places):
    cluster.create(node_manifest("n1", cpu="2"))
    async with replica(cluster, HOSTS[0], flags=("--leader-elect-rejoin",)) as only:
        cluster.create(pod("early", cpu="1"), pod("too-big", cpu="2"))
        await until(lambda: cluster.place("early"))
        steal(cluster, "thief")
        stolen = time.monotonic()
        followed = set()
        cluster.api.hooks.append(
            lambda exchange: followed.add((exchange.path, "watch" in exchange.query))
        )
        # It gives up after the renew deadline, drops all it followed, and follows it anew.
        await until(lambda: ("/api/v1/nodes", True) in followed)
        assert only.binds_since(stolen) == []
        cluster.create(pod("late", cpu="1"))
        steal(cluster, "")
        await until(lambda: cluster.place("late"))
        assert holder(cluster) not in ("", "thief")
        assert only.process.returncode is None
        cluster.create(node_manifest("n2", cpu="2"))
        await until(lambda: cluster.place("too-big") == "n2")
    assert_sound(cluster, places)


def steal(cluster, name):
    def write(found):
        found["spec"]["holderIdentity"] = name
        found["spec"]["leaseDurationSeconds"] = 3600 if name else 1

    cluster.api.objects.update("leases.coordination.k8s.io", "kube-scheduler", write, "kube-system")
