import pytest

from tests.bench.contestants import FLOOR, OURS, THEIRS
from tests.bench.measurement import percentile
from tests.bench.plan import TARGETS, WEIGHED
from tests.bench.results import BACKLOG, STEADY, STOCK_LIMITS, Case
from tests.bench.sample import measured
from tests.bench.summary import (
    MISSED,
    NEAR_FLOOR,
    REACHED,
    UNKNOWN,
    Target,
    Verdict,
    floor_rate,
    judge_all,
    judge_most,
    judge_stock,
    judge_target,
    slower_rate,
    standings,
)


@pytest.mark.parametrize(
    ("values", "share", "want"),
    [
        pytest.param([7.0], 0.99, 7.0, id="one value"),
        pytest.param([1.0, 2.0, 3.0], 0.5, 2.0, id="the middle one"),
        pytest.param([1.0, 2.0], 0.5, 1.5, id="between two"),
        pytest.param([float(n) for n in range(101)], 0.99, 99.0, id="one in a hundred above"),
        pytest.param([0.0, 10.0], 0.9, 9.0, id="in proportion"),
    ],
)
def test_percentiles(values, share, want):
    assert percentile(values, share) == pytest.approx(want)


def test_medians_are_of_each_figure_and_ratios_of_medians():
    lines = [
        *(measured(THEIRS, rate, cpu=cpu) for rate, cpu in ((100, 4.0), (300, 2.0), (200, 9.0))),
        *(measured(OURS, rate, cpu=1.0) for rate in (600, 100, 500)),
    ]
    (standing,) = standings(lines)
    assert standing.medians[THEIRS].pods_per_second == 200
    assert standing.ratio("pods_per_second") == pytest.approx(2.5)
    assert standing.ratio("scheduler_cpu_ms") == pytest.approx(0.25)


def test_there_is_no_ratio_of_one():
    (standing,) = standings([measured(OURS)])
    assert standing.ratio("pods_per_second") is None


@pytest.mark.parametrize(
    ("ours", "floor", "want"),
    [
        pytest.param(200, 1000, REACHED, id="fast enough, far from the floor"),
        pytest.param(199, 1000, MISSED, id="neither"),
        pytest.param(199, 360, NEAR_FLOOR, id="too slow for the ratio, but near the floor"),
        pytest.param(199, 362, MISSED, id="just below the share of the floor"),
        pytest.param(199, None, MISSED, id="floor unknown"),
        pytest.param(None, 1000, UNKNOWN, id="not measured"),
    ],
)
def test_a_target_is_reached_by_ratio_or_by_nearness_to_the_floor(ours, floor, want):
    rates = {THEIRS: 100, OURS: ours, FLOOR: floor}
    found = standings(measured(who, rate) for who, rate in rates.items() if rate)
    assert judge_target(Target("plain", 5000, 2.0), found).verdict == want


def test_the_floor_is_that_of_the_same_size():
    found = standings([measured(FLOOR, 900), measured(FLOOR, 1400, Case("plain", 100, 3000))])
    rates = [floor_rate(found, "affinity", nodes) for nodes in (5000, 100, 7)]
    assert rates == [900, 1400, None]


def test_the_floor_of_pods_with_devices_is_their_own():
    found = standings([measured(FLOOR, 900), measured(FLOOR, 200, Case("gpus", 5000, 3000))])
    assert floor_rate(found, "gpus", 5000) == 200
    assert floor_rate(found, "claim-template", 5000) is None


def test_the_worst_case_decides_about_memory():
    other = Case("affinity", 5000, 3000)
    found = standings(
        [
            measured(THEIRS, peak=200.0),
            measured(OURS, peak=100.0),
            measured(THEIRS, peak=200.0, case=other),
            measured(OURS, peak=210.0, case=other),
        ]
    )
    assert judge_most("memory", "peak_megabytes", 1.0, found) == Verdict(
        "memory", "≤ 1.0 times", "1.05 at most (affinity, 5,000 nodes)", MISSED
    )


@pytest.mark.parametrize(("ours", "want"), [(50.0, REACHED), (48.0, REACHED), (60.0, MISSED)])
def test_stock_limits_make_both_equal(ours, want):
    case = Case("plain", 5000, 1000, STOCK_LIMITS)
    found = standings([measured(THEIRS, 50.0, case), measured(OURS, ours, case)])
    assert judge_stock(found).verdict == want


def test_half_of_the_slower_one_is_told_by_a_backlog():
    steady = Case("plain", 5000, 2000, STEADY, "half")
    assert slower_rate(standings([measured(OURS, 700)]), steady) is None
    assert slower_rate(standings([measured(OURS, 700), measured(THEIRS, 300)]), steady) == 300


def test_all_targets_are_judged_and_unmeasured_ones_said_to_be():
    targets = TARGETS["pods"]
    verdicts = judge_all(targets, WEIGHED, [])
    assert len(verdicts) == len(targets) + 3
    assert {one.verdict for one in verdicts} == {UNKNOWN}
    assert all(Case(one.scenario, one.nodes, 1).mode == BACKLOG for one in targets)
