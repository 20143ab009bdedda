"""Garbage collection in short rounds.

CPython's collector goes through all objects of a generation in one piece, and with 200,000 pods a
round over everything takes half a second. Here objects are looked at while they are young and then
set aside for good (`gc.freeze`): a round is over at most some 200,000 objects, 0.15 s, whatever the
size of the cluster.

What was set aside still goes when nothing refers to it any more; only cycles among such objects
would stay. Structs of the API cannot form cycles and are not even tracked, and pods that come, are
tried, bound and deleted leave none.
"""

from __future__ import annotations

import gc

# New objects until a round over them; such rounds until one over their survivors; those until one
# over everything that was not set aside.
THRESHOLDS = (20_000, 4, 1)
OLDEST = 2


def set_aside() -> None:
    """Collects and sets aside what is there now: modules and plugins, or the first sync's pods.

    From then on the survivors of every full round are set aside as well, until `look_again`.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    if _after_round not in gc.callbacks:
        gc.callbacks.append(_after_round)


def look_again() -> None:
    """Everything counts as new: what a scheduler held is garbage, cycles included."""
    if _after_round in gc.callbacks:
        gc.callbacks.remove(_after_round)
    gc.unfreeze()


def _after_round(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == OLDEST:
        gc.freeze()
