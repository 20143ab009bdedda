"""What has been deleted is not remembered: memory after many rounds is what it was after a few."""

import gc
import tracemalloc

import pytest

from tests.adversary.inputs import ROWS, Ask
from tests.adversary.rig import Rig

WARM_UP = 4
ROUNDS = 20
# By row, so large that 20 rounds would leave 5 MB or more behind if each left its objects.
SIZES = {
    "extended-resources-zero": 500,
    "extended-resources-missing": 500,
    "running-extended-resources": 1500,
    "annotations": 2,
    "annotation-keys": 3000,
    "tolerations": 2000,
    "labels": 3000,
    "owner-references": 2000,
    "node-affinity-preferred": 400,
    "anti-affinity-terms": 300,
}
# For what is measured along: a table of the interpreter's that has grown, say.
MOST_KEPT = 1 << 20


@pytest.mark.parametrize("name", SIZES)
def test_objects_that_come_and_go_leave_nothing_behind(name):
    rig = Rig(nodes=20)
    tracemalloc.start(1)
    try:
        for number in range(WARM_UP):
            come_and_go(rig, name, f"warm{number:02d}")
        rig.age_caches()
        before = traced()
        for number in range(ROUNDS):
            come_and_go(rig, name, f"late{number:02d}")
        # Caches are limited meanwhile, and forget within half a minute.
        limit = sum(cache.max_bytes for cache in rig.scheduler.caches())
        assert traced() - before < limit
        rig.age_caches()
        assert traced() - before < MOST_KEPT
    finally:
        tracemalloc.stop()
        rig.close()


def come_and_go(rig: Rig, name: str, tag: str) -> None:
    scene = ROWS[name].build(Ask(SIZES[name], tag, rig.nodes))
    rig.come(scene.before, scene.pods)
    rig.go([*scene.before, *scene.pods])
    # A pod that waited may still be in memory as the last one that was decided about.
    item = rig.innocent(f"i-{tag}")
    rig.come([], [item])
    rig.go([item])


def traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
