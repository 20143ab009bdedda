"""Work that a hostile input causes, by its size.

Counted at three sizes: next to nothing, n and 2n. What is there at next to nothing is taken off
from both, so that a fixed cost does not hide how the rest grows: growth by 2 is linear, by 4
quadratic.
"""

from typing import NamedTuple

from tests.adversary.inputs import Ask, Hostile
from tests.adversary.rig import Rig
from tests.adversary.work import Work

NEXT_TO_NOTHING = 2
# More by less than this share of the fixed cost is taken for no growth.
NOISE = 0.1
LINEAR = 2.5
FLAT = 1.3


class TroubleError(AssertionError):
    """Something was logged, or not done, that no input may bring about."""


class Costs(NamedTuple):
    """Of one input at one size."""

    # From the first object to the last decision, and until all is gone again.
    coming: Work
    going: Work
    # For the decision about a plain pod while the hostile objects are there.
    innocent: Work
    # For what is told about that pod then: everyone who waits is asked whether it helps.
    news: Work
    # For the decision about a plain pod when all is gone.
    afterwards: Work


class Measured(NamedTuple):
    row: Hostile
    least: Costs
    small: Costs
    large: Costs

    def growth(self, part: str) -> float:
        """How many times the work at 2n is that at n, both without the fixed cost."""
        n = self.row.small
        scale = 2 * (n - NEXT_TO_NOTHING) / (2 * n - NEXT_TO_NOTHING)
        counts = zip(*(getattr(costs, part) for costs in self[1:]), strict=True)
        return max(
            scale * (large - least) / max(small - least, NOISE * least)
            for least, small, large in counts
        )

    def increase(self, part: str) -> float:
        """How many times the work at 2n is that at next to nothing."""
        least, large = getattr(self.least, part), getattr(self.large, part)
        return large.ratio(least)

    def problems(self) -> list[str]:
        """The input itself may cost in proportion to its size. An innocent pod may not, unless the
        row says that it has to; and when all is gone, nobody may.
        """
        parts = ["coming", "going", "news"]
        flat = ["afterwards"]
        (parts if self.row.innocent_pays else flat).append("innocent")
        wrong = [part for part in flat if self.increase(part) >= FLAT]
        wrong += [
            part for part in parts if self.increase(part) >= FLAT and self.growth(part) >= LINEAR
        ]
        return [self.told(part) for part in wrong]

    def told(self, part: str) -> str:
        counts = ", ".join(f"{at} {getattr(getattr(self, at), part)}" for at in self._fields[1:])
        return (
            f"{part} of {self.row.name}: {self.growth(part):.2f} times from n to 2n, "
            f"{self.increase(part):.2f} times from next to nothing; {counts}"
        )


def measure(row: Hostile) -> Measured:
    sizes = {"a": NEXT_TO_NOTHING, "b": row.small, "c": 2 * row.small}
    return Measured(row, *(costs(row, size, 5 * letter) for letter, size in sizes.items()))


def costs(row: Hostile, size: int, tag: str) -> Costs:
    rig = Rig()
    try:
        # What is made once per process, or on first use, is not a matter of size.
        warm = row.build(Ask(NEXT_TO_NOTHING, f"w{tag[1:]}", rig.nodes))
        rig.come(warm.before, warm.pods, held_back=row.held_back)
        _innocent(rig, "warm")
        rig.go([*warm.before, *warm.pods])
        # Nothing that an input of another size, or another row, has left behind may help.
        rig.age_caches()
        scene = row.build(Ask(size, tag, rig.nodes))
        coming = rig.count(lambda: rig.come(scene.before, scene.pods, held_back=row.held_back))
        innocent, news = _innocent(rig, "first")
        # What runs goes first, so that those who wait are asked whether that helps them.
        going = rig.count(lambda: rig.go([*scene.before, *scene.pods]))
        afterwards, _ = _innocent(rig, "second")
        if rig.trouble:
            raise TroubleError(rig.trouble[0])
        return Costs(coming, going, innocent, news, afterwards)
    finally:
        rig.close()


def _innocent(rig: Rig, name: str) -> tuple[Work, Work]:
    """A plain pod's decision, and what follows from it until the pod is gone."""
    item = rig.innocent(name)
    arrival = rig.count(lambda: rig.put(item))
    queued = rig.popped(name)
    decision = rig.count(lambda: rig.attempt(queued))
    if not rig.node_of(item):
        raise TroubleError(f"the innocent pod {name} was not bound")

    def news() -> None:
        rig.confirm()
        rig.delete(item)

    both = Work(arrival.lines + decision.lines, arrival.bytes + decision.bytes)
    return both, rig.count(news)
