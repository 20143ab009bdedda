import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.core import Pod, PodSpec, Toleration
from kscheduler.api.decode import DecodeError, convert, decoder_for, without_nulls
from kscheduler.api.meta import ObjectList, Status
from kscheduler.api.storage import CSINode

decode_pod = decoder_for(Pod)


def test_a_pod_is_decoded_into_what_the_scheduler_reads():
    pod = decode_pod(
        b'{"kind":"Pod","metadata":{"name":"p","managedFields":[{"manager":"x"}]},'
        b'"spec":{"tolerations":[{"key":"k","operator":"Exists"}],"dnsPolicy":"Default"}}'
    )
    assert pod.name == "p"
    assert pod.spec.tolerations == (Toleration(key="k", operator="Exists"),)


@pytest.mark.parametrize(
    "field", ["containers", "tolerations", "volumes", "schedulerName", "overhead", "hostNetwork"]
)
def test_null_means_not_set(field):
    assert decode_pod(json.dumps({"spec": {field: None}}).encode()).spec == PodSpec()


def test_null_inside_a_list_of_objects_is_tolerated():
    pod = decode_pod(b'{"spec":{"containers":[{"name":"c","ports":null,"resources":null}]}}')
    assert pod.spec.containers[0].ports == ()


def test_a_node_without_csi_drivers_is_sent_with_null():
    assert decoder_for(CSINode)(b'{"spec":{"drivers":null}}').spec.drivers is None


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(b"{", "cannot decode Pod: Input data was truncated", id="cut off"),
        pytest.param(
            b'{"spec":{"nodeName":7}}',
            "cannot decode Pod: Expected `str`, got `int` - at `$.spec.nodeName`",
            id="wrong type",
        ),
        pytest.param(
            b"[]", "cannot decode Pod: Expected `object`, got `array`", id="not an object"
        ),
        pytest.param(
            b'{"spec":{"nodeName":7,"volumes":null}}',
            "cannot decode Pod: Expected `str`, got `int` - at `$.spec.nodeName`",
            id="wrong type behind a null",
        ),
    ],
)
def test_anything_else_is_one_clear_error(data, want):
    with pytest.raises(DecodeError) as caught:
        decode_pod(data)
    assert str(caught.value) == want


def test_text_that_is_not_utf8_is_one_clear_error():
    with pytest.raises(DecodeError, match="cannot decode Pod"):
        decode_pod(b'{"metadata":{"name":"\xff"}}')


def test_decoders_are_made_once_per_type():
    assert decoder_for(Pod) is decoder_for(Pod)


def test_lists_are_typed_by_their_items():
    page = decoder_for(ObjectList[Pod])(
        b'{"metadata":{"resourceVersion":"7","continue":"abc"},"items":[{"metadata":{"name":"p"}}]}'
    )
    assert (page.metadata.resource_version, page.metadata.continue_) == ("7", "abc")
    assert [pod.name for pod in page.items] == ["p"]


def test_a_status_tells_what_went_wrong():
    status = decoder_for(Status)(
        b'{"kind":"Status","status":"Failure","reason":"Conflict","code":409,"metadata":{},'
        b'"details":{"name":"p","kind":"pods","retryAfterSeconds":1}}'
    )
    assert (status.reason, status.code, status.details.retry_after_seconds) == ("Conflict", 409, 1)


def test_convert_takes_what_yaml_gives():
    assert convert({"spec": {"priority": 5, "containers": None}}, Pod).priority == 5


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=15,
)


@given(st.lists(values))
def test_without_nulls_leaves_none_anywhere(value):
    assert "null" not in json.dumps(without_nulls(value)).replace('"null"', "")
