"""Answers of extenders, read as Go reads JSON."""

import pytest

from kscheduler.gotext.json_text import MAX_EXPLAINED_BYTES, is_finished
from kscheduler.runtime.extenders.messages import (
    ExtenderAnswerError,
    ExtenderFilterResult,
    MetaVictims,
    UnfinishedAnswerError,
    check_binding_result,
    filter_result,
    host_priority_list,
    preemption_result,
)

IN_FILTER = "into Go struct field ExtenderFilterResult."


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        pytest.param(b"{}", ExtenderFilterResult(None, None, {}, {}), id="nothing"),
        pytest.param(b"null", ExtenderFilterResult(None, None, {}, {}), id="null"),
        pytest.param(
            b'{"NodeNames":["a"],"FailedNodes":{"b":"no"},"FailedAndUnresolvableNodes":{"c":"x"}}',
            ExtenderFilterResult(["a"], None, {"b": "no"}, {"c": "x"}),
            id="names",
        ),
        pytest.param(
            b'{"nodes":{"items":[{"metadata":{"name":"a"},"spec":{}}]},"ERROR":""}',
            ExtenderFilterResult(None, ["a"], {}, {}),
            id="objects, in any case",
        ),
        pytest.param(
            b'{"Nodes":{"Items":[{"Metadata":{"NAME":"a"}},{}]}}',
            ExtenderFilterResult(None, ["a", ""], {}, {}),
            id="any case, all the way down",
        ),
        pytest.param(
            b'{"Nodes":null,"NodeNames":null,"FailedNodes":null,"Error":null}',
            ExtenderFilterResult(None, None, {}, {}),
            id="nulls",
        ),
        pytest.param(
            b'{"FailedNodes":{"\\ud83d\\ude00":"\\ud800!","b":null}}',
            ExtenderFilterResult(None, None, {"\U0001f600": "\ufffd!", "b": ""}, {}),
            id="half a character",
        ),
        pytest.param(
            b'{"Nodes":{"items":[null,{"metadata":null}]}}',
            ExtenderFilterResult(None, ["", ""], {}, {}),
            id="nodes that are nothing",
        ),
        pytest.param(
            b' {"NodeNames":[null]} trailing',
            ExtenderFilterResult([""], None, {}, {}),
            id="what follows",
        ),
    ],
)
def test_filter(answer, read):
    assert filter_result(answer) == read


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(b"", "EOF", id="empty"),
        pytest.param(b'{"NodeNames":["a"', "unexpected EOF", id="cut short"),
        pytest.param(
            b"<html>", "invalid character '<' looking for beginning of value", id="a page"
        ),
        pytest.param(
            b"{'a'", "invalid character '\\'' looking for beginning of object key string", id="YAML"
        ),
        pytest.param(
            b"[]",
            "json: cannot unmarshal array into Go value of type v1.ExtenderFilterResult",
            id="a list",
        ),
        pytest.param(
            b'{"NodeNames":{}}',
            f"json: cannot unmarshal object {IN_FILTER}NodeNames of type []string",
            id="wrong container",
        ),
        pytest.param(
            b'{"nodenames":[1]}',
            f"json: cannot unmarshal number {IN_FILTER}NodeNames of type string",
            id="wrong element",
        ),
        pytest.param(
            b'{"FailedNodes":{"a":true}}',
            f"json: cannot unmarshal bool {IN_FILTER}FailedNodes of type string",
            id="wrong reason",
        ),
        pytest.param(
            b'{"FailedNodes":[]}',
            f"json: cannot unmarshal array {IN_FILTER}FailedNodes of type v1.FailedNodesMap",
            id="wrong map",
        ),
        pytest.param(
            b'{"nodes":{"items":[{"metadata":{"name":7}}]}}',
            "json: cannot unmarshal number into Go struct field "
            "ObjectMeta.Nodes.items.metadata.name of type string",
            id="far down",
        ),
        pytest.param(
            b'{"Error":1,"NodeNames":2}',
            f"json: cannot unmarshal number {IN_FILTER}Error of type string",
            id="the first of several, as they stand in the text",
        ),
        pytest.param(
            b'{"Error":NaN}', "invalid character 'N' looking for beginning of value", id="NaN"
        ),
        pytest.param(
            b'{\xe9"Error":""}',
            "invalid character 'é' looking for beginning of object key string",
            id="not UTF-8",
        ),
        pytest.param(b"[" * 20_000, "exceeded max depth", id="too deep"),
        pytest.param(
            b'["' + b"a" * MAX_EXPLAINED_BYTES, "unexpected EOF", id="long, and cut short in a text"
        ),
        pytest.param(
            b'["' + b"a" * MAX_EXPLAINED_BYTES + b'"}',
            "invalid character in a long answer",
            id="long, and wrong somewhere",
        ),
        pytest.param(b'{"Error":"tired","NodeNames":["a"]}', "tired", id="its own error"),
    ],
)
def test_filter_in_vain(answer, told):
    with pytest.raises(ExtenderAnswerError) as refused:
        filter_result(answer)
    assert str(refused.value) == told


