"""Names and identities that the server gives."""

import pytest

from kscheduler.sandbox import metadata


@pytest.fixture(autouse=True)
def chance(monkeypatch):
    monkeypatch.setattr(metadata, "_chance", type(metadata._chance)())


def generated(seed, prefixes):
    metadata.seed_names(seed)
    return sorted(map(metadata.generated_name, prefixes))


def test_seeded_names_do_not_depend_on_which_workload_comes_first():
    assert generated(1, ["a-", "a-", "b-", "b-"]) == generated(1, ["b-", "a-", "b-", "a-"])


def test_seeded_names_of_one_prefix_differ():
    assert len({*generated(1, ["a-"] * 100)}) == 100


def test_another_seed_gives_other_names():
    assert generated(1, ["a-"]) != generated(2, ["a-"])


def test_without_a_seed_names_are_left_to_chance():
    assert len({metadata.generated_name("a-") for _ in range(100)}) == 100
