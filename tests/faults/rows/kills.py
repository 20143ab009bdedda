"""Rows in which a scheduler is killed in the middle of its work, again and again.

In each round a few pods come, the scheduler is ended at a moment of its choice, started again, and
all pods of the round must be bound before the next one begins. Half of the moments are those of a
request that the row is about, which the server then carries out or never hears of; half are
anywhere in the first fifth of a second. SIGTERM and SIGKILL take turns. One more pod comes when the
scheduler is gone, so that there is always one to wait for.
"""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from statistics import median
from typing import ClassVar

from tests.faults.request_faults import Rule, Strike
from tests.faults.rig import Rig
from tests.faults.row import Row
from tests.faults.verdict import Outcome
from tests.kit.polling import until

ROUNDS = 50
SHORT_ROUNDS = 5
# A round whose request does not come is ended at the latest then.
LATEST_SECONDS = 2.0
RANDOM_SECONDS = 0.2
PATIENCE_SECONDS = 60.0


class Kills(Row):
    # Kinds of the pods of one round.
    burst: ClassVar[Sequence[str]]
    # Requests of which one is the moment.
    verbs: ClassVar[frozenset[str]] = frozenset()
    resources: ClassVar[frozenset[str]]

    async def fault(self, rig: Rig) -> None:
        raise NotImplementedError("rounds take its place")

    async def run(self, rig: Rig, outcome: Outcome) -> None:
        await self.start(rig)
        began = time.monotonic()
        waits = []
        for number in range(ROUNDS if rig.scale == 1.0 else SHORT_ROUNDS):
            struck = await self._round(rig, signal.SIGTERM if number % 2 else signal.SIGKILL)
            with suppress(AssertionError):
                await rig.settled("the pods of the round are bound", PATIENCE_SECONDS)
            if rig.workload.waiting:
                break
            waits.append(max(0.0, max(rig.workload.bound_at.values()) - struck))
            await self.tidy_up(rig)
        await self.judge(rig, outcome, time.monotonic())
        outcome.recovery = round(median(waits), 3) if waits and not outcome.lost else None
        outcome.notes |= {"rounds": len(waits), "longest, s": round(max(waits, default=0.0), 1)}
        outcome.seconds = round(time.monotonic() - began, 1)

    async def _round(self, rig: Rig, number: signal.Signals) -> float:
        """The moment at which the scheduler was struck; it has been started again since."""
        scheduler, rng, struck = rig.scheduler, rig.rng, asyncio.Event()

        def strike() -> None:
            if not struck.is_set():
                struck.set()
                rig.proxy.counts[number.name] += 1
                os.kill(scheduler.pid, number)

        creating = rig.start_task(self._create(rig), "burst")
        if rng.random() < 0.5:
            fault = Strike(strike, carried_out=rng.random() < 0.5)
            # Not always the first one of the round.
            skipped = iter(range(rng.randrange(len(self.burst))))
            moment = Rule(
                fault,
                verbs=self.verbs,
                resources=self.resources,
                times=1,
                only=lambda _: next(skipped, None) is None,
            )
            with rig.proxy.rule(moment), suppress(TimeoutError):
                async with asyncio.timeout(LATEST_SECONDS):
                    await struck.wait()
        else:
            await asyncio.sleep(rng.uniform(0.0, RANDOM_SECONDS))
        at = time.monotonic()
        strike()
        await scheduler.stop(number)
        await creating
        await rig.workload.one_more("plain")
        await scheduler.start()
        return at

    async def _create(self, rig: Rig) -> None:
        for kind in self.burst:
            await rig.workload.one_more(kind)

    async def tidy_up(self, rig: Rig) -> None:
        """Makes room for the next round."""
        await until(lambda: rig.hands.idle, "stand-ins are idle")


class KilledInBind(Kills):
    number = 20
    title = "SIGTERM and SIGKILL in turn during bind and at random, 50 rounds"
    burst = ("exact", "plain", "near", "exact", "spread", "plain", "apart", "exact")
    verbs = frozenset({"create"})
    resources = frozenset({"pods/binding"})


class KilledInPreemption(Kills):
    number = 21
    title = "the same during preemption, 50 rounds"
    burst = ("preempting", "preempting", "preempting", "preempting")
    resources = frozenset({"pods", "pods/status", "pods/eviction"})
    verbs = frozenset({"delete", "patch", "create"})

    async def tidy_up(self, rig: Rig) -> None:
        for name, one in list(rig.workload.arrived.items()):
            if one.kind == "preempting" and name not in rig.workload.gone:
                await rig.workload.refill(name)
        await super().tidy_up(rig)


class KilledInVolumeBinding(Kills):
    number = 22
    title = "the same during binding of volumes and devices, 50 rounds"
    burst = ("dynamic-volume", "device", "static-volume", "device", "dynamic-volume", "device")
    verbs = frozenset({"update", "patch", "create"})
    resources = frozenset(
        {
            "persistentvolumes",
            "persistentvolumeclaims",
            "resourceclaims",
            "resourceclaims/status",
            "pods/binding",
        }
    )


ROWS = (KilledInBind(), KilledInPreemption(), KilledInVolumeBinding())
