"""Every recorded start of kube-scheduler, replayed with this program."""

import subprocess
import sys
from pathlib import Path


def test_every_recorded_start_is_reproduced():
    runner = Path(__file__).with_name("config.py")
    outcome = subprocess.run(
        [sys.executable, str(runner)], capture_output=True, text=True, timeout=600, check=False
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
