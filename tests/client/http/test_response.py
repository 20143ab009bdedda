import tracemalloc
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.client.http import response as http_response
from kscheduler.client.http.response import MalformedResponseError, Response

TOKEN = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=12)
VALUE = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30)
FRAMING = {"content-length", "transfer-encoding", "connection"}


def chunked(parts, trailer=b""):
    lines = [b"%x\r\n%s\r\n" % (len(part), part) for part in parts if part]
    return b"".join([*lines, b"0\r\n", trailer, b"\r\n"])


def cut(data, places):
    """The same bytes in pieces, cut at these places."""
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges) if start < end]


def fed(pieces, **options):
    response = Response(**options)
    for piece in pieces:
        response.feed(piece)
    return response


@st.composite
def answers(draw):
    """A proper answer on the wire: its bytes, status, headers and body."""
    status = draw(st.integers(200, 599).filter(lambda code: code not in (204, 304)))
    headers = draw(st.dictionaries(TOKEN.filter(lambda name: name not in FRAMING), VALUE))
    parts = draw(st.lists(st.binary(max_size=60), max_size=5))
    body = b"".join(parts)
    if draw(st.booleans()):
        headers["transfer-encoding"] = "chunked"
        sent = chunked(parts, draw(st.sampled_from([b"", b"X-After: 1\r\n"])))
    else:
        headers["content-length"] = str(len(body))
        sent = body
    interim = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n"]))
    lines = [f"HTTP/1.1 {status} Reason", *(f"{name}: {v}" for name, v in headers.items())]
    head = "\r\n".join([*lines, "", ""]).encode()
    told = {name.encode(): value.strip(" ").encode() for name, value in headers.items()}
    return interim + head + sent, status, told, body


@given(answers(), st.lists(st.integers(0, 5000), max_size=20))
def test_an_answer_is_the_same_in_pieces_of_any_size(answer, places):
    data, status, headers, body = answer
    response = fed(cut(data, places))
    assert (response.status, response.headers, response.take()) == (status, headers, body)
    assert response.complete
    assert response.keeps_alive


@given(answers(), st.integers(1, 5000))
def test_an_answer_is_not_complete_before_its_last_byte(answer, missing):
    data, *_ = answer
    short = data[: max(0, len(data) - missing)]
    response = fed([short] if short else [])
    response.end()
    assert not response.complete


@given(answers(), st.binary(min_size=1, max_size=20))
def test_what_comes_after_the_end_spoils_the_connection_and_not_the_answer(answer, garbage):
    data, _, _, body = answer
    response = fed([data + garbage])
    assert (response.complete, response.keeps_alive, response.take()) == (True, False, body)


@given(st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=5))
def test_whatever_comes_is_understood_refused_or_waited_for(pieces):
    response = Response()
    try:
        for piece in pieces:
            response.feed(piece)
    except MalformedResponseError:
        return
    assert response.status or b"HTTP/1.".startswith(b"".join(pieces)[:7])


@given(answers(), st.integers(0, 5000), st.binary(min_size=1, max_size=3))
def test_a_damaged_answer_never_does_worse_than_being_refused(answer, place, damage):
    data, *_ = answer
    place %= len(data)
    with suppress(MalformedResponseError):
        fed([data[:place] + damage + data[place + len(damage) :]])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"hello", id="no HTTP"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", id="another protocol"),
        pytest.param(b"\x15\x03\x01\x00\x02\x02\x16", id="TLS"),
        pytest.param(b"HTTP/2 200 OK\r\n\r\n", id="another version"),
        pytest.param(b"HTTP/1.1 20 OK\r\n\r\n", id="status of two digits"),
        pytest.param(b"HTTP/1.1 099 OK\r\n\r\n", id="status below 100"),
        pytest.param(b"HTTP/1.1 200 OK\n\n", id="lines without carriage return"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA: 1\n\nB: 2", id="lines of both kinds"),
        pytest.param(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", id="header without colon"),
        pytest.param(b"HTTP/1.1 200 OK\r\n: value\r\n\r\n", id="header without name"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA : 1\r\n\r\n", id="space before the colon"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA: 1\r\n folded\r\n\r\n", id="folded header"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA: \0\r\n\r\n", id="zero byte in a header"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", id="negative length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", id="signed length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", id="empty length"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", id="two lengths"
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 16 + b"\r\n\r\n", id="huge"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", id="other encoding"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", id="another protocol agreed"),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 6, id="too many interim answers"),
    ],
)
def test_malformed_heads_are_refused_at_once(data):
    with pytest.raises(MalformedResponseError):
        fed([data])


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (b"garbage", 'malformed HTTP response "garbage"'),
        (b"HTTP/1.1 abc", 'malformed HTTP status code "abc"'),
        (b"HTTP/1.1 2000 OK", 'malformed HTTP status code "2000"'),
        (b"HTTP/x 200 OK", 'malformed HTTP version "HTTP/x"'),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x", 'bad Content-Length "x"'),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: x", 'unsupported transfer encoding: "x"'),
    ],
)
def test_what_is_wrong_with_a_head_is_told_in_the_words_of_go(head, told):
    response = Response()
    with pytest.raises(MalformedResponseError) as refused:
        response.feed(head + b"\r\n\r\n")
    assert str(refused.value) == told
    assert not response.status


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\r\n", id="no size"),
        pytest.param(b"x\r\n", id="size is no number"),
        pytest.param(b"-1\r\n", id="negative size"),
        pytest.param(b"0x1\r\n", id="size with a prefix"),
        pytest.param(b"1" * 16 + b"\r\n", id="huge size"),
        pytest.param(b"1\r\nab\r\n", id="more than was said"),
        pytest.param(b"1;" + b"x" * 2000, id="endless extension"),
    ],
)
def test_malformed_chunks_are_refused(body):
    with pytest.raises(MalformedResponseError):
        fed([CHUNKED, body])


