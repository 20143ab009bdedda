"""Each default plugin at work: where pods go, and why they do not go elsewhere.

A test's name begins with the plugin it is about.
"""

import re

import pytest

from kscheduler.plugins import declarations
from tests.e2e.api import until
from tests.e2e.cluster import scheduled_condition
from tests.kit.manifests import (
    HOSTNAME,
    ZONE,
    near,
    node_manifest,
    node_terms,
    on_node,
    pod_manifest,
    required,
)

MEGABYTE = 1 << 20
SCHEDULED = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}'
# Seen at work in files of their own, which have more to tell about them.
ELSEWHERE = {
    "DefaultPreemption",
    "DeferredPodScheduling",
    "DynamicResources",
    "GangScheduling",
    "NodeVolumeLimits",
    "PodGroupPodsCount",
    "TopologyPlacementGenerator",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
}


BY_DEFAULT = {one.name for one in declarations() if one.by_default and one.plugin_class}


@pytest.mark.parametrize("plugin", sorted(BY_DEFAULT - ELSEWHERE))
def test_there_is_a_test_for(plugin):
    start = "test" + re.sub("([A-Z])", lambda found: "_" + found[0].lower(), plugin)
    assert [name for name in globals() if name.startswith(f"{start}_")]


async def test_priority_sort_puts_the_most_important_pod_first(cluster, priorities):
    """They wait for a scheduler in the wrong order, and there is room for one."""
    await cluster.create_nodes(node_manifest("n1", pods=1))
    for name in ("low", "high", "middle"):
        await cluster.create_pods(pod_manifest(name, **priorities[name]))
    await cluster.start_daemon()

    assert await cluster.node_of("high") == "n1"
    for name in ("low", "middle"):
        await cluster.becomes_refused(name, "0/1 nodes are available: 1 Too many pods.")


async def test_default_binder_tells_a_pod_from_its_successor_of_the_same_name(cluster):
    await cluster.create_nodes(node_manifest("n1", cpu="1"))
    daemon = await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("first", cpu="1"))
    await cluster.node_of("first")
    await cluster.delete_pod("first")
    await cluster.create_pods(pod_manifest("first", cpu="1"))

    assert await cluster.node_of("first") == "n1"
    bound = await cluster.pod("first")
    assert scheduled_condition(bound)["status"] == "True"
    await daemon.shows(SCHEDULED, 2)
    await daemon.shows('scheduler_cache_size{type="pods"}', 1)


async def test_node_name_leaves_a_pod_where_its_author_has_put_it(cluster):
    """Such a pod is never decided on; it takes room, even on a node that is not there yet."""
    await cluster.create_nodes(node_manifest("n1"))
    daemon = await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("there", cpu="4", nodeName="later"))
    await daemon.shows('scheduler_cache_size{type="pods"}', 1)
    await cluster.create_nodes(node_manifest("later", cpu="4"))
    await cluster.create_pods(pod_manifest("p1", cpu="1", **on_node("later")))

    await cluster.becomes_refused(
        "p1",
        "0/2 nodes are available: 1 Insufficient cpu, "
        "1 node(s) didn't match Pod's node affinity/selector.",
    )
    assert scheduled_condition(await cluster.pod("there")) == {}
    await daemon.shows(SCHEDULED, 0)


async def test_node_unschedulable_lets_in_who_tolerates_it(cluster):
    await cluster.create_nodes(node_manifest("n1", unschedulable=True))
    await cluster.start_daemon()
    tolerated = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    await cluster.create_pods(
        pod_manifest("kept-off"), pod_manifest("let-in", tolerations=tolerated)
    )

    assert await cluster.node_of("let-in") == "n1"
    await cluster.becomes_refused(
        "kept-off", "0/1 nodes are available: 1 node(s) were unschedulable."
    )


