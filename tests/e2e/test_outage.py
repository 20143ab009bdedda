"""An API server that goes away and comes back: with its memory gone, with other tokens.

Each test has a control plane of its own, since it does to it what others could not bear.
"""

import asyncio
import os
import signal

import pytest

from tests.controlplane.plane import CERTIFIED, ControlPlane
from tests.e2e import identity
from tests.e2e.api import until
from tests.e2e.cluster import open_cluster
from tests.kit.manifests import node_manifest, on_node, pod_manifest

# What a daemon may complain about while nobody answers it.
UNREACHABLE = ("connect: connection refused", "EOF", "connection reset", "Failed to watch")


@pytest.fixture
def plane(control_plane, tmp_path):
    """`control_plane` sees to it that there are programs to run."""
    plane = ControlPlane(tmp_path / "plane")
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture
async def cluster(plane, tmp_path):
    async with open_cluster(plane.folder, tmp_path) as cluster:
        cluster.expected_errors += UNREACHABLE
        yield cluster


async def restart(plane):
    """All connections break; what etcd holds is all the server then knows."""
    plane.kill_api_server()
    await asyncio.to_thread(plane.start_api_server)


async def test_a_server_that_was_restarted_is_followed_again(cluster, plane):
    await cluster.create_nodes(node_manifest("n1"))
    daemon = await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("before"))
    await cluster.node_of("before")

    await restart(plane)
    await cluster.create_pods(pod_manifest("after"))

    assert await cluster.node_of("after") == "n1"
    await daemon.shows('scheduler_cache_size{type="pods"}', 2)
    await daemon.shows('scheduler_cache_size{type="assumed_pods"}', 0)


async def test_what_happened_while_we_were_away_is_found_out(cluster, plane):
    """The server has forgotten the versions we know: everything is listed anew."""
    await cluster.create_nodes(node_manifest("gone", cpu="8"), node_manifest("n2", cpu="2"))
    daemon = await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("there", cpu="2", nodeName="n2"))
    await daemon.shows('scheduler_cache_size{type="pods"}', 1)

    os.kill(daemon.process.pid, signal.SIGSTOP)
    try:
        await restart(plane)
        await cluster.api.delete("nodes", "gone")
        await cluster.delete_pod("there")
        await cluster.create_pods(pod_manifest("new", cpu="2", **on_node("n2")))
        plane.compact()
        await restart(plane)
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)

    assert await cluster.node_of("new") == "n2"
    await daemon.shows('scheduler_cache_size{type="nodes"}', 1)
    await daemon.shows('scheduler_cache_size{type="pods"}', 1)


async def test_a_new_token_is_taken_from_its_file(cluster, plane, tmp_path):
    """The account is made anew, which ends all tokens it had."""
    token_file = tmp_path / "token"
    token_file.write_text(await identity.new_token(cluster.api))
    cluster.kubeconfig = identity.write_kubeconfig(
        plane.folder, tmp_path / "token-file.kubeconfig", {"tokenFile": str(token_file)}
    )
    cluster.expected_errors += ["Unauthorized", "provide credentials"]
    await cluster.create_nodes(node_manifest("n1"))
    await cluster.start_daemon()

    await cluster.api.delete("serviceaccounts", identity.ACCOUNT, identity.NAMESPACE)
    account = {"metadata": {"name": identity.ACCOUNT}}
    await cluster.api.create("serviceaccounts", account, identity.NAMESPACE)
    token_file.write_text(await identity.new_token(cluster.api))
    await restart(plane)
    await cluster.create_pods(pod_manifest("after"))

    assert await cluster.node_of("after", within=180) == "n1"


async def test_a_client_certificate_is_as_good_as_a_token(cluster, plane):
    cluster.kubeconfig = plane.folder / f"{CERTIFIED}.kubeconfig"
    await cluster.create_nodes(node_manifest("n1"))
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("p1"))

    assert await cluster.node_of("p1") == "n1"


async def test_a_leader_that_cannot_renew_its_lease_ends(cluster, plane):
    daemon = await cluster.launch_daemon(
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=500ms",
        f"--leader-elect-resource-name={identity.LEASE}",
        f"--leader-elect-resource-namespace={identity.NAMESPACE}",
    )
    cluster.expected_errors += ["Error retrieving lease lock", "Leaderelection lost", "lease"]
    await daemon.says("Successfully acquired lease")

    plane.kill_api_server()

    async def ended():
        return not daemon.running

    await until(ended, "the daemon has ended")
    assert await daemon.stop() == 1
    assert "Leaderelection lost" in daemon.log
