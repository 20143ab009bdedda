"""Who may do what: tokens, certificates, RBAC and reviews."""

import ssl
import stat
from contextlib import asynccontextmanager

import aiohttp
import pytest
import yaml

from kscheduler.sandbox import ANONYMOUS, ApiServer, User, read_token_file
from tests.kit.manifests import pod_manifest
from tests.sandbox.rest import PODS, Rest

JOE = User("joe", uid="42")
SCHEDULER = User("system:kube-scheduler")


@asynccontextmanager
async def client(server, user=None, token=None, **options):
    token = token or (server.users.add(user) if user else "")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession(headers=headers, **options) as session:
        yield Rest(session, server.url)


async def test_a_bad_token_is_unauthorized_even_where_anonymous_may_go(server):
    async with client(server, token="made-up") as rest:
        code, body = await rest.get("/healthz")
    assert (code, body["reason"], body["message"]) == (401, "Unauthorized", "Unauthorized")


async def test_without_tls_no_credentials_mean_admin(server):
    async with client(server) as rest:
        assert (await rest.get(PODS))[0] == 200


async def test_anonymous_users_see_little(server):
    async with ApiServer(anonymous=ANONYMOUS) as strict, client(strict) as rest:
        assert await rest.get("/healthz") == (200, "ok")
        assert (await rest.get("/version"))[0] == 200
        code, body = await rest.get(PODS)
    assert (code, body["message"]) == (
        403,
        'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" '
        'in the namespace "default"',
    )


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        (
            "GET",
            "/api/v1/nodes/n",
            'nodes "n" is forbidden: User "joe" cannot get resource "nodes" in API group "" '
            "at the cluster scope",
        ),
        (
            "POST",
            f"{PODS}/p/binding",
            'pods "p" is forbidden: User "joe" cannot create resource "pods/binding" '
            'in API group "" in the namespace "default"',
        ),
        (
            "GET",
            "/apis/apps/v1/replicasets?watch=true",
            'replicasets.apps is forbidden: User "joe" cannot watch resource "replicasets" '
            'in API group "apps" at the cluster scope',
        ),
        ("GET", "/metrics", 'forbidden: User "joe" cannot get path "/metrics"'),
    ],
)
async def test_a_user_without_rights_is_told_what_is_missing(server, method, path, message):
    async with client(server, JOE) as rest:
        code, body = await rest.call(method, path)
    assert (code, body["reason"], body["message"]) == (403, "Forbidden", message)


async def test_rights_can_be_granted_and_taken_while_running(server, objects):
    async with client(server, JOE) as rest:
        assert (await rest.get(PODS))[0] == 403
        objects.create(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": "reader"},
                "rules": [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}],
            }
        )
        objects.create(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "joe-reads"},
                "roleRef": {"kind": "Role", "name": "reader"},
                "subjects": [{"kind": "User", "name": "joe"}],
            }
        )
        assert (await rest.get(PODS))[0] == 200
        assert (await rest.get("/api/v1/namespaces/kube-system/pods"))[0] == 403
        assert (await rest.post(PODS, pod_manifest()))[0] == 403
        objects.delete("rolebindings.rbac.authorization.k8s.io", "joe-reads")
        assert (await rest.get(PODS))[0] == 403


async def test_the_scheduler_may_do_its_work_and_nothing_else(server, objects):
    objects.create(pod_manifest("p"))
    config = "/api/v1/namespaces/kube-system/configmaps"
    one = {"fieldSelector": "metadata.name=extension-apiserver-authentication"}
    async with client(server, SCHEDULER) as rest:
        assert (await rest.get("/api/v1/pods"))[0] == 200
        assert (await rest.get("/apis/storage.k8s.io/v1/storageclasses"))[0] == 200
        assert (await rest.get(config, params=one))[0] == 200
        assert (await rest.get(config))[0] == 403
        binding = {"metadata": {"name": "p"}, "target": {"name": "n"}}
        assert (await rest.post(f"{PODS}/p/binding", binding))[0] == 201
        assert (await rest.post(PODS, pod_manifest("q")))[0] == 403
        assert (await rest.get("/api/v1/secrets"))[0] == 403


