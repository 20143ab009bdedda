"""Families and series as kube-scheduler exports them, and numbers that add up."""

import json
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kscheduler.metrics import Counter, Family, Histogram, Metrics, exponential

RECORDED = json.loads((Path(__file__).parent / "parity/cases/metrics.json").read_text())
FAMILIES = {family["name"]: family for family in RECORDED["families"]}

# What client-go keeps count of and we have no use for.
OF_CLIENT_GO = {
    "rest_client_exec_plugin_certificate_rotation_age",
    "rest_client_exec_plugin_ttl_seconds",
    "rest_client_transport_cache_entries",
    "rest_client_transport_cert_rotation_gc_calls_total",
    "rest_client_transport_create_calls_total",
}
# What prometheus-client's process collector does not know.
OF_CLIENT_GOLANG = {
    "process_network_receive_bytes_total",
    "process_network_transmit_bytes_total",
    "process_virtual_memory_max_bytes",
}
# What upstream remembers of one decision for the next; we do not.
OF_BATCHING = {
    "scheduler_batch_attempts_total",
    "scheduler_batch_cache_flushed_total",
    "scheduler_get_node_hint_duration_seconds",
    "scheduler_store_schedule_results_duration_seconds",
}
COMPARED = FAMILIES.keys() - OF_CLIENT_GO - OF_CLIENT_GOLANG - OF_BATCHING


def exported(metrics):
    """Name → (type, help, samples), as a scrape would see it."""
    text = generate_latest(metrics.registry).decode()
    return {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in text_string_to_metric_families(text)
    }


@pytest.fixture(scope="module")
def everything_used_once():
    metrics = Metrics()
    for family in metrics.families.values():
        family.labels(*family.label_names)
    return exported(metrics)


@pytest.mark.parametrize("name", sorted(COMPARED))
def test_a_family_looks_as_upstream(name, everything_used_once):
    want, family = FAMILIES[name], everything_used_once[name]
    labels = {label for sample in family.samples for label in sample.labels} - {"le"}
    assert (family.type, labels) == (want["type"], want["labels"].keys())
    if want["stability"]:
        assert family.documentation.startswith(f"[{want['stability']}] ")
    buckets = [sample.labels["le"] for sample in family.samples if "le" in sample.labels]
    assert buckets == want.get("buckets", [])


def test_what_upstream_shows_before_the_first_pod_is_shown():
    shown = exported(Metrics())
    for name in ("scheduler_pending_pods", "scheduler_cache_size"):
        series = [(sample.labels, sample.value) for sample in shown[name].samples]
        want = [(labels, value) for labels, value in RECORDED["values_at_start"][name]]
        assert sorted(series, key=str) == sorted(want, key=str)


def test_families_without_series_are_not_shown_unless_they_have_no_labels():
    shown = exported(Metrics()).keys()
    at_start = {name for name in COMPARED if FAMILIES[name]["present_at_start"]}
    without_labels = {name for name in COMPARED if not FAMILIES[name]["labels"]}
    assert without_labels <= shown
    assert {name for name in shown if name in COMPARED} <= at_start


def test_two_schedulers_do_not_share_numbers():
    one, other = Metrics(), Metrics()
    one.preemption_attempts_total.inc()
    assert (one.preemption_attempts_total.value, other.preemption_attempts_total.value) == (1, 0)


def test_a_series_is_made_once():
    family = Metrics().schedule_attempts_total
    assert family.labels("scheduled", "a") is family.labels("scheduled", "a")
    assert family.labels("scheduled", "a") is not family.labels("error", "a")


def test_the_wrong_number_of_labels_is_a_mistake():
    with pytest.raises(AssertionError):
        Metrics().schedule_attempts_total.labels("scheduled")


@pytest.mark.parametrize(
    ("value", "bucket"),
    [
        pytest.param(0.5, "1", id="below the first bound"),
        pytest.param(1, "1", id="a bound belongs to its bucket"),
        pytest.param(1.5, "2", id="between"),
        pytest.param(99, "+Inf", id="beyond the last"),
    ],
)
def test_an_observation_falls_into_its_bucket_and_all_above(value, bucket):
    family = Family("h", "histogram", "", (), lambda: Histogram(exponential(1, 2, 3)))
    family.labels().observe(value)
    samples = family.collect().samples
    counted = [s.labels["le"] for s in samples if s.name == "h_bucket" and s.value == 1]
    bounds = ["1", "2", "4", "+Inf"]
    assert counted == bounds[bounds.index(bucket) :]
    assert {s.name: s.value for s in samples if "le" not in s.labels} == {
        "h_sum": value,
        "h_count": 1,
    }


def test_reset_returns_labelled_series_to_zero_in_place():
    metrics = Metrics()
    kept: Counter = metrics.schedule_attempts_total.labels("scheduled", "p")
    kept.inc(3)
    metrics.reset()
    kept.inc()
    (sample,) = exported(metrics)["scheduler_schedule_attempts_total"].samples
    assert sample.value == 1
