"""Who gets in where: the whole gate, asked over TLS, with an API server behind it that decides."""

import asyncio
import json
import ssl
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest
from aiohttp import web

from kscheduler.config.options import Options
from kscheduler.errors import ConfigError
from kscheduler.gotext.duration import Duration
from kscheduler.metrics import Metrics
from kscheduler.sandbox import ApiServer, User
from kscheduler.serving import gate, tls_context, trust
from kscheduler.serving.access_metrics import AccessObserver
from kscheduler.serving.delegation import delegate
from tests.serving.minting import DAY, NOW, SERVER, mint, mint_authority

SCHEDULER = User("system:kube-scheduler")
TOKENS = {
    "joe-token": User("joe", uid="7"),
    "ann-token": User("ann", ("readers",)),
    "root-token": User("root", ("system:masters",)),
}
RBAC = "rbac.authorization.k8s.io"

ROOT, FOREIGN, PROXIES = mint_authority(), mint_authority("foreign"), mint_authority("proxies")
CERTIFICATES = {
    "joe": mint("joe", by=ROOT),
    "ann": mint("ann", "readers", by=ROOT),
    "root": mint("root", "system:masters", by=ROOT),
    "ann by an intermediate": mint("ann", "readers", by=mint_authority("middle", by=ROOT)),
    "expired": mint("ann", "readers", by=ROOT, ends=NOW - DAY / 2),
    "not yet valid": mint("ann", "readers", by=ROOT, starts=NOW + DAY / 2),
    "wrong authority": mint("ann", "readers", by=FOREIGN),
    "a server's": mint("ann", "readers", by=ROOT, usages=(SERVER,)),
    "nameless": mint("", "readers", by=ROOT),
    "proxy": mint("front-proxy", by=PROXIES),
    "other proxy": mint("back-proxy", by=PROXIES),
}


@pytest.fixture
async def api(tmp_path):
    async with ApiServer(tokens=TOKENS, tls=True) as server:
        about = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": "readers"}}
        rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
        server.objects.create(about | {"kind": "ClusterRole", "rules": [rule]})
        server.objects.create(
            about
            | {
                "kind": "ClusterRoleBinding",
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "readers"},
                "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "readers"}],
            }
        )
        server.write_kubeconfig(tmp_path / "kubeconfig", SCHEDULER)
        server.reviews = []
        server.hooks.append(
            lambda exchange: exchange.method == "POST" and server.reviews.append(exchange)
        )
        yield server


@pytest.fixture
def guarded(api, serving, tmp_path):
    """`async with guarded(**options) as client`: a page behind the gate that names its path."""

    @asynccontextmanager
    async def run(**options):
        where = str(tmp_path / "kubeconfig")
        known = {"authentication_kubeconfig": where, "authorization_kubeconfig": where} | options
        async with AsyncExitStack() as held:
            metrics = Metrics()
            callers = await delegate(held, Options(**known), metrics)
            handler = gate.guarded(
                page, callers.authenticator, callers.authorizer, AccessObserver(metrics)
            )
            if callers.published is not None:
                callers.published.take_first()
            following = asyncio.create_task(callers.refresh_trust())
            try:
                async with serving(
                    gate.presented(handler), tls=True, trust=callers.trust
                ) as client:
                    client.delegation = callers
                    client.metrics = metrics
                    yield client
            finally:
                following.cancel()
                await asyncio.wait({following})

    return run


async def page(request):
    return web.Response(text=f"page {request.path}")


@pytest.fixture
def authorities(tmp_path):
    """Options that name files with the authorities of this module's certificates."""
    for name, minted in {"ca.crt": ROOT, "proxies.crt": PROXIES}.items():
        (tmp_path / name).write_bytes(minted.pem)
    return {
        "client_ca_file": str(tmp_path / "ca.crt"),
        "requestheader_client_ca_file": str(tmp_path / "proxies.crt"),
        "requestheader_allowed_names": ("front-proxy",),
    }