async def test_an_admin_may_act_as_somebody_else(server, rest):
    headers = {"Impersonate-User": "joe"}
    code, body = await rest.get(PODS, headers=headers)
    assert code == 403
    assert 'User "joe"' in body["message"]
    async with client(server, JOE) as joe:
        code, body = await joe.get(PODS, headers={"Impersonate-User": "root"})
    assert body["message"] == (
        'users "root" is forbidden: User "joe" cannot impersonate resource "users" '
        'in API group "" at the cluster scope'
    )


async def test_without_authorization_everybody_may_everything():
    async with ApiServer(authorization=False) as server, client(server, JOE) as rest:
        assert (await rest.get(PODS))[0] == 200


REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"user": "joe", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}, False),
        (
            {
                "user": "x",
                "groups": ["system:masters"],
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            },
            True,
        ),
        (
            {
                "user": "m",
                "groups": ["system:monitoring"],
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            },
            True,
        ),
        (
            {
                "user": "system:kube-scheduler",
                "resourceAttributes": {
                    "verb": "create",
                    "resource": "pods",
                    "subresource": "binding",
                    "namespace": "default",
                },
            },
            True,
        ),
    ],
)
async def test_access_is_reviewed_for_others(rest, spec, allowed):
    code, review = await rest.post(REVIEWS, {"spec": spec})
    assert (code, review["status"]["allowed"]) == (201, allowed)
    assert review["spec"] == spec


async def test_tokens_are_reviewed(server, rest):
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    token = server.users.add(JOE)
    _, good = await rest.post(path, {"spec": {"token": token}})
    assert good["status"] == {
        "authenticated": True,
        "user": {"username": "joe", "uid": "42", "groups": ["system:authenticated"]},
    }
    _, bad = await rest.post(path, {"spec": {"token": "made-up"}})
    assert bad["status"] == {"user": {}, "error": "invalid bearer token"}


async def test_users_can_ask_about_themselves(server):
    async with client(server, JOE) as rest:
        _, who = await rest.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        attributes = {"verb": "list", "resource": "pods"}
        _, may = await rest.post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {"spec": {"resourceAttributes": attributes}},
        )
    assert who["status"]["userInfo"]["username"] == "joe"
    assert may["status"] == {"allowed": False}


def test_a_token_file_is_read(tmp_path):
    path = tmp_path / "tokens.csv"
    path.write_text('t1,joe,42,"dev,ops"\nt2,mon,43\n')
    assert read_token_file(path) == {
        "t1": User("joe", ("dev", "ops"), "42"),
        "t2": User("mon", (), "43"),
    }


async def test_a_kubeconfig_is_private_and_leads_to_the_server(server, tmp_path):
    path = tmp_path / "config"
    server.write_kubeconfig(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    config = yaml.safe_load(path.read_text())
    assert config["clusters"][0]["cluster"]["server"] == server.url
    async with client(server, token=config["users"][0]["user"]["token"]) as rest:
        assert (await rest.get("/api/v1/nodes"))[0] == 200


async def test_over_tls_certificates_are_users(tmp_path):
    async with ApiServer(tls=True) as server:
        pair = server.client_certificate(User("joe", ("system:masters",)))
        path = tmp_path / "joe.pem"
        path.write_bytes(pair.certificate + pair.key)
        trusting = ssl.create_default_context(cadata=server.authority.certificate.decode())
        known = ssl.create_default_context(cadata=server.authority.certificate.decode())
        known.load_cert_chain(path)
        assert server.url.startswith("https://")
        async with client(server, connector=aiohttp.TCPConnector(ssl=trusting)) as rest:
            assert (await rest.get(PODS))[0] == 403
        async with client(server, connector=aiohttp.TCPConnector(ssl=known)) as rest:
            assert (await rest.get(PODS))[0] == 200
            _, who = await rest.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert who["status"]["userInfo"] == {
        "username": "joe",
        "groups": ["system:masters", "system:authenticated"],
    }
