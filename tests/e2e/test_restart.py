"""A daemon that dies in the middle of its work, and the next one that goes on."""

from tests.e2e.api import until
from tests.kit.manifests import node_manifest, pod_manifest

BACKLOG = 80
NODES = 8


async def test_a_killed_daemon_is_followed_by_one_that_finishes(cluster):
    """There is room for exactly the backlog: a pod placed or counted twice would not fit."""
    room = BACKLOG // NODES
    await cluster.create_nodes(*(node_manifest(f"n{n}", cpu=str(room)) for n in range(NODES)))
    await cluster.create_pods(*(pod_manifest(f"p{n}", cpu="1") for n in range(BACKLOG)))
    # Slow enough to be killed in time.
    first = await cluster.launch_daemon(
        "--leader-elect=false", "--kube-api-qps=8", "--kube-api-burst=20"
    )

    await until(lambda: bound_pods(cluster, at_least=5), "some pods are bound")
    await first.kill()
    done = await bound_pods(cluster)
    assert 5 <= len(done) < BACKLOG
    await cluster.start_daemon()

    placed = await until(lambda: bound_pods(cluster, at_least=BACKLOG), "all pods are bound")
    assert done.items() <= placed.items()
    per_node = {name: list(placed.values()).count(name) for name in set(placed.values())}
    assert per_node == {f"n{n}": room for n in range(NODES)}


async def bound_pods(cluster, at_least=0):
    """Pods with their nodes; none while there are too few."""
    pods = await cluster.api.list("pods", cluster.namespace)
    bound = {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods if "nodeName" in p["spec"]}
    return bound if len(bound) >= at_least else {}
