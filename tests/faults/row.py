"""A row of the matrix: one fault, while pods arrive; and how it is run.

    before the fault   pods arrive and are bound
    the fault          pods go on arriving
    afterwards         they arrive for a while longer; then all must come to rest

A row is a class with a number, a title and a `fault`. What most rows share (one replica, no leader
election, pods of all kinds) is the base's; a row overrides what it is about.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

from tests.bench.contestants import OURS, THEIRS
from tests.faults.rig import RATE, Rig
from tests.faults.verdict import Outcome, judge

LEAD_IN_SECONDS = 3.0
TAIL_SECONDS = 3.0
# The fault itself, in rows that do not say otherwise.
FAULT_SECONDS = 10.0


class Row(ABC):
    number: ClassVar[int]
    # As the table tells it.
    title: ClassVar[str]
    schedulers: ClassVar[tuple[str, ...]] = (THEIRS, OURS)
    # Whether events of watches are read on the way, for which kube-scheduler must not use protobuf.
    reads_events: ClassVar[bool] = False
    # Whether it needs a server that it may restart.
    restarts_server: ClassVar[bool] = False
    # Whether it mostly waits: such rows are run at the same time, on servers of their own.
    at_once: ClassVar[bool] = False
    # Whether schedulers may end by themselves, as those do that lose their lease.
    exits_expected: ClassVar[bool] = False
    # Pods per second.
    rate: ClassVar[float] = RATE
    # So long the backlog may take after the fault; then pods count as lost.
    patience_seconds: ClassVar[float] = 90.0
    # Fields of the configuration file.
    configured: ClassVar[Mapping[str, Any]] = {}

    def unavailable(self) -> str:
        """Why it cannot be run here; empty if it can."""
        return ""

    @abstractmethod
    async def fault(self, rig: Rig) -> None:
        """Lasts as long as the fault does."""

    async def start(self, rig: Rig) -> None:
        """The schedulers, and whatever else must be there before the first pod."""
        scheduler = await rig.add_scheduler(self.configured, speaks_json=self.reads_events)
        await scheduler.start()
        await scheduler.ready()
        await rig.warm_up()

    async def judge(self, rig: Rig, outcome: Outcome, fault_ended: float) -> None:
        """What all rows ask; a row may ask more."""
        outcome.exits_expected = self.exits_expected
        await judge(rig, outcome, fault_ended)

    async def run(self, rig: Rig, outcome: Outcome) -> None:
        await self.start(rig)
        began = time.monotonic()
        rig.start_task(rig.supervise(), "supervisor")
        arriving = rig.start_task(rig.workload.arrive(self.rate), "arrivals")
        # What begins then and lasts whole seconds ends between two arrivals, so that the same pods
        # have come to both schedulers.
        await rig.pause(LEAD_IN_SECONDS + 0.5 / self.rate)
        await self.fault(rig)
        fault_ended = time.monotonic()
        await rig.pause(TAIL_SECONDS)
        rig.workload.enough.set()
        await arriving
        # The verdict counts those that are not.
        with suppress(AssertionError):
            await rig.settled("all pods are bound", self.patience_seconds)
        await self.judge(rig, outcome, fault_ended)
        outcome.seconds = round(time.monotonic() - began, 1)
