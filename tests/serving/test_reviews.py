"""Verdicts: kept for a while, asked for once, and never more than so many."""

import asyncio

import pytest

from kscheduler.serving import reviews
from kscheduler.serving.reviews import Verdicts


def answering(value, asked):
    async def ask():
        asked.append(value)
        await asyncio.sleep(0)
        return value

    return ask


async def test_the_one_not_asked_for_longest_goes(monkeypatch):
    monkeypatch.setattr(reviews, "MAX_KEPT", 2)
    kept, asked = Verdicts(lambda _: 60.0), []
    for question in (b"a", b"b", b"a", b"c", b"a", b"b"):
        await kept.get(question, answering(question, asked))
    assert asked == [b"a", b"b", b"c", b"b"]
    assert len(kept) == 2


async def test_failures_are_told_to_all_who_wait_and_not_kept():
    kept, tries = Verdicts(lambda _: 60.0), []

    async def fail():
        tries.append(1)
        await asyncio.sleep(0)
        raise ValueError("no")

    waiting = [asyncio.ensure_future(kept.get(b"q", fail)) for _ in range(3)]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["no"] * 3
    assert len(tries) == 1
    with pytest.raises(ValueError, match="no"):
        await kept.get(b"q", fail)


async def test_who_gives_up_does_not_take_the_answer_along():
    kept, go = Verdicts(lambda _: 60.0), asyncio.Event()

    async def ask():
        await go.wait()
        return 1

    first = asyncio.ensure_future(kept.get(b"q", ask))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(kept.get(b"q", ask))
    await asyncio.sleep(0)
    second.cancel()
    go.set()
    assert await first == 1
    assert await kept.get(b"q", ask) == 1


async def test_tokens_are_not_kept_in_memory():
    kept = Verdicts(lambda _: 60.0)
    await kept.get(b"secret", answering(1, []))
    assert not any(b"secret" in key for key in kept._kept)
