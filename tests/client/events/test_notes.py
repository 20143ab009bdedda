import pytest

from kscheduler.client.events.broadcaster import note_text


@pytest.mark.parametrize(
    ("message", "want"),
    [
        pytest.param("plain", "plain", id="plain"),
        pytest.param("disk 100% full", "disk 100%!f(MISSING)ull", id="flag and verb"),
        pytest.param("50%d", "50%!d(MISSING)", id="verb"),
        pytest.param("100%", "100%!(NOVERB)", id="at the end"),
        pytest.param("100%%", "100%", id="doubled"),
        pytest.param("100% ", "100%!(NOVERB)", id="flag at the end"),
        pytest.param("%5.2f", "%!f(MISSING)", id="width and precision"),
        pytest.param("%*d", "%!(BADWIDTH)%!d(MISSING)", id="width from an argument"),
        pytest.param("%[1]d", "%!d(BADINDEX)", id="index"),
        pytest.param("5%é", "5%!é(MISSING)", id="not a letter of Go's"),
    ],
)
def test_percent_signs_are_mangled_as_upstream_does(message, want):
    assert note_text(message) == want


def test_note_of_1024_bytes_is_left_alone():
    assert note_text("x" * 1024) == "x" * 1024


def test_longer_note_is_cut_at_1020_bytes():
    assert note_text("x" * 1025) == "x" * 1020 + " ..."


@pytest.mark.parametrize(
    ("character", "torn"),
    [
        pytest.param("é", 1, id="two bytes"),
        pytest.param("€", 2, id="three bytes, two left"),
        pytest.param("🎈", 3, id="four bytes, three left"),
    ],
)
def test_each_byte_of_a_torn_character_becomes_a_replacement(character, torn):
    size = len(character.encode())
    head = "x" * (1020 - (size - 1))
    assert note_text(head + character * 400) == head + "\ufffd" * torn + " ..."


def test_half_a_surrogate_pair_does_no_harm():
    assert note_text("a\ud800b") == "a?b"