async def test_node_declared_features_asks_for_what_a_kubelet_can_do(cluster):
    feature = "RestartAllContainersOnContainerExits"
    able = node_manifest("n2")
    able["status"]["declaredFeatures"] = [feature]
    await cluster.create_nodes(node_manifest("n1"), able)
    await cluster.start_daemon()
    names = ["p0", "p1", "p2"]
    await cluster.create_pods(*(pod_that_restarts_all(name) for name in names))
    assert set((await cluster.nodes_of(*names)).values()) == {"n2"}

    await cluster.create_pods(pod_that_restarts_all("unhappy", **on_node("n1")))

    await cluster.becomes_refused(
        "unhappy",
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) didn't match Pod's required features.",
    )


def pod_that_restarts_all(name, **spec):
    made = pod_manifest(name, restartPolicy="Never", **spec)
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    made["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    return made


async def test_node_resources_balanced_allocation_evens_out_cpu_and_memory(cluster):
    """Both nodes are equally full, the one of CPU and the other of memory; the pod wants CPU."""
    await cluster.create_nodes(
        node_manifest("n1", cpu="10", memory="10Gi"), node_manifest("n2", cpu="10", memory="10Gi")
    )
    await cluster.create_pods(
        pod_manifest("much-cpu", cpu="6", memory="2Gi", nodeName="n1"),
        pod_manifest("much-memory", cpu="2", memory="6Gi", nodeName="n2"),
    )
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("p1", cpu="2", memory="1Gi"))

    assert await cluster.node_of("p1") == "n2"


async def test_taint_toleration_keeps_off_who_does_not_tolerate(cluster):
    await cluster.create_nodes(
        node_manifest("n1"),
        node_manifest("n2", taints=[{"key": "only", "value": "gpu", "effect": "NoSchedule"}]),
    )
    await cluster.start_daemon()
    tolerated = [{"key": "only", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}]
    await cluster.create_pods(
        pod_manifest("plain"),
        pod_manifest("tolerant", tolerations=tolerated, **on_node("n2")),
        pod_manifest("kept-off", **on_node("n2")),
    )

    assert await cluster.nodes_of("plain", "tolerant") == {"plain": "n1", "tolerant": "n2"}
    await cluster.becomes_refused(
        "kept-off",
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) had untolerated taint(s).",
    )


async def test_taint_toleration_only_repels_where_taints_are_preferences(cluster):
    repels = [{"key": "busy", "effect": "PreferNoSchedule"}]
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2", taints=repels))
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("p1"), pod_manifest("p2", **on_node("n2")))

    assert await cluster.nodes_of("p1", "p2") == {"p1": "n1", "p2": "n2"}


async def test_node_affinity_matches_labels_by_terms_and_selectors(cluster):
    await cluster.create_nodes(
        node_manifest("n1", labels={"disk": "ssd", "cores": "8"}),
        node_manifest("n2", labels={"disk": "hdd"}),
    )
    await cluster.start_daemon()
    only_ssd = {"key": "disk", "operator": "In", "values": ["ssd"]}
    many_cores = {"key": "cores", "operator": "Gt", "values": ["4"]}
    tape = {"key": "disk", "operator": "In", "values": ["tape"]}
    not_ssd = {"key": "disk", "operator": "NotIn", "values": ["ssd"]}
    prefers = [{"weight": 10, "preference": {"matchExpressions": [not_ssd]}}]
    await cluster.create_pods(
        pod_manifest("selector", nodeSelector={"disk": "hdd"}),
        pod_manifest("affinity", node_affinity=node_terms(only_ssd, many_cores)),
        pod_manifest(
            "preference",
            node_affinity={"preferredDuringSchedulingIgnoredDuringExecution": prefers},
        ),
        pod_manifest("nowhere", node_affinity=node_terms(tape)),
    )

    assert await cluster.nodes_of("selector", "affinity", "preference") == {
        "selector": "n2",
        "affinity": "n1",
        "preference": "n2",
    }
    await cluster.becomes_refused(
        "nowhere",
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
    )


