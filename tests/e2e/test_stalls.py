"""A leader stays in office when its loop stands still for longer than its lease, and no pod makes
its loop stand still.

With kube-scheduler's default durations and a plugin that computes for 40 s:

    STALL_SECONDS=40 pytest tests/e2e/test_stalls.py -s
"""

import os

from tests.e2e.api import until
from tests.e2e.identity import LEASE, NAMESPACE
from tests.kit.manifests import node_manifest, pod_manifest

STALL_SECONDS = float(os.environ.get("STALL_SECONDS", "9"))
DURATIONS = (
    "" if "STALL_SECONDS" in os.environ else "leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 1s"
)
CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: %s}}
leaderElection: {{resourceName: {LEASE}, resourceNamespace: {NAMESPACE}, %s}}
"""
WITH_PLUGIN = "profiles: [{plugins: {multiPoint: {enabled: [{name: Busy}]}}}]"
BUSY = f"""
import time

class Busy:
    name = "Busy"

    def __init__(self, args, handle):
        pass

    def pre_filter(self, cycle, pod, nodes):
        until = time.monotonic() + ({STALL_SECONDS} if "busy" in pod.labels else 0)
        while time.monotonic() < until:
            sum(range(1000))
"""


async def test_a_plugin_that_computes_for_longer_than_the_lease_does_not_cost_the_office(
    cluster, tmp_path
):
    (tmp_path / "busy.py").write_text(BUSY)
    cluster.expected_errors.append("Scheduling decision took too long")
    await cluster.create_nodes(node_manifest("n1"))
    leader, standby = await two_replicas(
        cluster,
        CONFIG % (cluster.kubeconfig, DURATIONS) + WITH_PLUGIN,
        f"--plugin={tmp_path / 'busy.py'}:Busy",
        f"--plugin-timeout={2 * STALL_SECONDS}s",
    )
    before = await lease(cluster)

    await cluster.create_pods(
        pod_manifest("busy", labels={"busy": "yes"}), pod_manifest("innocent")
    )
    await cluster.nodes_of("busy", "innocent")

    await still_in_office(cluster, leader, standby, before)
    # The stack of the decision was looked at while it lasted.
    where = 'extension_point="PreFilter",plugin="Busy"'
    await leader.shows(f"kscheduler_slow_decision_duration_seconds_count{{{where}}}", 1)


async def test_a_pod_of_600_spread_constraints_takes_less_than_a_second_of_the_leader(cluster):
    keys = [f"example.com/{number}" for number in range(600)]
    selector = {"matchLabels": {"app": "hostile"}}
    spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    constraints = [{**spread, "topologyKey": key} for key in keys]
    hostile = pod_manifest(
        "hostile", labels={"app": "hostile"}, topologySpreadConstraints=constraints
    )
    await cluster.create_nodes(*(node_manifest(f"n{number}") for number in range(100)))
    leader, standby = await two_replicas(cluster, CONFIG % (cluster.kubeconfig, ""))
    before = await lease(cluster)

    await cluster.create_pods(hostile, pod_manifest("innocent"))
    await cluster.becomes_refused("hostile", "0/100 nodes are available")
    await cluster.node_of("innocent")

    # A decision that takes longer is logged as an error, which no daemon here may do.
    await still_in_office(cluster, leader, standby, before)


async def two_replicas(cluster, config, *flags):
    """The leader, and who would take over."""
    path = cluster.folder / "scheduler.yaml"
    path.write_text(config)
    leader = await cluster.launch_daemon(f"--config={path}", *flags)
    await leader.says("Successfully acquired lease")
    standby = await cluster.launch_daemon(f"--config={path}", *flags)
    await standby.says("Attempting to acquire leader lease")
    return leader, standby


async def still_in_office(cluster, leader, standby, before):
    """The lease has been renewed since, by the same holder."""

    async def renewed():
        now = await lease(cluster)
        return now if now["renewTime"] > before["renewTime"] else None

    after = await until(renewed, "the lease is renewed")
    assert after["holderIdentity"] == before["holderIdentity"]
    assert after["leaseTransitions"] == before["leaseTransitions"]
    assert leader.running
    assert "Successfully acquired lease" not in standby.log


async def lease(cluster):
    async def held():
        found = await cluster.api.find("leases", LEASE, NAMESPACE)
        return found and found["spec"]

    return await until(held, "the lease is there")
