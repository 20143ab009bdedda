import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.decode import DecodeError
from kscheduler.client.errors import Expired, StatusError
from kscheduler.client.informers import decoding
from kscheduler.client.informers.decoding import Change, Lines, decode_change, untyped_shape
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
    change = decode_change(written(event(kind, pod("a", 7))), SHAPE)
    assert (change.type, change.version, change.item.key) == (kind, "7", "default/a")


@pytest.mark.parametrize("written", FORMS)
@pytest.mark.parametrize("end", [True, False])
def test_bookmark_tells_its_version_and_whether_it_ends_the_list(written, end):
    change = decode_change(written(bookmark(9, initial_end=end)), SHAPE)
    assert change == Change("BOOKMARK", "9", None, end)


@pytest.mark.parametrize("written", FORMS)
def test_error_event_is_raised(written):
    with pytest.raises(Expired, match=r"^too old$"):
        decode_change(written(event("ERROR", status_body(410, "Expired", "too old"))), SHAPE)


def test_object_of_a_wrong_shape_keeps_its_version_and_is_named(logged):
    broken = pod("a", 7)
    broken["spec"] = "no"
    assert decode_change(line(event("ADDED", broken))[:-1], SHAPE) == Change(
        "ADDED", "7", key="default/a"
    )
    assert 'object="default/a"' in logged.text


DEEP = b"[" * 5000 + b"]" * 5000


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(b'{"nodeName":%s}' % DEEP, id="nested"),
        pytest.param(b'{"nodeName":%s}' % (b"7" * 5000), id="a number of 5,000 digits"),
        pytest.param(b'{"nodeName":"\xff"}', id="not UTF-8"),
        pytest.param(b'{"nodeName":"\\ud800"}', id="half a character"),
        pytest.param(b'{"nodeName":NaN}', id="not a number"),
        pytest.param(b'{"x":"\\ud800"}', id="half a character where nobody looks"),
    ],
)
def test_object_that_cannot_be_decoded_keeps_version_and_name(logged, spec):
    metadata = b'{"name":"a","namespace":"default","resourceVersion":"7","labels":{"x":"y"}}'
    text = b'{"type":"MODIFIED","object":{"metadata":%s,"spec":%s}}' % (metadata, spec)
    assert decode_change(text, SHAPE) == Change("MODIFIED", "7", key="default/a")
    assert 'type="*v1.Pod" object="default/a"' in logged.text


def test_whatever_goes_wrong_costs_one_object(logged):
    def decode(_data):
        raise MemoryError

    shape = replace(SHAPE, decode=decode)
    assert decode_change(line(event("ADDED", pod("a", 7)))[:-1], shape).key == "default/a"


def test_object_without_a_name_is_passed_over(logged):
    unnamed = line(event("ADDED", {"metadata": {"resourceVersion": "8"}, "spec": 7}))[:-1]
    assert decode_change(unnamed, SHAPE) == Change("ADDED", "8")
    assert 'object="<unnamed>"' in logged.text


@pytest.mark.parametrize(
    "text",
    [
        b'{"type":"\xff\xfe","object":{}}',
        b'{"type":"NEWS","object":{"metadata":{"name":"a"}}}',
        b'{ "type":"\xff","object":{}}',
        b'{"type":"ADDED","object":' + DEEP[:5000] + b"}",
        b'{"type":"ADDED","object":}',
        b'{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":rubbish}}',
        b'{"type":7,"object":{}}',
        b'{"type":"ADDED"}',
        b'{"type":"BOOKMARK","object":"\xff"}',
        b'{"type":"ERROR","object":[]}',
        DEEP,
        b"\xff",
        b"{}",
    ],
)
def test_line_that_tells_of_no_object_is_refused(text):
    with pytest.raises(DecodeError):
        decode_change(text, SHAPE)


@given(st.binary(max_size=30), st.sampled_from(["ADDED", "DELETED", "BOOKMARK", "ERROR", "x"]))
def test_whatever_a_line_holds_it_is_a_change_or_one_clear_error(data, kind):
    for text in (
        data,
        b'{"type":"%s","object":%s}' % (kind.encode(), data),
        b'{"type":"%s","object":{"metadata":%s}}' % (kind.encode(), data),
        b'{"type":"%s","object":{"metadata":{"name":"a"},"spec":%s}}' % (kind.encode(), data),
        b'{"type":"ERROR","object":{"kind":"Status","details":%s}}' % data,
    ):
        with suppress(DecodeError, StatusError):
            assert isinstance(decode_change(text, SHAPE), Change)


def test_null_lists_are_empty_lists():
    null = pod("a", 7)
    null["spec"] = {"containers": None, "tolerations": None}
    item = decode_change(line(event("ADDED", null))[:-1], SHAPE).item
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
    monkeypatch.setattr(decoding, "MAX_LINE_BYTES", 10)
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
