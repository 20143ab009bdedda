import json

import pytest

from kscheduler.api.decode import DecodeError
from kscheduler.client import watch_lines
from kscheduler.client.errors import Expired
from kscheduler.client.watch_lines import Change, Lines, understand, untyped_shape
from tests.client.following import SHAPE
from tests.client.scripted import bookmark, event, line, pod, status_body

FORMS = [
    pytest.param(lambda item: line(item)[:-1], id="as Go writes it"),
    pytest.param(lambda item: json.dumps(item).encode(), id="with spaces"),
    pytest.param(
        lambda item: json.dumps(dict(reversed(item.items()))).encode(), id="object before type"
    ),
]


@pytest.mark.parametrize("written", FORMS)
@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_event_tells_type_version_and_object(written, kind):
    change = understand(written(event(kind, pod("a", 7))), SHAPE)
    assert (change.type, change.version, change.item.key) == (kind, "7", "default/a")


@pytest.mark.parametrize("written", FORMS)
@pytest.mark.parametrize("end", [True, False])
def test_bookmark_tells_its_version_and_whether_it_ends_the_list(written, end):
    change = understand(written(bookmark(9, initial_end=end)), SHAPE)
    assert change == Change("BOOKMARK", "9", None, end)


@pytest.mark.parametrize("written", FORMS)
def test_error_event_is_raised(written):
    with pytest.raises(Expired, match=r"^too old$"):
        understand(written(event("ERROR", status_body(410, "Expired", "too old"))), SHAPE)


def test_object_of_a_wrong_shape_keeps_its_version_and_is_named(logged):
    broken = pod("a", 7)
    broken["spec"] = "no"
    assert understand(line(event("ADDED", broken))[:-1], SHAPE) == Change("ADDED", "7")
    assert 'object="default/a"' in logged.text


def test_null_lists_are_empty_lists():
    null = pod("a", 7)
    null["spec"] = {"containers": None, "tolerations": None}
    item = understand(line(event("ADDED", null))[:-1], SHAPE).item
    assert (item.spec.containers, item.spec.tolerations) == ((), ())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_the_same_however_they_are_chopped(size):
    stream = b"one\n\ntwo\nthree\nunfinished"
    lines = Lines()
    found = []
    for start in range(0, len(stream), size):
        found += lines.feed(stream[start : start + size])
    assert found == [b"one", b"two", b"three"]


def test_endless_line_is_given_up(monkeypatch):
    monkeypatch.setattr(watch_lines, "MAX_LINE_BYTES", 10)
    lines = Lines()
    lines.feed(b"x" * 8)
    with pytest.raises(DecodeError, match="a line of more than 10 bytes"):
        lines.feed(b"x" * 8)


def test_untyped_object_needs_a_name():
    shape = untyped_shape("foos.v1.example.com")
    assert shape.key({"metadata": {"name": "a"}}) == "a"
    with pytest.raises(DecodeError, match=r"it has no metadata\.name"):
        shape.decode(b'{"metadata":{}}')
    with pytest.raises(DecodeError, match="cannot decode object"):
        shape.decode(b"[]")
