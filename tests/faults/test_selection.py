"""Rows of the matrix with kscheduler on the embedded API server, shortened.

    FAULTS_SEED=7 pytest tests/faults/test_selection.py -k 'row-9'

Another seed each day would make a test that fails by chance; this one is in the name of each test,
and `make faults` tries others.
"""

import os

import pytest

from tests.bench.contestants import OURS
from tests.faults.rig import Rig
from tests.faults.rows import ROWS, SELECTION
from tests.faults.verdict import Outcome

SEED = int(os.environ.get("FAULTS_SEED", "1"))
SCALE = 0.3


@pytest.mark.parametrize("number", SELECTION, ids=lambda number: f"row-{number}-seed-{SEED}")
async def test_nothing_is_lost_or_bound_twice(sandbox, tmp_path, number):
    row = ROWS[number]
    outcome = Outcome(number, OURS, 0, SEED, scale=SCALE)
    async with Rig(sandbox, tmp_path / "rig", OURS, SEED, scale=SCALE) as rig:
        try:
            await row.run(rig, outcome)
        finally:
            await rig.workload.clear()
    assert outcome.problems == []
