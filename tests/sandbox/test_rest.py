"""The verbs over HTTP, and how they are refused."""

import io

import pytest

from tests.kit.manifests import pod_manifest
from tests.sandbox.rest import NODES, PODS, new_node

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def refusal(body):
    assert (body["kind"], body["apiVersion"], body["status"]) == ("Status", "v1", "Failure")
    return body["code"], body["reason"], body["message"]


async def test_a_created_object_gets_an_identity(rest):
    code, pod = await rest.post(PODS, pod_manifest("p"))
    assert code == 201
    assert set(pod["metadata"]) == {
        "creationTimestamp",
        "generation",
        "labels",
        "name",
        "namespace",
        "resourceVersion",
        "uid",
    }
    assert await rest.get(f"{PODS}/p") == (200, pod)


async def test_what_only_the_server_may_set_is_not_taken_from_clients(rest):
    manifest = pod_manifest("p") | {"status": {"phase": "Running"}}
    manifest["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}
    _, pod = await rest.post(PODS, manifest)
    assert pod["metadata"]["uid"] != "mine"
    assert pod["metadata"]["creationTimestamp"] > "2001"
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


async def test_names_are_generated(rest):
    manifest = pod_manifest()
    manifest["metadata"] = {"generateName": "job-"}
    _, pod = await rest.post(PODS, manifest)
    assert pod["metadata"]["name"].startswith("job-")
    assert len(pod["metadata"]["name"]) == len("job-") + 5


async def test_unknown_fields_are_kept(rest):
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "future": [1]}
    await rest.post("/api/v1/namespaces/default/configmaps", manifest)
    _, kept = await rest.get("/api/v1/namespaces/default/configmaps/c")
    assert kept["future"] == [1]


async def test_yaml_bodies_are_read(rest):
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata: {a: b}\n"
    code, _ = await rest.post(
        "/api/v1/namespaces/default/configmaps", body, content_type="application/yaml"
    )
    assert code == 201


@pytest.mark.parametrize(
    ("path", "body", "want"),
    [
        pytest.param(
            PODS,
            pod_manifest("taken"),
            (409, "AlreadyExists", 'pods "taken" already exists'),
            id="taken name",
        ),
        pytest.param(
            "/api/v1/namespaces/nowhere/pods",
            pod_manifest("p"),
            (404, "NotFound", 'namespaces "nowhere" not found'),
            id="no such namespace",
        ),
        pytest.param(
            PODS,
            pod_manifest("p") | {"metadata": {"name": "p", "namespace": "other"}},
            (
                400,
                "BadRequest",
                "the namespace of the provided object does not match "
                "the namespace sent on the request",
            ),
            id="another namespace in the body",
        ),
        pytest.param(
            PODS,
            new_node("n"),
            (
                400,
                "BadRequest",
                'Node in version "v1" cannot be handled as a Pod: '
                "converting (Node) to (Pod): unknown conversion",
            ),
            id="another kind",
        ),
        pytest.param(
            PODS,
            pod_manifest("p") | {"apiVersion": "apps/v1"},
            (
                400,
                "BadRequest",
                "the API version in the data (apps/v1) does not match "
                "the expected API version (v1)",
            ),
            id="another version",
        ),
    ],
)
async def test_a_create_is_refused(rest, objects, path, body, want):
    objects.create(pod_manifest("taken"))
    code, answer = await rest.post(path, body)
    assert (code, refusal(answer)) == (want[0], want)


async def test_a_body_that_is_no_json_is_refused(rest):
    code, body = await rest.post(PODS, b"{nonsense")
    assert code == 400
    assert body["message"].startswith("couldn't get version/kind; json parse error: ")


async def test_a_field_of_the_wrong_type_is_refused(rest):
    code, body = await rest.post(PODS, pod_manifest("p", nodeName=7))
    assert code == 400
    assert body["message"].startswith('Pod in version "v1" cannot be handled as a Pod: ')


async def test_answers_are_json_whoever_asks(rest):
    _, body = await rest.get(PODS, headers={"Accept": "application/vnd.kubernetes.protobuf"})
    assert refusal(body)[:2] == (406, "NotAcceptable")
    both = "application/vnd.kubernetes.protobuf,application/json"
    code, _ = await rest.get(PODS, headers={"Accept": both})
    assert code == 200


