"""Strategic merge patches, without a server."""

import pytest

from kscheduler.rest.status import StatusError
from kscheduler.sandbox.patching.shapes import shape_of_kind
from kscheduler.sandbox.patching.strategic import strategic_merge

POD = shape_of_kind("Pod")


def patched(document, patch, kind="Pod"):
    return strategic_merge(document, patch, shape_of_kind(kind))


@pytest.mark.parametrize(
    ("document", "patch", "want"),
    [
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="adds"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null removes"),
        pytest.param(
            {"spec": {"a": 1}},
            {"spec": {"b": {"c": None, "d": 1}}},
            {"spec": {"a": 1, "b": {"d": 1}}},
            id="nulls inside something new are dropped",
        ),
        pytest.param(
            {"spec": {"nodeSelector": {"a": "1"}}},
            {"spec": {"nodeSelector": {"$patch": "replace", "b": "2"}}},
            {"spec": {"nodeSelector": {"b": "2"}}},
            id="replace directive",
        ),
        pytest.param(
            {"spec": {"nodeSelector": {"a": "1"}}},
            {"spec": {"nodeSelector": {"$patch": "delete"}}},
            {"spec": {"nodeSelector": {}}},
            id="delete directive",
        ),
        pytest.param(
            {"spec": {"tolerations": [{"key": "a"}, {"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "c"}]}},
            {"spec": {"tolerations": [{"key": "c"}]}},
            id="atomic lists are replaced",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["x", "y"]}},
            {"metadata": {"finalizers": ["y", "z"]}},
            {"metadata": {"finalizers": ["x", "y", "z"]}},
            id="sets are united",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["x", "y"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}},
            {"metadata": {"finalizers": ["y"]}},
            id="elements leave a set",
        ),
        pytest.param(
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {}}]}},
            {"spec": {"volumes": [{"name": "v", "secret": {}}]}},
            id="retainKeys drops the other source",
        ),
    ],
)
def test_a_patch(document, patch, want):
    assert patched(document, patch) == want


CONTAINERS = {
    "spec": {
        "containers": [
            {"name": "a", "image": "a:1", "ports": [{"containerPort": 80, "name": "http"}]},
            {"name": "b", "image": "b:1"},
        ]
    }
}


def test_keyed_lists_are_merged_element_by_element():
    patch = {"spec": {"containers": [{"name": "a", "image": "a:2"}, {"name": "c", "image": "c:1"}]}}
    containers = patched(CONTAINERS, patch)["spec"]["containers"]
    assert [(one["name"], one["image"]) for one in containers] == [
        ("a", "a:2"),
        ("c", "c:1"),  # new elements come before those that only the server knew
        ("b", "b:1"),
    ]
    assert containers[0]["ports"] == [{"containerPort": 80, "name": "http"}]


def test_keys_hold_inside_of_keyed_elements():
    port = {"containerPort": 443, "name": "https"}
    patch = {"spec": {"containers": [{"name": "a", "ports": [port]}]}}
    (first, _) = patched(CONTAINERS, patch)["spec"]["containers"]
    assert [one["containerPort"] for one in first["ports"]] == [443, 80]


def test_an_element_is_deleted_by_its_key():
    patch = {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}
    (left,) = patched(CONTAINERS, patch)["spec"]["containers"]
    assert left["name"] == "b"


def test_a_keyed_list_is_replaced_as_a_whole_when_asked():
    patch = {"spec": {"containers": [{"name": "z"}, {"$patch": "replace"}]}}
    assert patched(CONTAINERS, patch)["spec"]["containers"] == [{"name": "z"}]


def test_an_element_without_its_key_is_refused():
    with pytest.raises(StatusError, match="does not contain declared merge key: name"):
        patched(CONTAINERS, {"spec": {"containers": [{"image": "x"}]}})


def conditions(*types):
    return {"status": {"conditions": [{"type": one, "status": "False"} for one in types]}}


@pytest.mark.parametrize(
    ("before", "order", "want"),
    [
        pytest.param("ab", "ba", "ba", id="reordered"),
        pytest.param("axb", "ba", "xba", id="the server's own element keeps its place"),
        pytest.param("ab", "cab", "cab", id="a new first one"),
    ],
)
def test_the_order_of_elements_can_be_set(before, order, want):
    new = [{"type": one, "status": "True"} for one in order if one not in before]
    patch = {
        "status": {
            "$setElementOrder/conditions": [{"type": one} for one in order],
            "conditions": new,
        }
    }
    merged = patched(conditions(*before), patch)["status"]["conditions"]
    assert [one["type"] for one in merged] == list(want)


def test_the_patch_a_scheduler_sends_for_a_changed_message():
    document = {
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "old",
                },
                {"type": "Other", "status": "True"},
            ]
        }
    }
    patch = {
        "status": {
            "$setElementOrder/conditions": [{"type": "PodScheduled"}],
            "conditions": [{"message": "new", "type": "PodScheduled"}],
            "nominatedNodeName": None,
        }
    }
    first, second = patched(document, patch)["status"]["conditions"]
    assert first == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "new",
    }
    assert second["type"] == "Other"
