"""Rows in which the API server is away, refuses, is slow, or does not say what it has done."""

import random

from tests.faults.request_faults import Delay, LostAnswer, RandomRefusal, Refusal, Rule
from tests.faults.rig import Rig
from tests.faults.row import FAULT_SECONDS, Row

SHARE = 0.3
OUTAGE_SECONDS = 300.0
LATENCY_SECONDS = 5.0
FAILURES = (500, 502, 503, 504)


class ShortOutage(Row):
    """Connections are reset, and new ones are refused; pods are created meanwhile."""

    number = 1
    title = "API server away for 10 s"

    async def fault(self, rig: Rig) -> None:
        rig.proxy.refuse()
        await rig.pause(FAULT_SECONDS)
        await rig.proxy.accept()


class LongOutage(Row):
    number = 2
    title = "API server away for 5 min"
    at_once = True
    rate = 2.0
    patience_seconds = 180.0

    async def fault(self, rig: Rig) -> None:
        rig.proxy.refuse()
        await rig.pause(OUTAGE_SECONDS)
        await rig.proxy.accept()


class TooManyRequests(Row):
    number = 3
    title = "30 % of requests answered with 429 and Retry-After: 1"

    async def fault(self, rig: Rig) -> None:
        with rig.proxy.rule(Rule(Refusal(429, retry_after=1), share=SHARE)):
            await rig.pause(FAULT_SECONDS)


class ServerErrors(Row):
    number = 4
    title = "30 % of requests answered with 500, 502, 503 or 504"

    async def fault(self, rig: Rig) -> None:
        refusal = RandomRefusal(FAILURES, random.Random(f"{rig.seed}/codes"))
        with rig.proxy.rule(Rule(refusal, share=SHARE)):
            await rig.pause(FAULT_SECONDS)


class Latency(Row):
    """It ends when the last request is answered that was slowed down."""

    number = 5
    title = "5 s latency on every request"
    patience_seconds = 120.0

    async def fault(self, rig: Rig) -> None:
        before = len(rig.workload.bound_at)
        with rig.proxy.rule(Rule(Delay(LATENCY_SECONDS * rig.scale))):
            await rig.pause(1.5 * FAULT_SECONDS)
        rig.notes["bound meanwhile"] = len(rig.workload.bound_at) - before
        await rig.pause(LATENCY_SECONDS)


class LostBindings(Row):
    """Half of the bindings: with all of them nothing would tell a lost answer from an outage."""

    number = 15
    title = "half of the bindings carried out, and the answer lost"

    async def fault(self, rig: Rig) -> None:
        lost = Rule(LostAnswer(), verbs={"create"}, resources={"pods/binding"}, share=0.5)
        with rig.proxy.rule(lost):
            await rig.pause(FAULT_SECONDS)


ROWS = (
    ShortOutage(),
    LongOutage(),
    TooManyRequests(),
    ServerErrors(),
    Latency(),
    LostBindings(),
)
