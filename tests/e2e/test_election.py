"""Two daemons, one lease: who leads, and who takes over."""

from tests.e2e.api import until
from tests.e2e.identity import LEASE, NAMESPACE
from tests.kit.manifests import node_manifest, pod_manifest

# Long enough for a leader on a busy machine to keep its lease.
FLAGS = (
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=1s",
    f"--leader-elect-resource-name={LEASE}",
    f"--leader-elect-resource-namespace={NAMESPACE}",
)


async def leader_and_standby(cluster):
    leader = await cluster.launch_daemon(*FLAGS)
    await leader.says("Successfully acquired lease")
    standby = await cluster.launch_daemon(*FLAGS)
    await standby.says("Attempting to acquire leader lease")
    return leader, standby


async def get_lease(cluster):
    return await cluster.api.get("leases", LEASE, NAMESPACE)


async def test_a_standby_takes_over_from_a_leader_that_was_killed(cluster):
    await cluster.create_nodes(node_manifest("n1"))
    leader, standby = await leader_and_standby(cluster)
    await cluster.create_pods(pod_manifest("before"))
    await cluster.node_of("before")
    first = (await get_lease(cluster))["spec"]

    await leader.kill()
    await cluster.create_pods(pod_manifest("after"))

    assert await cluster.node_of("after") == "n1"
    second = (await get_lease(cluster))["spec"]
    assert second["holderIdentity"] != first["holderIdentity"]
    assert second["leaseTransitions"] == first["leaseTransitions"] + 1
    assert "Successfully acquired lease" in standby.log


async def test_a_leader_that_ends_in_order_gives_its_lease_back(cluster):
    leader, standby = await leader_and_standby(cluster)

    assert await leader.stop() == 0
    await standby.says("Successfully acquired lease")

    holders = await until(lambda: leader_events(cluster), "the lease's events tell of both")
    assert len(holders) == 2


async def leader_events(cluster):
    """Who became leader by this very lease, once both have."""
    uid = (await get_lease(cluster))["metadata"]["uid"]
    events = await cluster.api.list("events", NAMESPACE)
    notes = [e["note"] for e in events if e["regarding"].get("uid") == uid]
    holders = {note.split()[0] for note in notes if note.endswith(" became leader")}
    return holders if len(holders) > 1 else set()


async def test_a_standby_leaves_pods_alone(cluster):
    await cluster.create_nodes(node_manifest("n1"))
    leader, standby = await leader_and_standby(cluster)
    await cluster.create_pods(pod_manifest("p1"))
    await cluster.node_of("p1")

    await standby.shows('scheduler_cache_size{type="pods"}', 0)
    assert await standby.metric(BOUND) in (None, 0)
    await leader.shows(BOUND, 1)


BOUND = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}'
