"""Decisions in words, for cases that a small cluster does not show."""

import pytest
from msgspec.structs import replace

from kscheduler.api.explanation import (
    SCHEDULED,
    UNSCHEDULABLE,
    AttemptRecord,
    Decision,
    NodeCounts,
    NodeScore,
    OutcomeCount,
    PlacementReviewStatus,
    RejectedNodes,
    Remedy,
    ReviewedPlacement,
    ScorePlugin,
    ScoreTable,
    Shortage,
    Victim,
)
from kscheduler.api.meta import ObjectMeta
from kscheduler.cli.decision_view import explained
from kscheduler.cli.node_view import node_explained

FIT = ScorePlugin("NodeResourcesFit", 1)
IMAGES = ScorePlugin("ImageLocality", 2)


def scores(totals, **fields):
    """Nodes n0, n1 …, with so much by NodeResourcesFit and 10 by ImageLocality."""
    nodes = tuple(
        NodeScore(f"n{i}", total + 20, (total, 10), (total, 10)) for i, total in enumerate(totals)
    )
    return ScoreTable(plugins=(FIT, IMAGES), nodes=nodes, **fields)


def decision(**attempt):
    fields = {"number": 1, "time": "2026-01-02T03:04:05.000000Z", "outcome": SCHEDULED}
    last = AttemptRecord(**(fields | attempt))
    return Decision(
        metadata=ObjectMeta(name="p", namespace="shop"),
        summary="It is told in a sentence.",
        outcome=last.outcome,
        node=last.node,
        scheduler_name="default-scheduler",
        attempts=last.number,
        last=last,
    )


def told(one, **options):
    return "\n\n".join(block for block in explained(one, one.last, None, None, **options) if block)


def test_the_sentence_comes_first_then_five_candidates_and_why_they_are_behind():
    one = decision(node="n0", scores=scores([90, 80, 70, 60, 50, 40, 30]))
    assert told(one) == (
        "shop/p: it is told in a sentence.\n\n"
        "NODE   SCORE   BEHIND   WHY\n"
        "n0       110            chosen\n"
        "n1       100       10   NodeResourcesFit -10\n"
        "n2        90       20   NodeResourcesFit -20\n"
        "n3        80       30   NodeResourcesFit -30\n"
        "n4        70       40   NodeResourcesFit -40\n"
        "and 2 more nodes (-o wide, --all)"
    )


def test_wide_shows_what_each_plugin_gave_times_its_weight():
    one = decision(node="n0", scores=scores([90, 80]))
    assert (
        "NODE   SCORE   BEHIND   NodeResourcesFit   ImageLocality*2   WHY\n"
        "n0       110                          90                20   chosen\n"
        "n1       100       10                 80                20\n"
    ) in told(one, wide=True) + "\n"


def test_scores_of_extenders_are_the_rest_of_the_difference():
    table = ScoreTable(
        plugins=(FIT,),
        nodes=(NodeScore("n0", 100, (50,), (50,)), NodeScore("n1", 60, (40,), (40,))),
        extenders_scored=True,
    )
    assert "extenders -30, NodeResourcesFit -10" in told(decision(node="n0", scores=table))


def test_all_lists_every_node_and_counts_those_that_were_not_looked_at():
    one = decision(
        node="n0",
        nodes=NodeCounts(total=100, evaluated=9, feasible=7, not_evaluated=91),
        scores=scores([90, 80, 70, 60, 50, 40, 30]),
        rejections=(RejectedNodes("TaintToleration", "taint", 2, nodes=("m1", "m0")),),
    )
    text = told(one, every_node=True)
    assert "n6        50" in text
    assert "NODE   PLUGIN            REASON\nm0     TaintToleration   taint\nm1 " in text
    assert text.endswith("91 nodes were not looked at, and so are not listed.")


