"""Answers of extenders, read as Go reads JSON."""

import pytest

from kscheduler.framework.extender_answers import (
    ChosenVictims,
    ExtenderAnswerError,
    FilterAnswer,
    check_binding,
    chosen_victims,
    filter_answer,
    priorities,
)

IN_FILTER = "into Go struct field ExtenderFilterResult."


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        pytest.param(b"{}", FilterAnswer(None, None, {}, {}), id="nothing"),
        pytest.param(b"null", FilterAnswer(None, None, {}, {}), id="null"),
        pytest.param(
            b'{"NodeNames":["a"],"FailedNodes":{"b":"no"},"FailedAndUnresolvableNodes":{"c":"x"}}',
            FilterAnswer(["a"], None, {"b": "no"}, {"c": "x"}),
            id="names",
        ),
        pytest.param(
            b'{"nodes":{"items":[{"metadata":{"name":"a"},"spec":{}}]},"ERROR":""}',
            FilterAnswer(None, ["a"], {}, {}),
            id="objects, in any case",
        ),
        pytest.param(
            b'{"Nodes":{"Items":[{"Metadata":{"NAME":"a"}},{}]}}',
            FilterAnswer(None, ["a", ""], {}, {}),
            id="any case, all the way down",
        ),
        pytest.param(
            b'{"Nodes":null,"NodeNames":null,"FailedNodes":null,"Error":null}',
            FilterAnswer(None, None, {}, {}),
            id="nulls",
        ),
        pytest.param(
            b' {"NodeNames":[null]} trailing', FilterAnswer([""], None, {}, {}), id="what follows"
        ),
    ],
)
def test_filter(answer, read):
    assert filter_answer(answer) == read


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
        pytest.param(b'{"Error":"tired","NodeNames":["a"]}', "tired", id="its own error"),
    ],
)
def test_filter_in_vain(answer, told):
    with pytest.raises(ExtenderAnswerError) as refused:
        filter_answer(answer)
    assert str(refused.value) == told


def test_priorities():
    assert priorities(b'[{"Host":"a","Score":7},{"host":"b","SCORE":-1},{}]') == [
        ("a", 7),
        ("b", -1),
        ("", 0),
    ]
    assert priorities(b"null") == []


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
            b"{}",
            "json: cannot unmarshal object into Go value of type v1.HostPriorityList",
            id="an object",
        ),
    ],
)
def test_priorities_in_vain(answer, told):
    with pytest.raises(ExtenderAnswerError) as refused:
        priorities(answer)
    assert str(refused.value) == told


def test_chosen_victims():
    answer = (
        b'{"nodeNameToMetaVictims":{"n1":{"pods":[{"uid":"u"}],"numPDBViolations":2},"n2":null}}'
    )
    assert chosen_victims(answer) == {
        "n1": ChosenVictims(["u"], 2),
        "n2": ChosenVictims([], 0),
    }
    assert chosen_victims(b"{}") == {}


def test_a_binding_fails_only_if_told_so():
    check_binding(b"{}")
    check_binding(b'{"Error":""}')
    with pytest.raises(ExtenderAnswerError, match="not now"):
        check_binding(b'{"error":"not now"}')
