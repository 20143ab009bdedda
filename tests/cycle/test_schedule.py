"""One decision: which nodes are filtered, what is found out about them, and which is chosen."""

import random
from collections import Counter
from types import SimpleNamespace as Plugin

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.cycle.attempt import Attempt, Failed, Placement, Unschedulable, at_once
from kscheduler.cycle.node_sampling import num_feasible_nodes_to_find
from kscheduler.cycle.schedule import NO_NODES_AVAILABLE, SchedulingAlgorithm
from kscheduler.extension_points import METHOD_OF_POINT
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.listers import FixedListers
from kscheduler.framework.plugin import NodeNames
from kscheduler.framework.status import (
    SKIP,
    Code,
    Rejection,
    Status,
    failed,
    rejected,
    rejected_for_good,
    unresolvable,
    unschedulable,
)
from kscheduler.metrics import Metrics
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.handle import RuntimeHandle
from tests.kit.clusters import snapshot_of
from tests.kit.objects import make_node, make_pod_info

BY_TIME = Plugin(name="ByTime", sort_key=lambda queued: queued.timestamp)
NOBODY = Plugin(nodes=(), pods_for_node=lambda node: [])


def make_pod(name="p", *, nominated=""):
    return make_pod_info(name, uid=name, nominated=nominated, containers=[])


def make_framework(*plugins, percentage=None, metrics=None):
    handle = RuntimeHandle(
        gates=Plugin(enabled=lambda name: False),
        listers=FixedListers(),
        snapshot=lambda: None,
        nominator=NOBODY,
        activate=lambda pods: None,
        client=None,
        recorder=None,
        metrics=metrics or Metrics(),
        profile_name="default-scheduler",
    )
    everyone = (*plugins, BY_TIME)
    plugins_at = {
        point: [plugin for plugin in everyone if hasattr(plugin, method)]
        for point, method in METHOD_OF_POINT.items()
    }
    weights = dict.fromkeys((plugin.name for plugin in plugins), 1)
    return Framework(handle, plugins_at, weights=weights, percentage_of_nodes_to_score=percentage)


def make_nodes(count):
    return snapshot_of(make_node(f"n{number}", allocatable={}) for number in range(count))


def make_algorithm(**options):
    return SchedulingAlgorithm(Metrics(), rng=random.Random(7), **options)


def schedule(algorithm, framework, pod, nodes):
    attempt = Attempt(QueuedPodInfo(pod, timestamp=0.0), framework, CycleState(), nodes)
    return at_once(algorithm.schedule_pod(attempt))


def decide(*plugins, nodes=3, pod=None, algorithm=None):
    nodes = make_nodes(nodes) if isinstance(nodes, int) else nodes
    framework = make_framework(*plugins)
    return schedule(algorithm or make_algorithm(), framework, pod or make_pod(), nodes)


def rejecting(name, names, reason, make=unschedulable):
    def filter(cycle, pod, nodes):
        yield make(np.isin(nodes.names, names), reason)

    return Plugin(name=name, filter=filter)


def only(name, *names):
    return Plugin(name=name, pre_filter=lambda *_: NodeNames(frozenset(names)))


def preferring(*best):
    return Plugin(name="Prefer", score=lambda c, p, nodes: np.isin(nodes.names, best) * 100)


ANY = Plugin(name="Any", score=lambda cycle, pod, nodes: np.zeros(len(nodes), np.int64))


class Counting:
    """Accepts everything and counts the nodes it is asked about."""

    name = "Counting"

    def __init__(self, *refused):
        self.asked = Counter()
        self.refused = refused

    def filter(self, cycle, pod, nodes):
        self.asked.update(nodes.names)
        yield unschedulable(np.isin(nodes.names, self.refused), "refused")


@pytest.mark.parametrize(
    ("num_nodes", "percentage", "want"),
    [
        pytest.param(10, 0, 10, id="few nodes: all"),
        pytest.param(99, 5, 99, id="still few"),
        pytest.param(100, 30, 100, id="never fewer than a hundred"),
        pytest.param(1000, 0, 420, id="a share that shrinks with the cluster"),
        pytest.param(1000, 40, 400, id="a share that was asked for"),
        pytest.param(5000, 0, 500, id="5,000"),
        pytest.param(6000, 0, 300, id="the share does not shrink below five per cent"),
        pytest.param(6000, 40, 2400, id="6,000 at 40"),
        pytest.param(500, 100, 500, id="all of them"),
    ],
)
def test_how_many_feasible_nodes_are_enough(num_nodes, percentage, want):
    assert num_feasible_nodes_to_find(num_nodes, percentage) == want


