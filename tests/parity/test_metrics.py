"""What kube-scheduler exports, looked for on a running daemon; and the lint, put to the test."""

import subprocess
import sys

import pytest

from tests.parity.metrics_lint import lint

# Upstream's own names that promtool does not like either.
DISLIKED = {
    'authenticated_user_requests counter metrics should have "_total" suffix',
    'authentication_attempts counter metrics should have "_total" suffix',
    "authentication_token_cache_active_fetch_count non-histogram and non-summary metrics should "
    'not have "_count" suffix',
}


@pytest.mark.slow
def test_every_recorded_family_is_exported_and_no_name_is_bad_but_upstreams():
    outcome = subprocess.run(
        [sys.executable, "-m", "tests.parity.metrics"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    told = {line.removeprefix("lint: ") for line in outcome.stdout.splitlines()[:-1]}
    assert told == DISLIKED


def page(name, kind, *, labels="", help="Something."):
    return f"# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{labels} 1\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(page("a_total", "counter"), "", id="a counter"),
        pytest.param(page("a", "counter"), "_total", id="a counter without its suffix"),
        pytest.param(page("a_total", "gauge"), "non-counter", id="a gauge with a counter's suffix"),
        pytest.param(page("a_count", "gauge"), "_count", id="a gauge with a histogram's suffix"),
        pytest.param(page("a", "gauge", labels='{le="1"}'), '"le"', id="a bound that is none"),
        pytest.param(page("a", "gauge", help=""), "no help", id="no help"),
        pytest.param(page("a_milliseconds", "gauge"), '"seconds" instead', id="a small unit"),
        pytest.param(page("a_minutes", "gauge"), '"seconds" instead', id="a foreign unit"),
        pytest.param(page("a_ms", "gauge"), "abbreviated", id="an abbreviation"),
        pytest.param(page("a_gauge", "gauge"), "include type 'gauge'", id="its type in the name"),
        pytest.param(page("aB", "gauge"), "snake_case", id="camels"),
        pytest.param(page("a", "gauge", labels='{bC="1"}'), "snake_case", id="camels in labels"),
        pytest.param(page("a", "gauge") + "a 2\n", "not unique", id="twice"),
    ],
)
def test_the_lint_finds_what_promtool_finds(text, problem):
    found = lint(text)
    assert len(found) == bool(problem)
    assert all(problem in one for one in found)
