"""More than one way to schedule: two profiles in a daemon, two daemons in a cluster."""

from tests.e2e.objects import node, pod

TWO_PROFILES = """
profiles:
- schedulerName: spreading
- schedulerName: packing
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: cpu, weight: 1}]
  plugins:
    multiPoint:
      disabled: [{name: NodeResourcesBalancedAllocation}, {name: PodTopologySpread}]
"""


async def test_each_pod_is_placed_by_the_profile_it_names(cluster):
    await cluster.create_nodes(node("n1", cpu="16"), node("n2", cpu="16"))
    await cluster.start_daemon(cluster.config("two-profiles", TWO_PROFILES))
    await cluster.create_pods(pod("load", cpu="4", nodeName="n1"))
    packed = [f"packed-{number}" for number in range(3)]
    await cluster.create_pods(*(pod(name, cpu="1", schedulerName="packing") for name in packed))
    await cluster.create_pods(pod("spread", cpu="1", schedulerName="spreading"))

    assert set((await cluster.nodes_of(*packed)).values()) == {"n1"}
    assert await cluster.node_of("spread") == "n2"
    (event,) = await cluster.events("spread", "Scheduled")
    assert event["reportingController"] == "spreading"


async def test_two_daemons_share_a_cluster(cluster):
    await cluster.create_nodes(node("n1", cpu="10"), node("n2", cpu="10"))
    names = {}
    for scheduler in ("first", "second"):
        profile = f"profiles: [{{schedulerName: {scheduler}}}]\n"
        await cluster.start_daemon(cluster.config(scheduler, profile))
        names[scheduler] = [f"{scheduler}-{number}" for number in range(6)]
    await cluster.create_pods(
        *(
            pod(name, cpu="1", schedulerName=scheduler)
            for pair in zip(names["first"], names["second"], strict=True)
            for scheduler, name in zip(("first", "second"), pair, strict=True)
        )
    )

    for scheduler, own in names.items():
        for name in own:
            await cluster.node_of(name)
            (event,) = await cluster.events(name, "Scheduled")
            assert event["reportingController"] == scheduler


async def test_one_daemon_counts_what_the_other_has_placed(cluster):
    await cluster.create_nodes(node("n1", cpu="2"), node("n2", cpu="2"))
    for scheduler in ("first", "second"):
        profile = f"profiles: [{{schedulerName: {scheduler}}}]\n"
        await cluster.start_daemon(cluster.config(scheduler, profile))
    await cluster.create_pods(pod("a", cpu="2", schedulerName="first"))
    taken = await cluster.node_of("a")
    await cluster.create_pods(pod("b", cpu="2", schedulerName="second"))
    assert await cluster.node_of("b") != taken

    await cluster.create_pods(pod("c", cpu="2", schedulerName="first"))

    await cluster.becomes_refused("c", "0/2 nodes are available: 2 Insufficient cpu.")
