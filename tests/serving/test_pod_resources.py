"""/metrics/resources, against what kube-scheduler said of the same pods."""

import asyncio
import gzip
import json
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from kscheduler.api.core import Pod
from kscheduler.api.decode import convert
from kscheduler.api.requests import pod_limits, pod_requests
from kscheduler.serving import metrics_page, pod_resources
from kscheduler.serving.exposition import as_protobuf, as_text
from kscheduler.serving.pod_resources import (
    HELP,
    LIMIT,
    REQUEST,
    ProtobufForm,
    ResourcesPage,
    TextForm,
    approximate,
    print_pods,
    unit_of,
)
from kscheduler.slices import Slices

RECORDED = json.loads(
    (Path(__file__).parent.parent / "parity/cases/metrics-resources.json").read_text()
)
PROTOBUF = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
)


def pod(name="p", node="n", phase="Running", cpu="1", **limits):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}, "limits": limits}}
    return convert(
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [container], "nodeName": node, "schedulerName": "s"},
            "status": {"phase": phase},
        },
        Pod,
    )


async def printed(pods, form=None):
    return b"".join([piece async for piece in print_pods(pods, form or TextForm(), Slices())])


def families(pods):
    """All samples at once, for a printer that knows nothing of pods."""
    made = {name: Metric(name, text, "gauge") for name, text in HELP.items()}
    for one in pods:
        for name, amounts in ((REQUEST, pod_requests(one)), (LIMIT, pod_limits(one))):
            for resource, nanos in sorted(amounts.items()):
                if nanos:
                    labels = {
                        "namespace": one.namespace,
                        "pod": one.name,
                        "node": one.spec.node_name,
                        "scheduler": one.spec.scheduler_name,
                        "priority": "" if one.spec.priority is None else str(one.spec.priority),
                        "resource": resource,
                        "unit": unit_of(resource),
                    }
                    made[name].add_sample(name, labels, approximate(nanos))
    return made.values()


def samples(page):
    return [
        one for family in text_string_to_metric_families(page.decode()) for one in family.samples
    ]


async def test_every_recorded_series_is_there_and_no_other():
    pods = [convert(document, Pod) for document in RECORDED["pods"]]
    key = json.dumps
    want = sorted(RECORDED["series"], key=lambda one: key(one, sort_keys=True))
    got = sorted(
        ([s.name, dict(s.labels), s.value] for s in samples(await printed(pods))),
        key=lambda one: key(one, sort_keys=True),
    )
    assert got == want


@pytest.mark.parametrize(
    ("form", "as_one"), [(TextForm(), as_text), (ProtobufForm(), as_protobuf)], ids=["text", "pb"]
)
async def test_printed_piece_by_piece_it_is_what_a_registry_prints(monkeypatch, form, as_one):
    monkeypatch.setattr(pod_resources, "FLUSH_BYTES", 100)
    monkeypatch.setattr(pod_resources, "MAX_ENDINGS_BYTES", 2000)
    pods = [convert(document, Pod) for document in RECORDED["pods"]]
    pods += [pod(f'a"\\\n{number}', cpu=f"{number}m", memory="1Gi") for number in range(50)]
    alive = [one for one in pods if not (one.spec.node_name and one.status.phase == "Succeeded")]
    assert await printed(pods, form) == as_one(families(alive))


async def test_of_pods_without_limits_that_family_is_not_mentioned():
    assert b"limit" not in await printed([pod()])
    assert await printed([]) == b""
    assert await printed([], ProtobufForm()) == b""


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
    assert bool(await printed([pod(node=node, phase=phase)])) == told


async def test_a_pod_that_makes_no_sense_is_left_out():
    page = await printed([pod("bad", cpu="lots"), pod("good")])
    assert {sample.labels["pod"] for sample in samples(page)} == {"good"}


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


class Turns:
    """Slices of five looks at the clock; how often others had their turn meanwhile."""

    def __init__(self, monkeypatch):
        self.looks = self.rests = self.most_looks = self._looks_before = 0
        monkeypatch.setattr("kscheduler.slices.asyncio.sleep", self._sleep)

    def slices(self):
        return Slices(5, self._look)

    def _look(self):
        self.looks += 1
        return self.looks

    async def _sleep(self, seconds):
        self.rests += 1
        self.most_looks = max(self.most_looks, self.looks - self._looks_before)
        self._looks_before = self.looks


