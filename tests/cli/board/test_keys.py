"""Keys as terminals send them."""

import pytest

from kscheduler.cli.board.keys import KeyDecoder


@pytest.mark.parametrize(
    ("sent", "want"),
    [
        pytest.param(b"q+ ", ["q", "+", " "], id="characters"),
        pytest.param(b"\r\n\t", ["enter", "enter", "tab"], id="enter and tab"),
        pytest.param(b"\x1b[A\x1b[B\x1b[C\x1b[D", ["up", "down", "right", "left"], id="arrows"),
        pytest.param(b"\x1bOA\x1bOB", ["up", "down"], id="arrows of an application's keypad"),
        pytest.param(b"\x1b[1;5A", ["up"], id="with Ctrl"),
        pytest.param(b"\x1b[5~\x1b[6~\x1b[1~\x1b[F", ["page-up", "page-down", "home", "end"]),
        pytest.param(b"\x1b[Z", ["back-tab"], id="Shift and tab"),
        pytest.param(b"\x1b[15~x", ["x"], id="a key that we do not know"),
        pytest.param(b"\x1b\x1b[A", ["escape", "up"], id="Escape and then another"),
        pytest.param(b"\x1bq", ["escape", "q"], id="Alt, as some terminals send it"),
        pytest.param("é世".encode(), ["é", "世"], id="more than ASCII"),
        pytest.param(b"\xff\xfex", ["x"], id="no text at all"),
    ],
)
def test_bytes_become_keys(sent, want):
    decoder = KeyDecoder()
    assert decoder.feed(sent) == want
    assert not decoder.is_waiting


def test_a_sequence_may_arrive_in_pieces():
    decoder = KeyDecoder()
    assert [decoder.feed(piece) for piece in (b"\x1b", b"[", b"5", b"~")] == [
        [],
        [],
        [],
        ["page-up"],
    ]


def test_an_escape_that_nothing_follows_is_the_key():
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b") == []
    assert decoder.is_waiting
    assert decoder.flush() == ["escape"]
    assert not decoder.is_waiting
    assert decoder.flush() == []


def test_a_sequence_without_an_end_is_not_held_for_ever():
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b[" + b"1" * 100)[0] == "escape"
    assert not decoder.is_waiting
