import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.core import Pod, PodSpec, Toleration
from kscheduler.api.decode import DecodeError, convert, decoder_for, without_nulls
from kscheduler.api.meta import ObjectList, Status
from kscheduler.api.resource import DeviceClass, ResourceClaim
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


CLAIM = b"""{"metadata":{"name":"c","namespace":"ns","managedFields":%(managed)s},
"spec":{"devices":{"requests":%(requests)s,
"config":[{"requests":["r"],"opaque":{"driver":"d","parameters":%(parameters)s}}]}},
"status":{"devices":[{"driver":"d","data":%(data)s}]}}"""
TIDY = {b"managed": b"[]", b"requests": b"[]", b"parameters": b"{}", b"data": b"{}"}
ODD = {
    "1,500 arrays": b"[" * 1500 + b"]" * 1500,
    "9,999 arrays": b"[" * 9999 + b"]" * 9999,
    "1,000,000 arrays": b"[" * 1_000_000 + b"]" * 1_000_000,
    "5,000 objects": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "brackets in strings": b"[" * 1500 + b'"[\\"]}{[\\\\"' + b"]" * 1500,
    "5,000 digits": b"-" + b"1" * 5000,
    "beyond any float": b"1e99999",
    "not UTF-8": b'["\xff\xfe"]',
    "a million members": b"[" + b"1," * 500_000 + b"1]",
    "null": b'[null, {"a": null}]',
}


@pytest.mark.parametrize("where", ["managed", "data"])
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("requests", [b"[]", b"null"], ids=["", "beside a null"])
def test_what_is_not_read_may_be_as_odd_as_it_likes(where, odd, requests):
    given = {**TIDY, b"requests": requests, where.encode(): odd}
    decode = decoder_for(ResourceClaim)
    assert decode(CLAIM % given) == decode(CLAIM % TIDY)


def parameters_of(claim):
    (config,) = claim.spec.devices.config
    return bytes(config.opaque.parameters)


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("requests", [b"[]", b"null"], ids=["", "beside a null"])
def test_what_is_only_passed_on_stays_as_it_is(odd, requests):
    given = {**TIDY, b"requests": requests, b"parameters": odd}
    assert parameters_of(decoder_for(ResourceClaim)(CLAIM % given)) == odd


def test_a_field_that_is_read_cannot_be_nested_deeply():
    deep = b'{"metadata":{"name":%b},"spec":{}}' % ODD["5,000 objects"]
    with pytest.raises(DecodeError, match="cannot decode ResourceClaim"):
        decoder_for(ResourceClaim)(deep)


def test_deep_nesting_is_no_matter_of_what_the_caller_has_on_its_stack():
    def deeper(levels):
        return deeper(levels - 1) if levels else decoder_for(ResourceClaim)(CLAIM % given)

    given = {**TIDY, b"data": b"[" * 900 + b"]" * 900}
    assert deeper(300) == decoder_for(ResourceClaim)(CLAIM % TIDY)


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_where_something_else_is_read_odd_things_are_one_clear_error(odd):
    with pytest.raises(DecodeError, match="cannot decode Pod"):
        decode_pod(b'{"spec":{"nodeName":%s}}' % odd)


@given(st.binary(max_size=40), st.sampled_from([Pod, ResourceClaim, DeviceClass, Status]))
def test_whatever_bytes_there_are_they_are_an_object_or_one_clear_error(data, kind):
    for text in (data, b'{"metadata":{"name":%s}}' % data, b'{"spec":%s,"x":[%s]}' % (data, data)):
        with suppress(DecodeError):
            assert isinstance(decoder_for(kind)(text), kind)


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