def test_a_profile_overrides_the_share_of_all():
    algorithm = make_algorithm(percentage_of_nodes_to_score=100)
    framework = make_framework(ANY, percentage=40)
    outcome = schedule(algorithm, framework, make_pod(), make_nodes(1000))
    assert (outcome.feasible, outcome.evaluated) == (400, 400)


def test_without_a_share_of_its_own_a_profile_uses_that_of_all():
    outcome = decide(ANY, nodes=1000, algorithm=make_algorithm(percentage_of_nodes_to_score=50))
    assert outcome.feasible == 500


def test_the_search_goes_on_where_the_last_one_stopped():
    algorithm, nodes = make_algorithm(percentage_of_nodes_to_score=30), make_nodes(500)
    starts = []
    for _ in range(5):
        decide(ANY, nodes=nodes, algorithm=algorithm)
        starts.append(algorithm.next_start_node_index)
    assert starts == [150, 300, 450, 100, 250]


def test_refused_nodes_on_the_way_count_as_processed():
    algorithm = make_algorithm(percentage_of_nodes_to_score=1)
    refused = [f"n{number}" for number in range(0, 400, 2)]
    outcome = decide(ANY, rejecting("A", refused, "even"), nodes=400, algorithm=algorithm)
    assert (outcome.feasible, outcome.evaluated) == (100, 201)
    assert algorithm.next_start_node_index == 201


def test_the_search_wraps_around():
    algorithm = make_algorithm(percentage_of_nodes_to_score=1)
    algorithm.next_start_node_index = 350
    board = decide(ANY, nodes=400, algorithm=algorithm)
    assert board.feasible == 100
    assert algorithm.next_start_node_index == 50


def test_when_all_nodes_are_wanted_the_start_stays():
    algorithm = make_algorithm()
    algorithm.next_start_node_index = 2
    decide(ANY, rejecting("A", ["n1"], "r"), nodes=5, algorithm=algorithm)
    assert algorithm.next_start_node_index == 2


def test_only_nodes_within_the_cut_are_scored():
    algorithm = make_algorithm(percentage_of_nodes_to_score=1)
    algorithm.next_start_node_index = 120
    scored = []
    plugin = Plugin(
        name="A", score=lambda c, p, nodes: scored.extend(nodes.names) or [0] * len(nodes)
    )
    decide(plugin, nodes=400, algorithm=algorithm)
    assert scored == [f"n{number}" for number in range(120, 220)]


EIGHT_HUNDRED = make_nodes(800)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 799),
    st.sets(st.integers(0, 799), max_size=40),
    st.sampled_from([1, 2, 3, 50]),
    st.booleans(),
)
def test_the_cut_is_the_first_feasible_nodes_in_turn(start, few, every, most_are_refused):
    refused = {row for row in range(800) if (row % every != 0) == most_are_refused} | few
    algorithm = make_algorithm(percentage_of_nodes_to_score=1)
    algorithm.next_start_node_index = start
    nodes = EIGHT_HUNDRED
    plugin = Plugin(
        name="A", filter=lambda c, p, nodes: [unschedulable(np.isin(nodes.rows, [*refused]), "r")]
    )
    scored = []
    score = Plugin(
        name="B", score=lambda c, p, nodes: scored.extend(nodes.rows.tolist()) or [0] * len(nodes)
    )
    decide(plugin, score, nodes=nodes, algorithm=algorithm)
    turn = [*range(start, 800), *range(start)]
    feasible = [row for row in turn if row not in refused]
    processed = 800 if len(feasible) <= 100 else turn.index(feasible[100])
    assert algorithm.next_start_node_index == (start + processed) % 800
    if len(feasible) > 100:
        assert scored == feasible[:100]


def test_without_scoring_the_first_feasible_node_will_do():
    algorithm = make_algorithm()
    algorithm.next_start_node_index = 1
    outcome = decide(rejecting("A", ["n1"], "r"), nodes=5, algorithm=algorithm)
    assert outcome == Placement("n2", 2, evaluated=2, feasible=1)
    assert algorithm.next_start_node_index == 3


def test_a_single_feasible_node_is_not_scored():
    def never(*_):
        raise AssertionError

    scorer = Plugin(name="A", pre_score=never, score=never)
    outcome = decide(scorer, rejecting("B", ["n0", "n2"], "r"))
    assert outcome == Placement("n1", 1, evaluated=3, feasible=1)


def test_the_best_score_wins():
    outcome = decide(preferring("n2"), nodes=5)
    assert (outcome.node, outcome.row, outcome.evaluated, outcome.feasible) == ("n2", 2, 5, 5)
    assert outcome.scores.total.tolist() == [0, 0, 100, 0, 0]


