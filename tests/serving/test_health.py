"""Health checks: what is told of them, to whom, and what is counted."""

import io

import pytest

from kscheduler import logs
from kscheduler.serving.exposition import as_text
from kscheduler.serving.health import PING, Check, HealthMetrics, examine, examine_one

FAILING = Check("b", lambda: "the reason")


@pytest.mark.parametrize(
    ("checks", "exclude", "verbose", "healthy", "text"),
    [
        pytest.param([PING], [], False, True, "ok", id="short when all is well"),
        pytest.param([PING], [], True, True, "[+]ping ok\nx check passed\n", id="verbose"),
        pytest.param(
            [PING, FAILING],
            [],
            False,
            False,
            "[+]ping ok\n[-]b failed: reason withheld\nx check failed\n",
            id="failures are told in full, but for the reason",
        ),
        pytest.param([PING, FAILING], ["b"], False, True, "ok", id="failing but excluded"),
        pytest.param(
            [PING],
            ['"', ""],
            True,
            True,
            "[+]ping ok\n"
            'warn: some health checks cannot be excluded: no matches for "","\\""\n'
            "x check passed\n",
            id="odd names are quoted",
        ),
    ],
)
def test_reports(checks, exclude, verbose, healthy, text):
    report = examine(
        "x", checks, exclude=frozenset(exclude), verbose=verbose, metrics=HealthMetrics()
    )
    assert (report.healthy, report.text) == (healthy, text)


def test_one_check_tells_its_reason():
    assert examine_one(FAILING).text == "internal server error: the reason\n"
    assert examine_one(PING).text == "ok"


def test_an_excluded_check_is_not_run():
    def probe():
        raise AssertionError

    assert examine(
        "x",
        [Check("a", probe)],
        exclude=frozenset({"a"}),
        verbose=False,
        metrics=HealthMetrics(),
    ).healthy


def test_the_log_has_the_reasons_that_the_answer_withholds():
    lines = io.BytesIO()
    logs.configure(logs.Logging(verbosity=2), stderr=lines)
    try:
        examine(
            "readyz",
            [PING, FAILING],
            exclude=frozenset(),
            verbose=False,
            metrics=HealthMetrics(),
        )
    finally:
        logs.configure(logs.Logging())
    assert lines.getvalue().endswith(b"] b check failed: readyz\n[-]b failed: the reason\n")


def test_who_asks_is_counted_and_what_was_said_last_is_kept():
    metrics = HealthMetrics()
    for checks in ([PING, FAILING], [PING]):
        examine("x", checks, exclude=frozenset(), verbose=False, metrics=metrics)
    examine("x", [PING], exclude=frozenset({"ping"}), verbose=False, metrics=metrics)
    told = as_text(metrics.collect()).decode()
    assert [line for line in told.splitlines() if line.startswith("kubernetes")] == [
        'kubernetes_healthcheck{name="b",type="x"} 0',
        'kubernetes_healthcheck{name="ping",type="x"} 1',
        'kubernetes_healthchecks_total{name="b",status="error",type="x"} 1',
        'kubernetes_healthchecks_total{name="ping",status="success",type="x"} 2',
    ]
    metrics.reset()
    assert as_text(metrics.collect()) == b""
