"""More than one way to schedule: two profiles in a daemon, two daemons in a cluster."""

import pytest

from tests.e2e.fixtures import REAL, profile_named, real_kube_scheduler
from tests.kit.manifests import node_manifest, pod_manifest

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
    await cluster.create_nodes(node_manifest("n1", cpu="16"), node_manifest("n2", cpu="16"))
    await cluster.start_daemon(cluster.config("two-profiles", TWO_PROFILES))
    await cluster.create_pods(pod_manifest("load", cpu="4", nodeName="n1"))
    packed = [f"packed-{number}" for number in range(3)]
    await cluster.create_pods(
        *(pod_manifest(name, cpu="1", schedulerName="packing") for name in packed)
    )
    await cluster.create_pods(pod_manifest("spread", cpu="1", schedulerName="spreading"))

    assert set((await cluster.nodes_of(*packed)).values()) == {"n1"}
    assert await cluster.node_of("spread") == "n2"
    (event,) = await cluster.events("spread", "Scheduled")
    assert event["reportingController"] == "spreading"


async def test_two_daemons_share_a_cluster(cluster):
    await cluster.create_nodes(node_manifest("n1", cpu="10"), node_manifest("n2", cpu="10"))
    names = {}
    for scheduler in ("first", "second"):
        await cluster.start_daemon(cluster.config(scheduler, profile_named(scheduler)))
        names[scheduler] = [f"{scheduler}-{number}" for number in range(6)]
    await cluster.create_pods(
        *(
            pod_manifest(name, cpu="1", schedulerName=scheduler)
            for pair in zip(names["first"], names["second"], strict=True)
            for scheduler, name in zip(("first", "second"), pair, strict=True)
        )
    )

    for scheduler, own in names.items():
        for name in own:
            await cluster.node_of(name)
            (event,) = await cluster.events(name, "Scheduled")
            assert event["reportingController"] == scheduler


@pytest.mark.parametrize("cluster", [REAL], indirect=True)
async def test_kube_scheduler_and_kscheduler_share_a_cluster(cluster, control_plane):
    """Two nodes, each with room for half of the pods of both: what one places the other counts."""
    theirs, ours = "kube-scheduler", "kscheduler"
    await cluster.create_nodes(node_manifest("n1", cpu="6"), node_manifest("n2", cpu="6"))
    await cluster.start_daemon(cluster.config(ours, profile_named(ours)))
    # It drops the last event that it has not sent when it ends.
    cluster.expected_errors += ["context canceled"]
    config = cluster.config(theirs, profile_named(theirs), control_plane / f"{theirs}.kubeconfig")
    await cluster.start_daemon(config, program=real_kube_scheduler())
    names = {f"{scheduler}-{n}": scheduler for n in range(6) for scheduler in (theirs, ours)}
    for name, scheduler in names.items():
        await cluster.create_pods(pod_manifest(name, cpu="1", schedulerName=scheduler))
        await cluster.node_of(name)

    placed = await cluster.nodes_of(*names)
    assert sorted(placed.values()) == ["n1"] * 6 + ["n2"] * 6
    for name, scheduler in names.items():
        (event,) = await cluster.events(name, "Scheduled")
        assert event["reportingController"] == scheduler
    await cluster.create_pods(
        *(pod_manifest(f"late-{s}", cpu="1", schedulerName=s) for s in (theirs, ours))
    )
    for scheduler in (theirs, ours):
        await cluster.becomes_refused(
            f"late-{scheduler}", "0/2 nodes are available: 2 Insufficient cpu."
        )


async def test_one_daemon_counts_what_the_other_has_placed(cluster):
    await cluster.create_nodes(node_manifest("n1", cpu="2"), node_manifest("n2", cpu="2"))
    for scheduler in ("first", "second"):
        await cluster.start_daemon(cluster.config(scheduler, profile_named(scheduler)))
    await cluster.create_pods(pod_manifest("a", cpu="2", schedulerName="first"))
    taken = await cluster.node_of("a")
    await cluster.create_pods(pod_manifest("b", cpu="2", schedulerName="second"))
    assert await cluster.node_of("b") != taken

    await cluster.create_pods(pod_manifest("c", cpu="2", schedulerName="first"))

    await cluster.becomes_refused("c", "0/2 nodes are available: 2 Insufficient cpu.")