async def test_a_body_in_an_unknown_format_is_refused(rest):
    _, body = await rest.post(PODS, b"<pod/>", content_type="application/xml")
    assert refusal(body) == (
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml",
    )


async def test_a_body_that_is_too_large_is_refused(rest):
    _, body = await rest.call("POST", PODS, data=io.BytesIO(b" " * (3 * 1024 * 1024 + 1)))
    assert refusal(body) == (
        413,
        "RequestEntityTooLarge",
        "Request entity too large: limit is 3145728",
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (f"{PODS}/none", 'pods "none" not found'),
        (f"{LEASES}/none", 'leases.coordination.k8s.io "none" not found'),
    ],
)
async def test_what_is_not_there_is_not_found(rest, path, message):
    code, body = await rest.get(path)
    assert (code, refusal(body)) == (404, (404, "NotFound", message))
    assert body["details"]["name"] == "none"


@pytest.mark.parametrize("path", ["/api/v1/unknowns", "/apis/apps/v9/x", f"{PODS}/p/colour"])
async def test_what_a_group_does_not_serve_is_told_as_a_status(rest, path):
    code, body = await rest.get(path)
    message = "the server could not find the requested resource"
    assert (code, refusal(body)) == (404, (404, "NotFound", message))


@pytest.mark.parametrize("path", ["/apis/none/v1/x", "/nothing"])
async def test_unknown_paths_answer_in_plain_text(rest, path):
    assert await rest.get(path) == (404, "404 page not found\n")


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", PODS), ("POST", f"{PODS}/p"), ("GET", f"{PODS}/p/binding"), ("POST", "/api/v1/pods")],
)
async def test_a_method_that_makes_no_sense_is_not_allowed(rest, method, path):
    _, body = await rest.call(method, path, {})
    assert refusal(body) == (
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    )


async def test_an_update_must_know_the_latest_version(rest, objects):
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    _, first = await rest.post(LEASES, lease)
    code, second = await rest.put(f"{LEASES}/l", first | {"spec": {"holderIdentity": "me"}})
    assert code == 200
    _, body = await rest.put(f"{LEASES}/l", first | {"spec": {"holderIdentity": "you"}})
    assert refusal(body) == (
        409,
        "Conflict",
        f'Operation cannot be fulfilled on leases.coordination.k8s.io "l": {MODIFIED}',
    )
    assert await rest.get(f"{LEASES}/l") == (200, second)


async def test_leases_cannot_be_updated_without_a_version(rest):
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    await rest.post(LEASES, lease)
    _, body = await rest.put(f"{LEASES}/l", lease)
    assert refusal(body) == (
        422,
        "Invalid",
        'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update",
    )


async def test_updating_a_lease_that_was_deleted_is_a_conflict_not_a_404(rest):
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    _, created = await rest.post(LEASES, lease)
    await rest.delete(f"{LEASES}/l")
    uid = created["metadata"]["uid"]
    _, body = await rest.put(f"{LEASES}/l", created)
    assert refusal(body) == (
        409,
        "Conflict",
        'Operation cannot be fulfilled on leases.coordination.k8s.io "l": StorageError: invalid '
        "object, Code: 4, Key: /registry/leases/kube-system/l, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
        "UID in object meta: ",
    )


async def test_a_lease_can_be_created_by_update(rest):
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    code, _ = await rest.put(f"{LEASES}/l", lease)
    assert code == 201


async def test_nothing_is_created_by_a_patch(rest):
    _, body = await rest.patch(f"{LEASES}/l", {"spec": {"holderIdentity": "me"}})
    assert refusal(body) == (404, "NotFound", 'leases.coordination.k8s.io "l" not found')


async def test_a_pod_cannot_be_created_by_update(rest):
    _, body = await rest.put(f"{PODS}/p", pod_manifest("p"))
    assert refusal(body) == (404, "NotFound", 'pods "p" not found')


