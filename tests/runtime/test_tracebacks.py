"""Failures of plugins in the log: the author's frames, once per place."""

import linecache

import pytest

from kscheduler.metrics import Metrics
from kscheduler.runtime.out_of_tree.health import Fault, PluginFault
from kscheduler.runtime.plugin_calls import PluginCalls
from kscheduler.runtime.tracebacks import (
    MAX_FRAMES,
    MAX_PLACES,
    FailureCounts,
    is_told,
    traceback_of,
)
from kscheduler.testing import Stage, make_node, make_pod
from tests.kit.log import captured_log


class Failing:
    name = "Failing"

    def __init__(self, args, handle):
        pass

    def filter_node(self, cycle, pod, node):
        return self.rack_of(node)

    def rack_of(self, node):
        raise LookupError("no racks")


def failure():
    stage = Stage(Failing, nodes=[make_node("n")])
    with pytest.raises(LookupError) as failed:
        stage.rejections(make_pod("p"))
    return failed.value


def raised(error, depth=0):
    try:
        if depth:
            raise raised(error, depth - 1)
        raise error
    except Exception as caught:
        return caught


def test_a_traceback_begins_where_the_authors_code_does():
    error = failure()
    # Two frames of this test stand before those of the stage.
    error.__traceback__ = error.__traceback__.tb_next.tb_next
    lines = traceback_of(error).splitlines()
    assert [line.split(", in ")[1] for line in lines if line.startswith("  File")] == [
        "filter_node",
        "rack_of",
    ]
    assert lines[-1] == "LookupError: no racks"


def test_an_in_tree_plugins_traceback_is_whole():
    source = "def f():\n    raise ValueError('x')\n"
    from kscheduler.runtime import tracebacks

    name = f"{tracebacks.OWN_FOLDER}plugins/made_up.py"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    spaces = {}
    exec(compile(source, name, "exec"), spaces)
    with pytest.raises(ValueError, match="x") as failed:
        spaces["f"]()
    error = failed.value
    error.__traceback__ = error.__traceback__.tb_next
    assert "in f\n" in traceback_of(error)


def test_what_the_guard_makes_of_an_error_shows_the_error():
    fault = PluginFault(Fault.MUTATION, "tried to change what it was given")
    fault.__cause__ = raised(TypeError("read-only"))
    assert traceback_of(fault).splitlines()[-1] == "TypeError: read-only"


def test_a_deep_recursion_is_cut():
    def deeper(n):
        return deeper(n - 1) if n else 1 / 0

    with pytest.raises(ZeroDivisionError) as failed:
        deeper(100)
    assert traceback_of(failed.value).count("  File ") <= MAX_FRAMES


def test_a_place_is_told_once_and_then_counted():
    calls = PluginCalls("Filter", "default-scheduler", Metrics())
    with captured_log() as logged:
        for _ in range(100):
            calls.exception_status("Failing", raised(ValueError("x")))
        calls.exception_status("Failing", raised(KeyError("y")))
    said = [line.partition("] ")[2] for line in logged.lines if "Plugin failed" in line]
    assert [line.split('"')[1] for line in said] == [
        "Plugin failed",
        "Plugin failed again",
        "Plugin failed again",
        "Plugin failed",
    ]
    assert "failures=10" in said[1]
    assert "failures=100" in said[2]


def test_numbers_that_are_told():
    assert [n for n in range(1, 1001) if is_told(n)] == [1, 10, 100, 1000]


def test_answers_that_are_refused_are_told_apart_by_what_is_wrong():
    counts = FailureCounts()
    wrong = [PluginFault(Fault.ANSWER, text) for text in ("a", "b", "a")]
    assert [counts.count("P", one) for one in wrong] == [1, 1, 2]


def test_the_places_that_are_remembered_are_bounded():
    counts = FailureCounts()
    for n in range(MAX_PLACES + 1):
        assert counts.count("P", PluginFault(Fault.ANSWER, str(n))) == 1
    assert counts.count("P", PluginFault(Fault.ANSWER, "1")) == 2
    assert counts.count("P", PluginFault(Fault.ANSWER, "0")) == 1
