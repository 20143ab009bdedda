"""Every recorded start of kube-scheduler, replayed with this program."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def test_every_recorded_start_is_reproduced():
    outcome = subprocess.run(
        [sys.executable, "-m", "tests.parity.config"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