async def test_the_name_in_the_body_must_be_the_one_in_the_url(rest, objects):
    objects.create(pod_manifest("p"))
    _, body = await rest.put(f"{PODS}/p", pod_manifest("q"))
    assert refusal(body) == (
        400,
        "BadRequest",
        "the name of the object (q) does not match the name on the URL (p)",
    )


async def test_an_update_that_changes_nothing_keeps_the_version(rest, objects):
    node = objects.create(new_node("n"))
    code, again = await rest.put(f"{NODES}/n", dict(reversed(node.items())))
    assert (code, again) == (200, node)


async def test_status_is_written_apart_from_the_rest(rest, objects):
    node = objects.create(new_node("n"))
    node["status"]["phase"] = "odd"
    node["spec"]["unschedulable"] = True
    _, after = await rest.put(f"{NODES}/n", node)
    assert (after["spec"], after["status"].get("phase")) == ({"unschedulable": True}, None)
    after["status"]["phase"] = "odd"
    after["spec"] = {}
    _, last = await rest.put(f"{NODES}/n/status", after)
    assert (last["spec"], last["status"]["phase"]) == ({"unschedulable": True}, "odd")


async def test_generation_counts_changes_of_the_spec_only(rest):
    path = "/apis/apps/v1/namespaces/default/replicasets"
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": pod_manifest()["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "r"},
        "spec": spec,
    }
    _, created = await rest.post(path, manifest)
    _, labelled = await rest.patch(f"{path}/r", {"metadata": {"labels": {"a": "b"}}})
    _, scaled = await rest.patch(f"{path}/r", {"spec": {"replicas": 3}})
    _, reported = await rest.patch(f"{path}/r/status", {"status": {"replicas": 3}})
    generations = [one["metadata"]["generation"] for one in (created, labelled, scaled, reported)]
    assert generations == [1, 1, 2, 2]


async def test_a_dry_run_answers_but_leaves_no_trace(rest, server):
    before = server.store.version
    code, pod = await rest.post(f"{PODS}?dryRun=All", pod_manifest("p"))
    assert (code, pod["metadata"]["name"]) == (201, "p")
    assert (await rest.get(f"{PODS}/p"))[0] == 404
    assert server.store.version == before


async def test_replicas_are_read_and_written_through_scale(rest):
    path = "/apis/apps/v1/namespaces/default/deployments"
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": pod_manifest()["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template, "replicas": 2}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": spec,
    }
    await rest.post(path, manifest)
    _, scale = await rest.get(f"{path}/d/scale")
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale",
        {"replicas": 2},
        {"replicas": 0, "selector": "app=x"},
    )
    await rest.patch(f"{path}/d/scale", {"spec": {"replicas": 5}}, kind="merge")
    _, deployment = await rest.get(f"{path}/d")
    assert deployment["spec"]["replicas"] == 5


async def test_metadata_can_be_had_on_its_own(rest, objects):
    objects.create(pod_manifest("p"))
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    _, body = await rest.get(PODS, headers={"Accept": accept})
    assert body["kind"] == "PartialObjectMetadataList"
    assert [set(item) for item in body["items"]] == [{"metadata"}]


async def test_strict_clients_are_told_about_unknown_fields(rest):
    manifest = pod_manifest("p", colour="red")
    _, body = await rest.post(f"{PODS}?fieldValidation=Strict", manifest)
    assert refusal(body) == (
        400,
        "BadRequest",
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'unknown field "spec.colour"',
    )
    assert (await rest.post(f"{PODS}?fieldValidation=Ignore", manifest))[0] == 201


async def test_lenient_clients_are_warned_about_unknown_fields(rest):
    url = f"{rest.url}{PODS}?fieldValidation=Warn"
    async with rest.session.post(url, json=pod_manifest("p", colour="red")) as answer:
        assert answer.status == 201
        assert answer.headers["Warning"] == '299 - "unknown field \\"spec.colour\\""'


async def test_strict_patches_are_refused_for_what_they_lead_to(rest, objects):
    objects.create(pod_manifest("p"))
    patch = {"metadata": {"color": "red"}}
    code, body = await rest.patch(f"{PODS}/p?fieldValidation=Strict", patch)
    assert (code, body["reason"]) == (422, "Invalid")
    assert 'strict decoding error: unknown field "metadata.color"' in body["message"]