async def test_node_affinity_finds_a_node_by_its_name(cluster):
    """As daemon sets ask for their nodes."""
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2"), node_manifest("n3"))
    await cluster.start_daemon()
    field = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    by_name = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    await cluster.create_pods(pod_manifest("p1", node_affinity=by_name))

    assert await cluster.node_of("p1") == "n2"


async def test_node_ports_are_used_once_per_node(cluster):
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2"))
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("a", host_port=8080), pod_manifest("b", host_port=8080))
    assert set((await cluster.nodes_of("a", "b")).values()) == {"n1", "n2"}

    await cluster.create_pods(pod_manifest("c", host_port=8080), pod_manifest("d", host_port=8081))

    await cluster.node_of("d")
    await cluster.becomes_refused(
        "c",
        "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports.",
    )


async def test_node_resources_fit_fills_nodes_no_further_than_they_have_room(cluster):
    await cluster.create_nodes(
        node_manifest("n1", cpu="2", memory="1Gi"), node_manifest("n2", cpu="1", pods=1)
    )
    await cluster.start_daemon()
    await cluster.create_pods(
        pod_manifest("a", cpu="1500m", memory="512Mi"), pod_manifest("b", cpu="1")
    )
    assert await cluster.nodes_of("a", "b") == {"a": "n1", "b": "n2"}

    await cluster.create_pods(pod_manifest("c", cpu="1", memory="600Mi"))

    await cluster.becomes_refused(
        "c",
        "0/2 nodes are available: 1 Insufficient memory, 1 Too many pods, 2 Insufficient cpu.",
    )


async def test_node_resources_fit_counts_extended_resources(cluster):
    with_device = node_manifest("n2")
    for amounts in (with_device["status"]["capacity"], with_device["status"]["allocatable"]):
        amounts["example.com/device"] = "1"
    await cluster.create_nodes(node_manifest("n1"), with_device)
    await cluster.start_daemon()
    for name in ("a", "b"):
        wanting = pod_manifest(name)
        wants = {"example.com/device": "1"}
        wanting["spec"]["containers"][0]["resources"] = {"requests": wants, "limits": wants}
        await cluster.create_pods(wanting)
        if name == "a":
            assert await cluster.node_of("a") == "n2"

    await cluster.becomes_refused(
        "b", "0/2 nodes are available: 2 Insufficient example.com/device."
    )


async def test_node_resources_fit_prefers_the_emptier_node(cluster):
    await cluster.create_nodes(node_manifest("n1", cpu="8"), node_manifest("n2", cpu="8"))
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("load", cpu="4", memory="4Gi", nodeName="n1"))
    await cluster.create_pods(*(pod_manifest(f"p{number}", cpu="500m") for number in range(3)))

    placed = await cluster.nodes_of("p0", "p1", "p2")
    assert set(placed.values()) == {"n2"}


async def test_pod_topology_spread_keeps_zones_even(cluster):
    await cluster.create_nodes(
        node_manifest("n1", labels={ZONE: "a"}),
        node_manifest("n2", labels={ZONE: "b"}),
        node_manifest("n3", labels={ZONE: "b"}, unschedulable=True),
    )
    await cluster.start_daemon()
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }

    names = ["p0", "p1", "p2", "p3"]
    await cluster.create_pods(
        *(
            pod_manifest(name, labels={"app": "web"}, topologySpreadConstraints=[spread])
            for name in names
        )
    )

    placed = await cluster.nodes_of(*names)
    assert sorted(placed.values()) == ["n1", "n1", "n2", "n2"]


async def test_pod_topology_spread_refuses_a_skewed_zone_by_name_of_the_rule(cluster):
    await cluster.create_nodes(
        node_manifest("n1", labels={ZONE: "a"}), node_manifest("n2", labels={ZONE: "b"})
    )
    await cluster.start_daemon()
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeAffinityPolicy": "Ignore",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    labels = {"app": "web"}
    await cluster.create_pods(pod_manifest("there", labels=labels, nodeName="n1"))
    await cluster.create_pods(
        pod_manifest("p1", labels=labels, topologySpreadConstraints=[spread], **on_node("n1"))
    )

    await cluster.becomes_refused(
        "p1",
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) didn't match pod topology spread constraints.",
    )


