"""The secure port of a scheduler that stands beside a real API server, which decides who may come.

Upstream tests its own in test/integration/serving; the table has the same rows, and certificates.
"""

import ssl
from contextlib import asynccontextmanager

import aiohttp
import pytest
import yaml

from tests.e2e.api import until
from tests.e2e.identity import becomes_allowed
from tests.serving.minting import DAY, NOW, mint, mint_authority

RBAC = "rbac.authorization.k8s.io"
USER = "e2e-visitor"
PATHS = ["/metrics", "/configz"]
CONFIG_MAP = "api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"

ROOT, FOREIGN = mint_authority(), mint_authority("foreign")
CERTIFICATES = {
    "cert with rights": mint(USER, by=ROOT),
    "cert without rights": mint("somebody", by=ROOT),
    "masters' cert": mint("anybody", "system:masters", by=ROOT),
    "expired cert": mint(USER, by=ROOT, ends=NOW - DAY / 2),
    "wrong authority's cert": mint(USER, by=FOREIGN),
}


@pytest.fixture
async def visitor(cluster):
    """A user who may see some paths of a scheduler."""
    rules = [{"nonResourceURLs": PATHS, "verbs": ["get"]}]
    name = f"{cluster.namespace}-visitor"
    about = {"metadata": {"name": name}}
    await cluster.api.create("clusterroles", about | {"rules": rules})
    role = {"kind": "ClusterRole", "name": name, "apiGroup": RBAC}
    subjects = [{"kind": "User", "name": USER, "apiGroup": RBAC}]
    binding = about | {"roleRef": role, "subjects": subjects}
    await cluster.api.create("clusterrolebindings", binding)
    asked = {"path": PATHS[0], "verb": "get"}
    await becomes_allowed(cluster.api, {"user": USER, "nonResourceAttributes": asked})
    yield USER
    await cluster.api.delete("clusterrolebindings", name)
    await cluster.api.delete("clusterroles", name)


@asynccontextmanager
async def connected(daemon, folder, certificate=""):
    """A client of the daemon, with a certificate if one is named."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate:
        context.load_cert_chain(CERTIFICATES[certificate].write(folder / "client.pem"))
    connector = aiohttp.TCPConnector(ssl=context, force_close=True)
    async with aiohttp.ClientSession(daemon.url, connector=connector) as session:
        yield session


async def status(daemon, folder, path, certificate="", **headers):
    async with (
        connected(daemon, folder, certificate) as session,
        session.get(path, headers=headers) as answer,
    ):
        return answer.status


def authorities(folder):
    (folder / "ca.crt").write_bytes(ROOT.pem)
    return (f"--client-ca-file={folder / 'ca.crt'}", "--authentication-skip-lookup")


def own_token(cluster):
    """The scheduler's own: somebody without rights to any path."""
    return yaml.safe_load(cluster.kubeconfig.read_text())["users"][0]["user"]["token"]


async def test_who_may_see_what(cluster, visitor, tmp_path):
    cluster.expected_errors += ["Unable to authenticate the request", "forbidden", "Forbidden"]
    daemon = await cluster.start_daemon(*authorities(tmp_path))
    bearer = {
        "no token": {},
        "bad token": {"Authorization": "Bearer nobody-knows-me"},
        "token without rights": {"Authorization": f"Bearer {own_token(cluster)}"},
        "token with rights": {"Authorization": f"Bearer {cluster.api.token}"},
    }
    # /healthz is open to all, /readyz by default; the others to those who have been given rights.
    wanted = {
        "no token": (200, 200, 403, 403, 403),
        "bad token": (401, 401, 401, 401, 401),
        "token without rights": (200, 200, 403, 403, 403),
        "token with rights": (200, 200, 200, 200, 200),
        "cert with rights": (200, 200, 200, 200, 403),
        "cert without rights": (200, 200, 403, 403, 403),
        "masters' cert": (200, 200, 200, 200, 200),
        "expired cert": (401, 401, 401, 401, 401),
        "wrong authority's cert": (401, 401, 401, 401, 401),
    }
    got = {}
    for who in wanted:
        certificate = who if who in CERTIFICATES else ""
        got[who] = tuple(
            [
                await status(daemon, tmp_path, path, certificate, **bearer.get(who, {}))
                for path in ("/healthz", "/readyz", "/metrics", "/configz", "/debug/pprof/")
            ]
        )
    assert got == wanted


async def test_a_proxy_vouches_for_users(cluster, visitor, tmp_path):
    cluster.expected_errors += ["Unable to authenticate the request"]
    (tmp_path / "proxies.crt").write_bytes(FOREIGN.pem)
    daemon = await cluster.start_daemon(
        f"--requestheader-client-ca-file={tmp_path / 'proxies.crt'}",
        f"--requestheader-allowed-names={USER}",
        *authorities(tmp_path),
    )
    proxy = "wrong authority's cert"  # which is a proxy's here
    asked = {
        "a user with rights": ({"X-Remote-User": visitor}, proxy, 200),
        "a user without": ({"X-Remote-User": "somebody"}, proxy, 403),
        "a group with rights": (
            {"X-Remote-User": "somebody", "X-Remote-Group": "system:masters"},
            proxy,
            200,
        ),
        "no proxy": ({"X-Remote-User": visitor}, "", 403),
        "a user who would be another": ({"X-Remote-User": visitor}, "cert without rights", 403),
    }
    got = {
        what: await status(daemon, tmp_path, "/metrics", certificate, **headers)
        for what, (headers, certificate, _) in asked.items()
    }
    assert got == {what: wanted for what, (_, _, wanted) in asked.items()}


async def test_authorities_are_those_of_the_cluster_and_followed(cluster, visitor, tmp_path):
    cluster.expected_errors += ["Unable to authenticate the request"]
    daemon = await cluster.start_daemon()
    who = "cert with rights"

    async def kept_out():
        return await status(daemon, tmp_path, "/metrics", who) == 401

    await until(kept_out, "the authority is not known yet, but others are")
    before = (await cluster.api.send("GET", CONFIG_MAP))["data"]["client-ca-file"]

    async def publish(text):
        await cluster.api.send("PATCH", CONFIG_MAP, {"data": {"client-ca-file": text}})

    async def let_in():
        return await status(daemon, tmp_path, "/metrics", who) == 200

    try:
        await publish(before + ROOT.pem.decode())
        await until(let_in, "a certificate of the new authority is good")
    finally:
        await publish(before)


async def test_rights_given_later_count_after_a_while(cluster, tmp_path):
    daemon = await cluster.start_daemon(
        "--authorization-webhook-cache-unauthorized-ttl=100ms", *authorities(tmp_path)
    )
    bearer = {"Authorization": f"Bearer {own_token(cluster)}"}
    cluster.expected_errors += ["forbidden"]
    assert await status(daemon, tmp_path, "/metrics", **bearer) == 403
    name = f"{cluster.namespace}-reader"
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    about = {"metadata": {"name": name}}
    role = {"kind": "ClusterRole", "name": name, "apiGroup": RBAC}
    subjects = [{"kind": "Group", "name": "system:serviceaccounts", "apiGroup": RBAC}]
    await cluster.api.create("clusterroles", about | {"rules": rules})
    await cluster.api.create("clusterrolebindings", about | {"roleRef": role, "subjects": subjects})

    async def let_in():
        return await status(daemon, tmp_path, "/metrics", **bearer) == 200

    try:
        await until(let_in, "the new rights count")
    finally:
        await cluster.api.delete("clusterrolebindings", name)
        await cluster.api.delete("clusterroles", name)
