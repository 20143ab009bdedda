"""Victims of preemption, as a decision tells them."""

from kscheduler.api.explanation import Victim
from kscheduler.api.meta import LabelSelector, ObjectMeta
from kscheduler.api.small_groups import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from tests.kit.objects import make_node, make_pod


def budget(name, allowed, **labels):
    return PodDisruptionBudget(
        ObjectMeta(name=name, namespace="default"),
        PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels)),
        PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def test_victims_are_told_with_priority_and_the_budgets_that_they_violate(decider):
    # The more important victim is under no budget: it comes first, and violates none.
    there = [
        make_pod("plain", node="n1", priority=5, requests={"cpu": "2"}),
        make_pod("kept", node="n1", priority=1, requests={"cpu": "2"}, labels={"app": "db"}),
    ]
    budgets = [budget("db", 0, app="db"), budget("web", 0, app="web")]
    core = decider([make_node("n1")], there, budgets)
    last = core.decide(make_pod("new", priority=10, requests={"cpu": "4"})).last
    assert last.victims == (
        Victim("default", "plain", 5),
        Victim("default", "kept", 1, violates_budget=True, budgets=("db",)),
    )
    assert last.nominated_node == "n1"


def test_a_victim_within_its_budget_is_told_with_the_budget(decider):
    there = [make_pod("db", node="n1", requests={"cpu": "3"}, labels={"app": "db"})]
    core = decider([make_node("n1")], there, [budget("db", 1, app="db")])
    (victim,) = core.decide(make_pod("new", priority=10, requests={"cpu": "4"})).last.victims
    assert victim == Victim("default", "db", 0, budgets=("db",))
