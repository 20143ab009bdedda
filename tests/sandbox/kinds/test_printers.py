"""Discovery, OpenAPI and tables."""

import pytest

from kscheduler.rest.tables import human_duration
from kscheduler.sandbox.kinds.printers import pod_status
from kscheduler.sandbox.resources import RESOURCES
from tests.kit.manifests import pod_manifest
from tests.sandbox.rest import NODES, PODS, new_node

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def test_groups_and_versions_are_listed(rest):
    _, core = await rest.get("/api")
    assert core["versions"] == ["v1"]
    _, groups = await rest.get("/apis")
    assert [group["name"] for group in groups["groups"]] == [
        "apiregistration.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "metrics.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    ]
    _, scheduling = await rest.get("/apis/scheduling.k8s.io")
    assert scheduling["preferredVersion"]["version"] == "v1"
    assert [one["version"] for one in scheduling["versions"]] == ["v1", "v1beta1", "v1alpha3"]


async def test_resources_are_listed_with_their_parts(rest):
    _, body = await rest.get("/api/v1")
    resources = {one["name"]: one for one in body["resources"]}
    assert resources["pods"]["shortNames"] == ["po"]
    assert resources["pods/binding"]["verbs"] == ["create"]
    assert resources["pods/eviction"]["group"] == "policy"
    assert not resources["nodes"]["namespaced"]
    assert (await rest.get("/apis/events.k8s.io/v1"))[0] == 200
    assert (await rest.get("/apis/events.k8s.io/v9"))[0] == 404


async def test_both_forms_of_discovery_tell_the_same(rest):
    _, core = await rest.get("/api", headers={"Accept": AGGREGATED})
    _, others = await rest.get("/apis", headers={"Accept": AGGREGATED})
    aggregated = {
        (group["metadata"].get("name", ""), version["version"], resource["resource"])
        for group in core["items"] + others["items"]
        for version in group["versions"]
        for resource in version["resources"]
    }
    assert aggregated == {(row.group, row.version, row.plural) for row in RESOURCES}


async def test_the_version_is_that_of_the_api(rest):
    _, version = await rest.get("/version")
    assert (version["major"], version["minor"]) == ("1", "37")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping"])
async def test_it_is_healthy(rest, path):
    assert await rest.get(path) == (200, "ok")


async def test_openapi_v3_documents_are_complete(rest):
    _, index = await rest.get("/openapi/v3")
    assert "apis/apps/v1" in index["paths"]
    for entry in index["paths"].values():
        code, document = await rest.get(entry["serverRelativeURL"])
        assert code == 200
        schemas = document["components"]["schemas"]
        assert set(references(document)) <= {f"#/components/schemas/{name}" for name in schemas}
    assert (await rest.get("/openapi/v3/apis/none/v1"))[0] == 404


async def test_openapi_says_how_lists_merge(rest):
    _, index = await rest.get("/openapi/v3")
    _, document = await rest.get(index["paths"]["api/v1"]["serverRelativeURL"])
    containers = document["components"]["schemas"]["v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    patch = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert "fieldValidation" in [one["name"] for one in patch["parameters"]]


async def test_openapi_v2_exists_in_json_and_protobuf(rest):
    _, document = await rest.get("/openapi/v2")
    assert set(references(document)) <= {
        f"#/definitions/{name}" for name in document["definitions"]
    }
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    async with rest.session.get(rest.url + "/openapi/v2", headers={"Accept": accept}) as answer:
        body = await answer.read()
    assert body.startswith(b"\x0a\x032.0")  # field 1, length 3: swagger
    assert fields_of(body) == {1, 2, 8, 9}


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def fields_of(message):
    """The field numbers of a protobuf message, all of them length-delimited."""
    found, position = set(), 0

    def varint():
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(message):
        tag = varint()
        assert tag & 7 == 2
        found.add(tag >> 3)
        length = varint()
        position += length
    assert position == len(message)
    return found


async def test_pods_are_shown_as_a_table(rest, objects):
    objects.create(pod_manifest("p", nodeName="n1"))
    _, table = await rest.get(PODS, headers={"Accept": TABLE})
    assert table["kind"] == "Table"
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
        "IP",
        "Node",
        "Nominated Node",
        "Readiness Gates",
    ]
    (row,) = table["rows"]
    assert row["cells"][:4] == ["p", "0/1", "Pending", "0"]
    assert row["cells"][5:] == ["<none>", "n1", "<none>", "<none>"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    _, bare = await rest.get(PODS, headers={"Accept": TABLE}, params={"includeObject": "Object"})
    assert bare["rows"][0]["object"]["spec"]["nodeName"] == "n1"


async def test_nodes_are_shown_as_a_table(rest, objects):
    node = new_node("n", labels={"node-role.kubernetes.io/worker": ""}, unschedulable=True)
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    objects.create(node)
    _, table = await rest.get(f"{NODES}/n", headers={"Accept": TABLE})
    (row,) = table["rows"]
    assert row["cells"][:3] == ["n", "Ready,SchedulingDisabled", "worker"]


@pytest.mark.parametrize(
    "row",
    [row for row in RESOURCES if "watch" in row.verbs],
    ids=lambda row: f"{row.plural}.{row.version}.{row.group}",
)
async def test_every_resource_has_a_table(rest, row):
    code, table = await rest.get(row.path(), headers={"Accept": TABLE})
    assert (code, table["kind"]) == (200, "Table")


async def test_changes_come_as_tables_too(rest, objects):
    async with rest.session.get(
        rest.url + PODS, headers={"Accept": TABLE}, params={"watch": "true"}
    ) as answer:
        objects.create(pod_manifest("p"))
        line = await answer.content.readline()
    assert b'"kind":"Table"' in line
    assert b'"cells":["p","0/1","Pending"' in line


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (310, "5m10s"),
        (700, "11m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 60, "5h1m"),
        (30 * 3600, "30h"),
        (3 * 86400 + 3600, "3d1h"),
        (30 * 86400, "30d"),
        (900 * 86400, "2y170d"),
        (4000 * 86400, "10y"),
        (-5, "0s"),
    ],
)
def test_durations_read_well(seconds, text):
    assert human_duration(seconds) == text


def waiting(reason):
    return {"state": {"waiting": {"reason": reason}}, "ready": False}


@pytest.mark.parametrize(
    ("status", "deleted", "want"),
    [
        ({"phase": "Pending"}, False, "Pending"),
        ({"phase": "Failed", "reason": "OutOfcpu"}, False, "OutOfcpu"),
        ({"phase": "Running"}, True, "Terminating"),
        (
            {"phase": "Pending", "containerStatuses": [waiting("ErrImagePull")]},
            False,
            "ErrImagePull",
        ),
        (
            {"phase": "Pending", "initContainerStatuses": [waiting("PodInitializing")]},
            False,
            "Init:0/1",
        ),
        (
            {
                "phase": "Pending",
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
                ],
            },
            False,
            "SchedulingGated",
        ),
    ],
)
def test_one_word_sums_up_a_pod(status, deleted, want):
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    spec = {"containers": [{}], "initContainers": [{}]}
    assert pod_status({"metadata": metadata, "spec": spec, "status": status}) == want
