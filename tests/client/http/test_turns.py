"""Who gets the next connection."""

import asyncio

from kscheduler.client.http import turns
from kscheduler.client.http.turns import FIRST_TURNS, URGENT_IN_A_ROW, Turns
from tests.kit.polling import until


class Crowd:
    """Names of those who got a turn, in that order; each keeps it."""

    def __init__(self, limit=1):
        self.turns = Turns(limit)
        self.served = []
        self.tasks = {}

    async def comes(self, name, *, urgent=False):
        self.tasks[name] = asyncio.create_task(self._wait(name, urgent))
        await asyncio.sleep(0)

    async def _wait(self, name, urgent):
        await self.turns.take(urgent=urgent)
        self.served.append(name)

    async def ends(self, times=1):
        for _ in range(times):
            self.turns.give_back()
            await asyncio.sleep(0)


async def test_only_so_many_have_a_turn():
    crowd = Crowd(limit=2)
    for name in "abc":
        await crowd.comes(name)
    assert (crowd.served, crowd.turns.all_taken) == (["a", "b"], True)
    await crowd.ends()
    assert crowd.served == ["a", "b", "c"]
    await crowd.ends()
    assert not crowd.turns.all_taken


async def test_the_urgent_go_first_and_all_in_their_order():
    crowd = Crowd()
    for name in ("first", "report 1", "binding 1", "report 2", "binding 2"):
        await crowd.comes(name, urgent=name.startswith("binding"))
    await crowd.ends(times=4)
    assert crowd.served == ["first", "binding 1", "binding 2", "report 1", "report 2"]


async def test_others_have_a_turn_now_and_then():
    crowd = Crowd()
    await crowd.comes("first")
    for number in range(2 * URGENT_IN_A_ROW):
        await crowd.comes(f"binding {number}", urgent=True)
    for name in ("report 1", "report 2"):
        await crowd.comes(name)
    await crowd.ends(times=2 * URGENT_IN_A_ROW + 2)
    assert crowd.served.index("report 1") == URGENT_IN_A_ROW + 1
    assert crowd.served[-1] == "report 2"


async def test_whoever_goes_away_takes_no_turn():
    crowd = Crowd()
    for name in "abc":
        await crowd.comes(name)
    crowd.tasks["b"].cancel()
    await crowd.ends()
    assert crowd.served == ["a", "c"]


async def test_a_turn_that_came_too_late_is_passed_on():
    crowd = Crowd()
    for name in "abc":
        await crowd.comes(name)
    crowd.turns.give_back()
    crowd.tasks["b"].cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert crowd.served == ["a", "c"]


async def test_few_have_a_turn_at_first_and_each_that_ends_makes_another():
    crowd = Crowd(limit=6)
    for number in range(10):
        await crowd.comes(number)
    assert len(crowd.served) == FIRST_TURNS
    await crowd.ends()
    assert len(crowd.served) == FIRST_TURNS + 2
    await crowd.ends(times=2)
    assert len(crowd.served) - 3 == 6, "and no more than the limit"


async def test_first_turns_that_do_not_end_hold_up_nobody_for_long(monkeypatch):
    monkeypatch.setattr(turns, "FIRST_WAIT_SECONDS", 0.01)
    crowd = Crowd(limit=6)
    for number in range(10):
        await crowd.comes(number)
    await until(lambda: len(crowd.served) == 6)
    await asyncio.sleep(0)
    assert crowd.turns.all_taken
