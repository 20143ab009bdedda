"""Recorded scenarios, replayed with this program; and the comparison itself, put to the test."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.parity.wire_compare import compare
from tests.parity.wire_match import HOST, Matcher
from tests.parity.wire_scenario import Request, load

UID = "0b5b0c6e-5f0c-4f0e-9d8e-0123456789ab"
OTHER_UID = "1b5b0c6e-5f0c-4f0e-9d8e-0123456789ab"


@pytest.mark.slow
def test_every_recorded_scenario_is_reproduced():
    outcome = subprocess.run(
        [sys.executable, "-m", "tests.parity.wire"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize(
    ("recorded", "seen"),
    [
        pytest.param("p1.@HEXNANOS@", "p1.18e87d511926bd9d", id="a time in a name"),
        pytest.param("@MICROTIME@", "2026-01-02T03:04:05.000006Z", id="microseconds"),
        pytest.param({"uid": "@UID:pod/p1@"}, {"uid": UID}, id="an identity"),
        pytest.param(
            "@IDENTITY1@ became leader", f"{HOST}_{UID} became leader", id="an identity in a text"
        ),
        pytest.param(
            [{"uid": "@UID:a@", "resourceVersion": f"@RV#{n}@"} for n in (1, 2, 1)],
            [{"uid": UID, "resourceVersion": n} for n in ("7", "9", "7")],
            id="versions",
        ),
        pytest.param({"a": 1, "m": "@MANAGED_FIELDS@"}, {"a": 1}, id="what only servers know"),
    ],
)
def test_placeholders_stand_for_values(recorded, seen):
    assert [*Matcher({}).differences(recorded, seen)] == []


@pytest.mark.parametrize(
    ("recorded", "seen"),
    [
        pytest.param("p1.@HEXNANOS@", "p2.18e87d511926bd9d", id="another name"),
        pytest.param("@TIME@", "2026-01-02T03:04:05.000006Z", id="too fine a time"),
        pytest.param(["@UID:a@", "@UID:a@"], [UID, OTHER_UID], id="two identities for one"),
        pytest.param(
            [{"uid": "@UID:a@", "resourceVersion": f"@RV#{n}@"} for n in (1, 1)],
            [{"uid": UID, "resourceVersion": n} for n in ("7", "8")],
            id="two versions for one",
        ),
        pytest.param(
            [{"uid": "@UID:a@", "resourceVersion": f"@RV#{n}@"} for n in (1, 2)],
            [{"uid": UID, "resourceVersion": n} for n in ("7", "7")],
            id="one version for two",
        ),
        pytest.param({"a": 1}, {}, id="a missing key"),
        pytest.param({}, {"a": 1}, id="a surplus key"),
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, id="another order of keys"),
        pytest.param({"a": None}, {"a": 0}, id="zero for null"),
        pytest.param({"a": 1}, {"a": True}, id="true for one"),
        pytest.param(["a"], ["a", "a"], id="a longer list"),
    ],
)
def test_whatever_else_differs_is_told(recorded, seen):
    assert len([*Matcher({}).differences(recorded, seen)]) == 1


SCENARIO = load("b-no-nodes")
LITERALS = {
    "@UID:pod/p1@": UID,
    "@HEXNANOS@": "18e87d511926bd9d",
    "@MICROTIME@": "2026-01-02T03:04:05.000006Z",
    "@TIME@": "2026-01-02T03:04:05Z",
    "@HOSTNAME@": HOST,
    "@RV#1@": "1",
    "@RV#2@": "2",
}


def filled(request):
    text = json.dumps([request.path, request.body])
    for placeholder, value in LITERALS.items():
        text = text.replace(placeholder, value)
    path, body = json.loads(text)
    return replace(request, path=path, body=body)


SEEN = [filled(request) for request in SCENARIO.requests]
POSTED, PATCHED, POSTED_AGAIN, SERIES, BINDING, BOUND = range(6)


def differences(seen):
    return [*compare(SCENARIO, SCENARIO.requests, seen, {})]


def test_what_was_recorded_is_equal_to_itself():
    assert differences(SEEN) == []


def test_events_and_writes_may_overtake_each_other():
    events = [SEEN[n] for n in (POSTED, POSTED_AGAIN, SERIES, BOUND)]
    assert differences([SEEN[BINDING], *events, SEEN[PATCHED]]) != []
    assert differences([SEEN[PATCHED], SEEN[BINDING], *events]) == []


STRAY = Request("A", "scheduler", "DELETE", "/api/v1/namespaces/default/pods/p1", 2)


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        pytest.param(SEEN[:BOUND], "not sent", id="a request is missing"),
        pytest.param([*SEEN, STRAY], "sent, but not recorded", id="a request too many"),
        pytest.param(
            [replace(SEEN[POSTED], client="leader-election"), *SEEN[1:]],
            "client: leader-election instead of scheduler",
            id="another client",
        ),
        pytest.param(
            [SEEN[POSTED], replace(SEEN[PATCHED], method="PUT"), *SEEN[2:]],
            "sent instead of PATCH",
            id="another method",
        ),
        pytest.param(
            [replace(SEEN[POSTED], headers={"content-type": "text/plain"}), *SEEN[1:]],
            "content-type: 'text/plain' instead of",
            id="another content type",
        ),
        pytest.param(
            [replace(SEEN[POSTED], query={"a": "b"}), *SEEN[1:]],
            "query.a: 'b' should not be there",
            id="another query",
        ),
        pytest.param(
            [*SEEN[:BINDING], replace(SEEN[BINDING], after_step=1), SEEN[BOUND]],
            "sent after step 1 instead of 2",
            id="too early",
        ),
        pytest.param(
            [*SEEN[:BINDING], replace(SEEN[BINDING], status=409), SEEN[BOUND]],
            "answered 409 instead of 201",
            id="another answer",
        ),
        pytest.param(
            [
                *SEEN[:SERIES],
                replace(SEEN[SERIES], path=SEEN[SERIES].path[:-1] + "0"),
                *SEEN[BINDING:],
            ],
            "goes on with an event that was never told",
            id="a series of nothing",
        ),
    ],
)
def test_one_wrong_request_is_one_difference(seen, told):
    (difference,) = differences(seen)
    assert told in difference
