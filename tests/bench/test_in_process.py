"""The benchmarks without an API server, as small as they can be: they must not rot."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def lines(script, *flags):
    command = [sys.executable, "-m", f"tests.bench.{script}", "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_decisions_are_measured_for_every_workload():
    found = lines("core", "--nodes=100", "--pods=3", "--rounds=1")
    assert len(found) >= 9
    assert all(one["least_us"] > 0 for one in found)


def test_keeping_decisions_is_measured_with_and_without():
    found = lines("decisions", "--nodes=100", "--pods=3", "--rounds=1")
    assert [one["workload"] for one in found] == ["plain", "affinity", "too large"]
    assert all(one["off_us"] > 0 and one["held"] > 1000 for one in found)


def test_a_backlog_is_measured_with_and_without_a_review():
    flags = ("--nodes=50", "--pods=50", "--backlog=40", "--review=10", "--rounds=1")
    found = lines("what_if", *flags)
    assert [one["kind"] for one in found] == ["with a review", "without"]
    assert found[0]["reviewed"] == 10


def test_a_rule_is_measured_in_every_form():
    found = lines("outside", "--nodes=30", "--pods=3", "--rounds=1")
    rules = [one["rule"] for one in found]
    forms = [
        "none",
        "over columns",
        "node by node",
        "extender, told nodes",
        "extender, told names",
    ]
    assert rules == [*forms, *forms]
    assert all(one["cpu_us"] > 0 for one in found)


@pytest.mark.parametrize("script", ["beside", "report", "floor", "run"])
def test_what_needs_a_server_can_at_least_be_asked_for_help(script):
    command = [sys.executable, "-m", f"tests.bench.{script}", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage:" in done.stdout
