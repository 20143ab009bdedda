"""Every recorded exchange with kube-scheduler's secure port, replayed with this program."""

import subprocess
import sys
from pathlib import Path


def test_every_recorded_request_gets_the_recorded_answer():
    runner = Path(__file__).with_name("endpoints.py")
    outcome = subprocess.run(
        [sys.executable, str(runner)], capture_output=True, text=True, timeout=600, check=False
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
