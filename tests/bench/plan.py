"""What is measured, in which order, and how long that will take."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.bench import workloads
from tests.bench.contestants import FLOOR, OURS, STOCK, THEIRS
from tests.bench.results import BACKLOG, STEADY, STOCK_LIMITS, Case, Entry
from tests.bench.scenarios import SCENARIOS, Size
from tests.bench.summary import Target

PODS = 3000
STEADY_PODS = 2000
STOCK_PODS = 600
SIZES = (100, 1000, 5000)
LARGEST = 15000
PREEMPTION = ("preemption-basic", "preemption-async")
VOLUMES = ("secrets", "in-tree-pvs", "csi-pvs")
ANY_SIZE = tuple(name for name in SCENARIOS if name not in (*PREEMPTION, *VOLUMES))
PLAIN = "plain"
HALF = "half"

TARGETS: dict[str, tuple[Target, ...]] = {
    "pods": (
        Target(PLAIN, 5000, 2.0),
        Target("affinity", 5000, 5.0),
        *(
            Target(name, 5000, 3.5)
            for name in ("node-affinity", "anti-affinity", "hard-spread", workloads.MIXED)
        ),
        *(
            Target(name, 5000, 3.0)
            for name in ("preferred-affinity", "preferred-anti-affinity", "soft-spread")
        ),
        Target(PLAIN, 100, 1.6),
        Target(PLAIN, 1000, 1.8),
        Target(PLAIN, LARGEST, 2.5),
    ),
    "preemption": tuple(Target(name, nodes, 2.0) for name in PREEMPTION for nodes in (1000, 5000)),
    "volumes": tuple(Target(name, 5000, 2.0) for name in VOLUMES),
}


# Where memory and CPU are compared, too.
WEIGHED = tuple(target for target in TARGETS["pods"] if target.nodes == 5000)


@dataclass(frozen=True)
class Batch:
    """Measurements from one image."""

    case: Case
    entries: tuple[Entry, ...]

    @property
    def image_size(self) -> Size:
        """In steady mode pods come later."""
        return Size(self.case.nodes, 0 if self.case.mode == STEADY else self.case.pods)


def case(scenario: str, nodes: int, pods: int, mode: str = BACKLOG, rate: str = "") -> Case:
    size = SCENARIOS[scenario].at_most(Size(nodes, pods))
    return Case(scenario, size.nodes, size.pods, mode, rate)


def batch(of: Case, rounds: int) -> Batch:
    """In turn, and each round begins with the one that was last; the floor where it is wanted."""
    order: list[Entry] = []
    for number in range(1, rounds + 1):
        pair = (THEIRS, OURS) if number % 2 else (OURS, THEIRS)
        floor = (FLOOR,) if of.scenario == PLAIN and of.mode == BACKLOG else ()
        order.extend(Entry(of, who, number) for who in (*pair, *floor))
    return Batch(of, tuple(order))


def everything(pods: int) -> Iterator[Case]:
    for scenario in ANY_SIZE:
        for nodes in SIZES:
            yield case(scenario, nodes, pods)
    yield case(PLAIN, LARGEST, pods)
    for target in (*TARGETS["preemption"], *TARGETS["volumes"]):
        yield case(target.scenario, target.nodes, pods)
    yield stock()
    yield from steady_state(("100", HALF), (PLAIN, workloads.MIXED), 5000, pods)


def of_targets(targets: Iterable[Target], pods: int) -> Iterator[Case]:
    for target in targets:
        yield case(target.scenario, target.nodes, pods)


def stock() -> Case:
    return case(PLAIN, 5000, STOCK_PODS, STOCK_LIMITS)


def steady_state(
    rates: Sequence[str], scenarios: Sequence[str], nodes: int, pods: int
) -> Iterator[Case]:
    for scenario in scenarios:
        for rate in rates:
            yield case(scenario, nodes, min(pods, STEADY_PODS), STEADY, rate)


# Seconds on two cores, roughly; only their proportions matter once something was measured.
START_SECONDS = 8.0
START_SECONDS_PER_NODE = 0.0005
OBJECTS_PER_SECOND = 1200.0
PODS_PER_SECOND = {THEIRS: 150.0, OURS: 700.0, FLOOR: 1200.0}
SLOW_FOR_THEM = {"affinity": 80.0, PLAIN: 320.0, **dict.fromkeys(PREEMPTION, 60.0)}


def seconds_to_fill(of: Batch) -> float:
    size = of.image_size
    per_node = 5 if of.case.scenario in PREEMPTION else 1
    return START_SECONDS + (size.nodes * per_node + size.pods) / OBJECTS_PER_SECOND


def seconds_to_measure(entry: Entry) -> float:
    of = entry.case
    rate = PODS_PER_SECOND[entry.who]
    if entry.who == THEIRS:
        rate = SLOW_FOR_THEM.get(of.scenario, rate)
    if of.mode == STOCK_LIMITS:
        rate = STOCK.qps
    if of.mode == STEADY:
        rate = 100.0
    return START_SECONDS + START_SECONDS_PER_NODE * of.nodes + of.pods / rate
