"""`kubectl why` without an aggregated API: the leader is found by its lease and asked through the
port of its pod, by the user's own token.

On a real API server, with a stand-in for the kubelet's end of port forwarding.
"""

from pathlib import Path

import pytest
import yaml

from tests.controlplane.fixtures import locked
from tests.e2e.api import until
from tests.e2e.cluster import open_cluster
from tests.e2e.explanation import Kubectl, bound, granted
from tests.e2e.identity import LEASE, NAMESPACE, new_token, write_kubeconfig
from tests.e2e.kubelet import kubelet
from tests.kit.manifests import node_manifest, pod_manifest

ROLES = Path(__file__).parents[2] / "deploy" / "base" / "explanation.yaml"
POD, NODE = "kscheduler-0", "where-the-scheduler-is"
ACCOUNT = "asker"
READS_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
LISTS_NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
RBAC_PLURALS = {"ClusterRole": "clusterroles", "Role": "roles"}


@pytest.fixture
async def cluster(control_plane, run_folder, tmp_path):
    with locked(run_folder / "controlplane.in-use"):
        async with open_cluster(control_plane, tmp_path) as cluster:
            try:
                yield cluster
            finally:
                await cluster.end_daemons()
                await cluster.api.delete("pods", POD, NAMESPACE)
                await cluster.clear()


@pytest.fixture
async def roles(cluster):
    """The roles of deploy/, by name."""
    documents = [one for one in yaml.safe_load_all(ROLES.read_text()) if one]
    for one in documents:
        namespace = one["metadata"].get("namespace", "")
        await cluster.api.create(RBAC_PLURALS[one["kind"]], one, namespace)
    yield {one["metadata"]["name"]: one for one in documents}
    for one in documents:
        namespace = one["metadata"].get("namespace", "")
        await cluster.api.delete(RBAC_PLURALS[one["kind"]], one["metadata"]["name"], namespace)


@pytest.fixture
async def forwarding(cluster):
    """A leader in a pod, one pod that it has placed and one that waits; the kubelet between."""
    async with kubelet(cluster.server) as (forwarding, port):
        node = node_manifest(NODE, unschedulable=True)
        node["status"] |= {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        await cluster.create_nodes(node, node_manifest("n0", cpu="4"), node_manifest("n1", cpu="4"))
        await cluster.api.create("pods", pod_manifest(POD, nodeName=NODE), NAMESPACE)
        await cluster.launch_daemon(
            # All addresses, as in a pod: then the lease names the pod alone.
            "--bind-address=0.0.0.0",
            f"--leader-elect-resource-name={LEASE}",
            f"--leader-elect-resource-namespace={NAMESPACE}",
            environment={"POD_NAMESPACE": NAMESPACE, "POD_NAME": POD},
        )
        await cluster.create_pods(pod_manifest("fits", cpu="1"), pod_manifest("big", cpu="100"))
        await cluster.node_of("fits")
        await cluster.refusal_of("big")

        async def told():
            lease = await cluster.api.get("leases", LEASE, NAMESPACE)
            return "kscheduler.dev/pod" in lease["metadata"].get("annotations", {})

        await until(told, "the lease says where the leader is")
        yield forwarding


@pytest.fixture
async def asker(cluster):
    """A service account, by the name that it has as a user."""
    about = {"metadata": {"name": ACCOUNT}}
    await cluster.api.create("serviceaccounts", about, cluster.namespace)
    return f"system:serviceaccount:{cluster.namespace}:{ACCOUNT}"


@pytest.fixture
async def kubectl(cluster, asker, tmp_path):
    token = await new_token(cluster.api, cluster.namespace, ACCOUNT)
    path = write_kubeconfig(cluster.server, tmp_path / "asker.kubeconfig", {"token": token})
    return Kubectl(path, tmp_path / "home")


async def test_why_is_answered_through_the_leaders_pod(cluster, roles, forwarding, asker, kubectl):
    space = ("-n", cluster.namespace)
    directly, view = roles["kscheduler-explain-directly"], roles["kscheduler-explain-view"]
    code, _, error = await kubectl.attempt("why", "fits", *space)
    assert code == 2
    assert "leases" in error
    assert "Traceback" not in error
    async with (
        bound(cluster, asker, "Role", directly, namespace=NAMESPACE),
        bound(cluster, asker, "ClusterRole", view, namespace=cluster.namespace),
    ):
        code, _, error = await kubectl.attempt("why", "fits", *space)
        assert code == 2
        assert "pods" in error
        async with (
            granted(cluster, asker, READS_PODS, namespace=cluster.namespace),
            granted(cluster, asker, LISTS_NODES),
        ):

            async def answered():
                code, out, _ = await kubectl.attempt("why", "fits", *space)
                return out if code == 0 else ""

            # A refusal is remembered for ten seconds.
            told = await until(answered, "it is told why")
            assert f"it is on {await cluster.node_of('fits')}" in told
            code, told, error = await kubectl.attempt("why", "big", *space)
            assert (code, error) == (1, "")
            assert "cpu" in told
    assert {one.match_info["pod"] for one in forwarding.requests} == {POD}
