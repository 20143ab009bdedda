"""/metrics/resources, against what kube-scheduler said of the same pods."""

import json
from pathlib import Path

import pytest

from kscheduler.api.core import Pod
from kscheduler.api.decode import convert
from kscheduler.serving import pod_resources
from kscheduler.serving.pod_resources import collect, resources_page, unit_of

RECORDED = json.loads(
    (Path(__file__).parent.parent / "parity/cases/metrics-resources.json").read_text()
)


def pod(name="p", node="n", phase="Running", cpu="1"):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return convert(
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [container], "nodeName": node, "schedulerName": "s"},
            "status": {"phase": phase},
        },
        Pod,
    )


async def test_every_recorded_series_is_there_and_no_other():
    pods = [convert(document, Pod) for document in RECORDED["pods"]]
    key = json.dumps
    want = sorted(RECORDED["series"], key=lambda one: key(one, sort_keys=True))
    got = sorted(
        ([s.name, dict(s.labels), s.value] for f in await collect(pods) for s in f.samples),
        key=lambda one: key(one, sort_keys=True),
    )
    assert got == want


@pytest.mark.parametrize(
    ("node", "phase", "told"),
    [
        ("n", "Running", True),
        ("n", "Succeeded", False),
        ("n", "Failed", False),
        ("", "Failed", True),
    ],
)
async def test_pods_that_have_ended_on_a_node_are_left_out(node, phase, told):
    families = await collect([pod(node=node, phase=phase)])
    assert any(family.samples for family in families) == told


async def test_a_pod_that_makes_no_sense_is_left_out():
    families = await collect([pod("bad", cpu="lots"), pod("good")])
    assert {sample.labels["pod"] for family in families for sample in family.samples} == {"good"}


@pytest.mark.parametrize(
    ("resource", "unit"),
    [
        ("cpu", "cores"),
        ("memory", "bytes"),
        ("ephemeral-storage", "bytes"),
        ("hugepages-2Mi", "bytes"),
        ("attachable-volumes-aws-ebs", "integer"),
        ("example.com/gpu", ""),
    ],
)
def test_units(resource, unit):
    assert unit_of(resource) == unit


async def test_others_get_their_turn_in_between(monkeypatch):
    monkeypatch.setattr(pod_resources, "BUDGET_SECONDS", 0.0)
    turns = []

    async def rest(seconds):
        turns.append(seconds)

    monkeypatch.setattr(pod_resources.asyncio, "sleep", rest)
    await collect([pod(f"p{number}") for number in range(10)])
    assert turns == [0] * 10


async def test_a_standby_says_nothing(serving):
    async with serving(resources_page(lambda: [pod()], lambda: False)) as client:
        status, headers, body = await client.ask("/metrics/resources")
    assert (status, body, "content-type" in headers) == (200, "", False)


async def test_a_leader_tells(serving):
    async with serving(resources_page(lambda: [pod()], lambda: True)) as client:
        _, _, body = await client.ask("/metrics/resources")
        assert (
            'kube_pod_resource_request{namespace="default",node="n",pod="p",priority="",'
            'resource="cpu",scheduler="s",unit="cores"} 1\n'
        ) in body
        assert (await client.ask("/metrics/resources", "DELETE"))[2] == "metrics reset\n"
