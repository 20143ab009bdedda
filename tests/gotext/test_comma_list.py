"""Lists in flags: one CSV record in Go's dialect."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.gotext.comma_list import read_list, write_list


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", ()),
        ("a", ("a",)),
        ("a,b", ("a", "b")),
        (" a, b", (" a", " b")),
        ("a,", ("a", "")),
        (",", ("", "")),
        ('"a,b",c', ("a,b", "c")),
        ('"say ""hi"""', ('say "hi"',)),
        ("a\nb", ("a",)),
        ("\n\na", ("a",)),
        ('"a\nb",c\nd', ("a\nb", "c")),
        ('"a"\r\nb', ("a",)),
    ],
)
def test_reading(text, want):
    assert read_list(text) == want


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('a"b', 'parse error on line 1, column 2: bare " in non-quoted-field'),
        ('é,b"', 'parse error on line 1, column 5: bare " in non-quoted-field'),
        ('"a"b', 'parse error on line 1, column 3: extraneous or missing " in quoted-field'),
        ('"a', 'parse error on line 1, column 3: extraneous or missing " in quoted-field'),
        ("\n", "EOF"),
    ],
)
def test_refusals(text, why):
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        read_list(text)


FIELDS = st.text(
    st.characters(exclude_characters="\r", exclude_categories=["Cs"]) | st.just("\udcff")
)


@given(st.lists(FIELDS, min_size=2).map(tuple))
def test_what_was_written_reads_the_same(values):
    assert read_list(write_list(values)) == values
