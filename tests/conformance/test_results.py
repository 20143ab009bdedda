"""Results of both schedulers: what is wrong with them, and how they are told."""

import pytest

from tests.bench.contestants import OURS, THEIRS
from tests.conformance.reports import Spec
from tests.conformance.results import Result, Results, section, summary, table
from tests.conformance.suites import SUITES

SUITE = SUITES[0]


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path / "folder" / "results.jsonl")


def result(who, state="passed", name="[sig-scheduling] spec [Serial]", suite=SUITE, **facts):
    return Result(
        suite.name, who, Spec(name, state, facts.get("seconds", 1.0), facts.get("why", ""))
    )


@pytest.mark.parametrize(
    ("theirs", "ours", "bad"),
    [
        ("passed", "passed", False),
        ("passed", "failed", True),
        ("passed", "timedout", True),
        ("passed", "skipped", True),
        ("failed", "failed", False),
        ("failed", "passed", False),
        ("skipped", "skipped", False),
        pytest.param(None, "failed", True, id="the original was not asked"),
        ("passed", None, False),
    ],
)
def test_ours_must_pass_what_the_original_passes(results, theirs, ours, bad):
    for who, state in ((THEIRS, theirs), (OURS, ours)):
        if state:
            results.add(result(who, state, why="nobody came"))
    told = [f"[sig-scheduling] spec [Serial]\n  {ours}: nobody came"]
    assert results.problems(SUITES) == (told if bad else [])


def test_suites_that_were_not_asked_for_are_not_judged(results):
    results.add(result(OURS, "failed"))
    assert results.problems(SUITES[1:]) == []


def test_of_two_results_the_later_one_counts_in_later_runs_too(results, tmp_path):
    results.add(result(OURS, "failed"))
    results.add(result(OURS, "passed"))
    for known in (results, Results(tmp_path / "folder" / "results.jsonl")):
        assert known.problems(SUITES) == []


def test_results_are_complete_when_every_spec_of_all_suites_is_known_of_both(results):
    lines = [
        result(who, name=f"spec {number}", suite=suite)
        for suite in SUITES
        for number in range(suite.specs)
        for who in (THEIRS, OURS)
    ]
    for line in lines[:-1]:
        results.add(line)
    assert not results.complete
    results.add(lines[-1])
    assert results.complete


def test_a_row_has_what_became_of_a_spec_with_both(results):
    results.add(result(THEIRS, seconds=2.6))
    results.add(result(OURS, "failed"))
    results.add(result(OURS, name="another"))
    assert table(results, SUITE) == [
        ["spec", THEIRS, OURS],
        ["spec", "passed, 3 s", "failed, 1 s"],
        ["another", "-", "passed, 1 s"],
    ]
    assert summary(results, SUITE) == f"{SUITE.about}: {THEIRS} 1 of 1, {OURS} 1 of 2"


def test_the_page_has_a_table_per_suite(results):
    for suite in SUITES:
        results.add(result(THEIRS, suite=suite))
    assert section(results).splitlines()[:6] == [
        f"{SUITE.about}: {THEIRS} 1 of 1.",
        "",
        f"| spec | {THEIRS} | {OURS} |",
        "| --- | --- | --- |",
        "| spec | passed, 1 s | - |",
        "",
    ]