def test_scores_are_those_of_the_feasible_nodes():
    outcome = decide(preferring("n1", "n3"), rejecting("A", ["n0", "n1"], "r"), nodes=5)
    assert (outcome.node, outcome.scores.total.tolist()) == ("n3", [0, 100, 0])


def test_ties_are_broken_at_random():
    algorithm, nodes = make_algorithm(), make_nodes(4)
    chosen = Counter(
        decide(preferring("n1", "n3"), nodes=nodes, algorithm=algorithm).node for _ in range(400)
    )
    assert chosen.keys() == {"n1", "n3"}
    assert min(chosen.values()) > 120


def test_equal_seeds_make_equal_choices():
    def choices():
        algorithm = make_algorithm()
        return [decide(ANY, nodes=10, algorithm=algorithm).node for _ in range(20)]

    assert choices() == choices()


def told(outcome):
    assert isinstance(outcome, Unschedulable)
    return outcome.message, outcome.diagnosis.unschedulable_plugins


@pytest.mark.parametrize(
    ("plugins", "message", "blamed"),
    [
        pytest.param(
            [rejecting("A", ["n0", "n1"], "a"), rejecting("B", ["n2"], "b", unresolvable)],
            "0/3 nodes are available: 1 b, 2 a.",
            {"A", "B"},
            id="every node is refused",
        ),
        pytest.param(
            [Plugin(name="A", pre_filter=lambda *_: rejected("nope"))],
            "0/3 nodes are available: nope.",
            {"A"},
            id="PreFilter refuses",
        ),
        pytest.param(
            [Plugin(name="A", pre_filter=lambda *_: rejected_for_good("never"))],
            "0/3 nodes are available: never.",
            {"A"},
            id="PreFilter refuses for good",
        ),
        pytest.param(
            [only("A", "n1"), rejecting("B", ["n1"], "b")],
            "0/3 nodes are available: 1 b, 2 node(s) didn't satisfy plugin(s) [A].",
            {"A", "B"},
            id="the only candidate is refused",
        ),
        pytest.param(
            [only("A", "nowhere")],
            "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [A].",
            {"A"},
            id="the only candidate does not exist",
        ),
        pytest.param(
            [only("B", "n1"), only("A", "n2")],
            "0/3 nodes are available: node(s) didn't satisfy plugin(s) [A B] simultaneously.",
            {"A", "B"},
            id="candidates nobody agrees on",
        ),
        pytest.param(
            [only("A")],
            "0/3 nodes are available: node(s) didn't satisfy plugin A.",
            {"A"},
            id="no candidate",
        ),
    ],
)
def test_why_a_pod_does_not_fit(plugins, message, blamed):
    assert told(decide(*plugins, ANY)) == (message, blamed)


def test_nodes_that_were_not_candidates_are_beyond_preemption():
    diagnosis = decide(only("A", "n1"), rejecting("B", ["n1"], "b")).diagnosis
    assert diagnosis.absent.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert diagnosis.charged_rows.tolist() == [1]


def test_a_refusal_by_pre_filter_speaks_for_all_nodes():
    refusal = decide(Plugin(name="A", pre_filter=lambda *_: rejected("nope")))
    assert refusal.diagnosis.absent == Status(Code.UNSCHEDULABLE, ("nope",), "A")


def test_plugins_that_make_a_pod_wait_are_remembered_as_such():
    def pending(mask, reason):
        return Rejection(mask, Code.PENDING, reason)

    plugin = rejecting("A", ["n0", "n1", "n2"], "later", pending)
    assert decide(plugin).diagnosis.pending_plugins == {"A"}


def test_candidates_of_pre_filter_are_the_only_nodes_judged():
    counting = Counting()
    outcome = decide(only("A", "n1", "n2", "nowhere"), only("B", "n2"), counting, ANY)
    assert (outcome.node, dict(counting.asked)) == ("n2", {"n2": 1})


def test_no_nodes():
    outcome = decide(ANY, nodes=0)
    assert outcome == Failed(NO_NODES_AVAILABLE)
    assert outcome.status.message == "no nodes available to schedule pods"


