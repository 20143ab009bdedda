"""Lists over HTTP: selectors, versions and pages."""

import pytest

from tests.kit.manifests import pod_manifest
from tests.sandbox.rest import NODES, PODS, new_node


@pytest.fixture
def five_pods(objects):
    return [objects.create(pod_manifest(f"p{number}")) for number in range(5)]


def names(body):
    return [item["metadata"]["name"] for item in body["items"]]


async def test_a_list_shows_items_without_kind_at_the_current_version(rest, server, five_pods):
    code, body = await rest.get(PODS)
    assert code == 200
    assert (body["kind"], body["apiVersion"]) == ("PodList", "v1")
    assert body["metadata"] == {"resourceVersion": str(server.store.version)}
    assert names(body) == ["p0", "p1", "p2", "p3", "p4"]
    assert set(body["items"][0]) == {"metadata", "spec", "status"}


@pytest.mark.parametrize(
    ("query", "want"),
    [
        pytest.param({"labelSelector": "app=web"}, ["a"], id="a label"),
        pytest.param({"labelSelector": "app in (web,db)"}, ["a", "b"], id="a set of labels"),
        pytest.param({"labelSelector": "!app"}, ["c"], id="a missing label"),
        pytest.param({"fieldSelector": "metadata.name=b"}, ["b"], id="a name"),
        pytest.param({"fieldSelector": "metadata.name!=b"}, ["a", "c"], id="not a name"),
        pytest.param({"fieldSelector": "spec.nodeName=n1"}, ["c"], id="a node"),
        pytest.param({"fieldSelector": "spec.nodeName="}, ["a", "b"], id="no node"),
        pytest.param(
            {"fieldSelector": "status.phase=Pending", "labelSelector": "app"},
            ["a", "b"],
            id="field and label",
        ),
    ],
)
async def test_pods_are_selected_by(rest, objects, query, want):
    objects.create(pod_manifest("a", labels={"app": "web"}))
    objects.create(pod_manifest("b", labels={"app": "db"}))
    objects.create(pod_manifest("c", nodeName="n1"))
    _, body = await rest.get(PODS, params=query)
    assert names(body) == want


async def test_a_flag_that_is_absent_selects_as_false(rest, objects):
    objects.create(new_node("open"))
    objects.create(new_node("cordoned", unschedulable=True))
    _, body = await rest.get(NODES, params={"fieldSelector": "spec.unschedulable=false"})
    assert names(body) == ["open"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param(
            {"fieldSelector": "spec.color=red"},
            "field label not supported: spec.color",
            id="unknown field",
        ),
        pytest.param(
            {"labelSelector": "a=(b"},
            "unable to parse requirement: found '(', expected: identifier",
            id="bad label selector",
        ),
    ],
)
async def test_a_selector_that_cannot_be_understood_is_refused(rest, query, message):
    code, body = await rest.get(PODS, params=query)
    assert (code, body["reason"], body["message"]) == (400, "BadRequest", message)


async def test_pages_show_one_moment_whatever_happens_meanwhile(rest, objects, five_pods):
    _, first = await rest.get(PODS, params={"limit": "2"})
    assert names(first) == ["p0", "p1"]
    assert first["metadata"]["remainingItemCount"] == 3
    objects.create(pod_manifest("p2a"))
    objects.delete("pods", "p3")
    token = first["metadata"]["continue"]
    _, second = await rest.get(PODS, params={"limit": "2", "continue": token})
    assert names(second) == ["p2", "p3"]
    token = second["metadata"]["continue"]
    _, last = await rest.get(PODS, params={"limit": "2", "continue": token})
    assert names(last) == ["p4"]
    assert last["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


async def test_a_page_of_a_forgotten_moment_is_expired_but_can_go_on(
    rest, server, objects, five_pods
):
    _, first = await rest.get(PODS, params={"limit": "2"})
    objects.delete("pods", "p2")
    server.compact()
    token = first["metadata"]["continue"]
    code, body = await rest.get(PODS, params={"limit": "2", "continue": token})
    assert (code, body["reason"]) == (410, "Expired")
    assert body["message"].startswith("The provided continue parameter is too old")
    _, rest_of_it = await rest.get(
        PODS, params={"limit": "2", "continue": body["metadata"]["continue"]}
    )
    assert names(rest_of_it) == ["p3", "p4"]


async def test_pages_with_a_selector_do_not_guess_what_remains(rest, five_pods):
    _, body = await rest.get(PODS, params={"limit": "2", "fieldSelector": "spec.nodeName="})
    assert "continue" in body["metadata"]
    assert "remainingItemCount" not in body["metadata"]


async def test_an_exact_version_lists_the_past(rest, objects, five_pods):
    version = five_pods[2]["metadata"]["resourceVersion"]
    query = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    _, body = await rest.get(PODS, params=query)
    assert names(body) == ["p0", "p1", "p2"]
    assert body["metadata"]["resourceVersion"] == version


@pytest.mark.parametrize(
    ("query", "code", "reason", "text"),
    [
        pytest.param(
            {"resourceVersion": "1", "resourceVersionMatch": "Exact"},
            410,
            "Expired",
            "The resourceVersion for the provided list is too old.",
            id="too old",
        ),
        pytest.param(
            {"resourceVersion": "999999"},
            504,
            "Timeout",
            "Timeout: Too large resource version: 999999, current: ",
            id="from the future",
        ),
        pytest.param(
            {"continue": "???"}, 400, "BadRequest", "continue key is not valid", id="token"
        ),
        pytest.param(
            {"resourceVersionMatch": "Exact"},
            422,
            "Invalid",
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
            id="match without version",
        ),
    ],
)
async def test_a_list_is_refused_when(rest, server, five_pods, query, code, reason, text):
    server.compact()
    got, body = await rest.get(PODS, params=query)
    assert (got, body["reason"]) == (code, reason)
    assert body["message"].startswith(text)


async def test_version_zero_means_whatever_is_at_hand(rest, five_pods):
    code, body = await rest.get(PODS, params={"resourceVersion": "0", "limit": "500"})
    assert (code, len(body["items"])) == (200, 5)


async def test_ten_thousand_pods_are_listed_and_followed(rest, objects):
    for number in range(10_000):
        objects.create(pod_manifest(f"p{number}"))
    _, body = await rest.get("/api/v1/pods")
    assert len(body["items"]) == 10_000
    pages, query = [], {"limit": "500"}
    while True:
        _, body = await rest.get("/api/v1/pods", params=query)
        pages += names(body)
        if "continue" not in body["metadata"]:
            break
        query = {"limit": "500", "continue": body["metadata"]["continue"]}
    assert len(set(pages)) == 10_000
