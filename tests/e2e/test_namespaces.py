"""A namespace that is deleted while its pods are being scheduled."""

from tests.kit.manifests import node_manifest, pod_manifest

PODS = 40


async def test_a_namespace_deleted_under_load_leaves_nothing_behind(cluster):
    await cluster.create_nodes(node_manifest("n1", cpu="64", memory="64Gi"))
    daemon = await cluster.launch_daemon(
        "--leader-elect=false", "--kube-api-qps=20", "--kube-api-burst=20"
    )
    await daemon.in_sync()
    doomed = f"{cluster.namespace}-doomed"
    await cluster.api.create("namespaces", {"metadata": {"name": doomed}})
    for number in range(PODS):
        await cluster.api.create("pods", pod_manifest(f"p{number}", cpu="100m"), doomed)
    # Whatever is bound, failed or told from now on meets a namespace that goes away.
    cluster.expected_errors += [doomed]
    await cluster.remove_namespace(doomed)

    await cluster.create_pods(pod_manifest("survivor", cpu="64"))

    assert await cluster.node_of("survivor") == "n1"
    for queue in ("active", "backoff", "unschedulable", "gated"):
        await daemon.shows(f'scheduler_pending_pods{{queue="{queue}"}}', 0)
    await daemon.shows('scheduler_cache_size{type="pods"}', 1)
    await daemon.shows('scheduler_cache_size{type="assumed_pods"}', 0)
