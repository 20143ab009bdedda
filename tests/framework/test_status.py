"""Verdicts and the sentence they add up to."""

import numpy as np
import pytest

from kscheduler.framework.status import Code, Diagnosis, Status, fit_error

U, UU, PENDING = Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING


def diagnosis(*charges, **fields):
    found = Diagnosis(**fields)
    for plugin, rows, code, reason in charges:
        found.charge(plugin, np.array(rows, np.intp), code, reason)
    return found


@pytest.mark.parametrize(
    ("num_nodes", "found", "want"),
    [
        pytest.param(
            3,
            diagnosis(("A", [0, 2], U, "node(s) failed-1"), ("B", [1], U, "node(s) failed-2")),
            "0/3 nodes are available: 1 node(s) failed-2, 2 node(s) failed-1.",
            id="counted and sorted",
        ),
        pytest.param(
            12,
            diagnosis(("A", range(10), U, "x"), ("B", [10, 11], U, "y")),
            "0/12 nodes are available: 10 x, 2 y.",
            id="sorted as text, not as numbers",
        ),
        pytest.param(
            2,
            diagnosis(("A", [0, 1], U, "x"), ("A", [1], UU, "y")),
            "0/2 nodes are available: 1 y, 2 x.",
            id="a node counts under each of its reasons",
        ),
        pytest.param(
            2,
            diagnosis(("A", [0], U, "same"), ("B", [1], U, "same")),
            "0/2 nodes are available: 2 same.",
            id="one reason of two plugins",
        ),
        pytest.param(
            3,
            diagnosis(("A", [0], U, "x"), absent=Status(UU, ("left out",))),
            "0/3 nodes are available: 1 x, 2 left out.",
            id="nodes left out have a reason of their own",
        ),
        pytest.param(
            1,
            diagnosis(("A", [0], U, "x"), absent=Status(UU, ("left out",))),
            "0/1 nodes are available: 1 x.",
            id="unless there are none",
        ),
        pytest.param(3, diagnosis(), "0/3 nodes are available:", id="nobody said anything"),
        pytest.param(
            3,
            diagnosis(pre_filter_message="bad claim", absent=Status(UU, ("bad claim",))),
            "0/3 nodes are available: bad claim.",
            id="ended before any node was judged",
        ),
        pytest.param(
            1,
            diagnosis(("A", [0], U, "x"), post_filter_message="preemption: not helpful"),
            "0/1 nodes are available: 1 x. preemption: not helpful",
            id="with what preemption found",
        ),
    ],
)
def test_fit_error(num_nodes, found, want):
    assert fit_error(num_nodes, found) == want


def test_what_is_taken_back_counts_no_more_but_its_author_is_still_to_blame():
    found = diagnosis(("A", [0, 1], U, "x"), ("B", [2], UU, "y"))
    found.acquit(np.array([1, 2], np.intp))
    assert [(one.rows.tolist(), one.reason) for one in found.charges] == [([0], "x")]
    assert found.unschedulable_plugins == {"A", "B"}


def test_who_is_to_blame():
    found = diagnosis(("A", [0], U, "x"), ("B", [1], PENDING, "y"), ("", [2], U, "extender"))
    found.blame(Status(UU, ("z",), "C"))
    found.blame(Status(Code.ERROR, ("no rejection",), "D"))
    assert found.unschedulable_plugins == {"A", "B", "C"}
    assert found.pending_plugins == {"B"}


def test_charging_no_row_charges_nobody():
    assert diagnosis(("A", [], U, "x")) == Diagnosis()


def test_the_status_of_a_row_has_all_reasons_under_the_worst_code():
    found = diagnosis(("A", [0, 1], UU, "x"), ("A", [1], U, "y"), ("B", [2], U, "z"))
    assert found.status_by_row() == {
        0: Status(UU, ("x",), "A"),
        1: Status(UU, ("x", "y"), "A"),
        2: Status(U, ("z",), "B"),
    }
    assert found.charged_rows.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("code", "text", "rejected"),
    [
        (Code.SUCCESS, "Success", False),
        (Code.ERROR, "Error", False),
        (Code.UNSCHEDULABLE, "Unschedulable", True),
        (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "UnschedulableAndUnresolvable", True),
        (Code.WAIT, "Wait", False),
        (Code.SKIP, "Skip", False),
        (Code.PENDING, "Pending", True),
    ],
)
def test_codes(code, text, rejected):
    assert (code.text, code.rejected, Status(code).rejected) == (text, rejected, rejected)


def test_a_message_joins_the_reasons():
    assert Status(U, ("a", "b")).message == "a, b"
