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
    assert LabelColumn(start).one_of(wanted).tolist() == [value in wanted for value in start]


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
    monkeypatch.setattr(label_columns, "MAX_COLUMNS", 2)
    columns = LabelColumns()
    columns.resize(1)
    first, second = columns.column("first"), columns.column("second")
    columns.column("first")
    columns.column("third")
    assert columns.column("first") is first
    assert columns.column("second") is not second
