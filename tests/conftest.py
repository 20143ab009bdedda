"""For all tests: how properties are tried, which folders are slow as a whole, and a collector that
each test finds as Python starts it.
"""

import gc
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.kit import chromium

# Daemons in processes of their own, and work that is counted line by line.
SLOW_FOLDERS = frozenset({"adversary", "e2e", "faults"})

# Properties are tried without looking at the clock: any machine may stand still for a while.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

THRESHOLDS = gc.get_threshold()


@pytest.fixture(autouse=True)
def _collector_as_python_starts_it():
    """A daemon in the test's process sets objects aside and goes on doing so after its end: in the
    tests that follow nothing would be collected, and Hypothesis would not find its own objects.
    """
    yield
    if memory := sys.modules.get("kscheduler.app.memory"):
        memory.unfreeze()
        gc.set_threshold(*THRESHOLDS)


@pytest.fixture
def hang_up_counts():
    """SIGHUP as in a terminal, for this process and those it starts: nohup has it ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def pytest_terminal_summary(terminalreporter):
    """One line about skipped tests. A reason is what a test needs; `-rs` shows all of them."""
    lacking = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    if lacking:
        told = [
            f"{count} need{'s' * (count == 1)} {reason.removeprefix('Skipped: ')}"
            for reason, count in lacking.most_common()
        ]
        terminalreporter.write_line(f"Skipped tests: {'; '.join(told)}.")


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] in SLOW_FOLDERS:
            item.add_marker(pytest.mark.slow)
        if chromium.EXECUTABLE is None and item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason=chromium.MISSING))
