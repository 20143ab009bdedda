"""Row about clocks. libfaketime stands between a process and its clocks; Go asks the kernel itself,
so kube-scheduler cannot be shown another time without one for the whole machine.
"""

import asyncio
import os
import signal
from pathlib import Path

from tests.bench.contestants import OURS
from tests.faults.rig import Rig
from tests.faults.rows.leases import TAKEOVER_SECONDS, Leases, leader_of
from tests.faults.scheduler import Scheduler
from tests.faults.verdict import Outcome
from tests.kit.polling import until

LIBRARY_VARIABLE = "LIBFAKETIME"
LIBRARY = os.environ.get(LIBRARY_VARIABLE, "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
JUMPS = ("+3600", "-3600", "+0")
FAST = "+0 x1.1"


class Clocks(Leases):
    """The leader's wall clock jumps by an hour, forth and back; all clocks of its heir run fast,
    that for waiting times, too. Neither may cost the lease, or let two of them lead.
    """

    number = 19
    title = "clock of the leader put forward and back by an hour, that of its heir 10 % fast"
    schedulers = (OURS,)
    exits_expected = False

    def unavailable(self) -> str:
        if Path(LIBRARY).exists():
            return ""
        return f"it needs libfaketime, as Debian has it, or its path in {LIBRARY_VARIABLE}"

    def environment(self, rig: Rig, number: int) -> dict[str, str]:
        said = rig.folder / f"clock-{number}"
        said.write_text(f"{FAST if number else '+0'}\n")
        shared = {
            "LD_PRELOAD": LIBRARY,
            "FAKETIME_TIMESTAMP_FILE": str(said),
            "FAKETIME_CACHE_DURATION": "1",
        }
        # Whoever sets a clock does not set the one that tells how long something takes.
        return shared if number else shared | {"FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    async def disturb(self, rig: Rig, leader: Scheduler) -> None:
        for jump in JUMPS:
            (rig.folder / "clock-0").write_text(f"{jump}\n")
            rig.proxy.counts["clock set"] += 1
            await asyncio.sleep(TAKEOVER_SECONDS / 2)
            if leader_of(rig) is not leader:
                rig.notes["leaders that a clock has cost"] = 1
        # Gives the lease back; its heir leads.
        await leader.stop(signal.SIGTERM)
        await until(lambda: leader_of(rig) not in (None, leader), "the heir leads", seconds=60)
        await leader.start()
        await asyncio.sleep(TAKEOVER_SECONDS)

    async def judge(self, rig: Rig, outcome: Outcome, fault_ended: float) -> None:
        await super().judge(rig, outcome, fault_ended)
        if rig.notes.get("leaders that a clock has cost"):
            outcome.broken.append("a clock that was set has cost the lease")


ROWS = (Clocks(),)
