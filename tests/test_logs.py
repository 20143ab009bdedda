"""klog in Python: the lines, the levels, and streams that never stall the caller."""

import asyncio
import io
import json
import logging
import os
import re
import threading
import time
import timeit
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler import logs
from kscheduler.gotext.strconv import quote
from kscheduler.logs import Logging, ObjectRef

log = logs.logger("kscheduler.cycle.bind")
HEADER = re.compile(r"([IWE])\d{4} \d\d:\d\d:\d\d\.\d{6} {1,7}\d+ test_logs\.py:\d+\] ")


class Lines(io.BytesIO):
    def texts(self):
        return [HEADER.sub(r"\1 ", line) for line in self.getvalue().decode().splitlines()]


@pytest.fixture
def stderr():
    lines = Lines()
    logs.configure(Logging(), stderr=lines)
    yield lines
    logs.configure(Logging())


@pytest.mark.parametrize(
    ("values", "want"),
    [
        pytest.param({"file": "out.yaml"}, ' file="out.yaml"', id="string"),
        pytest.param({"s": 'a "b"\t\\'}, r' s="a \"b\"\t\\"', id="escapes"),
        pytest.param({"s": "é\u200b\x00"}, ' s="é\\u200b\\x00"', id="unprintable"),
        pytest.param({"s": "\udcff"}, r' s="\xff"', id="not UTF-8"),
        pytest.param({"pod": ObjectRef("ns", "p")}, ' pod="ns/p"', id="object"),
        pytest.param({"node": ObjectRef("", "n")}, ' node="n"', id="object without namespace"),
        pytest.param(
            {"pods": [ObjectRef("ns", "p"), ObjectRef("", "n")]}, ' pods=["ns/p","n"]', id="objects"
        ),
        pytest.param({"n": 3, "ok": True, "x": None}, " n=3 ok=true x=null", id="scalars"),
        pytest.param({"qps": 50.0, "f": 0.5}, " qps=50 f=0.5", id="floats"),
        pytest.param({"m": {"a": "<b>"}}, r' m={"a":"\u003cb\u003e"}', id="struct"),
        pytest.param({"e": ValueError("no")}, ' e="no"', id="exception"),
    ],
)
def test_structured_lines_format_values_as_klog_does(stderr, values, want):
    log.info("Message", **values)
    assert stderr.texts() == [f'I "Message"{want}']


@pytest.mark.parametrize("text", ["a\nb", "a\nb\n"])
def test_a_value_of_several_lines_is_indented(stderr, text):
    log.info("Message", config=text, n=1)
    assert stderr.texts() == ['I "Message" config=<', "\ta", "\tb", " > n=1"]


def test_errors_name_their_cause_first(stderr):
    log.error(ValueError('a "b"'), "command failed", pod="p")
    log.error(None, "Leaderelection lost")
    assert stderr.texts() == [
        r'E "command failed" err="a \"b\"" pod="p"',
        'E "Leaderelection lost"',
    ]


def test_plain_lines_are_not_quoted(stderr):
    log.text_info("one\n")
    log.text_warning('two "quoted"')
    log.text_error("three")
    assert stderr.texts() == ["I one", 'W two "quoted"', "E three"]


def test_the_header_carries_pid_and_the_callers_line(stderr):
    log.info("Message")
    line = stderr.getvalue().decode()
    assert f" {os.getpid():7d} test_logs.py:" in line
    assert line[:6].lstrip("I").strip().isdigit()


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        pytest.param(Logging(), [], id="default"),
        pytest.param(Logging(verbosity=2), [1, 2], id="verbosity"),
        pytest.param(Logging(vmodule=(("bind", 3),)), [1, 2, 3], id="module"),
        pytest.param(Logging(vmodule=(("b[^x]*", 1), ("bind", 3))), [1], id="first pattern wins"),
        pytest.param(Logging(verbosity=2, vmodule=(("bind", 1),)), [1, 2], id="never below -v"),
        pytest.param(Logging(vmodule=(("queue", 3),)), [], id="another module"),
    ],
)
def test_verbosity(stderr, settings, want):
    logs.configure(settings, stderr=stderr)
    for level in (1, 2, 3, 4):
        log.v(level).info("Message", level=level)
        assert bool(log.v(level)) == (level in want)
    assert stderr.texts() == [f'I "Message" level={level}' for level in want]


def test_verbosity_changes_while_running_and_reaches_loggers_born_later(stderr):
    logs.set_verbosity(4)
    log.v(4).text_info("old")
    logs.logger("kscheduler.test_logs.later").v(4).text_info("new")
    logs.set_verbosity(0)
    log.v(1).text_info("gone")
    assert stderr.texts() == ["I old", "I new"]


@pytest.mark.parametrize(
    ("settings", "prefix"),
    [
        pytest.param(Logging(), "", id="default"),
        pytest.param(Logging(verbosity=3), "", id="below 4"),
        pytest.param(Logging(verbosity=4), "Bind.A", id="4"),
        pytest.param(Logging(verbosity=5), "Bind.A", id="above 4"),
        pytest.param(Logging(vmodule=(("test_logs", 5),)), "", id="verbose in this module only"),
    ],
)
def test_extension_points_and_plugins_are_named_at_high_verbosity(stderr, settings, prefix):
    named = logs.logger("kscheduler.test_logs", "Bind.A")
    logs.configure(settings, stderr=stderr)
    named.info("Message", n=1)
    named.error("no", "Failed")
    named.unhandled("no", "Failed")
    shown = f' logger="{prefix}"' if prefix else ""
    unhandled = f"{prefix}.UnhandledError" if prefix else "UnhandledError"
    assert stderr.texts() == [
        f'I "Message"{shown} n=1',
        f'E "Failed" err="no"{shown}',
        f'E "Failed" err="no" logger="{unhandled}"',
    ]