async def ask(client, path, *, token="", certificate="", tmp_path=None, **headers):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate:
        context.load_cert_chain(CERTIFICATES[certificate].write(tmp_path / "client.pem"))
    client.context = context
    if token:
        headers["Authorization"] = f"Bearer {token}"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.ask(path, headers=named)


UNAUTHORIZED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "Unauthorized",
    "reason": "Unauthorized",
    "code": 401,
}


def forbidden(user, path):
    message = f'forbidden: User "{user}" cannot get path "{path}"'
    changed = {"message": message, "reason": "Forbidden", "details": {}, "code": 403}
    return UNAUTHORIZED | changed


NOBODY = "system:anonymous"
TABLE = {
    "nothing": ({}, 403, NOBODY),
    "a bad token": ({"token": "x"}, 401, ""),
    "a token without rights": ({"token": "joe-token"}, 403, "joe"),
    "a token with rights": ({"token": "ann-token"}, 200, ""),
    "a master's token": ({"token": "root-token"}, 200, ""),
    "no bearer": ({"Authorization": "Basic am9lOmpvZQ=="}, 403, NOBODY),
    "an empty bearer": ({"Authorization": "Bearer "}, 403, NOBODY),
    "a bearer in capitals": ({"Authorization": "BEARER ann-token"}, 200, ""),
    "a certificate without rights": ({"certificate": "joe"}, 403, "joe"),
    "a certificate with rights": ({"certificate": "ann"}, 200, ""),
    "a certificate with rights, by an intermediate": (
        {"certificate": "ann by an intermediate"},
        200,
        "",
    ),
    "a master's certificate": ({"certificate": "root"}, 200, ""),
    "an expired certificate": ({"certificate": "expired"}, 401, ""),
    "a certificate from the future": ({"certificate": "not yet valid"}, 401, ""),
    "a certificate of another authority": ({"certificate": "wrong authority"}, 401, ""),
    "a server's certificate": ({"certificate": "a server's"}, 401, ""),
    "a certificate that names nobody": ({"certificate": "nameless"}, 401, ""),
    "a bad certificate and a good token": (
        {"certificate": "wrong authority", "token": "ann-token"},
        200,
        "",
    ),
    "a good certificate and a bad token": ({"certificate": "ann", "token": "x"}, 200, ""),
    "a user that a proxy vouches for": (
        {"certificate": "proxy", "X_Remote_User": "zoe", "X_Remote_Group": "readers"},
        200,
        "",
    ),
    "a user without rights that a proxy vouches for": (
        {"certificate": "proxy", "X_Remote_User": "zoe"},
        403,
        "zoe",
    ),
    "a proxy that nobody knows": (
        {"certificate": "other proxy", "X_Remote_User": "zoe", "X_Remote_Group": "readers"},
        401,
        "",
    ),
    "a proxy that vouches for nobody": ({"certificate": "proxy"}, 401, ""),
    "a user who vouches for another": (
        {"certificate": "joe", "X_Remote_User": "root", "X_Remote_Group": "system:masters"},
        403,
        "joe",
    ),
    "headers without a proxy": (
        {"X_Remote_User": "root", "X_Remote_Group": "system:masters"},
        403,
        NOBODY,
    ),
}


@pytest.mark.parametrize("who", TABLE)
async def test_who_may_see_metrics(guarded, authorities, tmp_path, who):
    credentials, status, user = TABLE[who]
    async with guarded(**authorities) as client:
        got, headers, body = await ask(client, "/metrics", tmp_path=tmp_path, **credentials)
    assert got == status
    assert headers["cache-control"] == "no-cache, private"
    if status == 200:
        assert body == "page /metrics"
    else:
        assert headers["content-type"] == "application/json"
        assert json.loads(body) == (UNAUTHORIZED if status == 401 else forbidden(user, "/metrics"))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/healthz", 200),
        ("/readyz", 200),
        ("/livez", 200),
        ("/livez?verbose", 200),
        ("/healthz/ping", 403),
        ("/%68ealthz", 200),
        ("//healthz", 403),
        ("/configz", 403),
        ("/", 403),
    ],
)
async def test_some_paths_are_open_to_everybody(guarded, path, status):
    async with guarded() as client:
        assert (await ask(client, path))[0] == status
        assert (await ask(client, path, token="x"))[0] == 401  # but not to liars


