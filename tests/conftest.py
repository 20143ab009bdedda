"""For all tests: how properties are tried, and which folders are slow as a whole."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Daemons in processes of their own, and work that is counted line by line.
SLOW_FOLDERS = frozenset({"adversary", "e2e"})

# Properties are tried without looking at the clock: any machine may stand still for a while.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] in SLOW_FOLDERS:
            item.add_marker(pytest.mark.slow)
