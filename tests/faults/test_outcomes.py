"""Outcomes of the fault matrix: what is wrong with them, and how they are told."""

import pytest

from tests.bench.contestants import OURS, THEIRS
from tests.faults.outcomes import Outcomes, section
from tests.faults.rows import ROWS
from tests.faults.verdict import Outcome

ROW = next(iter(ROWS.values()))


def outcome(who: str = OURS, seed: int = 1, **figures) -> Outcome:
    known = {"pods": 100, "recovery": 1.0, "faults": {"Reset": 3}}
    return Outcome(ROW.number, who, 0, seed, **{**known, **figures})


@pytest.mark.parametrize(
    ("figures", "problems"),
    [
        ({}, []),
        ({"lost": 2, "unbound": ["p1", "p2"]}, ["2 pods lost: p1, p2"]),
        ({"twice": 1}, ["1 pods bound twice"]),
        ({"overcommitted": 1}, ["1 pods refused by kubelets"]),
        ({"violations": ["node n: too full"]}, ["node n: too full"]),
        ({"broken": ["5 bindings too many"]}, ["5 bindings too many"]),
        ({"leaks": ["1 pods are still assumed"]}, ["1 pods are still assumed"]),
        ({"exits": [1]}, ["ended with code 1"]),
        ({"exits": [1], "exits_expected": True}, []),
        ({"faults": {}}, ["no fault happened"]),
        ({"failed": "AssertionError: no"}, ["AssertionError: no"]),
    ],
)
def test_whatever_must_not_be_is_told(tmp_path, figures, problems):
    outcomes = Outcomes(tmp_path / "1.jsonl")
    outcomes.add(outcome(**figures))
    told = [f"row {ROW.number}: seed 1: {problem}" for problem in problems]
    assert outcomes.problems([ROW]) == told


def test_the_original_may_do_all_of_that(tmp_path):
    outcomes = Outcomes(tmp_path / "1.jsonl")
    outcomes.add(outcome(THEIRS, lost=3, recovery=None))
    assert outcomes.problems([ROW]) == []


@pytest.mark.parametrize(("ours", "slow"), [(2.3, False), (2.5, True)])
def test_the_median_of_ours_may_not_be_a_fifth_later(tmp_path, ours, slow):
    outcomes = Outcomes(tmp_path / "1.jsonl")
    for seed, (theirs, own) in enumerate([(2.0, ours), (0.0, 0.0), (9.0, 30.0)]):
        outcomes.add(outcome(THEIRS, seed, recovery=theirs))
        outcomes.add(outcome(OURS, seed, recovery=own))
    assert bool(outcomes.problems([ROW])) == slow


def test_what_was_run_to_its_end_is_not_run_again(tmp_path):
    path = tmp_path / "1.jsonl"
    Outcomes(path).add(outcome(seed=1))
    Outcomes(path).add(outcome(seed=2, failed="no server"))
    with path.open("ab") as file:
        file.write(b'{"half a li')
    outcomes = Outcomes(path)
    assert outcomes.has(ROW.number, OURS, 1)
    assert not outcomes.has(ROW.number, OURS, 2)
    outcomes.add(outcome(seed=2))
    assert Outcomes(path).has(ROW.number, OURS, 2)


def test_the_page_has_a_line_per_row_with_both_schedulers(tmp_path):
    outcomes = Outcomes(tmp_path / "1.jsonl")
    outcomes.add(outcome(THEIRS, lost=2, recovery=None, notes={"unfenced": 5}))
    outcomes.add(outcome(notes={"unfenced": 0}))
    line = section(outcomes, ROWS.values()).splitlines()[-1]
    assert line == (
        f"| {ROW.number} | {ROW.title} | 1/1 | 100 / 100 | 2 / 0 | 0 / 0 | 0 / 0 | 0 / 0 "
        "| never / 1.0 | 0 / 0 | unfenced: 5 / 0 |"
    )


def test_rows_have_numbers_and_titles_of_their_own():
    assert len({row.title for row in ROWS.values()}) == len(ROWS)
    assert all(number == row.number for number, row in ROWS.items())