async def test_open_paths_can_be_chosen(guarded):
    async with guarded(authorization_always_allow_paths=("/metrics/*", "statusz", "/")) as client:
        asked = ("/metrics/slis", "/metrics", "/statusz", "/statusz/x", "/", "/healthz/ping")
        statuses = [(await ask(client, path))[0] for path in asked]
    assert statuses == [200, 403, 200, 403, 200, 403]


async def test_without_anyone_to_ask_only_open_paths_are_served(guarded, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    nobody = {"authentication_kubeconfig": "", "authorization_kubeconfig": ""}
    async with guarded(**nobody) as client:
        for token in ("", "root-token", "x"):
            assert (await ask(client, "/healthz", token=token))[0] == 200
            status, _, body = await ask(client, "/metrics", token=token)
            assert (status, json.loads(body)) == (403, forbidden(NOBODY, "/metrics"))


class TestAuthoritiesFromTheCluster:
    """Those that the API server publishes in a ConfigMap."""

    @pytest.fixture(autouse=True)
    def _at_once(self, monkeypatch):
        monkeypatch.setattr(tls_context, "CHECK_SECONDS", 0.0)
        monkeypatch.setattr(trust, "CHECK_SECONDS", 0.0)

    async def test_are_used_when_no_file_is_named(self, guarded, api, tmp_path, monkeypatch):
        user = api.authority.client("root", ("system:masters",))
        proxy = api.aggregator.front_proxy.client("front-proxy-client")
        for_zoe = {"X-Remote-User": "zoe", "X-Remote-Group": "readers"}
        async with guarded() as client:
            for pair, headers, want in (
                (user, {}, 200),
                (proxy, for_zoe, 200),
                (proxy, {}, 401),  # its authority vouches for no users
                (api.authority.client("front-proxy-client"), for_zoe, 403),  # nor that one for it
            ):
                path = tmp_path / "pair.pem"
                path.write_bytes(pair.certificate + pair.key)
                client.context.load_cert_chain(path)
                assert (await client.ask("/metrics", headers=headers))[0] == want

    async def test_are_followed(self, guarded, api, tmp_path):
        def publish(**changes):
            api.objects.update(
                "configmaps",
                trust.CONFIG_MAP,
                lambda found: found["data"].update(changes),
                trust.NAMESPACE,
            )

        async def becomes(status, **credentials):
            for _ in range(1000):
                got, _, _ = await ask(client, "/metrics", **credentials)
                if got == status:
                    return
            raise AssertionError(f"{got} instead of {status}")

        own = partial(becomes, certificate="root", tmp_path=tmp_path)
        async with guarded() as client:
            await own(401)
            publish(**{"client-ca-file": ROOT.pem.decode()})
            await own(200)
            publish(**{"client-ca-file": "nonsense"})
            publish(**{"requestheader-username-headers": "nonsense"})
            await own(200)  # the last that made sense stays
            publish(
                **{
                    "client-ca-file": FOREIGN.pem.decode(),
                    "requestheader-client-ca-file": PROXIES.pem.decode(),
                    "requestheader-allowed-names": '["front-proxy"]',
                    "requestheader-username-headers": '["X-Who"]',
                    "requestheader-group-headers": '["X-Among"]',
                }
            )
            await own(401)
            proxied = {"certificate": "proxy", "tmp_path": tmp_path, "X_Among": "readers"}
            await becomes(200, X_Who="zoe", **proxied)
            api.objects.delete("configmaps", trust.CONFIG_MAP, trust.NAMESPACE)
            await becomes(200, X_Who="zoe", **proxied)

    async def test_are_not_looked_up_when_told_so(self, guarded, api, tmp_path):
        user = api.authority.client("root", ("system:masters",))
        (tmp_path / "pair.pem").write_bytes(user.certificate + user.key)
        async with guarded(authentication_skip_lookup=True) as client:
            client.context.load_cert_chain(tmp_path / "pair.pem")
            status, _, body = await client.ask("/metrics")
        assert (status, json.loads(body)) == (403, forbidden(NOBODY, "/metrics"))
        assert not client.delegation.trust.asks

    async def test_not_getting_them_is_told_and_tolerated(self, guarded, api, tmp_path, capfd):
        api.write_kubeconfig(tmp_path / "kubeconfig", User("nobody"))
        async with guarded(authorization_kubeconfig="") as client:
            assert (await ask(client, "/healthz"))[0] == 200
        said = capfd.readouterr().err
        assert "Unable to get configmap/extension-apiserver-authentication in kube-system." in said
        assert "Error looking up in-cluster authentication configuration: configmaps" in said
        assert "Continuing without authentication configuration." in said

    async def test_not_getting_them_is_fatal_when_told_so(self, guarded, api, tmp_path):
        api.write_kubeconfig(tmp_path / "kubeconfig", User("nobody"))
        want = "unable to load configmap based request-header-client-ca-file: configmaps"
        with pytest.raises(ConfigError, match=want):
            async with guarded(authentication_tolerate_lookup_failure=False):
                pass


async def test_a_file_of_authorities_is_read_again_when_it_changes(
    guarded, authorities, tmp_path, monkeypatch
):
    monkeypatch.setattr(tls_context, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(trust, "CHECK_SECONDS", 0.0)
    async with guarded(**authorities) as client:
        asking = partial(ask, client, "/metrics", tmp_path=tmp_path)
        assert (await asking(certificate="wrong authority"))[0] == 401
        (tmp_path / "ca.crt").write_bytes(FOREIGN.pem)
        assert (await asking(certificate="wrong authority"))[0] == 200
        assert (await asking(certificate="ann"))[0] == 401
        (tmp_path / "ca.crt").write_bytes(b"nonsense")
        assert (await asking(certificate="wrong authority"))[0] == 200


class TestReviews:
    async def test_are_sent_as_upstream_sends_them(self, guarded, api):
        async with guarded() as client:
            await ask(client, "/statusz?x=y", token="joe-token")
        token, access = (json.loads(exchange.body) for exchange in api.reviews)
        assert token == {
            "kind": "TokenReview",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {},
            "spec": {"token": "joe-token"},
            "status": {"user": {}},
        }
        assert access == {
            "kind": "SubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": {
                "nonResourceAttributes": {"path": "/statusz", "verb": "get"},
                "user": "joe",
                "groups": ["system:authenticated"],
                "uid": "7",
            },
            "status": {"allowed": False},
        }
        assert api.reviews[1].query == {"timeout": "10s"}

    async def test_hold_for_a_while(self, guarded, api):
        async with guarded() as client:
            for _ in range(3):
                assert (await ask(client, "/metrics", token="ann-token"))[0] == 200
                assert (await ask(client, "/metrics", token="joe-token"))[0] == 403
        assert len(api.reviews) == 4

    async def test_are_asked_anew_when_their_time_is_over(self, guarded, api):
        never = dict.fromkeys(
            (
                "authentication_token_webhook_cache_ttl",
                "authorization_webhook_cache_authorized_ttl",
                "authorization_webhook_cache_unauthorized_ttl",
            ),
            Duration.of(0),
        )
        async with guarded(**never) as client:
            for _ in range(2):
                await ask(client, "/metrics", token="ann-token")
        assert len(api.reviews) == 4

    async def test_of_many_at_once_are_one(self, guarded, api):
        arrived, go = asyncio.Event(), asyncio.Event()

        async def hold(request):
            arrived.set()
            await go.wait()

        async with guarded() as client:
            api.interceptors.append(hold)
            asking = [
                asyncio.ensure_future(ask(client, "/metrics", token="ann-token")) for _ in range(20)
            ]
            await asyncio.wait_for(arrived.wait(), 30)
            go.set()
            answers = await asyncio.wait_for(asyncio.gather(*asking), 30)
        assert {answer[0] for answer in answers} == {200}
        assert len(api.reviews) == 2

    async def test_that_are_not_answered_keep_everybody_out(self, guarded, api, monkeypatch):
        monkeypatch.setattr("kscheduler.serving.reviews.REVIEW_SECONDS", 0.05)
        monkeypatch.setattr("kscheduler.serving.delegation.REVIEW_SECONDS", 0.05)

        async def hang(request):
            await asyncio.Event().wait()

        async with guarded(authentication_skip_lookup=True) as client:
            api.interceptors.append(hang)
            assert (await ask(client, "/metrics", token="ann-token"))[0] == 401
            status, headers, body = await ask(client, "/metrics")
            assert (status, headers["content-type"]) == (500, "text/plain; charset=utf-8")
            assert body.startswith('Internal Server Error: "/metrics": Post "https://')
            assert (await ask(client, "/healthz"))[0] == 200
            api.interceptors.clear()
            # The time for an answer is still short; on a slow machine not every one is in time.
            async with asyncio.timeout(60):
                while (await ask(client, "/metrics", token="ann-token"))[0] != 200:
                    pass

    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param((500, b"{}"), id="failing"),
            pytest.param((201, b"nonsense"), id="talking nonsense"),
            pytest.param(
                (201, b'{"status": {"allowed": true, "denied": true}}'), id="of two minds"
            ),
            pytest.param((201, b'{"status": {}}'), id="without an opinion"),
            pytest.param((201, b"{}"), id="empty"),
        ],
    )
    async def test_by_a_broken_server_keep_everybody_out(self, guarded, api, answer, monkeypatch):
        monkeypatch.setattr("kscheduler.serving.reviews.FIRST_PAUSE_SECONDS", 0.001)

        async def lie(request):
            status, body = answer
            return web.Response(status=status, body=body, content_type="application/json")

        async with guarded(authentication_skip_lookup=True) as client:
            api.interceptors.append(lie)
            for token in ("", "ann-token"):
                status, _, body = await ask(client, "/metrics", token=token)
                assert status in (401, 403, 500)
                assert "page" not in body


