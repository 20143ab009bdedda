"""A leader whose loop stands still for longer than its lease stays in office.

With kube-scheduler's default durations and a plugin that computes for 40 s:

    STALL_SECONDS=40 pytest tests/e2e/test_stalls.py -s
"""

import os

from tests.e2e.api import eventually
from tests.e2e.identity import LEASE, NAMESPACE
from tests.e2e.objects import node, pod

STALL_SECONDS = float(os.environ.get("STALL_SECONDS", "9"))
DURATIONS = (
    "" if "STALL_SECONDS" in os.environ else "leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 1s"
)
CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: %s}}
leaderElection: {{resourceName: {LEASE}, resourceNamespace: {NAMESPACE}, {DURATIONS}}}
profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: Busy}}]}}}}}}]
"""
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
    (tmp_path / "scheduler.yaml").write_text(CONFIG % cluster.kubeconfig)
    flags = (
        f"--config={tmp_path / 'scheduler.yaml'}",
        f"--plugin={tmp_path / 'busy.py'}:Busy",
        f"--plugin-timeout={2 * STALL_SECONDS}s",
    )
    cluster.expected_errors.append("Scheduling decision took too long")
    await cluster.create_nodes(node("n1"))
    leader = await cluster.launch_daemon(*flags)
    await leader.says("Successfully acquired lease")
    standby = await cluster.launch_daemon(*flags)
    await standby.says("Attempting to acquire leader lease")
    before = await lease(cluster)

    await cluster.create_pods(pod("busy", labels={"busy": "yes"}), pod("innocent"))
    await cluster.nodes_of("busy", "innocent")

    after = await lease(cluster)
    assert after["holderIdentity"] == before["holderIdentity"]
    assert after["leaseTransitions"] == before["leaseTransitions"]
    assert after["renewTime"] > before["renewTime"]
    assert leader.running
    assert "Successfully acquired lease" not in standby.log


async def lease(cluster):
    async def held():
        found = await cluster.api.find("leases", LEASE, NAMESPACE)
        return found and found["spec"]

    return await eventually(held, "the lease is there")
