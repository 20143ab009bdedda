import pytest

from kscheduler.decisions.decision_log import DecisionLog
from tests.bench.alternating import (
    BLOCK_PODS,
    MEASURED_PODS,
    WARM_UP_BLOCKS,
    AlternatingLog,
    Block,
    blocks_of,
    keeping_cost,
)


def test_a_block_is_held_against_its_neighbours():
    warm_up = [Block(number % 2 == 1, 9.0, 9.0) for number in range(WARM_UP_BLOCKS)]
    # A machine that becomes slower all the time; keeping costs half a millisecond of CPU per pod.
    extra = 0.0005 * MEASURED_PODS
    drifting = [
        Block(kept := number % 2 == 1, 1 + number + (extra if kept else 0.0), 2.0 + number)
        for number in range(11)
    ]
    cost = keeping_cost([*warm_up, *drifting])
    assert cost is not None
    assert cost.cpu_ms == pytest.approx(0.5)
    assert cost.seconds == pytest.approx(0.0)


def test_too_few_blocks_say_nothing():
    assert keeping_cost([Block(False, 1.0, 1.0), Block(True, 1.0, 1.0)]) is None


def test_every_other_block_is_kept(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(DecisionLog, "decided", lambda log, *_: seen.append(log))
    log = AlternatingLog(1 << 20, tmp_path / "blocks")
    kept = []
    for _ in range(4 * BLOCK_PODS + 1):
        before = len(seen)
        log.decided(None, None, 0.0)
        kept.append(len(seen) > before)
    assert [block.kept for block in blocks_of(tmp_path / "blocks")] == [False, True, False, True]
    assert kept[: 2 * BLOCK_PODS] == [False] * BLOCK_PODS + [True] * BLOCK_PODS