async def test_refusals_come_in_the_form_that_is_asked_for(guarded):
    async with guarded() as client:
        _, headers, body = await ask(client, "/x<y>", Accept="application/yaml")
        assert headers["content-type"] == "application/yaml"
        assert body.startswith("apiVersion: v1\ncode: 403\ndetails: {}\nkind: Status\n")
        _, _, body = await ask(client, "/x<y>", User_Agent="curl/8")
        assert body.startswith('{\n  "kind": "Status",\n')
        assert "<" not in body


async def test_a_page_that_breaks_is_a_500_and_no_more(serving):
    async def broken(request):
        raise ValueError("secret")

    async with serving(gate.presented(broken)) as client:
        status, _, body = await client.ask("/")
    assert status == 500
    assert "secret" not in body


async def test_visits_are_counted_by_how_they_went(guarded, tmp_path):
    async with guarded() as client:
        for token in ("joe-token", "root-token", "root-token", "nobodys-token"):
            await ask(client, "/metrics", tmp_path=tmp_path, token=token)
        await ask(client, "/healthz", tmp_path=tmp_path)
        values = client.metrics.registry.get_sample_value
    assert values("authentication_attempts", {"result": "success"}) == 4
    assert values("authentication_attempts", {"result": "error"}) == 1
    assert values("authenticated_user_requests", {"username": "other"}) == 4
    assert values("authorization_attempts_total", {"result": "allowed"}) == 3
    assert values("authorization_attempts_total", {"result": "no-opinion"}) == 1
    assert values("authentication_token_cache_request_total", {"status": "miss"}) == 3
    assert values("authentication_token_cache_request_total", {"status": "hit"}) == 1
    assert values("authentication_token_cache_fetch_total", {"status": "ok"}) == 3
    assert values("authentication_token_cache_active_fetch_count", {"status": "in_flight"}) == 0
    assert values("apiserver_delegated_authn_request_total", {"code": "201"}) == 3
    assert values("apiserver_delegated_authz_request_total", {"code": "201"}) == 1