def test_json_lines(stderr):
    logs.configure(Logging(format="json", verbosity=3), stderr=stderr)
    log.v(3).info("Bound", pod=ObjectRef("ns", "p"), nodes=[ObjectRef("", "n")], qps=50.0)
    log.error(ValueError("no"), "Failed", n=1)
    log.text_error("plain")
    log.text_warning("careful")
    log.unhandled(None, "Unhandled")
    lines = [json.loads(line) for line in stderr.getvalue().splitlines()]
    assert all(line.pop("ts") > 1e12 for line in lines)
    assert all(re.fullmatch(r"tests/test_logs\.py:\d+", line.pop("caller")) for line in lines)
    assert lines == [
        {
            "msg": "Bound",
            "v": 3,
            "pod": {"name": "p", "namespace": "ns"},
            "nodes": [{"name": "n"}],
            "qps": 50,
        },
        {"msg": "Failed", "n": 1, "err": "no"},
        {"msg": "plain"},
        {"msg": "careful", "v": 0},
        {"msg": "Unhandled", "logger": "UnhandledError"},
    ]


def test_split_streams_send_info_to_stdout(stderr):
    stdout = Lines()
    logs.configure(Logging(split_stream=True), stderr=stderr, stdout=stdout)
    log.info("Fine")
    log.error(None, "Bad")
    log.text_warning("hm")
    assert (stdout.texts(), stderr.texts()) == (['I "Fine"'], ['E "Bad"', "W hm"])


def test_split_streams_of_json_count_warnings_as_information(stderr):
    stdout = Lines()
    settings = Logging(format="json", split_stream=True)
    logs.configure(settings, stderr=stderr, stdout=stdout)
    log.text_warning("hm")
    log.error(None, "Bad")
    assert json.loads(stdout.getvalue())["msg"] == "hm"
    assert json.loads(stderr.getvalue())["msg"] == "Bad"


def test_library_warnings_join_the_stream(stderr):
    # Of a name that no other test has set a level for.
    library = logging.getLogger("third_party")
    library.warning("odd %s", "thing")
    library.info("chatter")
    assert stderr.texts() == ["W odd thing"]


def test_ref_names_an_object_or_nothing():
    pod = SimpleNamespace(metadata=SimpleNamespace(name="p", namespace="ns"))
    assert (str(logs.ref(pod)), str(logs.ref(None))) == ("ns/p", "")


def test_buffered_lines_wait_for_a_flush():
    reader, writer = os.pipe()
    stream = logs.FileStream(writer, buffer_bytes=100)
    stream.write(b"x" * 60)
    os.set_blocking(reader, False)
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    stream.flush()
    assert os.read(reader, 200) == b"x" * 60
    stream.write(b"y" * 101)
    assert os.read(reader, 200) == b"y" * 101
    os.close(reader)
    os.close(writer)


async def test_buffered_lines_are_flushed_regularly(stderr):
    flushed = asyncio.Event()
    stderr.flush = flushed.set
    logs.configure(Logging(flush_frequency_seconds=0.001), stderr=stderr)
    async with asyncio.timeout(30):
        task = asyncio.create_task(logs.flush_regularly())
        await flushed.wait()
    task.cancel()


def test_a_stalled_reader_never_blocks_and_gets_the_oldest_lines_later():
    reader, writer = os.pipe()
    stream = logs.FileStream(writer)
    line = b"z" * 999 + b"\n"
    for _ in range(3000):
        stream.write(line)
    read = b""
    os.set_blocking(reader, False)
    while True:
        try:
            read += os.read(reader, 1 << 20)
        except BlockingIOError:
            break
        stream.flush()
    assert 1 << 20 < len(read) < 1 << 21
    assert set(read.splitlines(keepends=True)) == {line}
    os.close(reader)
    os.close(writer)


def test_lines_of_several_threads_come_out_whole_and_once(tmp_path):
    with open(tmp_path / "log", "wb", buffering=0) as file:
        stream = logs.FileStream(file.fileno())
        lines = {who: [f"{who} {n} {'z' * 200}".encode() for n in range(300)] for who in "abcd"}

        def write(some):
            for line in some:
                stream.write(line + b"\n")

        threads = [threading.Thread(target=write, args=(some,)) for some in lines.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stream.flush()
    written = (tmp_path / "log").read_bytes().splitlines()
    for who, some in lines.items():
        assert [line for line in written if line.startswith(who.encode())] == some
    assert len(written) == 1200


def test_a_closed_reader_or_descriptor_costs_the_lines_only():
    reader, writer = os.pipe()
    stream = logs.FileStream(writer)
    os.close(reader)
    stream.write(b"lost\n")
    os.close(writer)
    stream.write(b"lost\n")


def test_a_full_disk_costs_the_lines_only():
    with open("/dev/full", "wb", buffering=0) as full:
        logs.FileStream(full.fileno()).write(b"lost\n")


def test_a_silent_level_is_cheap():
    def ask():
        log.v(5).info("Message", pod=1)

    best = min(timeit.repeat(ask, timer=time.thread_time, number=10_000, repeat=20))
    assert best / 10_000 < 1e-6  # 0.15 µs measured; the bound leaves room for a slow machine


@given(st.text())
def test_quoted_text_has_no_bare_quote_and_no_line_break(text):
    inner = quote(text)[1:-1]
    assert "\n" not in inner
    assert not re.search(r'(?<!\\)(\\\\)*"', inner)