def test_heads_and_trailers_have_an_end():
    endless = b"A: " + b"x" * http_response.MAX_HEAD_BYTES
    with pytest.raises(MalformedResponseError, match="head is too long"):
        fed([b"HTTP/1.1 200 OK\r\n", endless])
    with pytest.raises(MalformedResponseError):
        fed([CHUNKED, b"0\r\n", endless])
    with pytest.raises(MalformedResponseError, match="trailer is too long"):
        fed([CHUNKED, b"0\r\n", b"A: 1\r\n" * http_response.MAX_HEAD_BYTES])


def test_a_refusal_beyond_its_own_limit_is_refused(monkeypatch):
    monkeypatch.setattr(http_response, "MAX_REFUSAL_BYTES", 9)
    assert fed([b"HTTP/1.1 206 OK\r\nContent-Length: 10\r\n\r\n0123456789"]).complete
    with pytest.raises(MalformedResponseError, match="more than 9 bytes"):
        fed([b"HTTP/1.1 302 Found\r\nContent-Length: 10\r\n\r\n0123456789"])


def test_a_body_in_tiny_pieces_takes_no_more_memory_than_in_one():
    response, piece = Response(), b"1\r\nx\r\n"
    response.feed(CHUNKED)
    tracemalloc.start()
    try:
        for _ in range(200_000):
            response.feed(piece)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * 200_000
    response.feed(b"3\r\nend\r\n0\r\n\r\n")
    assert response.take() == b"x" * 200_000 + b"end"


def test_small_and_large_pieces_keep_their_order():
    parts = [b"%d" % i * size for i, size in enumerate((1, 1, 9000, 1, 5000, 9000, 1, 1, 70000, 1))]
    assert fed([CHUNKED, *(chunked([part])[:-5] for part in parts)]).take() == b"".join(parts)


def test_a_body_beyond_the_limit_is_refused():
    with pytest.raises(MalformedResponseError, match="more than 9 bytes"):
        fed([b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"], most_bytes=9)


def test_a_body_without_a_length_ends_with_the_connection():
    response = fed([b"HTTP/1.1 200 OK\r\n\r\nab", b"c"])
    assert not response.complete
    response.end()
    assert (response.complete, response.keeps_alive, response.take()) == (True, False, b"abc")


@pytest.mark.parametrize(
    ("head", "keeps"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (CHUNKED[:-2] + b"Content-Length: 3\r\n\r\n0\r\n\r\n", False),
    ],
)
def test_whether_the_connection_may_be_kept(head, keeps):
    response = fed([head])
    assert (response.complete, response.keeps_alive) == (True, keeps)


def test_an_answer_to_connect_has_no_body():
    response = fed([b"HTTP/1.1 200 Connection established\r\n\r\n"], bodiless=True)
    assert (response.complete, response.keeps_alive) == (True, True)


def test_reading_along_gives_each_byte_once():
    response = fed([CHUNKED, b"3\r\nabc\r\n2\r\nd"])
    assert (response.held_bytes, response.take(), response.held_bytes) == (4, b"abcd", 0)
    assert response.take() == b""
    response.feed(b"e\r\n0\r\n\r\n")
    assert (response.take(), response.complete) == (b"e", True)