def raising(*_):
    raise RuntimeError("oops")


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        pytest.param(
            [Plugin(name="A", pre_filter=lambda *_: failed("boom"))],
            'running PreFilter plugin "A": boom',
            id="PreFilter fails",
        ),
        pytest.param(
            [Plugin(name="A", pre_filter=raising)],
            'running PreFilter plugin "A": RuntimeError: oops',
            id="PreFilter raises",
        ),
        pytest.param(
            [Plugin(name="A", filter=raising)],
            'running "A" filter plugin: RuntimeError: oops',
            id="Filter raises",
        ),
        pytest.param(
            [Plugin(name="A", pre_score=raising)],
            'running PreScore plugin "A": RuntimeError: oops',
            id="PreScore raises",
        ),
        pytest.param(
            [Plugin(name="A", score=raising)],
            'running Score plugins: plugin "A" failed with: RuntimeError: oops',
            id="Score raises",
        ),
        pytest.param(
            [Plugin(name="A", score=lambda c, p, nodes: np.full(len(nodes), 101))],
            "applying score defaultWeights on Score plugins: "
            'plugin "A" returns an invalid score 101, '
            "it should in the range of [0, 100] after normalizing",
            id="Score out of range",
        ),
    ],
)
def test_a_failure_fails_this_attempt(plugins, message):
    outcome = decide(*plugins, ANY)
    assert isinstance(outcome, Failed)
    assert (outcome.status.code, outcome.status.message) == (Code.ERROR, message)


def erring(mask, reason):
    return Rejection(mask, Code.ERROR, reason)


def test_a_node_that_cannot_be_judged_fails_the_attempt():
    outcome = decide(ANY, rejecting("A", ["n1"], "no idea", erring))
    assert outcome.status.message == 'running "A" filter plugin: no idea'


def test_unless_enough_nodes_were_found_before_it_was_looked_at():
    algorithm = make_algorithm(percentage_of_nodes_to_score=1)
    late = rejecting("A", ["n150"], "no idea", erring)
    assert decide(ANY, late, nodes=400, algorithm=algorithm).feasible == 100
    assert isinstance(decide(ANY, late, nodes=400, algorithm=algorithm), Failed)


def test_a_malformed_pod_fails_alone():
    pod = make_pod()
    pod.error = "bad quantity"
    assert decide(ANY, pod=pod) == Failed(Status(Code.ERROR, ("bad quantity",)))


def test_a_promised_node_that_fits_is_the_only_one_looked_at():
    counting, algorithm = Counting(), make_algorithm()
    outcome = decide(counting, preferring("n0"), pod=make_pod(nominated="n1"), algorithm=algorithm)
    assert outcome == Placement("n1", 1, evaluated=1, feasible=1)
    assert dict(counting.asked) == {"n1": 1}
    assert algorithm.next_start_node_index == 0


def test_a_promised_node_that_does_not_fit_is_looked_at_again_with_the_others():
    counting = Counting("n1")
    outcome = decide(counting, preferring("n2"), pod=make_pod(nominated="n1"))
    assert (outcome.node, outcome.feasible, outcome.evaluated) == ("n2", 2, 3)
    assert counting.asked == {"n0": 1, "n1": 2, "n2": 1}


def test_a_promised_node_is_counted_once_in_the_diagnosis():
    everyone = ["n0", "n1", "n2"]
    outcome = decide(rejecting("A", everyone, "r"), pod=make_pod(nominated="n1"))
    assert outcome.message == "0/3 nodes are available: 3 r."


def test_a_promised_node_that_is_no_candidate_keeps_its_verdict():
    plugins = [only("A", "n0"), rejecting("B", ["n0", "n1"], "b")]
    outcome = decide(*plugins, pod=make_pod(nominated="n1"))
    assert outcome.message == (
        "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [A B], 2 b."
    )


def test_a_promised_node_that_is_gone_is_forgotten():
    outcome = decide(preferring("n2"), pod=make_pod(nominated="gone"))
    assert (outcome.node, outcome.feasible) == ("n2", 3)


def test_a_promised_node_that_cannot_be_judged_is_judged_again_with_the_others():
    answers = iter([True, False])

    def filter(cycle, pod, nodes):
        yield erring(np.full(len(nodes), next(answers)), "hiccup")

    plugins = [Plugin(name="A", filter=filter), preferring("n2")]
    assert decide(*plugins, pod=make_pod(nominated="n1")).node == "n2"


def test_skipping_plugins_do_not_take_part():
    shy = Plugin(name="A", pre_filter=lambda *_: SKIP, filter=raising)
    idle = Plugin(name="B", pre_score=lambda *_: SKIP, score=raising)
    outcome = decide(shy, idle)
    assert outcome.scores.total.tolist() == [0, 0, 0]


def test_the_points_of_a_decision_are_timed_once():
    metrics = Metrics()
    framework = make_framework(ANY, rejecting("A", ["n0"], "r"), metrics=metrics)
    schedule(make_algorithm(), framework, make_pod(), make_nodes(3))
    family = metrics.framework_extension_point_duration_seconds
    counts = {
        point: family.labels(point, "Success", "default-scheduler").count
        for point in ("PreFilter", "Filter", "PreScore", "Score")
    }
    assert set(counts.values()) == {1}
