"""Garbage collection in short rounds.

CPython's collector goes through all objects of a generation in one piece, and with 200,000 pods a
round over everything takes half a second. Here objects are looked at while they are young and then
set aside (`gc.freeze`): a round is over at most some 200,000 objects, 0.15 s, whatever the size of
the cluster.

What was set aside still goes when nothing refers to it any more; only cycles among such objects
stay. Structs of the API cannot form cycles and are not even tracked, and pods that come, are tried,
bound and deleted leave none. But plugins from outside may, so when twice as many objects are set
aside as there were, one round looks at all of them again: one pause per doubling.
"""

from __future__ import annotations

import gc

# New objects until a round over them; such rounds until one over their survivors; those until one
# over everything that was not set aside.
THRESHOLDS = (20_000, 4, 1)
OLDEST = 2
# Full rounds between two counts of what is set aside: counting a million objects takes 5 ms.
COUNTED_EVERY = 16
# Fewer objects than this are not worth a second look.
FEWEST = 500_000


class _Aside:
    """The objects set aside, as far as they were counted."""

    def __init__(self) -> None:
        self.rounds = 0
        self.most = FEWEST
        self.looking_at_all = False

    def after_round(self, phase: str, info: dict[str, int]) -> None:
        if phase != "stop" or info["generation"] != OLDEST:
            return
        gc.freeze()
        self.rounds += 1
        if self.looking_at_all:
            self.counted()
        elif self.rounds % COUNTED_EVERY == 0 and gc.get_freeze_count() > self.most:
            # The next full round finds everything again.
            self.looking_at_all = True
            gc.unfreeze()

    def counted(self) -> None:
        self.looking_at_all = False
        self.most = max(FEWEST, 2 * gc.get_freeze_count())


_aside = _Aside()


def set_aside() -> None:
    """Collects and sets aside what is there now: modules and plugins, or the first sync's pods.

    From then on the survivors of every full round are set aside as well, until `look_again`.
    """
    gc.collect()
    gc.freeze()
    _aside.counted()
    gc.set_threshold(*THRESHOLDS)
    if _aside.after_round not in gc.callbacks:
        gc.callbacks.append(_aside.after_round)


def look_again() -> None:
    """Everything counts as new: what a scheduler held is garbage, cycles included."""
    if _aside.after_round in gc.callbacks:
        gc.callbacks.remove(_aside.after_round)
    gc.unfreeze()
