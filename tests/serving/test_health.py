"""Health endpoints, replayed as kube-scheduler answered them."""

import io
import json
import time
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from kscheduler import logs
from kscheduler.serving import endpoints
from kscheduler.serving.health import PING, Check, examine, examine_one

CASES = Path(__file__).parent.parent / "parity/cases/endpoints-health.jsonl"
RECORDED = [json.loads(line) for line in CASES.read_text().splitlines()]

ELECTION = Check("leaderElection", lambda: None)
SHUTDOWN = Check("shutdown", lambda: None)
SYNCED = Check("sched-handler-sync", lambda: None)
UNSYNCED = Check("sched-handler-sync", lambda: "handlers are not fully synchronized")

WITH_ELECTION = {"healthz": [ELECTION], "livez": [PING], "readyz": [ELECTION, SHUTDOWN, SYNCED]}
CHECKS = {
    "delayed-standby": WITH_ELECTION | {"readyz": [ELECTION, SHUTDOWN, UNSYNCED]},
    "unsynced": WITH_ELECTION | {"readyz": [ELECTION, SHUTDOWN, UNSYNCED]},
    "no-profiling": {"healthz": [PING], "livez": [PING], "readyz": [SHUTDOWN, SYNCED]},
}


def application(checks):
    return endpoints.build(checks=checks, registry=CollectorRegistry(), configz=lambda: b"{}")


@pytest.mark.parametrize("instance", sorted({case["instance"] for case in RECORDED}))
async def test_health_is_told_as_recorded(serving, instance):
    cases = [case for case in RECORDED if case["instance"] == instance]
    assert cases
    async with serving(application(CHECKS.get(instance, WITH_ELECTION))) as client:
        for case in cases:
            status, headers, body = await client.ask(case["path"], case["method"])
            told = {name: headers.get(name) for name in case["headers"]}
            if "content-length" in told:
                length = len(body) if case["method"] != "HEAD" else int(told["content-length"])
                told["content-length"] = "exact" if int(told["content-length"]) == length else "off"
            assert (status, headers["content-type"], told, body) == (
                case["status"],
                case["content_type"],
                case["headers"],
                case["body"],
            ), case["path"]
            assert "x-content-type-options" in case["headers"] or (
                "x-content-type-options" not in headers
            )


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
    report = examine("x", checks, exclude=frozenset(exclude), verbose=verbose)
    assert (report.healthy, report.text) == (healthy, text)


def test_one_check_tells_its_reason():
    assert examine_one(FAILING).text == "internal server error: the reason\n"
    assert examine_one(PING).text == "ok"


def test_an_excluded_check_is_not_run():
    def probe():
        raise AssertionError

    assert examine("x", [Check("a", probe)], exclude=frozenset({"a"}), verbose=False).healthy


def test_the_log_has_the_reasons_that_the_answer_withholds():
    lines = io.BytesIO()
    logs.configure(logs.Logging(verbosity=2), stderr=lines)
    try:
        examine("readyz", [PING, FAILING], exclude=frozenset(), verbose=False)
    finally:
        logs.configure(logs.Logging())
    assert lines.getvalue().endswith(b"] b check failed: readyz\n[-]b failed: the reason\n")


async def test_other_paths(serving):
    registry = CollectorRegistry()
    built = endpoints.build(checks={}, registry=registry, configz=lambda: b'{"componentconfig":{}}')
    async with serving(built) as client:
        status, headers, body = await client.ask("/configz")
        assert (status, headers["content-type"], body) == (
            200,
            "application/json",
            '{"componentconfig":{}}',
        )
        assert headers["cache-control"] == "no-cache, private"
        status, headers, _ = await client.ask("/metrics")
        assert status == 200
        assert headers["content-type"] == (
            "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
        )
        assert 0 < int(headers["process-start-time-unix"]) <= time.time()
        status, headers, body = await client.ask("/nope")
        assert (status, headers["x-content-type-options"], body) == (
            404,
            "nosniff",
            "404 page not found\n",
        )
