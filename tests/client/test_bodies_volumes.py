"""Volumes and claims are written back with all that the server told of them."""

import json

import pytest
from msgspec.structs import replace

from kscheduler.api.core import ObjectReference, PersistentVolume, PersistentVolumeClaim
from kscheduler.client.bodies import claim_body, volume_body
from kscheduler.client.informers.decoding import WRITTEN_BACK, retaining_json, shape_of

VOLUME = {
    "kind": "PersistentVolume",
    "apiVersion": "v1",
    "metadata": {
        "name": "pv",
        "resourceVersion": "7",
        "managedFields": [{"manager": "kubectl"}],
        "annotations": {"a": "b"},
    },
    "spec": {
        "capacity": {"storage": "1.0Gi"},
        "local": {"path": "/data"},
        "claimRef": {"name": "c", "namespace": "ns"},
        "mountOptions": ["hard"],
    },
    "status": {"phase": "Available", "lastPhaseTransitionTime": "2026-01-01T00:00:00Z"},
}
CLAIM = {
    "metadata": {"name": "c", "namespace": "ns", "resourceVersion": "3"},
    "spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "old"}},
    "status": {"phase": "Pending"},
}
REFERENCE = ObjectReference(kind="PersistentVolumeClaim", namespace="ns", name="c", uid="u")


def followed(kind, told):
    shape = retaining_json(shape_of(kind, kind.__name__), WRITTEN_BACK[kind])
    return shape.decode(json.dumps(told).encode())


def annotated(item, **annotations):
    return replace(item, metadata=replace(item.metadata, annotations=annotations))


def test_a_volume_keeps_what_we_do_not_know():
    volume = annotated(followed(PersistentVolume, VOLUME), a="b", bound="yes")
    volume = replace(volume, spec=replace(volume.spec, claim_ref=REFERENCE))
    reference = {"kind": "PersistentVolumeClaim", "namespace": "ns", "name": "c", "uid": "u"}
    assert json.loads(volume_body(volume)) == {
        **VOLUME,
        "metadata": {**VOLUME["metadata"], "annotations": {"a": "b", "bound": "yes"}},
        "spec": {**VOLUME["spec"], "claimRef": reference},
    }


def test_a_volume_that_nobody_has_stays_so():
    free = {**VOLUME, "spec": {"local": {"path": "/data"}}}
    assert json.loads(volume_body(followed(PersistentVolume, free))) == free


def test_a_claim_keeps_what_we_do_not_know():
    claim = annotated(followed(PersistentVolumeClaim, CLAIM), node="n1")
    assert json.loads(claim_body(claim)) == {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        **CLAIM,
        "metadata": {**CLAIM["metadata"], "annotations": {"node": "n1"}},
    }


def test_what_was_not_followed_cannot_be_written():
    with pytest.raises(AssertionError):
        claim_body(PersistentVolumeClaim())
