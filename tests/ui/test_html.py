"""HTML from Python: text is never markup."""

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.ui.grid import Column, Grid
from kscheduler.ui.html import e, group
from kscheduler.ui.page import Page

HOSTILE = '"><img src=x onerror=alert(1)>'


def test_elements_have_classes_an_id_attributes_and_children():
    made = e("p.a.b#c", "x < y", e("br"), data_n=1, hidden=True, title=None, for_="z")
    assert made == '<p id="c" class="a b" data-n="1" hidden for="z">x &lt; y<br></p>'


def test_what_is_nothing_is_left_out_and_lists_are_flat():
    assert group(None, False, [1, ["a", None]], e("b", "c")) == "1a<b>c</b>"


@given(st.text())
def test_no_text_becomes_markup(text):
    made = e("p", text, title=text)
    assert made.count("<") == 2
    assert made.count('"') == 2


def test_hostile_texts_stay_texts_in_grids_and_addresses():
    page = Page("pods/a/b", {"filter": "", "x": HOSTILE})
    grid = Grid(
        "g", HOSTILE, [Column("k", HOSTILE, link="nodes/")], [[HOSTILE]], marks={0: HOSTILE}
    )
    text = grid.render(page, f"data/{HOSTILE}") + page.frame(HOSTILE, HOSTILE)
    assert "<img" not in text
    assert page.here(y=HOSTILE).startswith("?filter=&x=%22%3E%3Cimg")
    assert page.to(f"pods/{page.quoted(HOSTILE)}").startswith("../../pods/%22%3E%3Cimg")


def test_addresses_lead_up_to_the_root():
    assert Page("", {}).to("") == "./"
    assert Page("pods/a/b", {}).to("nodes", by="cpu") == "../../nodes?by=cpu"
    assert Page("pods/a/b", {"q": "1"}).here(q=None) == "?"
