"""Replicas that share a lease: one schedules, the others wait for their turn."""

import asyncio
import gc
import weakref

import pytest

from tests.integration.cluster import ELECTED, holder, pod, program
from tests.kit.checker import binding_violations
from tests.kit.manifests import node_manifest
from tests.kit.polling import until

pytestmark = pytest.mark.slow

# Not lost because this machine stood still for a while.
SOON_LOST = {**ELECTED, "leaseDuration": "6s", "renewDeadline": "4s"}


def count(cluster, method, suffix):
    """The requests of one kind, from now on."""
    seen = []

    def note(exchange):
        if exchange.method == method and exchange.path.endswith(suffix):
            seen.append(exchange)

    cluster.api.hooks.append(note)
    return seen


async def test_one_replica_schedules_and_another_takes_over_when_it_is_killed(cluster):
    cluster.create(node_manifest("n1"))
    bindings = count(cluster, "POST", "/binding")
    config = {"leaderElection": SOON_LOST}
    async with (
        program(cluster.arguments(host="127.0.0.1", **config)) as one,
        program(cluster.arguments(host="localhost", **config)) as other,
    ):
        cluster.create(pod("early"))
        await until(lambda: bindings)
        leader = holder(cluster)
        by_host = [one, other] if "127.0.0.1" in bindings[0].headers["Host"] else [other, one]
        by_host[0].kill()
        cluster.create(pod("late"))
        await until(lambda: cluster.place("late"))
        assert holder(cluster) not in ("", leader)
        by_host[1].terminate()
        assert await asyncio.wait_for(by_host[1].wait(), 30) == 0
    assert holder(cluster) == ""
    assert binding_violations(cluster.sent, cluster.pods(), ["default-scheduler"]) == []


async def test_standby_with_a_delayed_cache_follows_nothing_until_it_leads(cluster):
    cluster.create(node_manifest("n1"), pod("early"))
    async with cluster.scheduler(leaderElection=ELECTED) as leader:
        await until(lambda: cluster.place("early"))
        followed = cluster.api.open_watches
        standby = cluster.scheduler(leaderElection=ELECTED, delayCacheUntilActive=True, ready=False)
        async with standby as heir:
            await until(lambda: heir.daemon)
            polls = count(cluster, "GET", "/leases/kube-scheduler")
            await until(lambda: len(polls) > 4)
            assert cluster.api.open_watches == followed
            assert not heir.synced
            assert await leader.stop() == 0
            cluster.create(pod("late"))
            await until(lambda: cluster.place("late") == "n1")
            assert heir.synced


async def test_leader_that_loses_its_lease_ends_with_an_error(cluster, log):
    cluster.create(node_manifest("n1"))
    async with cluster.scheduler(leaderElection=SOON_LOST) as running:
        await until(lambda: holder(cluster))
        steal(cluster)
        assert await running.ended() == 1
    assert log.having("Leaderelection lost")
    assert holder(cluster) == "thief"
    (message,) = (m for _, m in cluster.events("kube-scheduler") if "stopped" in m)
    assert message.endswith(" stopped leading")


def steal(cluster):
    def write(lease):
        lease["spec"]["holderIdentity"] = "thief"

    cluster.api.objects.update("leases.coordination.k8s.io", "kube-scheduler", write, "kube-system")


async def test_leader_keeps_its_lease_through_an_outage_shorter_than_the_deadline(cluster, log):
    cluster.create(node_manifest("n1"))
    async with cluster.scheduler(leaderElection=ELECTED) as running:
        await until(lambda: holder(cluster))
        leader = holder(cluster)
        await cluster.api.stop_listening()
        await until(lambda: log.having("Error retrieving lease lock"))
        await cluster.api.listen()
        cluster.create(pod("p1"))
        await until(lambda: cluster.place("p1"))
        assert holder(cluster) == leader
        assert not running.task.done()


async def test_leader_that_rejoins_forgets_what_it_knew_and_is_elected_again(cluster, log):
    cluster.create(node_manifest("n1"), pod("early"), pod("too-big", cpu="9"))
    flags = ["--leader-elect-rejoin"]
    async with cluster.scheduler(args=flags, leaderElection=SOON_LOST) as running:
        await until(lambda: cluster.place("early") and cluster.complaint("too-big"))
        daemon = running.daemon
        first = weakref.ref(daemon.scheduler.cache)
        pending = daemon.cc.metrics.pending_pods.labels("unschedulable")
        assert pending.value == 1
        steal(cluster)
        await until(lambda: log.having("Leaderelection lost, campaigning again"))
        await until(lambda: daemon.synced)
        gc.collect()
        assert first() is None
        assert pending.value == 0
        assert holder(cluster) == "thief"
        give_back(cluster)
        cluster.create(pod("late"))
        await until(lambda: cluster.place("late"))
        await until(lambda: pending.value == 1)
        assert holder(cluster) not in ("", "thief")
        assert await running.stop() == 0
    assert holder(cluster) == ""


async def test_leases_whose_seconds_are_cut_for_others_are_led_under(cluster):
    """Others read one second in the lease, of 1.9; writes wait for renewals where they must."""
    cluster.create(node_manifest("n1"))
    short = {**ELECTED, "leaseDuration": "1.9s", "renewDeadline": "900ms", "retryPeriod": "700ms"}
    async with cluster.scheduler(leaderElection=short) as running:
        for number in range(5):
            cluster.create(pod(f"p{number}"))
            await until(lambda name=f"p{number}": cluster.place(name))
            assert not cluster.complaint(f"p{number}")
        assert await running.stop() == 0


def give_back(cluster):
    def write(lease):
        lease["spec"]["holderIdentity"] = ""

    cluster.api.objects.update("leases.coordination.k8s.io", "kube-scheduler", write, "kube-system")