def test_a_partial_view_says_so_and_shows_counts_instead_of_names():
    short = Shortage("cpu", "4", "1", "3")
    rejected = RejectedNodes("NodeResourcesFit", "Insufficient cpu", 6, shortage=short)
    one = decision(outcome=UNSCHEDULABLE, rejections=(rejected,))
    text = told(replace(one, partial=True))
    assert (
        "REASON             ASKED   MOST LEFT   SHORT BY   PREEMPTION HELPS\n"
        "    6   NodeResourcesFit   Insufficient cpu   4       1           3          no"
    ) in text
    assert "This is a partial view" in text


def test_nodes_that_one_plugin_rejected_for_one_reason_are_counted_together():
    rejections = (
        RejectedNodes("NodeResourcesFit", "Insufficient cpu", 2),
        RejectedNodes("TaintToleration", "taint", 1),
        RejectedNodes("NodeResourcesFit", "Insufficient cpu", 3, preemption_might_help=True),
    )
    text = told(decision(node="n0", scores=scores([90]), rejections=rejections))
    assert text.endswith(
        "6 nodes were rejected: 5 by NodeResourcesFit (Insufficient cpu) and 1 by TaintToleration "
        "(taint)."
    )


def test_victims_are_named_with_priority_and_budget_or_counted():
    one = decision(
        outcome=UNSCHEDULABLE,
        nominated_node="n3",
        victims=(Victim("a", "b", 5, violates_budget=True), Victim(priority=0)),
    )
    assert (
        "Evicted from n3 to make room:\n"
        "POD                 PRIORITY   BUDGET\n"
        "a/b                        5   violated\n"
        "(not to be named)          0"
    ) in told(one)


def test_a_former_attempt_is_told_as_such():
    one = decision(number=4, node="n0")
    first = AttemptRecord(number=1, time="T", outcome=UNSCHEDULABLE, message="0/3 nodes")
    blocks = list(explained(one, first, None, None))
    assert blocks[0] == "shop/p: attempt 1 of 4, at T, ended Unschedulable: 0/3 nodes"


def test_wide_tells_how_former_attempts_ended():
    ends = (OutcomeCount("Unschedulable", "0/3 nodes", 3, "T1", "T2"),)
    one = replace(decision(number=4, node="n0"), outcomes=ends)
    assert (
        "ATTEMPTS   OUTCOME         FIRST   LAST   MESSAGE\n"
        "       3   Unschedulable   T1      T2     0/3 nodes"
    ) in told(one, wide=True)


@pytest.mark.parametrize(
    ("review", "text"),
    [
        pytest.param(
            PlacementReviewStatus(remedies=(Remedy("with 1 instead of 2 of cpu", 1),), total=1),
            "What would help:\n  with 1 instead of 2 of cpu: 1 node could take it",
            id="a change",
        ),
        pytest.param(
            PlacementReviewStatus(fits=True, total=1, placements=(ReviewedPlacement(node="n2"),)),
            "Asked again now, it would fit, on n2.",
            id="none needed any more",
        ),
        pytest.param(
            PlacementReviewStatus(message="no", total=1),
            "No single change to the pod would make room for it.",
            id="none found",
        ),
    ],
)
def test_what_would_help_a_pod_that_waits(review, text):
    one = decision(outcome=UNSCHEDULABLE)
    assert text in list(explained(one, one.last, None, review))


