"""Which node is emptied: each criterion decides only among those equal so far."""

import pytest

from kscheduler.runtime.preemption.candidate import Candidate, pick_nodes_for_preemption
from kscheduler.state.pod_info import PodInfo
from tests.plugins.evictions import make_pod

NOW_NS = 1_800_000_000 * 10**9


def candidate(node, *victims, violations=0):
    """Victims are priorities, or pairs of a priority and the second of their start."""
    pairs = [victim if isinstance(victim, tuple) else (victim, 0) for victim in victims]
    pods = [
        PodInfo(make_pod(f"{node}-{number}", priority=priority, start=start))
        for number, (priority, start) in enumerate(pairs)
    ]
    return Candidate(node, tuple(pods), violations)


@pytest.mark.parametrize(
    ("candidates", "want"),
    [
        pytest.param([candidate("b", 1)], ["b"], id="the only one"),
        pytest.param(
            [candidate("a", 1, violations=1), candidate("b", 9, 9)],
            ["b"],
            id="a budget outweighs priorities",
        ),
        pytest.param(
            [candidate("a", 5), candidate("b", 4, 4, 4)], ["b"], id="lowest highest priority"
        ),
        pytest.param([candidate("a", 5, 5), candidate("b", 5, 1)], ["b"], id="lowest sum"),
        pytest.param(
            [candidate("a", -5, -5, -5), candidate("b", -5)],
            ["b"],
            id="negative priorities do not make more victims cheaper",
        ),
        pytest.param(
            [candidate("a", 5, -(2**31), -(2**31)), candidate("b", 5, -(2**31))],
            ["b"],
            id="fewest victims, though the others weigh nothing",
        ),
        pytest.param(
            [candidate("a", (5, 1), (1, 30)), candidate("b", (5, 2), (1, 0))],
            ["b"],
            id="latest start among those of the highest priority",
        ),
        pytest.param(
            [candidate("a", (5, 1), (5, 9)), candidate("b", (5, 5), (5, 5))],
            ["b"],
            id="the earliest of several counts",
        ),
        pytest.param(
            [candidate("a", (5, 59)), candidate("b", (5, None))],
            ["b"],
            id="who has not started counts as started now",
        ),
        pytest.param([candidate("b", 5), candidate("a", 5)], ["a", "b"], id="ties, by name"),
    ],
)
def test_the_least_harm_is_chosen(candidates, want):
    assert [one.node for one in pick_nodes_for_preemption(candidates, NOW_NS)] == want
