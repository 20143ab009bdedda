"""Protobuf bodies, written here by hand as client-go writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.sandbox.rest.protobuf import KINDS, MESSAGES, ProtobufError, decode
from tests.kit.manifests import pod_manifest
from tests.sandbox.rest import PODS

PROTOBUF = "application/vnd.kubernetes.protobuf"


def varint(value):
    encoded = b""
    while value > 0x7F:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    body = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(body)) + body


def envelope(version, kind, *parts):
    about = field(1, version) + field(2, kind)
    return b"k8s\0" + field(1, about) + field(2, b"".join(parts)) + field(3, "") + field(4, "")


def test_a_binding_as_the_scheduler_sends_it():
    metadata = b"".join(
        (field(1, "p"), field(2, ""), field(3, "default"), field(5, "uid-1"), field(8, b""))
    )
    target = b"".join((field(1, "Node"), field(2, ""), field(3, "n1")))
    body = envelope("v1", "Binding", field(1, metadata), field(2, target))
    assert decode(body) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "default", "uid": "uid-1"},
        "target": {"kind": "Node", "name": "n1"},
    }


def test_a_lease_keeps_its_zeros_and_microseconds():
    moment = field(1, 1_767_225_600) + field(2, 123_456_789)
    spec = field(1, "") + field(2, 15) + field(4, moment) + field(5, 0)
    body = envelope("coordination.k8s.io/v1", "Lease", field(1, field(1, "l")), field(2, spec))
    assert decode(body)["spec"] == {
        "holderIdentity": "",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-01-01T00:00:00.123456Z",
        "leaseTransitions": 0,
    }


def test_maps_lists_numbers_and_bytes():
    entry = field(1, "k") + field(2, b"\x00\xff")
    secret = envelope("v1", "Secret", field(2, entry), field(3, "Opaque"))
    assert decode(secret)["data"] == {"k": "AP8="}
    rule = field(1, "get") + field(1, "list") + field(2, "")
    role = envelope("rbac.authorization.k8s.io/v1", "Role", field(2, rule))
    assert decode(role)["rules"] == [{"verbs": ["get", "list"], "apiGroups": [""]}]
    share, count = field(1, 1) + field(3, "25%"), field(1, 0) + field(2, 3)
    spec = field(1, share) + field(3, count)
    budget = envelope("policy/v1", "PodDisruptionBudget", field(2, spec))
    assert decode(budget)["spec"] == {"minAvailable": "25%", "maxUnavailable": 3}
    priority = envelope("scheduling.k8s.io/v1", "PriorityClass", field(2, -7))
    assert decode(priority)["value"] == -7


def test_embedded_messages_are_part_of_their_holder():
    """As in the configuration of an allocation, which the scheduler copies from the claim."""
    parameters = field(1, b'{"a":[1]}')
    opaque = field(1, "d.example") + field(2, parameters)
    config = field(1, "FromClaim") + field(2, "r") + field(3, field(1, opaque))
    status = field(1, field(1, field(2, config)))
    body = envelope("resource.k8s.io/v1", "ResourceClaim", field(3, status))
    assert decode(body)["status"]["allocation"]["devices"]["config"] == [
        {
            "source": "FromClaim",
            "requests": ["r"],
            "opaque": {"driver": "d.example", "parameters": {"a": [1]}},
        }
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{}", "does not appear to be a protobuf message"),
        (envelope("v1", "Node"), "Node in version v1 is not read in protobuf"),
        (envelope("v1", "ConfigMap", field(99, "x")), "field 99 of ConfigMap is not read"),
        (b"k8s\0\x0a\x7f", "unexpected end"),
        (b"k8s\0" + b"\xff" * 20, "damaged number"),
    ],
)
def test_what_cannot_be_read_is_refused(body, message):
    with pytest.raises(ProtobufError, match=message):
        decode(body)


@given(st.binary(max_size=60))
def test_noise_is_refused_and_nothing_worse(noise):
    with pytest.raises(ProtobufError):
        decode(envelope("v1", "ConfigMap", b"\xff" + noise))


def test_every_message_leads_to_messages_that_exist():
    scalars = {"string", "int", "bool", "bytes", "quantity", "int-or-string", "json"}
    times = {"time", "microtime"}
    types = {one.type for fields in MESSAGES.values() for one in fields.values()}
    assert types - scalars - times <= set(MESSAGES)
    assert set(KINDS.values()) <= set(MESSAGES)


async def test_a_pod_is_bound_by_a_protobuf_body(rest, objects):
    objects.create(pod_manifest("p"))
    body = envelope("v1", "Binding", field(1, field(1, "p")), field(2, field(3, "n1")))
    code, _ = await rest.post(f"{PODS}/p/binding", body, content_type=PROTOBUF)
    assert (code, objects.get("pods", "p")["spec"]["nodeName"]) == (201, "n1")


async def test_a_kind_that_is_not_read_is_an_unsupported_type(rest):
    code, body = await rest.post(PODS, envelope("v1", "Pod"), content_type=PROTOBUF)
    assert (code, body["reason"]) == (415, "UnsupportedMediaType")
    assert body["message"].endswith("Pod in version v1 is not read in protobuf")
