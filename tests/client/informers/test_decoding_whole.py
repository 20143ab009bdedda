"""Objects carry the JSON they came as, where somebody asked for it."""

import json

import pytest

from kscheduler.api.core import Node, Pod
from kscheduler.client.informers.decoding import retaining_json, shape_of

POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "p", "uid": "u", "managedFields": [{"manager": "m"}]},
    "spec": {"hostname": "unread", "nodeName": ""},
    "status": {},
}
NODE = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {"name": "n", "managedFields": [{"manager": "m"}]},
    "status": {"volumesInUse": ["v"]},
}


def decoded(struct, item, wanted=lambda item: True):
    shape = retaining_json(shape_of(struct, "x"), wanted)
    return shape.decode(memoryview(json.dumps(item).encode()))


def test_a_pod_keeps_all_but_its_type_and_its_managers():
    whole = json.loads(decoded(Pod, POD).whole)
    assert whole == {
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"hostname": "unread", "nodeName": ""},
        "status": {},
    }


def test_a_node_keeps_its_managers_as_upstream_does():
    whole = json.loads(decoded(Node, NODE).whole)
    assert whole == {name: part for name, part in NODE.items() if name in ("metadata", "status")}


def test_it_is_the_same_object_otherwise():
    kept, plain = decoded(Pod, POD), decoded(Pod, POD, lambda item: False)
    assert plain.whole == b""
    assert (kept.metadata, kept.spec, kept.status) == (plain.metadata, plain.spec, plain.status)


@pytest.mark.parametrize(("node", "kept"), [("", True), ("n1", False)])
def test_only_wanted_objects_keep_anything(node, kept):
    item = {**POD, "spec": {"nodeName": node}}
    found = decoded(Pod, item, lambda pod: not pod.spec.node_name)
    assert bool(found.whole) == kept
