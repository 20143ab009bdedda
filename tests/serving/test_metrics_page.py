"""Metrics in the forms scrapers ask for, and what it costs when they all come at once."""

import gzip
import time

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.parser import text_string_to_metric_families

from kscheduler.serving import metrics_page
from kscheduler.serving.exposition import as_protobuf, as_text, integer, number_text, varint
from kscheduler.serving.metrics_page import MetricsPage, content_type_for
from tests.serving.protobuf import fields, read_varint


@pytest.fixture
def registry():
    made = CollectorRegistry()
    Counter("b_requests", 'Asked \\ "often"\nfor.', ["path"], registry=made).labels('a"\\\n').inc(3)
    Gauge("a_size", "How large.", registry=made).set(1.5e9)
    Histogram("c_seconds", "How long.", buckets=(0.1, 1), registry=made).observe(0.5)
    return made


def test_text_is_as_client_golang_prints_it(registry):
    lines = as_text(registry.collect()).decode().splitlines()
    told = [line for line in lines if "_created" not in line]
    assert told == [
        "# HELP a_size How large.",
        "# TYPE a_size gauge",
        "a_size 1.5e+09",
        '# HELP b_requests_total Asked \\\\ "often"\\nfor.',
        "# TYPE b_requests_total counter",
        'b_requests_total{path="a\\"\\\\\\n"} 3',
        "# HELP c_seconds How long.",
        "# TYPE c_seconds histogram",
        'c_seconds_bucket{le="0.1"} 0',
        'c_seconds_bucket{le="1.0"} 1',
        'c_seconds_bucket{le="+Inf"} 1',
        "c_seconds_count 1",
        "c_seconds_sum 0.5",
    ]


def test_text_can_be_read_back(registry):
    families = list(text_string_to_metric_families(as_text(registry.collect()).decode()))
    assert {family.name for family in families} == {"a_size", "b_requests", "c_seconds"}
    assert families[1].samples[0].labels == {"path": 'a"\\\n'}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-1.0, "-1"),
        (0.1, "0.1"),
        (999999.0, "999999"),
        (1e6, "1e+06"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (float("nan"), "NaN"),
    ],
)
def test_numbers_are_spelled_as_in_go(value, text):
    assert number_text(value) == text


def test_protobuf_says_the_same(registry):
    message, families = as_protobuf(registry.collect()), {}
    at = 0
    while at < len(message):
        size, at = read_varint(message, at)
        family = dict(fields(message[at : at + size]))
        families[family[1].decode()] = family
        at += size
    assert set(families) == {"a_size", "b_requests_total", "c_seconds"}
    gauge = dict(fields(families["a_size"][4]))
    assert (families["a_size"][3], fields(gauge[2])) == (1, [(1, 1.5e9)])
    counter = dict(fields(families["b_requests_total"][4]))
    assert fields(counter[1]) == [(1, b"path"), (2, b'a"\\\n')]
    assert fields(counter[3]) == [(1, 3.0)]
    histogram = dict(fields(families["c_seconds"][4]))[7]
    assert [field for field, _ in fields(histogram)] == [1, 2, 3, 3]
    assert fields(fields(histogram)[3][1]) == [(1, 1), (2, 1.0)]


def test_numbers_on_the_wire():
    assert varint(300) == b"\xac\x02"
    assert len(varint(-1)) == 10
    assert integer(1, 0) == b""


PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily"


@pytest.mark.parametrize(
    ("accept", "start"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"),
        ("*/*", "text/plain; version=0.0.4"),
        ("application/openmetrics-text;version=1.0.0", "text/plain; version=0.0.4"),
        (f"{PROTOBUF};encoding=delimited;q=0.7,text/plain;version=0.0.4;q=0.3", "application/vnd"),
        (f"{PROTOBUF};encoding=delimited;q=0.2,text/plain;version=0.0.4;q=0.3", "text/plain"),
        (f"{PROTOBUF};encoding=text", "text/plain"),
        ("text/plain;escaping=dots", "text/plain; version=0.0.4; charset=utf-8; escaping=dots"),
        ("text/plain;escaping=nonsense", "text/plain; version=0.0.4; charset=utf-8; escaping=u"),
    ],
)
def test_the_form_is_the_one_asked_for(accept, start):
    assert content_type_for(accept).startswith(start)


def family(value):
    one = Metric("m", "help", "gauge")
    one.add_sample("m", {}, value)
    return one


async def test_who_can_unpack_gets_it_packed(serving):
    page = MetricsPage(lambda: [family(7)], lambda: None)
    async with serving(page) as client:
        reader, writer = await client.connect()
        head = "GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAccept-Encoding: gzip"
        writer.write(f"{head}\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert b"Content-Encoding: gzip" in head
    assert gzip.decompress(body).endswith(b"\nm 7\n")


async def test_many_scrapes_share_a_page(serving, monkeypatch):
    printed = []

    def collect():
        printed.append(1)
        return [family(len(printed))]

    monkeypatch.setattr(metrics_page, "REUSE_FACTOR", 1e9)
    page = MetricsPage(collect, printed.clear)
    async with serving(page) as client:
        bodies = {(await client.ask("/metrics"))[2] for _ in range(5)}
        assert len(bodies) == len(printed) == 1
        assert (await client.ask("/metrics", "DELETE"))[2] == "metrics reset\n"
        assert (await client.ask("/metrics"))[2].endswith("m 1\n")  # and not what was before


def test_a_page_whose_printing_was_interrupted_is_good_no_longer_for_that():
    def collect():
        time.sleep(0.2)
        return [family(7)]

    printed = MetricsPage(collect, lambda: None)._page(protobuf=False)
    assert printed.good_until < time.monotonic() + 1


async def test_a_page_is_printed_anew_before_it_is_old(serving, monkeypatch):
    monkeypatch.setattr(metrics_page, "REUSE_FACTOR", 0)
    values = iter(range(10))
    async with serving(MetricsPage(lambda: [family(next(values))], lambda: None)) as client:
        bodies = [(await client.ask("/metrics"))[2] for _ in range(2)]
    assert bodies[0].endswith("m 0\n")
    assert bodies[1].endswith("m 1\n")
