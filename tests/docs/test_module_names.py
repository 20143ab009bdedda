"""Modules that pages name exist, so that a reader who follows a page arrives."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TOPS = (ROOT, ROOT / "kscheduler")
PACKAGES = "|".join(path.parent.name for path in (ROOT / "kscheduler").glob("*/__init__.py"))
# `state/cache.py`, `runtime/preemption/`, `tests/kit/`, and `state/cache` without an ending.
NAMED = re.compile(
    rf"`((?:[a-z_0-9]+/)+(?:[a-z_0-9]+\.py)?|(?:{PACKAGES})/(?:[a-z_0-9]+/)*[a-z_0-9]+)`"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_named_on_a_page_exist(page):
    named = set(NAMED.findall(page.read_text()))
    missing = [
        path
        for path in named
        if not any((top / path).exists() or (top / f"{path}.py").exists() for top in TOPS)
    ]
    assert sorted(missing) == []
