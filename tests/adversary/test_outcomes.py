"""Outcomes of a comparison: what is wrong with them, and how they are told."""

import pytest

from tests.adversary.inputs import ROWS
from tests.adversary.outcomes import Outcome, Outcomes, judged, section
from tests.bench.contestants import OURS, THEIRS

NAME = next(iter(ROWS))


def outcome(who: str = OURS, **figures) -> Outcome:
    known = {
        "decided": 0.1,
        "innocent": 0.1,
        "afterwards": 0.1,
        "megabytes": 90.0,
        "megabytes_after": 95.0,
    }
    return Outcome(NAME, 100, who, 600, **{**known, **figures})


@pytest.mark.parametrize(
    ("ours", "theirs", "problems"),
    [
        ({}, 0.1, []),
        ({"decided": 0.99}, 0.1, []),
        ({"decided": 1.01}, 0.1, ["decided after 1.01 s, at most 1.00 s allowed"]),
        ({"decided": 11.9, "innocent": 13.9}, 6.0, []),
        ({"decided": 12.1}, 6.0, ["decided after 12.10 s, at most 12.00 s allowed"]),
        ({"decided": None}, 0.1, ["decided after never, at most 1.00 s allowed"]),
        # The original itself never decided: then only the fixed second counts.
        ({"decided": 0.5}, None, []),
        ({"innocent": 2.9}, 0.1, []),
        ({"innocent": 3.1}, 0.1, ["innocent: bound after 3.10 s, at most 3.00 s allowed"]),
        ({"afterwards": 3.1}, 0.1, ["afterwards: bound after 3.10 s, at most 3.00 s allowed"]),
        ({"afterwards": None}, 0.1, ["afterwards: bound after never, at most 3.00 s allowed"]),
        ({"megabytes_after": 122.0}, 0.1, []),
        ({"megabytes_after": 123.0}, 0.1, ["33 MB kept, at most 32 MB allowed"]),
        ({"exit_code": 1, "decided": None}, 0.1, ["the process ended with code 1"]),
        ({"refused": "no"}, 0.1, ["not admitted: no"]),
    ],
)
def test_ours_may_take_a_second_or_twice_as_long_as_the_original(ours, theirs, problems):
    assert [*judged(outcome(**ours), outcome(THEIRS, decided=theirs))] == problems


def test_what_was_not_measured_is_not_judged(tmp_path):
    outcomes = Outcomes(tmp_path / "1.jsonl")
    outcomes.add(outcome(THEIRS, decided=None))
    assert outcomes.problems(ROWS) == []
    assert not outcomes.complete([NAME], [100])


def test_a_later_line_of_the_file_counts(tmp_path):
    path = tmp_path / "1.jsonl"
    Outcomes(path).add(outcome(decided=5.0))
    Outcomes(path).add(outcome(THEIRS))
    Outcomes(path).add(outcome(decided=0.2))
    outcomes = Outcomes(path)
    assert outcomes.problems(ROWS) == []
    assert outcomes.complete([NAME], [100])


def test_the_page_has_a_line_per_input_with_both_schedulers(tmp_path):
    outcomes = Outcomes(tmp_path / "1.jsonl")
    outcomes.add(outcome(THEIRS, decided=0.04))
    outcomes.add(outcome(decided=0.05, afterwards=0.3))
    line = section(outcomes).splitlines()[-1]
    assert line.startswith(f"| `{NAME}`, 600: ")
    assert line.endswith("| 0.04 / 0.05 | 0.10 / 0.30 | 5 |")
