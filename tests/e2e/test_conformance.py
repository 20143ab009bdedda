"""The cases that a conformant cluster's scheduler must pass, by the names upstream gives them.

Those of preemption are in test_preemption.py.
"""

import pytest

from tests.e2e.fixtures import REAL
from tests.kit.manifests import HOSTNAME, ZONE, node_manifest, node_terms, on_node, pod_manifest

NO_MATCH = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."


async def test_resource_limits_of_pods_that_are_allowed_to_run(cluster):
    """Each node is filled to seven tenths; another half does not fit, and the last three do."""
    await cluster.create_nodes(node_manifest("n1", cpu="1"), node_manifest("n2", cpu="1"))
    await cluster.start_daemon()
    await cluster.create_pods(
        *(pod_manifest(f"filler-{name}", cpu="700m", **on_node(name)) for name in ("n1", "n2"))
    )
    await cluster.nodes_of("filler-n1", "filler-n2")

    await cluster.create_pods(
        pod_manifest("additional", cpu="500m"), pod_manifest("fits", cpu="300m")
    )

    await cluster.node_of("fits")
    await cluster.becomes_refused("additional", "0/2 nodes are available: 2 Insufficient cpu.")


async def test_local_ephemeral_storage_resource_limits(cluster):
    roomy = node_manifest("n1")
    for amounts in (roomy["status"]["capacity"], roomy["status"]["allocatable"]):
        amounts["ephemeral-storage"] = "10Gi"
    await cluster.create_nodes(roomy)
    await cluster.start_daemon()
    for name in ("fits", "additional"):
        wanting = pod_manifest(name)
        wanting["spec"]["containers"][0]["resources"]["requests"] = {"ephemeral-storage": "6Gi"}
        await cluster.create_pods(wanting)
        if name == "fits":
            assert await cluster.node_of("fits") == "n1"

    await cluster.becomes_refused(
        "additional", "0/1 nodes are available: 1 Insufficient ephemeral-storage."
    )


@pytest.fixture
async def heavy(cluster):
    """A class of pods that cost more than they ask for."""
    name = f"{cluster.namespace}-heavy"
    overhead = {"podFixed": {"cpu": "600m"}}
    body = {"metadata": {"name": name}, "handler": "heavy", "overhead": overhead}
    await cluster.api.create("runtimeclasses", body)
    yield {"runtimeClassName": name, "overhead": {"cpu": "600m"}}
    await cluster.api.delete("runtimeclasses", name)


@pytest.mark.parametrize("cluster", [REAL], indirect=True)
async def test_pod_overhead_is_considered_along_with_resource_limits(cluster, heavy):
    await cluster.create_nodes(node_manifest("n1", cpu="1"))
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("additional", cpu="500m", **heavy))
    await cluster.becomes_refused("additional", "0/1 nodes are available: 1 Insufficient cpu.")

    await cluster.create_pods(pod_manifest("fits", cpu="300m", **heavy))

    assert await cluster.node_of("fits") == "n1"


async def test_node_selector_is_respected_if_not_matching(cluster):
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2"))
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("restricted", nodeSelector={"label": "nonempty"}))

    await cluster.becomes_refused("restricted", NO_MATCH)


async def test_node_selector_is_respected_if_matching(cluster):
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2", labels={"e2e": "42"}))
    await cluster.start_daemon()
    await cluster.create_pods(
        pod_manifest("with-labels", nodeSelector={HOSTNAME: "n2", "e2e": "42"})
    )

    assert await cluster.node_of("with-labels") == "n2"


async def test_node_affinity_is_respected_if_not_matching(cluster):
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2", labels={"foo": "other"}))
    await cluster.start_daemon()
    terms = node_terms({"key": "foo", "operator": "In", "values": ["bar", "value2"]})
    second = [{"key": "bar", "operator": "Exists"}]
    terms["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"].append(
        {"matchExpressions": second}
    )
    await cluster.create_pods(pod_manifest("restricted", node_affinity=terms))

    await cluster.becomes_refused("restricted", NO_MATCH)


