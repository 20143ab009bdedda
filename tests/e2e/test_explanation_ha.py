"""The manifests of deploy/ with two replicas on a real API server: whoever leads is asked.

The API server goes to endpoints by itself (--enable-aggregator-routing), since nothing here makes
the addresses of Services work. Endpoints cannot be on loopback: the machine needs another address.
"""

import asyncio
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.controlplane.plane import ControlPlane
from tests.e2e.api import until
from tests.e2e.cluster import open_cluster
from tests.e2e.explanation import Kubectl, available, discovered
from tests.e2e.identity import LEASE, NAMESPACE, aggregated_rules
from tests.kit.manifests import node_manifest, pod_manifest

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPONENT = Path("components/aggregated-api")
FLAGS = (
    "--bind-address=0.0.0.0",
    f"--leader-service={NAMESPACE}/kscheduler-api",
    f"--leader-elect-resource-name={LEASE}",
    f"--leader-elect-resource-namespace={NAMESPACE}",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
)


@pytest.fixture
def address() -> str:
    """An address of this machine; no packet is sent to find out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            found: str = probe.getsockname()[0]
        except OSError:
            found = "127.0.0.1"
    if found.startswith("127."):
        pytest.skip("an address beside loopback")
    return found


@pytest.fixture
def deployed(tmp_path) -> Path:
    """A copy of deploy/ whose HA overlay has the component, with a certificate made as it says."""
    copy = tmp_path / "deploy"
    shutil.copytree(DEPLOY, copy)
    comments = (copy / COMPONENT / "kustomization.yaml").read_text()
    lines = [line.removeprefix("#") for line in comments.splitlines() if line.startswith("#  ")]
    first = next(number for number, line in enumerate(lines) if "openssl" in line)
    command = "\n".join(lines[first : first + 3])
    subprocess.run(command, shell=True, cwd=copy / COMPONENT, check=True, capture_output=True)
    (copy / COMPONENT / "rbac.yaml").write_text(yaml.safe_dump_all(aggregated_rules()))
    overlay = copy / "overlays" / "ha" / "kustomization.yaml"
    overlay.write_text(f"{overlay.read_text()}components: [../../{COMPONENT}]\n")
    return copy


@pytest.fixture
async def cluster(control_plane, deployed, tmp_path):
    """A control plane to itself, with all of deploy/; the Deployment's pods are ours to run."""
    plane = ControlPlane(tmp_path / "plane", extra_flags=("--enable-aggregator-routing=true",))
    try:
        await asyncio.to_thread(plane.start)
        kubectl = Kubectl(plane.folder / "kubeconfig", tmp_path / "home")
        await kubectl("apply", "-k", str(deployed / "overlays" / "ha"))
        async with open_cluster(plane.folder, tmp_path) as cluster:
            yield cluster
    finally:
        await asyncio.to_thread(plane.stop)


@pytest.fixture
def kubectl(cluster, tmp_path):
    return Kubectl(cluster.server / "kubeconfig", tmp_path / "home")


async def test_the_next_leader_is_asked_when_one_is_killed_while_somebody_watches(
    cluster, kubectl, deployed, address
):
    serving = (
        f"--tls-cert-file={deployed / COMPONENT / 'tls.crt'}",
        f"--tls-private-key-file={deployed / COMPONENT / 'tls.key'}",
    )
    await cluster.create_nodes(node_manifest("n0", cpu="4"))

    async def launch():
        return await cluster.launch_daemon(*FLAGS, *serving, environment={"POD_IP": address})

    leader = await launch()
    await leader.says("Successfully acquired lease")
    heir = await launch()
    await heir.in_sync()
    await available(cluster)
    await discovered(cluster)
    space = ("-n", cluster.namespace)
    await cluster.create_pods(pod_manifest("early", cpu="1"))
    await cluster.node_of("early")
    async with kubectl.watching("decisions", *space) as lines:
        async with asyncio.timeout(60):
            while b"early" not in await lines.readline():
                pass
        await leader.kill()
        async with asyncio.timeout(60):
            # It breaks off, instead of telling nothing for ever.
            await lines.read()
    await heir.says("Successfully acquired lease")
    await cluster.create_pods(pod_manifest("late", cpu="1"))
    await cluster.node_of("late")

    async def shown():
        code, out, _ = await kubectl.attempt("get", "decisions", *space)
        return out if code == 0 else ""

    table = await until(shown, "the next leader is asked")
    assert "late" in table
    # What a leader knew went with it.
    code, _, error = await kubectl.attempt("get", "decision", "early", *space)
    assert code == 1
    assert "NotFound" in error
    (status,) = (await kubectl.read("get", "schedulerstatuses"))["items"]
    assert status["leader"]
