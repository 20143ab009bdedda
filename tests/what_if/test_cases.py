"""Some of the random cases, on the embedded server; `make what-if-cases` has more of them."""

import io

import pytest
from msgspec.structs import replace

from kscheduler import logs
from tests.what_if.cases import Judge
from tests.what_if.random_claims import KINDS, random_case_with
from tests.what_if.servers import embedded

SEEDS = range(5000, 5016)


@pytest.fixture(autouse=True)
def _quiet():
    logs.configure(logs.Logging(), stderr=io.BytesIO())
    yield
    logs.configure(logs.Logging())


@pytest.mark.parametrize("kinds", [(), *((kind,) for kind in KINDS)], ids=" ".join)
async def test_what_a_review_says_is_what_then_happens(tmp_path, kinds):
    async with embedded(tmp_path, claims=bool(kinds)) as (server, daemon):
        judge = Judge(server, daemon)
        for seed in SEEDS:
            await judge.try_case(random_case_with(kinds, seed))
    assert not judge.tally.differences, "\n".join(judge.tally.differences)
    assert judge.tally.placed > 20
    assert judge.tally.refused
    assert judge.tally.victims


async def test_a_false_review_is_noticed(tmp_path, monkeypatch):
    true = Judge._reviewed

    async def false(self, pods):
        status = await true(self, pods)
        placements = [
            replace(one, node="" if one.node else "n000", ties=()) for one in status.placements
        ]
        return replace(status, placements=tuple(placements))

    monkeypatch.setattr(Judge, "_reviewed", false)
    async with embedded(tmp_path) as (server, daemon):
        judge = Judge(server, daemon)
        for seed in SEEDS[:3]:
            await judge.try_case(random_case_with((), seed))
    assert len(judge.tally.differences) >= 3
