"""Daemons to be asked; each test has one of its own."""

import pytest

from kscheduler import logs
from tests.serving.explanation.asking import running


@pytest.fixture(autouse=True)
def _logs_as_before():
    yield
    logs.configure(logs.Logging())


@pytest.fixture
def explained(tmp_path):
    """`async with explained(*flags) as asked`"""

    def run(*flags, **settings):
        return running(tmp_path, *flags, **settings)

    return run
