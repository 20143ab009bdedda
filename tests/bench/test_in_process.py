"""The benchmarks without an API server, as small as they can be: they must not rot."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def lines(script, *flags):
    command = [sys.executable, str(HERE / script), "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_decisions_are_measured_for_every_workload():
    found = lines("core.py", "--nodes=100", "--pods=3", "--rounds=1")
    assert len(found) >= 9
    assert all(one["least_us"] > 0 for one in found)


def test_a_rule_is_measured_in_every_form():
    found = lines("outside.py", "--nodes=30", "--pods=3", "--rounds=1")
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


@pytest.mark.parametrize("script", ["beside.py", "report.py", "floor.py", "run.py"])
def test_what_needs_a_server_can_at_least_be_asked_for_help(script):
    command = [sys.executable, str(HERE / script), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage:" in done.stdout
