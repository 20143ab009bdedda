"""Server-side apply: over HTTP, as kubectl uses it."""

from tests.kit.manifests import pod_manifest
from tests.sandbox.rest import PODS

PATH = "/api/v1/namespaces/default/configmaps/c"


def config(**data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


async def test_applying_creates_what_is_not_there(rest):
    code, created = await rest.apply(PATH, config(a="1"), fieldManager="me")
    assert (code, created["data"]) == (201, {"a": "1"})
    (entry,) = created["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["fieldsV1"]) == (
        "me",
        "Apply",
        {"f:data": {"f:a": {}}},
    )


async def test_what_a_manager_no_longer_states_goes_away(rest):
    await rest.apply(PATH, config(a="1", b="2"), fieldManager="me")
    await rest.patch(PATH, {"data": {"theirs": "3"}})
    _, after = await rest.apply(PATH, config(b="2"), fieldManager="me")
    assert after["data"] == {"b": "2", "theirs": "3"}


async def test_applying_the_same_again_changes_nothing_but_the_time(rest):
    _, first = await rest.apply(PATH, config(a="1"), fieldManager="me")
    _, second = await rest.apply(PATH, config(a="1"), fieldManager="me")
    assert first["data"] == second["data"]
    assert len(second["metadata"]["managedFields"]) == 1


async def test_two_managers_may_agree(rest):
    await rest.apply(PATH, config(a="1"), fieldManager="me")
    code, shared = await rest.apply(PATH, config(a="1", b="2"), fieldManager="you")
    assert (code, shared["data"]) == (200, {"a": "1", "b": "2"})
    _, left = await rest.apply(PATH, config(b="2"), fieldManager="you")
    assert left["data"] == {"a": "1", "b": "2"}


async def test_two_managers_who_disagree_are_in_conflict(rest):
    await rest.apply(PATH, config(a="1"), fieldManager="me")
    code, body = await rest.apply(PATH, config(a="2"), fieldManager="you")
    assert (code, body["reason"], body["message"]) == (
        409,
        "Conflict",
        'Apply failed with 1 conflict: conflict with "me": .data.a',
    )
    assert body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "me"', "field": ".data.a"}
    ]


async def test_force_takes_the_field_over(rest):
    await rest.apply(PATH, config(a="1"), fieldManager="me")
    _, taken = await rest.apply(PATH, config(a="2"), fieldManager="you", force="true")
    assert taken["data"] == {"a": "2"}
    assert [one["manager"] for one in taken["metadata"]["managedFields"]] == ["you"]


async def test_containers_are_owned_one_by_one(rest):
    mine = pod_manifest("p", containers=[{"name": "a", "image": "a:1"}])
    await rest.apply(f"{PODS}/p", mine, fieldManager="me")
    _, pod = await rest.apply(
        f"{PODS}/p",
        pod_manifest("p", containers=[{"name": "a", "image": "a:2"}]),
        fieldManager="me",
    )
    (container,) = pod["spec"]["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("a:2", "IfNotPresent")


async def test_a_manager_must_have_a_name(rest):
    code, body = await rest.apply(PATH, config(a="1"))
    assert (code, body["message"]) == (
        422,
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: '
        "is required for apply patch",
    )
