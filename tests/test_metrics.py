"""Families and series as kube-scheduler exports them, and numbers that add up."""

import json
import time
from pathlib import Path

import pytest

from kscheduler.metrics import ALPHA, Counter, Family, Histogram, Metrics, Selection, exponential

RECORDED = json.loads((Path(__file__).parent / "parity/cases/metrics.json").read_text())
GATED = RECORDED["additional_families_with_gates"]["families"]
FAMILIES = {family["name"]: family for family in (*RECORDED["families"], *GATED)}
HIDDEN = "scheduler_preemption_goroutines_duration_seconds"


def exported(metrics):
    """By name, families as a scrape would see them."""
    return {
        family.samples[0].name if family.type == "counter" else family.name: family
        for family in metrics.registry.collect()
    }


@pytest.fixture(scope="module")
def everything_used_once():
    metrics = Metrics(Selection(shows_hidden=True))
    for family in metrics.families.values():
        family.labels(*family.label_names)
    return exported(metrics)


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_family_looks_as_upstream(name, everything_used_once):
    want, family = FAMILIES[name], everything_used_once[name]
    labels = {label for sample in family.samples for label in sample.labels} - {"le"}
    assert (family.type, labels) == (want["type"], want["labels"].keys())
    if want["stability"]:
        assert family.documentation.startswith(f"[{want['stability']}] ")
    assert f"({want.get('deprecated', '')})" in family.documentation or "deprecated" not in want
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
    at_start = {name for name in FAMILIES if FAMILIES[name].get("present_at_start")}
    without_labels = {name for name in FAMILIES if not FAMILIES[name]["labels"]}
    assert without_labels <= shown
    assert {name for name in shown if name in FAMILIES} <= at_start


def test_two_schedulers_do_not_share_numbers():
    one, other = Metrics(), Metrics()
    one.preemption_attempts_total.inc()
    assert (one.preemption_attempts_total.value, other.preemption_attempts_total.value) == (1, 0)


def test_a_series_is_made_once():
    family = Metrics().schedule_attempts_total
    assert family.labels("scheduled", "a") is family.labels("scheduled", "a")
    assert family.labels("scheduled", "a") is not family.labels("error", "a")


def test_a_family_declared_again_is_the_same_whether_it_is_shown_or_not():
    for selection in (Selection(), Selection(disabled=frozenset({"my_total"}))):
        metrics = Metrics(selection)
        first = metrics.counters("my_total", ALPHA, "Mine.", ("a",))
        assert metrics.counters("my_total", ALPHA, "Mine.", ("a",)) is first
        with pytest.raises(AssertionError, match="declared twice, differently"):
            metrics.counters("my_total", ALPHA, "Mine.", ("b",))


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


def test_deprecated_families_are_hidden_and_can_be_shown():
    hiding, showing = Metrics(), Metrics(Selection(shows_hidden=True))
    for metrics in (hiding, showing):
        metrics.preemption_goroutines_duration_seconds.labels("success").observe(1)
    assert HIDDEN not in exported(hiding)
    assert HIDDEN in exported(showing)
    hidden = [exported(one)["hidden_metrics_total"].samples[0].value for one in (hiding, showing)]
    assert hidden == [1, 0]


def test_disabled_families_can_be_written_to_and_are_not_shown():
    metrics = Metrics(Selection(disabled=frozenset({"scheduler_pending_pods", HIDDEN})))
    metrics.pending_pods.labels("active").inc()
    shown = exported(metrics)
    assert "scheduler_pending_pods" not in shown
    assert shown["disabled_metrics_total"].samples[0].value == 2


def test_values_of_a_label_that_are_not_allowed_count_as_one():
    allowed = {"scheduler_schedule_attempts_total": {"profile": frozenset({"mine"})}}
    metrics = Metrics(Selection(allowed_values=allowed))
    for profile in ("mine", "yours", "theirs", "yours"):
        metrics.schedule_attempts_total.labels("scheduled", profile).inc()
    shown = exported(metrics)
    samples = shown["scheduler_schedule_attempts_total"].samples
    assert {s.labels["profile"]: s.value for s in samples} == {"mine": 1, "unexpected": 3}
    counted = shown["cardinality_enforcement_unexpected_categorizations_total"].samples[0]
    assert counted.value == 3


def test_registered_families_are_counted_by_stability():
    metrics = Metrics()
    counts = {
        (s.labels["stability_level"], s.labels["deprecated_version"]): s.value
        for s in exported(metrics)["registered_metrics_total"].samples
    }
    assert counts.keys() == {
        ("STABLE", ""),
        ("BETA", ""),
        ("ALPHA", ""),
        ("INTERNAL", ""),
        ("ALPHA", "1.37.0"),
    }
    assert sum(counts.values()) == len(metrics.families)  # itself not, but the hidden one


def test_a_gauge_can_be_worked_out_when_somebody_looks():
    metrics = Metrics()
    metrics.workqueue_depth.labels("q").read_from(lambda: 7)
    assert exported(metrics)["workqueue_depth"].samples[0].value == 7


def test_the_process_tells_what_the_kernel_knows():
    shown = exported(Metrics())
    values = {name: shown[name].samples[0].value for name in shown if name.startswith("process_")}
    assert 0 < values["process_resident_memory_bytes"] < values["process_virtual_memory_bytes"]
    assert 0 < values["process_open_fds"] < values["process_max_fds"]
    assert 0 <= time.time() - values["process_start_time_seconds"] < 24 * 3600
    assert 0 < values["process_cpu_seconds_total"] <= time.process_time() + 1