class TestOneNode:
    def told(self, one, node, now=None):
        return list(node_explained(one, one.last, node, now))

    def test_the_chosen_one(self):
        one = decision(node="n0")
        assert self.told(one, "n0") == ["shop/p: it is told in a sentence."]

    def test_one_with_a_lower_score_by_plugin(self):
        one = decision(node="n0", scores=scores([90, 80]))
        sentence, table = self.told(one, "n1")
        assert sentence == (
            "shop/p could have gone to n1, but n0 scored higher, 110 to 100; most of it is by "
            "NodeResourcesFit, -10."
        )
        assert table == (
            "PLUGIN             WEIGHT    n0    n1   DIFFERENCE\n"
            "NodeResourcesFit        1    90    80          -10\n"
            "ImageLocality           2    20    20           +0\n"
            "TOTAL                       110   100          -10"
        )

    def test_one_with_the_same_score(self):
        one = decision(node="n0", scores=scores([90, 90], ties=2))
        sentence, _ = self.told(one, "n1")
        assert sentence.endswith("2 nodes shared the highest score, 110, and n0 was drawn.")

    def test_one_that_was_never_looked_at(self):
        counts = NodeCounts(total=100, evaluated=9, feasible=7, not_evaluated=91)
        now = PlacementReviewStatus(fits=True, total=1)
        assert self.told(decision(node="n0", nodes=counts), "n50", now) == [
            "shop/p is on n0. As for n50, it was not looked at (at 2026-01-02T03:04:05Z): 9 "
            "of 100 nodes were, and enough of them fitted.",
            "Asked now, it would fit on n50.",
        ]

    def test_a_gated_pod_fits_once_its_gates_are_gone(self):
        placement = ReviewedPlacement(message="once its scheduling gates are removed: a/b")
        now = PlacementReviewStatus(fits=True, total=1, placements=(placement,))
        assert self.told(decision(node="n0"), "n50", now)[-1] == (
            "Asked now, it would fit on n50, once its scheduling gates are removed: a/b."
        )

    @pytest.mark.parametrize(
        ("reason", "is_the_pods"),
        [
            ("node(s) didn't match Pod's node affinity/selector", True),
            ("node(s) didn't match scheduler-enforced node affinity", False),
        ],
    )
    def test_only_its_own_affinity_is_to_be_taken_from_the_pod(self, reason, is_the_pods):
        rejected = RejectedNodes("NodeAffinity", reason, 1, nodes=("b",))
        attempt = AttemptRecord(outcome=UNSCHEDULABLE, rejections=(rejected,))
        now = PlacementReviewStatus(total=1, placements=(ReviewedPlacement(explanation=attempt),))
        told = self.told(decision(outcome=UNSCHEDULABLE, rejections=(rejected,)), "b", now)
        assert ("without its node selector or affinity" in "".join(told)) is is_the_pods

    def test_one_that_is_not_in_the_record(self):
        one = decision(node="n0", nodes=NodeCounts(total=9, evaluated=9, feasible=9))
        assert "was it a node of the cluster then?" in self.told(one, "nowhere")[0]

    def test_numbers_are_those_of_this_node_as_a_review_of_it_has_them(self):
        many = RejectedNodes(
            "NodeResourcesFit",
            "Insufficient cpu",
            3,
            nodes=("a", "b"),
            shortage=Shortage("cpu", "4", "3", "1", "a"),
        )
        here = RejectedNodes(
            "NodeResourcesFit",
            "Insufficient cpu",
            1,
            nodes=("b",),
            shortage=Shortage("cpu", "4", "1", "3", "b"),
        )
        attempt = AttemptRecord(outcome=UNSCHEDULABLE, rejections=(here,))
        now = PlacementReviewStatus(
            total=1,
            placements=(ReviewedPlacement(explanation=attempt),),
            remedies=(
                Remedy("with 1 instead of 4 of cpu", 1),
                Remedy("without its node affinity", 9),
            ),
        )
        one = decision(outcome=UNSCHEDULABLE, rejections=(many,))
        assert self.told(one, "b", now) == [
            "shop/p cannot go to b: Insufficient cpu (asked 4, 1 left, short by 3), says "
            "NodeResourcesFit.",
            "What would help:\n  with 1 instead of 4 of cpu",
        ]
        # Without a review, numbers of another node are not passed off as those of this one.
        assert self.told(one, "b") == [
            "shop/p could not go to b at 2026-01-02T03:04:05Z: Insufficient cpu (asked 4), "
            "says NodeResourcesFit."
        ]
