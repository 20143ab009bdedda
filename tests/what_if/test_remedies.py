import pytest

from kscheduler.api.amounts import at_least, rounded_down
from kscheduler.api.quantity import milli_value, value
from tests.kit.manifests import HOSTNAME, near, node_terms, pod_manifest, required
from tests.kit.objects import make_node, make_pod

GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
DISK = {"labels": {"disk": "ssd"}}
IN_A = {"key": "zone", "operator": "In", "values": ["a"]}
ANTI_AFFINITY_THERE = "without the anti-affinity of pods that run there"


async def remedies(cluster, pod):
    status = await cluster.review(pod)
    assert not status.fits
    return [(one.change, one.more_nodes) for one in status.remedies]


def room(**amounts):
    return {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110", **amounts}}


@pytest.mark.parametrize(
    ("node", "pods", "pod", "want"),
    [
        pytest.param(
            room(memory="3300Mi"),
            [],
            {"memory": "8Gi"},
            [("with 3.2Gi instead of 8Gi of memory", 3)],
            id="a smaller request",
        ),
        pytest.param(
            {"taints": [GPU]},
            [],
            {},
            [("with a toleration of gpu=yes:NoSchedule", 3)],
            id="a toleration",
        ),
        pytest.param(
            {}, [], {"nodeSelector": {"a": "b"}}, [("without its node selector", 3)], id="selector"
        ),
        pytest.param(
            {},
            [{"host_port": 80}],
            {"host_port": 80},
            [("without its host port 80", 3)],
            id="host port",
        ),
        pytest.param({"taints": [GPU]}, [], {"nodeSelector": {"a": "b"}}, [], id="two changes"),
    ],
)
async def test_a_single_change_and_the_nodes_it_gains(world, node, pods, pod, want):
    names = ["a", "b", "c"]
    there = [
        make_pod(f"{name}-{number}", node=name, **fields)
        for name in names
        for number, fields in enumerate(pods)
    ]
    cluster = world([make_node(name, **node) for name in names], there)
    assert await remedies(cluster, pod_manifest(**pod)) == want


ENFORCED = {
    "schedulerName": "default-scheduler",
    "pluginConfig": [
        {
            "name": "NodeAffinity",
            "args": {
                "addedAffinity": node_terms({"key": "pool", "operator": "In", "values": ["x"]})
            },
        }
    ],
}
PREFERRED = {
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "z", "operator": "Exists"}]}}
    ]
}


async def test_no_change_of_a_pod_answers_the_affinity_of_a_profile(world):
    cluster = world([make_node("a", **DISK)], profiles=[ENFORCED])
    status = await cluster.review(pod_manifest(nodeSelector={"disk": "ssd"}))
    assert (status.remedies, status.summary) == (
        (),
        "It does not fit: 1 node does not match the affinity that the configuration adds.",
    )


@pytest.mark.parametrize(
    ("wishes", "want"),
    [
        ({"nodeSelector": {"a": "b"}, "node_affinity": PREFERRED}, ["without its node selector"]),
        (
            {"nodeSelector": {"disk": "ssd"}, "node_affinity": node_terms(IN_A)},
            ["without its node affinity"],
        ),
        (
            {"nodeSelector": {"a": "b"}, "node_affinity": node_terms(IN_A)},
            ["without its node selector and node affinity"],
        ),
    ],
    ids=["preferred", "one of two", "both"],
)
async def test_only_rules_that_are_in_the_way_are_to_be_given_up(world, wishes, want):
    told = await remedies(world([make_node("n", **DISK)]), pod_manifest(**wishes))
    assert told == [(change, 1) for change in want]


@pytest.mark.parametrize(
    ("wishes", "want"),
    [
        ({}, [ANTI_AFFINITY_THERE]),
        ({"pod_affinity": required(near({"app": "there"}, HOSTNAME))}, [ANTI_AFFINITY_THERE]),
        ({"pod_affinity": required(near({"app": "none"}, HOSTNAME))}, []),
        ({"pod_anti_affinity": required(near({"app": "none"}, HOSTNAME))}, [ANTI_AFFINITY_THERE]),
    ],
    ids=["none", "affinity that holds", "affinity that does not", "anti-affinity that holds"],
)
async def test_the_anti_affinity_of_another_pod_is_not_taken_for_a_rule_of_this_one(
    world, wishes, want
):
    rules = {"podAntiAffinity": required(near({"app": "new"}, HOSTNAME))}
    there = make_pod("there", node="n", labels={"app": "there"}, affinity=rules)
    node = make_node("n", labels={HOSTNAME: "n"})
    told = await remedies(world([node], [there]), pod_manifest(labels={"app": "new"}, **wishes))
    assert told == [(change, 1) for change in want]


async def test_of_affinity_and_anti_affinity_the_one_in_the_way_is_named(world):
    node = make_node("n", labels={HOSTNAME: "n"})
    pod = pod_manifest(
        pod_affinity=required(near({"app": "none"}, HOSTNAME)),
        pod_anti_affinity=required(near({"app": "other"}, HOSTNAME)),
    )
    assert await remedies(world([node]), pod) == [("without its pod affinity", 1)]


async def test_the_smallest_change_comes_first(world):
    nodes = [
        make_node("small", **room(cpu="3"), **DISK),
        make_node("tainted", **room(cpu="8"), **DISK, taints=[GPU]),
        make_node("other", **room(cpu="8")),
    ]
    pod = pod_manifest(cpu="5", nodeSelector={"disk": "ssd"})
    assert await remedies(world(nodes), pod) == [
        ("with 3 instead of 5 of cpu", 1),
        ("with a toleration of gpu=yes:NoSchedule", 1),
        ("without its node selector", 1),
    ]


async def test_the_summary_names_what_is_short_and_where(world):
    nodes = [
        make_node("n1", **room(cpu="750m")),
        make_node("n2", **room(cpu="500m")),
        make_node("n3", taints=[GPU]),
    ]
    status = await world(nodes).review(pod_manifest(cpu="1"), replicas=2)
    assert status.summary == (
        "None of 2 fits: 2 nodes lack cpu (least short by 250m on n1), "
        "1 has a taint the pod does not tolerate."
    )


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 250, "250m"),
        ("cpu", 3000, "3"),
        ("memory", 8 << 30, "8Gi"),
        ("memory", 3300 << 20, "3.3Gi"),
        ("memory", 500, "500"),
        ("example.com/gpu", 2, "2"),
    ],
)
def test_amounts_are_written_as_people_do(resource, amount, text):
    assert at_least(resource, amount) == text


@pytest.mark.parametrize("amount", [1, 99, 1005, 1 << 20, (3300 << 20) + 7, (1 << 44) - 1])
@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_a_rounded_amount_fits_and_is_what_its_text_says(resource, amount):
    rounded = rounded_down(resource, amount)
    assert amount * 0.9 <= rounded <= amount
    read = milli_value if resource == "cpu" else value
    assert read(at_least(resource, rounded)) == rounded
