"""Nodes that come, close and go."""

from tests.kit.manifests import node_manifest, on_node, pod_manifest


async def test_a_cordoned_node_gets_nothing_more(cluster):
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2"))
    daemon = await cluster.start_daemon()
    await cluster.change_node("n1", {"spec": {"unschedulable": True}})
    await cluster.create_pods(pod_manifest("kept-off", **on_node("n1")))
    await cluster.refusal_of("kept-off")
    names = [f"p{number}" for number in range(4)]
    await cluster.create_pods(*(pod_manifest(name) for name in names))

    assert set((await cluster.nodes_of(*names)).values()) == {"n2"}
    await daemon.shows('scheduler_cache_size{type="nodes"}', 2)


async def test_a_deleted_node_is_forgotten(cluster):
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2"))
    daemon = await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("stays", **on_node("n1")))
    await cluster.node_of("stays")

    await cluster.api.delete("nodes", "n1")
    # Seen after the deletion.
    await cluster.change_node("n2", {"metadata": {"labels": {"alone": "yes"}}})
    # Its pod is still bound to it, so the cache keeps a place without a node.
    await cluster.create_pods(pod_manifest("p1"), pod_manifest("p2", **on_node("n1")))

    assert await cluster.node_of("p1") == "n2"
    await cluster.becomes_refused(
        "p2",
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
    )
    await cluster.delete_pod("stays")
    await daemon.shows('scheduler_cache_size{type="nodes"}', 1)


async def test_a_node_that_comes_back_still_holds_its_pods(cluster):
    await cluster.create_nodes(node_manifest("n1", cpu="2"))
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("stays", cpu="1500m"))
    await cluster.node_of("stays")

    await cluster.api.delete("nodes", "n1")
    await cluster.create_pods(pod_manifest("p1", cpu="1"))
    await cluster.refusal_of("p1")
    await cluster.create_nodes(node_manifest("n1", cpu="2"))

    await cluster.becomes_refused("p1", "0/1 nodes are available: 1 Insufficient cpu.")
    await cluster.delete_pod("stays")
    assert await cluster.node_of("p1") == "n1"
