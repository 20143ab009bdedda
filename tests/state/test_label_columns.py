import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.state import label_columns
from kscheduler.state.label_columns import ABSENT, LabelColumn, LabelColumns

values = st.sampled_from(["a", "b", "c", "7", "-7", None])


def shown(column):
    names = {code: value for value, code in column.values.items()}
    return [names.get(code) for code in column.codes.tolist()]


@given(st.lists(values, max_size=21), st.lists(st.tuples(st.integers(0, 20), values)))
def test_a_column_shows_what_was_put_and_reuses_codes(start, puts):
    column, model = LabelColumn(start), [*start]
    column.resize(21)
    model += [None] * (21 - len(model))
    most = max(len(set(model) - {None}), 1)
    for row, value in puts:
        column.put(row, value)
        model[row] = value
        # While a value replaces another, both are there.
        most = max(most, len(set(model) - {None}) + 1)
        assert shown(column) == model
        assert set(column.values) == set(model) - {None}
        assert column.width <= most


@given(st.lists(values), st.sets(st.sampled_from(["a", "b", "z"])))
def test_one_of(start, wanted):
    found = LabelColumn(start).one_of(wanted)
    want = [value in wanted for value in start]
    assert want == ([False] * len(start) if found is None else found.tolist())


def test_numbers_of_values_that_are_integers():
    texts = ["7", "007", "1_0", "x", "", None, str(2**63 - 1), str(2**63)]
    numbers, valid = LabelColumn(texts).numbers()
    assert valid.tolist() == [True, True, False, False, False, False, True, False]
    assert numbers[valid].tolist() == [7, 7, 2**63 - 1]


def test_numbers_follow_the_labels():
    column = LabelColumn(["1", "2"])
    column.numbers()
    column.put(0, "5")
    assert column.numbers()[0].tolist() == [5, 2]


def test_columns_follow_the_labels_of_their_rows():
    columns = LabelColumns()
    columns.resize(3)
    columns.put(0, {"app": "web", "x": "1"})
    before = shown(columns.column("app"))
    columns.put(0, {"x": "1"})
    columns.put(2, {"app": "db"})
    assert (before, shown(columns.column("app"))) == (
        ["web", None, None],
        [None, None, "db"],
    )


def test_rows_that_come_have_no_labels():
    columns = LabelColumns()
    columns.resize(1)
    columns.put(0, {"app": "web"})
    columns.column("app")
    columns.put(0, {})
    columns.resize(0)
    columns.resize(2)
    assert columns.column("app").codes.tolist() == [ABSENT, ABSENT]


def test_the_column_not_asked_for_longest_makes_room(monkeypatch):
    columns = LabelColumns()
    columns.resize(1)
    columns.put(0, {"first": "x", "second": "x", "third": "x"})
    first = columns.column("first")
    monkeypatch.setattr(label_columns, "MAX_COLUMN_BYTES", 2 * first.nbytes)
    second = columns.column("second")
    columns.column("first")
    columns.column("third")
    assert columns.column("first") is first
    assert columns.column("second") is not second


def test_columns_with_many_values_count_for_more(monkeypatch):
    columns = LabelColumns()
    columns.resize(100)
    for row in range(100):
        columns.put(row, {"name": f"n{row}", "zone": "z", "rack": "r"})
    zone, rack = columns.column("zone"), columns.column("rack")
    monkeypatch.setattr(label_columns, "MAX_COLUMN_BYTES", 100 * label_columns.BYTES_OF_VALUE)
    columns.column("name")
    assert columns.column("zone") is not zone
    assert columns.column("rack") is not rack


def test_keys_that_no_row_has_share_a_column_and_leave_nothing_behind():
    columns = LabelColumns()
    columns.resize(2)
    columns.put(1, {"app": "web"})
    columns.column("app")
    assert {id(columns.column(f"absent-{number}")) for number in range(1000)} == {
        id(columns.column("absent"))
    }
    assert columns.column("absent").codes.tolist() == [ABSENT, ABSENT]
    assert list(columns._columns) == ["app"]


def test_the_column_of_a_key_goes_with_the_last_row_that_has_it():
    columns = LabelColumns()
    columns.resize(2)
    columns.put(0, {"app": "web"})
    columns.put(1, {"app": "db"})
    columns.column("app")
    columns.put(0, {})
    assert set(columns.keys) == set(columns._columns) == {"app"}
    columns.put(1, {})
    assert not columns.keys
    assert not columns._columns
    assert columns.bytes == 0


def test_columns_nobody_asks_for_are_dropped_when_aged():
    columns = LabelColumns()
    columns.resize(1)
    columns.put(0, {"often": "x", "once": "x"})
    often, once = columns.column("often"), columns.column("once")
    columns.age()
    assert columns.column("often") is often
    columns.age()
    assert columns.entries == 1
    assert columns.column("often") is often
    assert columns.column("once") is not once


some_labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"))


@given(
    st.lists(
        st.tuples(st.integers(0, 5), some_labels)
        | st.integers(0, 6)
        | st.sampled_from(["a", "b", "c", "d"])
    ),
    st.integers(0, 400),
)
def test_columns_show_the_labels_of_all_rows_under_any_history(steps, room):
    """Rows get labels, their number changes, or a column is asked for."""
    columns, model = LabelColumns(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_columns, "MAX_COLUMN_BYTES", room)
        for step in steps:
            if isinstance(step, int):
                columns.resize(step)
                model = model[:step] + [{}] * (step - len(model))
            elif isinstance(step, str):
                columns.column(step)
            elif step[0] < len(model):
                columns.put(*step)
                model[step[0]] = step[1]
            assert set(columns.keys) == {key for labels in model for key in labels}
        for key in "abcd":
            assert shown(columns.column(key)) == [labels.get(key) for labels in model]
