import pytest

from kscheduler.api.amounts import at_least, rounded_down
from kscheduler.api.quantity import milli_value, value
from tests.kit.manifests import pod_manifest
from tests.kit.objects import make_node, make_pod

GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
DISK = {"labels": {"disk": "ssd"}}


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
