"""Groups of the API that another server has, reached through the sandbox."""

import asyncio
import json
import ssl
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from kscheduler.sandbox import ApiServer, User
from kscheduler.sandbox.access.credentials import load_pair
from tests.kit.polling import until
from tests.kit.ports import free_port
from tests.sandbox.rest import Rest

GROUP, VERSION, NAME = "example.dev", "v1", "v1.example.dev"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
ROOT = f"/apis/{GROUP}/{VERSION}"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
RESOURCES = [
    {
        "name": "widgets",
        "singularName": "widget",
        "namespaced": True,
        "kind": "Widget",
        "verbs": ["get", "list", "watch"],
        "shortNames": ["wi"],
    },
    {
        "name": "widgets/status",
        "singularName": "",
        "namespaced": True,
        "kind": "Widget",
        "verbs": ["get"],
    },
]
DOCUMENTS = {
    ROOT: {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/{VERSION}",
        "resources": RESOURCES,
    },
    "/openapi/v2": {
        "swagger": "2.0",
        "paths": {f"{ROOT}/widgets": {"get": {}}},
        "definitions": {"dev.example.v1.Widget": {"type": "object"}},
    },
    "/openapi/v3": {
        "paths": {
            f"apis/{GROUP}/{VERSION}": {"serverRelativeURL": f"/openapi/v3{ROOT}?hash=1"},
            "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=not-theirs"},
        }
    },
    f"/openapi/v3{ROOT}": {"openapi": "3.0.0", "info": {"title": "widgets"}},
}


