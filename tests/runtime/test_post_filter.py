"""PostFilter: the first success ends it, refusals add up."""

from types import SimpleNamespace as Plugin

import pytest

from kscheduler.framework.plugin import PostFilterResult
from kscheduler.framework.status import (
    Code,
    Diagnosis,
    Status,
    failed,
    rejected,
    rejected_for_good,
)


def answering(name, status, nominated=None):
    return Plugin(name=name, post_filter=lambda *_: PostFilterResult(status, nominated))


def raising(name):
    def post_filter(*_):
        raise RuntimeError("oops")

    return Plugin(name=name, post_filter=post_filter)


SUCCESS = Status(Code.SUCCESS, ("made room",))


@pytest.mark.parametrize(
    ("plugins", "want"),
    [
        pytest.param(
            [answering("A", SUCCESS, "n1"), raising("B")],
            PostFilterResult(SUCCESS, "n1"),
            id="the first success ends it",
        ),
        pytest.param(
            [answering("A", rejected("a")), answering("B", SUCCESS, "n1")],
            PostFilterResult(SUCCESS, "n1"),
            id="a later success",
        ),
        pytest.param(
            [answering("A", rejected("a")), answering("B", rejected("b"), "")],
            PostFilterResult(Status(Code.UNSCHEDULABLE, ("a", "b"), "A"), ""),
            id="refusals add up under the first plugin",
        ),
        pytest.param(
            [answering("A", rejected("a"), "n1"), answering("B", rejected("b"))],
            PostFilterResult(Status(Code.UNSCHEDULABLE, ("a", "b"), "A"), "n1"),
            id="an answer that leaves the nomination alone does not undo one",
        ),
        pytest.param(
            [answering("A", rejected("a"), "n1"), answering("B", rejected("b"), "")],
            PostFilterResult(Status(Code.UNSCHEDULABLE, ("a", "b"), "A"), ""),
            id="the last word on the nomination counts",
        ),
        pytest.param(
            [answering("A", rejected_for_good("a"), ""), raising("B")],
            PostFilterResult(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("a",), "A"), ""),
            id="unresolvable ends it",
        ),
        pytest.param(
            [answering("A", failed("boom"), "n1"), raising("B")],
            PostFilterResult(Status(Code.ERROR, ("boom",), "A")),
            id="an error ends it",
        ),
        pytest.param(
            [answering("A", Status(Code.WAIT, ("hm",)))],
            PostFilterResult(Status(Code.ERROR, ("hm",), "A")),
            id="any other code is an error",
        ),
        pytest.param(
            [raising("A")],
            PostFilterResult(
                Status(Code.ERROR, ('running PostFilter plugin "A": RuntimeError: oops',), "A")
            ),
            id="an exception is an error",
        ),
    ],
)
def test_answers_combine(plugins, want, make_framework, cycle, pod):
    assert make_framework(*plugins).run_post_filter(cycle, pod, Diagnosis()) == want


def test_plugins_are_shown_the_diagnosis(make_framework, cycle, pod):
    seen = []
    diagnosis = Diagnosis()
    plugin = Plugin(
        name="A", post_filter=lambda c, p, d: seen.append(d) or PostFilterResult(SUCCESS)
    )
    make_framework(plugin).run_post_filter(cycle, pod, diagnosis)
    assert seen == [diagnosis]


async def test_what_takes_time_counts_under_what_it_ends_in(make_framework, cycle, pod):
    async def wait():
        return PostFilterResult(rejected("not now"))

    plugin = Plugin(name="A", post_filter=lambda *_: PostFilterResult(SUCCESS, None, wait))
    framework = make_framework(plugin)
    family = framework._handle.metrics.framework_extension_point_duration_seconds
    counts = {
        code: family.labels("PostFilter", code.text, framework.profile_name)
        for code in (Code.SUCCESS, Code.UNSCHEDULABLE)
    }
    result = framework.run_post_filter(cycle, pod, Diagnosis())
    assert [one.count for one in counts.values()] == [0, 0]
    assert (await result.preparation()).status.message == "not now"
    assert [one.count for one in counts.values()] == [0, 1]
