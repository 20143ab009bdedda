from itertools import islice

import msgspec
import pytest

from tests.bench import plan
from tests.bench.contestants import FLOOR, OURS, THEIRS
from tests.bench.results import BACKLOG, STEADY, TURNOVER, Case, Entry, Failed, Results
from tests.bench.sample import measured
from tests.bench.scenario import MEASURED, PODS, Size
from tests.bench.scenarios import SCENARIOS

WHEN = "2026-01-01T00:00:00Z"


def test_what_was_measured_is_not_measured_again(tmp_path):
    batch = plan.batch(Case("affinity", 5000, 3000), rounds=2)
    results = Results(tmp_path / "deep" / "results.jsonl")
    assert results.missing(batch.entries) == list(batch.entries)
    done = measured(THEIRS, case=batch.case, number=1)
    results.add(done)
    results.add(Failed(batch.entries[1], "it ended", WHEN, 0.1))
    again = Results(tmp_path / "deep" / "results.jsonl")
    assert again.measured == [done]
    assert again.missing(batch.entries) == list(batch.entries[1:])
    assert [line.entry for line in again.failed] == [batch.entries[1]]


def test_other_sizes_and_modes_are_other_measurements(tmp_path):
    results = Results(tmp_path / "results.jsonl")
    results.add(measured(OURS))
    others = [
        Entry(Case("plain", 1000, 3000), OURS, 1),
        Entry(Case("plain", 5000, 500), OURS, 1),
        Entry(Case("plain", 5000, 3000, STEADY, "100"), OURS, 1),
        Entry(Case("plain", 5000, 3000), THEIRS, 1),
        Entry(Case("plain", 5000, 3000), OURS, 2),
    ]
    assert results.missing(others) == others


def test_a_run_may_have_been_cut_off_in_mid_line(tmp_path):
    path = tmp_path / "results.jsonl"
    whole = msgspec.json.encode(measured(OURS))
    path.write_bytes(whole + b"\n" + whole[:40])
    results = Results(path)
    assert len(results.measured) == 1
    results.add(measured(THEIRS))
    assert len(Results(path).measured) == 2


def test_a_broken_line_in_between_is_told(tmp_path):
    path = tmp_path / "results.jsonl"
    whole = msgspec.json.encode(measured(OURS))
    path.write_bytes(b"nonsense\n" + whole + b"\n")
    with pytest.raises(ValueError, match="line 1"):
        Results(path)


def test_schedulers_take_turns_and_so_does_who_begins():
    entries = plan.batch(Case("affinity", 5000, 3000), rounds=3).entries
    assert [entry.who for entry in entries] == [THEIRS, OURS, OURS, THEIRS, THEIRS, OURS]
    assert [entry.round for entry in entries] == [1, 1, 2, 2, 3, 3]


def test_the_floor_is_measured_with_a_few_shapes():
    with_floor = {
        (case.scenario, case.mode)
        for case in plan.everything(3000)
        if any(entry.who == FLOOR for entry in plan.batch(case, 1).entries)
    }
    backlogs = ("plain", "claim-template", "gpus", "shared-claims", "extended-25")
    assert with_floor == {("claims-empty", TURNOVER), *((name, BACKLOG) for name in backlogs)}


def test_no_case_is_measured_twice():
    for cases in (list(plan.everything(3000)), [*plan.of_targets(plan.TARGETS["pods"], 3000)]):
        assert len(cases) == len(set(cases))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_has_as_many_measured_pods_as_it_says(name):
    size = SCENARIOS[name].at_most(Size(5, 20))
    requests = list(SCENARIOS[name].objects(size))
    bodies = [msgspec.json.decode(one.body) for one in requests if one.path == PODS]
    counted = [body for body in bodies if MEASURED in body["metadata"]["labels"]]
    assert len(counted) == (0 if SCENARIOS[name].turnover else size.pods)
    names = [body["metadata"]["name"] for body in bodies]
    assert len(names) == len(set(names))
    assert all(not body["spec"].get("nodeName") for body in counted)


@pytest.mark.parametrize("name", SCENARIOS)
def test_whatever_happens_meanwhile_leaves_measured_pods_alone(name):
    size = SCENARIOS[name].at_most(Size(5, 20))
    backlog = [one for number in range(size.pods) for one in SCENARIOS[name].backlog(number, size)]
    measured_names = {
        body["metadata"]["name"]
        for body in (msgspec.json.decode(one.body) for one in backlog)
        if MEASURED in body["metadata"].get("labels", {})
    }
    for disturbance in SCENARIOS[name].meanwhile:
        deleted = {
            request.path.rpartition("/")[2]
            for request in islice(disturbance.requests(size), 100)
            if request.method == "DELETE"
        }
        assert not deleted & measured_names