@pytest.mark.parametrize(
    "answer", [b"", b"  ", b"[", b'{"Error":"', b'{"Error":"no"', b'{"Error":', b"nul"]
)
def test_what_ends_too_early_is_told_from_what_is_wrong(answer):
    with pytest.raises(UnfinishedAnswerError):
        filter_result(answer)
    assert not is_finished(answer)


@pytest.mark.parametrize("answer", [b"{}", b'{"Error":"no"} and', b"<html", b"[01"])
def test_what_is_finished_is_so_whatever_follows(answer):
    assert is_finished(answer)


def test_priorities():
    assert host_priority_list(b'[{"Host":"a","Score":7},{"host":"b","SCORE":-1},{}]') == [
        ("a", 7),
        ("b", -1),
        ("", 0),
    ]
    assert host_priority_list(b"null") == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(
            b'[{"Score":1.5}]',
            "json: cannot unmarshal number 1.5 into Go struct field HostPriority.Score of type "
            "int64",
            id="a fraction",
        ),
        pytest.param(
            b'[{"Score":9223372036854775808}]',
            "json: cannot unmarshal number 9223372036854775808 into Go struct field "
            "HostPriority.Score of type int64",
            id="too much",
        ),
        pytest.param(
            b'[{"Host":"a","Score":1e2}]',
            "json: cannot unmarshal number 1e2 into Go struct field HostPriority.Score of type "
            "int64",
            id="as it was written",
        ),
        pytest.param(
            b'[{"Host":"a"},"b"]',
            "json: cannot unmarshal string into Go value of type v1.HostPriority",
            id="one of several",
        ),
        pytest.param(
            b"{}",
            "json: cannot unmarshal object into Go value of type v1.HostPriorityList",
            id="an object",
        ),
    ],
)
def test_priorities_in_vain(answer, told):
    with pytest.raises(ExtenderAnswerError) as refused:
        host_priority_list(answer)
    assert str(refused.value) == told


def test_chosen_victims():
    answer = (
        b'{"nodeNameToMetaVictims":{"n1":{"pods":[{"uid":"u"}],"numPDBViolations":2},"n2":null}}'
    )
    assert preemption_result(answer) == {
        "n1": MetaVictims(["u"], 2),
        "n2": MetaVictims([], 0),
    }
    assert preemption_result(b"{}") == {}


@pytest.mark.parametrize(
    ("victims", "told"),
    [
        pytest.param(
            b"5",
            "number into Go struct field ExtenderPreemptionResult.NodeNameToMetaVictims of type "
            "v1.MetaVictims",
            id="no victims",
        ),
        pytest.param(
            b'{"Pods":[{"UID":5}]}',
            "number into Go struct field MetaPod.NodeNameToMetaVictims.Pods.UID of type string",
            id="no UID",
        ),
        pytest.param(
            b'{"NumPDBViolations":1.50}',
            "number 1.50 into Go struct field MetaVictims.NodeNameToMetaVictims.NumPDBViolations "
            "of type int64",
            id="no whole number",
        ),
    ],
)
def test_chosen_victims_in_vain(victims, told):
    with pytest.raises(ExtenderAnswerError) as refused:
        preemption_result(b'{"NodeNameToMetaVictims":{"n1":%b}}' % victims)
    assert str(refused.value) == f"json: cannot unmarshal {told}"


def test_a_binding_fails_only_if_told_so():
    check_binding_result(b"{}")
    check_binding_result(b'{"Error":""}')
    with pytest.raises(ExtenderAnswerError, match="not now"):
        check_binding_result(b'{"error":"not now"}')


@pytest.mark.parametrize(
    "read", [filter_result, host_priority_list, preemption_result, check_binding_result]
)
def test_nesting_beyond_all_bounds_is_an_error_like_others(read):
    with pytest.raises(ExtenderAnswerError):
        read(b'[{"Error":' + b"[" * 100_000 + b"]" * 100_000 + b"}]")
