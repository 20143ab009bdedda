"""Every recorded exchange with kube-scheduler's secure port, replayed with this program."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def test_every_recorded_request_gets_the_recorded_answer():
    outcome = subprocess.run(
        [sys.executable, "-m", "tests.parity.endpoints"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