async def test_required_node_affinity_is_respected_if_matching(cluster):
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2", labels={"e2e": "42"}))
    await cluster.start_daemon()
    terms = node_terms({"key": "e2e", "operator": "In", "values": ["42"]})
    await cluster.create_pods(pod_manifest("with-affinity", node_affinity=terms))

    assert await cluster.node_of("with-affinity") == "n2"


TAINT = {"key": "e2e-taint", "value": "testing", "effect": "NoSchedule"}


async def test_taints_and_tolerations_are_respected_if_matching(cluster):
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2", taints=[TAINT]))
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("tolerant", tolerations=[TAINT], **on_node("n2")))

    assert await cluster.node_of("tolerant") == "n2"


async def test_taints_and_tolerations_are_respected_if_not_matching(cluster):
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2", taints=[TAINT]))
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("intolerant", **on_node("n2")))
    await cluster.becomes_refused(
        "intolerant",
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) had untolerated taint(s).",
    )

    await cluster.api.patch("nodes", "n2", {"spec": {"taints": None}})

    assert await cluster.node_of("intolerant") == "n2"


def with_port(name, protocol, address):
    made = pod_manifest(name, **on_node("n1"))
    port = {"containerPort": 8080, "hostPort": 54321, "protocol": protocol, "hostIP": address}
    made["spec"]["containers"][0]["ports"] = [port]
    return made


async def test_no_conflict_of_the_same_host_port_with_other_address_and_protocol(cluster):
    await cluster.create_nodes(node_manifest("n1"))
    await cluster.start_daemon()
    await cluster.create_pods(
        with_port("pod1", "TCP", "127.0.0.1"),
        with_port("pod2", "TCP", "10.1.2.3"),
        with_port("pod3", "UDP", "10.1.2.3"),
    )

    assert set((await cluster.nodes_of("pod1", "pod2", "pod3")).values()) == {"n1"}


async def test_conflict_of_the_same_host_port_with_one_on_all_addresses(cluster):
    await cluster.create_nodes(node_manifest("n1"))
    await cluster.start_daemon()
    await cluster.create_pods(with_port("pod4", "TCP", "0.0.0.0"))
    await cluster.node_of("pod4")

    await cluster.create_pods(with_port("pod5", "TCP", "127.0.0.1"))

    await cluster.becomes_refused(
        "pod5",
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
    )


async def test_four_pods_with_a_skew_of_one_are_evenly_distributed_into_two_nodes(cluster):
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2"), node_manifest("n3"))
    await cluster.start_daemon()
    for name in ("n1", "n2"):
        await cluster.change_node(name, {"metadata": {"labels": {"dedicated": name}}})
    spread = {
        "maxSkew": 1,
        "topologyKey": "dedicated",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    only_these = node_terms({"key": "dedicated", "operator": "Exists"})
    names = [f"p{number}" for number in range(4)]
    labels = {"app": "web"}
    await cluster.create_pods(
        *(
            pod_manifest(
                name, labels=labels, node_affinity=only_these, topologySpreadConstraints=[spread]
            )
            for name in names
        )
    )

    placed = await cluster.nodes_of(*names)
    assert sorted(placed.values()) == ["n1", "n1", "n2", "n2"]


async def test_pods_of_a_service_are_spread_across_zones(cluster):
    """Nobody asks for it: it is what scheduling does by default for pods that belong together."""
    zones = {"n1": "a", "n2": "b", "n3": "c"}
    await cluster.create_nodes(
        *(node_manifest(name, labels={ZONE: zone}) for name, zone in zones.items())
    )
    await cluster.start_daemon()
    service = {
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    made = await cluster.api.create("services", service, cluster.namespace)
    await cluster.known("services", made)
    for number in range(6):
        await cluster.create_pods(pod_manifest(f"p{number}", labels={"app": "web"}))
        await cluster.node_of(f"p{number}")

    placed = await cluster.nodes_of(*(f"p{number}" for number in range(6)))
    assert sorted(placed.values()) == ["n1", "n1", "n2", "n2", "n3", "n3"]
