"""Many measurements of one case made one: medians, ratios, and whether they suffice."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import msgspec

from tests.bench.contestants import FLOOR, OURS, STOCK, THEIRS
from tests.bench.device_scenarios import SCENARIOS as WITH_DEVICES
from tests.bench.results import BACKLOG, STOCK_LIMITS, TURNOVER, Case, Figures, Measured
from tests.bench.workloads import PLAIN

# Whoever gets that much of what a server can bind at all need not be any better.
ENOUGH_OF_FLOOR = 0.55
MOST_MEMORY = 1.0
# Modes in which pods per second are what a scheduler gets through.
AS_FAST_AS_CAN_BE = (BACKLOG, TURNOVER)
# Shapes with devices, and the shape with the same writes that is measured without a scheduler, too.
# For all others that is plain pods.
FLOORS = {
    PLAIN: PLAIN,
    **{
        name: "claims-empty" if one.turnover else "extended-25" if "extended" in name else name
        for name, one in WITH_DEVICES.items()
    },
}
# What two runs at the same limits may differ by.
SAME = 0.05

REACHED, NEAR_FLOOR, MISSED, UNKNOWN = "reached", "near the floor", "missed", "not measured"


@dataclass(frozen=True)
class Standing:
    """Medians of a case, by contestant."""

    case: Case
    medians: dict[str, Figures]

    @property
    def complete(self) -> bool:
        """Whether both schedulers were measured."""
        return {OURS, THEIRS} <= self.medians.keys()

    def ratio(self, figure: str, to: str = THEIRS) -> float | None:
        """Ours to theirs, or to another's."""
        if not {OURS, to} <= self.medians.keys():
            return None
        theirs: float = getattr(self.medians[to], figure)
        ours: float = getattr(self.medians[OURS], figure)
        return ours / theirs if theirs else None


def standings(measured: Iterable[Measured]) -> list[Standing]:
    """One per case, in the order of their first measurement."""
    by_case: dict[Case, dict[str, list[Figures]]] = defaultdict(lambda: defaultdict(list))
    for line in measured:
        by_case[line.entry.case][line.entry.who].append(line.figures)
    return [
        Standing(case, {who: medians(figures) for who, figures in by_who.items()})
        for case, by_who in by_case.items()
    ]


def medians(figures: Sequence[Figures]) -> Figures:
    """Each figure on its own."""
    names = msgspec.structs.fields(Figures)
    return Figures(
        **{one.name: median(getattr(each, one.name) for each in figures) for one in names}
    )


def floor_rate(found: Iterable[Standing], scenario: str, nodes: int) -> float | None:
    """What a client that only binds gets through at that size: plain pods, or those with devices,
    which need more writes.
    """
    like = FLOORS.get(scenario, PLAIN), nodes
    rates = [
        one.medians[FLOOR].pods_per_second
        for one in found
        if (one.case.scenario, one.case.nodes) == like
        and one.case.mode in AS_FAST_AS_CAN_BE
        and FLOOR in one.medians
    ]
    return max(rates, default=None)


def slower_rate(found: Iterable[Standing], case: Case) -> float | None:
    """Pods per second that both schedulers got through, of a backlog on such a cluster."""
    same = (case.scenario, case.nodes, BACKLOG)
    for one in found:
        if (one.case.scenario, one.case.nodes, one.case.mode) == same and one.complete:
            return min(one.medians[who].pods_per_second for who in (OURS, THEIRS))
    return None


class Target(NamedTuple):
    scenario: str
    nodes: int
    ratio: float


class Weighed(NamedTuple):
    """Targets whose cases are compared by memory and CPU, too."""

    of: str
    targets: tuple[Target, ...]
    most_cpu: float


class Verdict(NamedTuple):
    what: str
    wanted: str
    got: str
    verdict: str


def judge_target(target: Target, found: Sequence[Standing]) -> Verdict:
    what = f"{target.scenario}, {target.nodes:,} nodes"
    wanted = f"≥ {target.ratio:.1f} times"
    standing = next((one for one in found if _is(one.case, target)), None)
    ratio = standing.ratio("pods_per_second") if standing else None
    if standing is None or ratio is None:
        return Verdict(what, wanted, "", UNKNOWN)
    floor = floor_rate(found, target.scenario, target.nodes)
    share = standing.medians[OURS].pods_per_second / floor if floor else None
    got = f"{ratio:.2f}" + (f" ({share:.2f} of the floor)" if share else "")
    if ratio >= target.ratio:
        return Verdict(what, wanted, got, REACHED)
    enough = share is not None and share >= ENOUGH_OF_FLOOR
    return Verdict(what, wanted, got, NEAR_FLOOR if enough else MISSED)


def _is(case: Case, target: Target) -> bool:
    return case.mode in AS_FAST_AS_CAN_BE and (case.scenario, case.nodes) == target[:2]


def judge_most(what: str, figure: str, most: float, found: Iterable[Standing]) -> Verdict:
    """The worst of all cases decides."""
    ratios = {
        f"{one.case.scenario}, {one.case.nodes:,} nodes": ratio
        for one in found
        if one.case.mode in AS_FAST_AS_CAN_BE and (ratio := one.ratio(figure)) is not None
    }
    wanted = f"≤ {most:.1f} times"
    if not ratios:
        return Verdict(what, wanted, "", UNKNOWN)
    worst = max(ratios, key=ratios.__getitem__)
    verdict = REACHED if ratios[worst] <= most else MISSED
    return Verdict(what, wanted, f"{ratios[worst]:.2f} at most ({worst})", verdict)


def judge_stock(found: Iterable[Standing]) -> Verdict:
    what, wanted = "pods per second at stock limits", "the same"
    for one in found:
        ratio = one.ratio("pods_per_second")
        if one.case.mode == STOCK_LIMITS and ratio is not None:
            rates = [f"{one.medians[who].pods_per_second:.1f}" for who in (OURS, THEIRS)]
            same = abs(ratio - 1) <= SAME
            return Verdict(what, wanted, " and ".join(rates), REACHED if same else MISSED)
    return Verdict(what, f"{wanted}, {STOCK.qps} and {STOCK.burst}", "", UNKNOWN)


def judge_all(
    targets: Iterable[Target], weighed: Iterable[Weighed], found: Sequence[Standing]
) -> list[Verdict]:
    """Throughput target by target; memory and CPU over all cases that are weighed together."""
    targets = list(targets)
    verdicts = [judge_target(target, found) for target in targets]
    for some in weighed:
        if not set(some.targets) & set(targets):
            continue
        cases = [one for one in found if any(_is(one.case, target) for target in some.targets)]
        verdicts += [
            judge_most(f"peak memory{some.of}", "peak_megabytes", MOST_MEMORY, cases),
            judge_most(f"CPU per pod{some.of}", "scheduler_cpu_ms", some.most_cpu, cases),
        ]
    return [*verdicts, judge_stock(found)]
