"""Sentences and tables, on a terminal and elsewhere."""

import os
import sys

import pytest

from kscheduler.cli import page
from kscheduler.cli.page import age, answer_about, duration, listed, table, wrapped

ROWS = [("n1", "5", "", "chosen"), ("node-2", "10", "", "")]
HEADER = ("NODE", "SCORE", "NOTHING", "WHY")


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of 60 columns."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(page.shutil, "get_terminal_size", lambda: os.terminal_size((60, 24)))
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_columns_are_aligned_numbers_to_the_right_and_empty_ones_left_out():
    assert table(HEADER, ROWS, numbers=("SCORE",), marked="n1") == (
        "NODE     SCORE   WHY\nn1           5   chosen\nnode-2      10"
    )


def test_a_terminal_gets_colour_unless_it_does_not_want_it(terminal, monkeypatch):
    assert "\x1b[32m" in table(HEADER, ROWS, marked="n1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in table(HEADER, ROWS, marked="n1") + listed("What:", ["a"])


def test_sentences_are_wrapped_on_a_terminal_only(terminal, monkeypatch):
    sentence = "word " * 30 + "end."
    assert max(map(len, wrapped(sentence, "  ").splitlines())) <= 60
    monkeypatch.undo()
    assert wrapped(sentence) == sentence


def test_a_sentence_goes_on_after_its_subject():
    assert answer_about("shop/p", "It is on n1.") == "shop/p: it is on n1."


def test_control_characters_in_messages_do_not_reach_the_terminal():
    evil = "a\x1b[2Jb\nc\x9bd"
    assert wrapped(evil) == "a\N{REPLACEMENT CHARACTER}[2Jb c\N{REPLACEMENT CHARACTER}d"
    assert table(("A",), [(evil,)]).count("\n") == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (1800, "30m"),
        (11400, "3h10m"),
        (40000, "11h"),
        (90000, "25h"),
        (180000, "2d2h"),
        (900000, "10d"),
    ],
)
def test_durations_are_written_as_kubectl_writes_them(seconds, text):
    assert duration(seconds) == text


def test_an_age_is_counted_from_a_time_and_never_negative():
    assert age("2026-01-02T03:04:05Z", 1767323055.0) == "10s"
    assert age("2026-01-02T03:04:05Z", 0) == "0s"
    assert (age(None), age("yesterday")) == ("", "")
