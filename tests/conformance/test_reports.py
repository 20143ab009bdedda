"""Reports of Ginkgo: which specs were run, and what became of them."""

import json

import pytest

from tests.conformance.reports import BrokenSuiteError, Spec, read


def node(
    text, state, *, kind="It", seconds=0.0, why="", containers=("[sig-scheduling] Preemption",)
):
    """As Ginkgo writes it, without what nobody reads; there is no Failure where nothing failed."""
    failure = (
        {"Failure": {"Message": why, "Location": {"FileName": "preemption.go"}}} if why else {}
    )
    return {
        "ContainerHierarchyTexts": list(containers) or None,
        "LeafNodeType": kind,
        "LeafNodeText": text,
        "State": state,
        "RunTime": int(seconds * 1e9),
        "NumAttempts": 1,
        **failure,
    }


def report(*nodes):
    whole = {"SuiteDescription": "Kubernetes e2e suite", "SpecReports": nodes}
    return json.dumps([whole]).encode()


def test_a_spec_has_the_name_of_all_that_it_is_in():
    inner = ("[sig-scheduling] Preemption", "PreemptionExecutionPath")
    content = report(node("runs ReplicaSets [Serial]", "passed", seconds=2.5, containers=inner))
    name = "[sig-scheduling] Preemption PreemptionExecutionPath runs ReplicaSets [Serial]"
    assert read(content) == [Spec(name, "passed", 2.5)]


def test_one_that_did_not_pass_says_why():
    content = report(
        node("b", "failed", why="timed out"), node("a", "panicked", why="nil", containers=())
    )
    assert read(content) == [
        Spec("[sig-scheduling] Preemption b", "failed", 0.0, "timed out"),
        Spec("a", "panicked", 0.0, "nil"),
    ]


def test_specs_that_were_not_selected_are_left_out_but_not_those_that_skipped_themselves():
    alone = "only run for multi-zone clusters"
    content = report(
        node("not selected", "skipped"),
        node("of several zones", "skipped", why=alone, containers=()),
        node("", "passed", kind="SynchronizedBeforeSuite", containers=()),
    )
    assert read(content) == [Spec("of several zones", "skipped", 0.0, alone)]


def test_a_suite_that_fails_before_its_first_spec_says_why():
    content = report(
        node("", "failed", kind="SynchronizedBeforeSuite", why="no nodes", containers=()),
        node("never run", "skipped"),
    )
    with pytest.raises(BrokenSuiteError, match="SynchronizedBeforeSuite: no nodes"):
        read(content)


def test_a_selection_that_nothing_matches_is_empty():
    assert read(report(node("never run", "skipped"))) == []
