"""Pages with a part written by a program."""

import pytest

from tests.kit.pages import UnmarkedPageError, replaced

PAGE = "before\n<!-- measured: begin -->\nold\n<!-- measured: end -->\nafter\n"


def test_a_page_keeps_what_stands_around_the_marks():
    once = replaced(PAGE, "measured", "new")
    assert once == "before\n<!-- measured: begin -->\n\nnew\n\n<!-- measured: end -->\nafter\n"
    assert replaced(once, "measured", "new") == once


def test_a_page_without_marks_is_refused():
    with pytest.raises(UnmarkedPageError, match="conformance: begin"):
        replaced(PAGE, "conformance", "new")