async def test_others_get_their_turn_every_few_pods(monkeypatch):
    turns = Turns(monkeypatch)
    pods = [pod(f"p{number}", memory="1Gi") for number in range(100)]
    page = [piece async for piece in print_pods(pods, TextForm(), turns.slices())]
    assert b"".join(page) == as_text(families(pods))
    assert turns.rests >= 2 * len(pods) / 5
    assert turns.most_looks <= 7


async def test_others_get_their_turn_while_a_page_is_unpacked(serving, monkeypatch):
    monkeypatch.setattr(pod_resources, "PIECE_BYTES", 1000)
    pods = [pod(f"p{number}") for number in range(1000)]
    rests = []

    class Counted(Slices):
        async def rest(self):
            rests.append(self)
            await super().rest()

    page = ResourcesPage(lambda: pods, lambda: True, slices=lambda: Counted(0))
    async with serving(page) as client:
        _, headers, body = await client.ask("/metrics/resources")
    assert body.encode() == as_text(families(pods))
    assert int(headers["content-length"]) == len(body)
    while_printing = rests.count(rests[0])
    assert len(rests) - while_printing >= len(body) / 1000


async def test_a_standby_says_nothing(serving):
    async with serving(ResourcesPage(lambda: [pod()], lambda: False)) as client:
        status, headers, body = await client.ask("/metrics/resources")
    assert (status, body, "content-type" in headers) == (200, "", False)


async def test_a_leader_tells(serving):
    async with serving(ResourcesPage(lambda: [pod()], lambda: True)) as client:
        _, _, body = await client.ask("/metrics/resources")
        assert (
            'kube_pod_resource_request{namespace="default",node="n",pod="p",priority="",'
            'resource="cpu",scheduler="s",unit="cores"} 1\n'
        ) in body
        assert (await client.ask("/metrics/resources", "DELETE"))[2] == "metrics reset\n"
        status, headers, body = await client.ask("/metrics/resources", "HEAD")
        assert (status, body) == (200, "")
        assert int(headers["content-length"]) > 100


async def test_packed_and_as_protobuf_it_is_the_same_page(serving):
    pods = [pod(f"p{number}") for number in range(100)]
    head = "GET /metrics/resources HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
    head += f"Accept: {PROTOBUF}\r\nAccept-Encoding: gzip\r\n\r\n"
    async with serving(ResourcesPage(lambda: pods, lambda: True)) as client:
        reader, writer = await client.connect()
        writer.write(head.encode())
        _, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert gzip.decompress(body) == as_protobuf(families(pods))


class Asked:
    def __init__(self):
        self.method = "GET"
        self.headers = {"Accept-Encoding": "gzip"}


async def test_one_print_serves_all_who_ask_meanwhile(monkeypatch):
    monkeypatch.setattr(metrics_page, "REUSE_FACTOR", 0)
    prints = []

    def pods():
        prints.append([pod(f"p{number}") for number in range(10)])
        return prints[-1]

    page = ResourcesPage(pods, lambda: True, slices=lambda: Slices(0))
    answers = await asyncio.gather(*(page(Asked()) for _ in range(20)))
    assert len(prints) == 1
    assert {one.body for one in answers} == {answers[0].body}
    await page(Asked())
    assert len(prints) == 2


async def test_a_page_serves_for_ten_times_as_long_as_it_took(monkeypatch):
    prints, now = [], [100.0]
    monkeypatch.setattr("kscheduler.slices.time.thread_time", lambda: float(len(prints)))

    def pods():
        prints.append(1)
        return [pod()]

    page = ResourcesPage(pods, lambda: True, clock=lambda: now[0])
    await page(Asked())
    now[0] += 10
    await page(Asked())
    assert len(prints) == 1
    now[0] += 0.1
    await page(Asked())
    assert len(prints) == 2


async def test_if_whoever_prints_leaves_the_next_one_prints():
    prints = []

    def pods():
        prints.append(1)
        return [pod(f"p{number}") for number in range(10)]

    page = ResourcesPage(pods, lambda: True, slices=lambda: Slices(0))
    first, second = asyncio.create_task(page(Asked())), asyncio.create_task(page(Asked()))
    await asyncio.sleep(0)
    first.cancel()
    answer = await second
    assert first.cancelled()
    assert gzip.decompress(answer.body).count(b"p9") == 1
    assert len(prints) == 2
