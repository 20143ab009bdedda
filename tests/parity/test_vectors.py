"""Every recorded decision of kube-scheduler, family by family."""

import pytest

from tests.parity import run


@pytest.mark.parametrize("path", sorted(run.VECTORS.glob("*.jsonl.gz")), ids=lambda p: p.name[:-9])
def test_every_recorded_decision_is_reproduced(path):
    family = run.replay_family(path)
    assert not family.mismatches, "\n".join(family.report())
    if family.missing:
        pytest.skip(next(family.report()))
