"""Accept headers, and what is chosen by them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.serving.answers import JSON, YAML, Choice, Target, choose, wishes

FLAGZ = Target("config.k8s.io", "v1beta1", "Flagz")


@pytest.mark.parametrize(
    ("header", "order"),
    [
        ("a/b, c/d", ["a/b", "c/d"]),
        ("a/b;q=0.1, c/d;q=0.9", ["c/d", "a/b"]),
        ("*/*, a/*, a/b", ["a/b", "a/*", "*/*"]),
        ("*", ["*/*"]),
        ("junk, a/b", ["a/b"]),
        ("a/b;q=x", ["a/b"]),
        ("", []),
    ],
)
def test_wishes_come_best_first(header, order):
    assert [f"{wish.type}/{wish.subtype}" for wish in wishes(header)] == order


@pytest.mark.parametrize(
    ("header", "choice"),
    [
        ("", Choice(JSON, None)),
        ("application/yaml, application/json", Choice(YAML, None)),
        ("application/*", Choice(JSON, None)),
        ("text/html", None),
        ("application/json;stream=watch", None),
        ("application/json;as=Flagz;v=v1beta1;g=config.k8s.io", None),
    ],
)
def test_the_first_wish_that_can_be_met_counts(header, choice):
    assert choose(header, (JSON, YAML)) == choice


def test_other_kinds_are_for_those_who_have_them():
    header = "application/yaml;as=Flagz;v=v1beta1;g=config.k8s.io"
    chosen = choose(header, (JSON, YAML), lambda _, target: target == FLAGZ)
    assert chosen == Choice(YAML, FLAGZ)
    assert FLAGZ.parameters() == ";g=config.k8s.io;v=v1beta1;as=Flagz"


@given(st.text(max_size=500))
def test_nothing_a_client_says_breaks_it(header):
    chosen = choose(header, (JSON, YAML))
    assert chosen is None or chosen.media_type in (JSON, YAML)


def test_a_long_list_is_not_read_to_its_end():
    assert len(wishes("a/b," * 100_000)) <= 64