class Widgets:
    """Another API server: a few documents, a watch without end, an echo of everything else."""

    def __init__(self, pair, port):
        self.port = port
        self.pair = pair
        self.watching = asyncio.Event()
        self.runner = None

    async def start(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load_pair(context, self.pair)
        self.runner = web.ServerRunner(web.Server(self.answer), shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port, ssl_context=context).start()

    async def stop(self):
        if self.runner is not None:
            await self.runner.cleanup()
            self.runner = None

    async def answer(self, request):
        if request.path in DOCUMENTS:
            return web.json_response(DOCUMENTS[request.path])
        if request.query.get("watch"):
            stream = web.StreamResponse()
            await stream.prepare(request)
            await stream.write(b'{"type":"ADDED","object":{"metadata":{"name":"first"}}}\n')
            self.watching.set()
            await asyncio.Event().wait()
        told = {
            "method": request.method,
            "target": request.raw_path,
            "headers": [[name.lower(), value] for name, value in request.headers.items()],
            "body": await request.text(),
        }
        return web.json_response(told, status=202, headers={"Warning": '299 - "hm"'})


@pytest.fixture
async def widgets(server):
    port = free_port()
    pair = server.aggregator.register(
        GROUP, VERSION, namespace="default", service="widgets", port=port
    )
    backend = Widgets(pair, port)
    await backend.start()
    yield backend
    await backend.stop()


def condition(server):
    found = server.objects.get("apiservices.apiregistration.k8s.io", NAME)
    (one,) = (found.get("status") or {}).get("conditions") or [{}]
    return one.get("status"), one.get("reason")


async def available(server):
    await until(lambda: condition(server) == ("True", "Passed"), "the other server is available")


@asynccontextmanager
async def client_of(server, user):
    headers = {"Authorization": f"Bearer {server.users.add(user)}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        yield Rest(session, server.url)


def allow(server, user, *, verbs, resource, group=GROUP):
    rules = [{"apiGroups": [group], "resources": [resource], "verbs": verbs}]
    api = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    about = {"metadata": {"name": user}}
    server.objects.create({**api, **about, "kind": "ClusterRole", "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    binding = {"roleRef": role, "subjects": [{"kind": "User", "name": user}]}
    server.objects.create({**api, **about, "kind": "ClusterRoleBinding", **binding})


async def test_a_request_is_passed_on_with_the_users_name_and_groups(server, widgets):
    await available(server)
    allow(server, "jo", verbs=["create"], resource="widgets")
    forged = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters", "X-Other": "kept"}
    path = f"{ROOT}/namespaces/default/widgets"
    async with client_of(server, User("jo", ("makers",))) as rest:
        code, told = await rest.post(f"{path}?dryRun=All&a=%2B", {"a": 1}, headers=forged)
    assert code == 202
    headers = told.pop("headers")
    assert told == {"method": "POST", "target": f"{path}?dryRun=All&a=%2B", "body": '{"a": 1}'}
    assert [value for name, value in headers if name == "x-remote-user"] == ["jo"]
    groups = [value for name, value in headers if name == "x-remote-group"]
    assert groups == ["makers", "system:authenticated"]
    assert ["x-other", "kept"] in headers
    assert "authorization" not in dict(headers)


async def test_rights_are_asked_for_before_a_request_is_passed_on(server, widgets):
    await available(server)
    allow(server, "jo", verbs=["get"], resource="widgets")
    async with client_of(server, User("jo")) as rest:
        assert (await rest.get(f"{ROOT}/namespaces/default/widgets/one"))[0] == 202
        code, body = await rest.get(f"{ROOT}/namespaces/default/widgets")
    assert (code, body["message"]) == (
        403,
        'widgets.example.dev is forbidden: User "jo" cannot list resource "widgets" in API group '
        '"example.dev" in the namespace "default"',
    )


async def test_a_watch_is_passed_on_as_it_comes_and_breaks_off_with_its_server(
    server, rest, widgets
):
    await available(server)
    async with rest.session.get(f"{server.url}{ROOT}/widgets?watch=true") as answer:
        line = await answer.content.readline()
        assert json.loads(line)["object"]["metadata"]["name"] == "first"
        await widgets.stop()
        with pytest.raises(aiohttp.ClientError):
            await answer.content.readline()


async def test_the_server_stops_while_something_is_passed_on(widgets, server, rest):
    await available(server)
    async with rest.session.get(f"{server.url}{ROOT}/widgets?watch=true") as answer:
        await answer.content.readline()
        await asyncio.wait_for(server.stop(), 10)


async def test_discovery_has_the_other_groups_in_both_forms(server, rest, widgets):
    await available(server)
    _, groups = await rest.get("/apis")
    (group,) = [one for one in groups["groups"] if one["name"] == GROUP]
    assert group["preferredVersion"] == {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}
    assert (await rest.get(f"/apis/{GROUP}"))[1]["versions"] == group["versions"]
    assert (await rest.get(ROOT))[1]["resources"] == RESOURCES
    assert await aggregated_version(rest) == {
        "version": VERSION,
        "freshness": "Current",
        "resources": [
            {
                "resource": "widgets",
                "responseKind": {"group": GROUP, "version": VERSION, "kind": "Widget"},
                "scope": "Namespaced",
                "singularResource": "widget",
                "verbs": ["get", "list", "watch"],
                "shortNames": ["wi"],
                "subresources": [
                    {
                        "subresource": "status",
                        "responseKind": {"group": GROUP, "version": VERSION, "kind": "Widget"},
                        "verbs": ["get"],
                    }
                ],
            }
        ],
    }


async def aggregated_version(rest):
    _, found = await rest.get("/apis", headers={"Accept": AGGREGATED})
    (item,) = [one for one in found["items"] if one["metadata"]["name"] == GROUP]
    (version,) = item["versions"]
    return version


async def test_openapi_has_the_other_groups(server, rest, widgets):
    await available(server)
    _, index = await rest.get("/openapi/v3")
    assert index["paths"][f"apis/{GROUP}/{VERSION}"]["serverRelativeURL"].endswith("hash=1")
    assert "not-theirs" not in index["paths"]["api/v1"]["serverRelativeURL"]
    assert (await rest.get(f"/openapi/v3{ROOT}?hash=1"))[1]["info"]["title"] == "widgets"
    _, merged = await rest.get("/openapi/v2")
    assert f"{ROOT}/widgets" in merged["paths"]
    assert {"dev.example.v1.Widget", "v1.Pod"} <= merged["definitions"].keys()
    protobuf = {"Accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
    async with rest.session.get(f"{server.url}/openapi/v2", headers=protobuf) as answer:
        assert b"dev.example.v1.Widget" in await answer.read()


async def test_a_server_that_is_away_is_answered_for_with_503_and_stays_in_discovery(
    server, rest, widgets
):
    await available(server)
    await widgets.stop()
    assert await rest.get(f"{ROOT}/widgets") == (503, "service unavailable\n")
    await until(
        lambda: condition(server) == ("False", "FailedDiscoveryCheck"), "it is seen to be away"
    )
    assert (await aggregated_version(rest))["freshness"] == "Stale"
    assert len((await aggregated_version(rest))["resources"]) == 1
    assert (await rest.get("/openapi/v2"))[0] == 200
    assert (await rest.get("/api/v1/nodes"))[0] == 200
    await widgets.start()
    await available(server)
    assert (await rest.get(f"{ROOT}/widgets"))[0] == 202


async def test_a_server_with_a_foreign_certificate_is_not_asked(server, rest, widgets):
    await available(server)
    await widgets.stop()
    foreign = ApiServer(tls=True).authority
    widgets.pair = foreign.serving(("widgets.default.svc",))
    await widgets.start()
    _, found = await rest.get(f"{API_SERVICES}/{NAME}")
    found["spec"]["groupPriorityMinimum"] = 200
    assert (await rest.put(f"{API_SERVICES}/{NAME}", found))[0] == 200
    await until(lambda: condition(server)[0] == "False", "its certificate is found to be foreign")
    _, found = await rest.get(f"{API_SERVICES}/{NAME}")
    assert "certificate verify failed" in found["status"]["conditions"][0]["message"]


async def test_the_group_goes_with_its_api_service(server, rest, widgets):
    await available(server)
    assert (await rest.delete(f"{API_SERVICES}/{NAME}"))[0] == 200

    async def gone():
        _, groups = await rest.get("/apis")
        return GROUP not in [one["name"] for one in groups["groups"]]

    await until(gone, "discovery has lost the group")
    assert (await rest.get(f"{ROOT}/widgets"))[0] == 404


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param({"service": {"namespace": "x", "name": "y"}}, "ServiceNotFound", id="none"),
        pytest.param(
            {"service": {"namespace": "default", "name": "in-cluster"}},
            "ServiceAccessError",
            id="a Service of the cluster",
        ),
    ],
)
async def test_why_a_group_is_not_available_is_told(server, spec, reason):
    service = {"metadata": {"name": "in-cluster"}, "spec": {"ports": [{"port": 443}]}}
    server.objects.create({"apiVersion": "v1", "kind": "Service", **service})
    server.objects.create(api_service(**spec))
    await until(lambda: condition(server) == ("False", reason), reason)


def api_service(name=NAME, **spec):
    given = {"group": GROUP, "version": VERSION, "groupPriorityMinimum": 1, "versionPriority": 1}
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name},
        "spec": given | spec,
    }


SERVICE = {"namespace": "a", "name": "b"}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (api_service("other"), 'metadata.name: Invalid value: "other": must be `spec.version'),
        (api_service(groupPriorityMinimum=0), "must be positive and less than 20000"),
        (api_service(versionPriority=1001), "must be positive and less than 1000"),
        (api_service(caBundle="YQ=="), "local APIServices may not have a caBundle"),
        (api_service(service={"name": "b"}), "spec.service.namespace: Required value"),
        (api_service(service=SERVICE | {"port": 0}), "must be between 1 and 65535, inclusive"),
        (
            api_service(service=SERVICE, insecureSkipTLSVerify=True, caBundle="YQ=="),
            "may not be true if caBundle is present",
        ),
        (api_service(groupPriorityMinimum="many"), "Expected `int`"),
    ],
)
async def test_an_api_service_that_makes_no_sense_is_refused(rest, item, message):
    code, body = await rest.post(API_SERVICES, item)
    assert code in (400, 422)
    assert message in body["message"]


async def test_the_front_proxys_authority_is_published_without_tls_too(server, objects):
    name = "extension-apiserver-authentication"
    data = objects.get("configmaps", name, "kube-system")["data"]
    assert (
        data["requestheader-client-ca-file"] == server.aggregator.front_proxy.certificate.decode()
    )
    assert data["requestheader-allowed-names"] == '["front-proxy-client"]'


def test_what_led_elsewhere_is_replaced(server):
    service = {"metadata": {"name": "widgets"}, "spec": {"ports": [{"port": 443}]}}
    server.objects.create({"apiVersion": "v1", "kind": "Service", **service})
    for port in (1, 2):
        server.aggregator.register(
            GROUP, VERSION, namespace="default", service="widgets", port=port
        )
    assert server.objects.get("services", "widgets")["spec"]["externalName"] == "localhost"
    found = server.objects.get("apiservices.apiregistration.k8s.io", NAME)
    assert found["spec"]["service"]["port"] == 2
