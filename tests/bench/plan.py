"""What is measured, in which order, and how long that will take."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.bench import device_scenarios, workloads
from tests.bench.contestants import ALTERNATING, FLOOR, OURS, STOCK, THEIRS
from tests.bench.measurement import TURNOVER_SECONDS
from tests.bench.results import BACKLOG, STEADY, STOCK_LIMITS, TURNOVER, Case, Entry
from tests.bench.scenario import Size
from tests.bench.scenarios import SCENARIOS
from tests.bench.summary import AS_FAST_AS_CAN_BE, FLOORS, Target, Weighed
from tests.bench.workloads import PLAIN

STEADY_PODS = 2000
STOCK_PODS = 600
# Single blocks differ by more than keeping decisions costs: the median of some dozens does not.
DECISION_PODS = 50_000
SIZES = (100, 1000, 5000)
LARGEST = 15000
PREEMPTION = ("preemption-basic", "preemption-async")
VOLUMES = ("secrets", "in-tree-pvs", "csi-pvs")
DEVICES = tuple(device_scenarios.SCENARIOS)
ANY_SIZE = tuple(name for name in SCENARIOS if name not in (*PREEMPTION, *VOLUMES, *DEVICES))
MANY_DEVICES = "gpus"
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
    "devices": (
        *(
            Target(name, 500, 3.0 if name in ("backtracking", "shared-claims") else 5.0)
            for name in DEVICES
            if name != MANY_DEVICES
        ),
        Target(MANY_DEVICES, 5000, 10.0),
    ),
}

# Where memory and CPU are compared, too.
WEIGHED = (
    Weighed("", tuple(one for one in TARGETS["pods"] if one.nodes == 5000), most_cpu=0.4),
    Weighed(" with devices", TARGETS["devices"], most_cpu=0.2),
)


@dataclass(frozen=True)
class Batch:
    """Measurements from one image."""

    case: Case
    entries: tuple[Entry, ...]

    @property
    def image_size(self) -> Size:
        """In steady mode pods come later."""
        return Size(self.case.nodes, 0 if self.case.mode == STEADY else self.case.pods)


def case(
    name: str, nodes: int, pods: int | None = None, mode: str = BACKLOG, rate: str = ""
) -> Case:
    """With so many pods, or as many as are usual, if they find a place."""
    scenario = SCENARIOS[name]
    size = scenario.at_most(Size(nodes, pods or scenario.usual_pods))
    if scenario.turnover:
        mode = TURNOVER
    return Case(name, size.nodes, size.pods, mode, rate)


def batch(of: Case, rounds: int) -> Batch:
    """Both schedulers in turn, and each round begins with the one that was last; the floor where it
    is wanted.
    """
    order: list[Entry] = []
    with_floor = of.scenario in FLOORS.values() and of.mode in AS_FAST_AS_CAN_BE
    floor = (FLOOR,) if with_floor else ()
    for number in range(1, rounds + 1):
        pair = (THEIRS, OURS) if number % 2 else (OURS, THEIRS)
        order.extend(Entry(of, who, number) for who in (*pair, *floor))
    return Batch(of, tuple(order))


def decisions_batch(of: Case, rounds: int) -> Batch:
    """Ours alone, which does it with and without keeping decisions in one process."""
    return Batch(of, tuple(Entry(of, ALTERNATING, number) for number in range(1, rounds + 1)))


def everything(pods: int | None) -> Iterator[Case]:
    for scenario in ANY_SIZE:
        for nodes in SIZES:
            yield case(scenario, nodes, pods)
    yield case(PLAIN, LARGEST, pods)
    for target in (*TARGETS["preemption"], *TARGETS["volumes"], *TARGETS["devices"]):
        yield case(target.scenario, target.nodes, pods)
    yield stock()
    yield from steady_state(("100", HALF), (PLAIN, workloads.MIXED), 5000, pods)


def of_targets(targets: Iterable[Target], pods: int | None) -> Iterator[Case]:
    for target in targets:
        yield case(target.scenario, target.nodes, pods)


def stock() -> Case:
    return case(PLAIN, 5000, STOCK_PODS, STOCK_LIMITS)


def steady_state(
    rates: Sequence[str], scenarios: Sequence[str], nodes: int, pods: int | None
) -> Iterator[Case]:
    for scenario in scenarios:
        for rate in rates:
            yield case(scenario, nodes, min(pods or STEADY_PODS, STEADY_PODS), STEADY, rate)


# Seconds on two cores, roughly; only their proportions matter once something was measured.
START_SECONDS = 8.0
START_SECONDS_PER_NODE = 0.0005
OBJECTS_PER_SECOND = 1200.0
PODS_PER_SECOND = {THEIRS: 150.0, OURS: 700.0, ALTERNATING: 700.0, FLOOR: 1200.0}
DEVICES_PER_SECOND = {THEIRS: 60.0, OURS: 250.0, ALTERNATING: 250.0, FLOOR: 250.0}
SLOW_FOR_THEM = {"affinity": 80.0, PLAIN: 320.0, **dict.fromkeys(PREEMPTION, 60.0)}


def seconds_to_fill(of: Batch) -> float:
    size = of.image_size
    per_node = 5 if of.case.scenario in PREEMPTION else 1
    per_pod = 1
    if of.case.scenario in DEVICES:
        # Slices and claims that are allocated; claims, and their names in pods.
        per_node, per_pod = 8, 3
    return START_SECONDS + (size.nodes * per_node + size.pods * per_pod) / OBJECTS_PER_SECOND


def seconds_to_measure(entry: Entry) -> float:
    of = entry.case
    rate = (DEVICES_PER_SECOND if of.scenario in DEVICES else PODS_PER_SECOND)[entry.who]
    if entry.who == THEIRS:
        rate = SLOW_FOR_THEM.get(of.scenario, rate)
    if of.mode == STOCK_LIMITS:
        rate = STOCK.qps
    if of.mode == STEADY:
        rate = 100.0
    if of.mode == TURNOVER:
        return START_SECONDS + TURNOVER_SECONDS
    return START_SECONDS + START_SECONDS_PER_NODE * of.nodes + of.pods / rate
