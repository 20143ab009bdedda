"""Some of the random cases, on the embedded server; `make what-if-cases` has more of them."""

import io

import pytest
from msgspec.structs import replace

from kscheduler import logs
from tests.what_if import cases
from tests.what_if.random_clusters import random_case

SEEDS = range(5000, 5016)


@pytest.fixture(autouse=True)
def _quiet():
    logs.configure(logs.Logging(), stderr=io.BytesIO())
    yield
    logs.configure(logs.Logging())


async def test_what_a_review_says_is_what_then_happens(tmp_path):
    async with cases.embedded(tmp_path) as judge:
        for seed in SEEDS:
            await judge.try_case(random_case(seed))
    assert not judge.tally.differences, "\n".join(judge.tally.differences)
    assert judge.tally.placed > 20
    assert judge.tally.refused
    assert judge.tally.victims


async def test_a_false_review_is_noticed(tmp_path, monkeypatch):
    true = cases.Judge._reviewed

    async def false(self, pods):
        status = await true(self, pods)
        placements = [
            replace(one, node="" if one.node else "n000", ties=()) for one in status.placements
        ]
        return replace(status, placements=tuple(placements))

    monkeypatch.setattr(cases.Judge, "_reviewed", false)
    async with cases.embedded(tmp_path) as judge:
        for seed in SEEDS[:3]:
            await judge.try_case(random_case(seed))
    assert len(judge.tally.differences) >= 3
