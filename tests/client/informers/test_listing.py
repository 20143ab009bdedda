"""Lists that come in one piece, split into objects part by part."""

import json

import pytest

from kscheduler.api.decode import DecodeError
from kscheduler.client.informers import listing
from kscheduler.client.informers.listing import in_parts


def body(items, **more):
    document = {"kind": "L", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}
    return json.dumps(document | {"items": items} | more, separators=(",", ":")).encode()


def item(number, **more):
    return {"metadata": {"name": f"n{number}", "labels": {"a": "}"}}, **more}


def split(data, part_bytes):
    parts = list(in_parts(data, part_bytes))
    items = [json.loads(bytes(raw)) for part in parts for raw in part.items or ()]
    return parts, items


PLAIN = [item(number) for number in range(200)]
NESTED = [item(number, spec=[item(1), item(2), item(3)]) for number in range(50)]
QUOTED = [item(number, note='},{"metadata":{"name":"no"}') for number in range(50)]
KINDS = [{"apiVersion": "v1", "kind": "K", **item(number)} for number in range(50)]
MIXED = [item(number) if number % 2 else {"spec": 1, **item(number)} for number in range(50)]


@pytest.mark.parametrize("part_bytes", [1, 60, 200, 1000, 1 << 20])
@pytest.mark.parametrize("items", [PLAIN, NESTED, QUOTED, KINDS, MIXED, [], [{}, {}], [1, "a"]])
def test_the_parts_are_the_whole(items, part_bytes):
    parts, found = split(body(items), part_bytes)
    assert found == items
    assert parts[-1].metadata.resource_version == "7"


@pytest.mark.parametrize("items", [PLAIN, QUOTED, KINDS])
def test_no_part_has_more_objects_than_fit_it(items):
    parts, _ = split(body(items), 500)
    smallest = min(len(json.dumps(one, separators=(",", ":"))) for one in items)
    assert max(len(part.items) for part in parts) <= 500 / smallest
    assert len(parts) > 5


def test_an_item_larger_than_a_part_is_found():
    items = [item(1), item(2, note="x" * 5000), item(3)]
    assert split(body(items), 100)[1] == items


def test_metadata_may_come_last():
    data = body(PLAIN).replace(b'"metadata":{"resourceVersion":"7"},', b"", 1)
    data = data[:-1] + b',"metadata":{"resourceVersion":"7","continue":"c"}}'
    parts, found = split(data, 500)
    assert found == PLAIN
    assert (parts[-1].metadata.resource_version, parts[-1].metadata.continue_) == ("7", "c")


def test_a_list_laid_out_for_humans_is_read_in_one_piece():
    data = json.dumps(json.loads(body(PLAIN)), indent=1).encode()
    parts, found = split(data, 100)
    assert (len(parts), found) == (1, PLAIN)


def test_what_is_no_list_is_refused():
    with pytest.raises(DecodeError):
        split(body(PLAIN)[:-3], 300)


def test_an_object_that_is_no_json_does_not_hide_the_others():
    data = body(PLAIN).replace(b'"n150"', b"n150")
    raws = [bytes(raw) for part in in_parts(data, 300) for raw in part.items or ()]
    broken = raws.pop(150)
    assert b"n150" in broken
    assert [json.loads(raw) for raw in raws] == PLAIN[:150] + PLAIN[151:]


def test_an_object_nested_too_deeply_for_the_parser_does_not_hide_the_others():
    deep = b'{"metadata":{"name":"deep"},"spec":' + b"[" * 5000 + b"]" * 5000 + b"}"
    data = body(PLAIN).replace(b'{"metadata":{"name":"n100"', deep + b',{"metadata":{"name":"n100"')
    parts = list(in_parts(data, 300))
    raws = [bytes(raw) for part in parts for raw in part.items or ()]
    assert raws[100] == deep
    assert [json.loads(raw) for raw in raws if raw != deep] == PLAIN
    assert len(parts) > 5


def test_parts_are_small():
    assert listing.PART_BYTES <= 1 << 20
