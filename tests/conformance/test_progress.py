"""Lines about specs as they end, from a log that grows."""

import pytest

from tests.conformance.progress import Progress, plain

RULE = "-" * 30
LOG = f"""Random Seed: 1 - will randomize all specs

Will run 3 of 3206 specs
{RULE}
[SynchronizedBeforeSuite]
/go/e2e.go:69
[SynchronizedBeforeSuite] PASSED [0.023 seconds]
{RULE}
SSSSSSS
{RULE}
[sig-scheduling] Preemption works [Conformance] [Serial] [sig-scheduling, Serial, Conformance]
/go/preemption.go:541
  STEP: Creating a kubernetes client
• [4.069 seconds]
{RULE}
S
{RULE}
[sig-node] [DRA] control plane supports reusing resources [sig-node, DRA]
/go/dra.go:1482
• [FAILED] [312.001 seconds]
[sig-node] [DRA] control plane [It] supports reusing resources
{RULE}
[sig-scheduling] Multi-AZ Clusters should spread [sig-scheduling]
/go/ubernetes_lite.go:72
S [SKIPPED] [0.012 seconds]
{RULE}
""".encode()
TOLD = [
    "1 of 3, passed in 4 s: Preemption works",
    "2 of 3, failed in 312 s: control plane supports reusing resources",
    "3 of 3, skipped in 0 s: Multi-AZ Clusters should spread",
]


# 1 splits every line, and every character that takes several bytes.
@pytest.mark.parametrize("step", [1, 50, len(LOG)])
def test_each_spec_is_told_once_however_the_log_grows(tmp_path, step):
    path = tmp_path / "e2e.log"
    path.touch()
    progress = Progress(path)
    told = []
    for start in range(0, len(LOG), step):
        with path.open("ab") as log:
            log.write(LOG[start : start + step])
        told += progress.news()
    assert told == TOLD
    assert [*progress.news()] == []


def test_a_plain_name_has_no_labels():
    assert plain("[sig-node] [DRA] control plane works [FeatureGate:X] [Beta]") == (
        "control plane works"
    )
