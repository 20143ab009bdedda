"""kscheduler, keeping every other block of its decisions, and what each block took.

    python -m tests.bench.alternating FILE [FLAGS OF KSCHEDULER]

Two processes that do the same differ by more than keeping decisions costs. So one process does both
in turn, a few hundred pods at a time, and each block is held against its neighbours. A line of
FILE is a block.

    settling             measured                        settling        ...
    pods of the block    CPU of the process and time     bindings of this block end in the
    before are bound                                     next one
"""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from kscheduler.app import scheduler
from kscheduler.cycle.attempt import Attempt, Outcome
from kscheduler.cycle.failure import Failure
from kscheduler.decisions.decision_log import DecisionLog

# Pods of a block; bindings of as many as settle may be under way.
SETTLING_PODS, MEASURED_PODS = 100, 300
BLOCK_PODS = SETTLING_PODS + MEASURED_PODS
# Caches are still being filled in the first ones.
WARM_UP_BLOCKS = 2


class Block(msgspec.Struct):
    kept: bool
    # Of the pods that are measured.
    cpu_seconds: float
    seconds: float


class KeepingCost(NamedTuple):
    """What keeping decisions adds: CPU in ms per pod, and time as a share."""

    cpu_ms: float
    seconds: float


class AlternatingLog(DecisionLog):
    """Keeps the decisions of every other block."""

    def __init__(self, max_bytes: int, blocks: Path) -> None:
        super().__init__(max_bytes)
        self._blocks = blocks
        self._keeping = False
        self._decided = 0
        self._began = (0.0, 0.0)

    def decided(self, attempt: Attempt, outcome: Outcome, now: float) -> None:
        position = self._decided % BLOCK_PODS
        if position == SETTLING_PODS:
            self._began = time.process_time(), time.monotonic()
        elif position == 0 and self._decided:
            self._end_block()
        self._decided += 1
        if self._keeping:
            super().decided(attempt, outcome, now)

    def ended(self, attempt: Attempt, failure: Failure | None, now: float) -> None:
        if attempt.record is not None:
            super().ended(attempt, failure, now)

    def _end_block(self) -> None:
        # Those that are still to be entered belong to the block.
        self._enter_bound()
        cpu, clock = self._began
        block = Block(self._keeping, time.process_time() - cpu, time.monotonic() - clock)
        with self._blocks.open("ab") as file:
            file.write(msgspec.json.encode(block) + b"\n")
        self._keeping = not self._keeping


def keeping_cost(blocks: Sequence[Block]) -> KeepingCost | None:
    """Each block with kept decisions beside the mean of the two around it; the medians."""
    warm = blocks[WARM_UP_BLOCKS:]
    cpu, seconds = [], []
    for before, kept, after in zip(warm, warm[1:], warm[2:], strict=False):
        if kept.kept:
            cpu.append(kept.cpu_seconds - (before.cpu_seconds + after.cpu_seconds) / 2)
            seconds.append(2 * kept.seconds / (before.seconds + after.seconds) - 1)
    if not cpu:
        return None
    return KeepingCost(1000 * median(cpu) / MEASURED_PODS, median(seconds))


def blocks_of(path: Path) -> Iterator[Block]:
    for line in path.read_bytes().splitlines() if path.exists() else ():
        yield msgspec.json.decode(line, type=Block)


def main() -> None:
    from kscheduler.cli import main as kscheduler

    blocks = Path(sys.argv.pop(1))
    scheduler.DecisionLog = lambda size: AlternatingLog(size, blocks)  # type: ignore[assignment,misc]
    kscheduler()


if __name__ == "__main__":
    main()