async def test_inter_pod_affinity_draws_pods_together_and_apart(cluster):
    await cluster.create_nodes(
        node_manifest("n1", labels={ZONE: "a"}),
        node_manifest("n2", labels={ZONE: "b"}),
        node_manifest("n3", labels={ZONE: "b"}),
    )
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("db", labels={"app": "db"}, **on_node("n2")))
    assert await cluster.node_of("db") == "n2"

    await cluster.create_pods(
        pod_manifest("with-db", pod_affinity=required(near({"app": "db"}, HOSTNAME))),
        pod_manifest("away", pod_anti_affinity=required(near({"app": "db"}))),
        pod_manifest("nowhere", pod_affinity=required(near({"app": "none"}))),
    )

    assert await cluster.nodes_of("with-db", "away") == {"with-db": "n2", "away": "n1"}
    await cluster.becomes_refused(
        "nowhere", "0/3 nodes are available: 3 node(s) didn't match pod affinity rules."
    )


async def test_inter_pod_affinity_hears_pods_that_keep_others_off(cluster):
    """Anti-affinity holds for who comes later, too, and across namespaces that are named."""
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2", unschedulable=True))
    await cluster.start_daemon()
    alone = near({"app": "noise"}, HOSTNAME, namespaceSelector={})
    await cluster.create_pods(pod_manifest("quiet", pod_anti_affinity=required(alone)))
    await cluster.node_of("quiet")
    other = f"{cluster.namespace}-other"
    await cluster.api.create("namespaces", {"metadata": {"name": other}})
    await cluster.api.create("pods", pod_manifest("loud", labels={"app": "noise"}), other)

    async def refused():
        loud = await cluster.api.get("pods", "loud", other)
        return scheduled_condition(loud).get("message", "")

    message = await until(refused, "pod loud is refused")
    assert message.startswith(
        "0/2 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules, "
        "1 node(s) were unschedulable."
    )


async def test_inter_pod_affinity_decides_between_equals(cluster):
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2"), node_manifest("n3"))
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("db", labels={"app": "db"}, nodeName="n3"))
    prefers = [{"weight": 100, "podAffinityTerm": near({"app": "db"}, HOSTNAME)}]
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": prefers}
    await cluster.create_pods(pod_manifest("p1", pod_affinity=wish))

    assert await cluster.node_of("p1") == "n3"


async def test_image_locality_prefers_the_node_that_has_the_image(cluster):
    big = "registry.example/big:1"
    has_it = [{"names": [big], "sizeBytes": 900 * MEGABYTE}]
    await cluster.create_nodes(
        node_manifest("n1"), node_manifest("n2", images=has_it), node_manifest("n3")
    )
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("p1", image=big))

    assert await cluster.node_of("p1") == "n2"


async def test_scheduling_gates_hold_a_pod_until_the_last_is_removed(cluster):
    await cluster.create_nodes(node_manifest("n1"))
    daemon = await cluster.start_daemon()
    gates = [{"name": "example.com/first"}, {"name": "example.com/second"}]
    await cluster.create_pods(pod_manifest("gated", schedulingGates=gates))
    await daemon.shows('scheduler_pending_pods{queue="gated"}', 1)
    condition = scheduled_condition(await cluster.pod("gated"))
    assert condition["reason"] == "SchedulingGated"

    await cluster.patch_pod("gated", removed_gate("example.com/first"))
    await cluster.create_pods(pod_manifest("marker"))
    await cluster.node_of("marker")
    await daemon.shows('scheduler_pending_pods{queue="gated"}', 1)

    await cluster.patch_pod("gated", removed_gate("example.com/second"))
    assert await cluster.node_of("gated") == "n1"


def removed_gate(name):
    return {"spec": {"schedulingGates": [{"$patch": "delete", "name": name}]}}
