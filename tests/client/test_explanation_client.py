"""Ways to the scheduler: by its Lease, through its pod, through the API server; and none."""

import contextlib
import hashlib
import re
import ssl

import pytest
from aiohttp import web

from kscheduler.client.clientcmd.loading_rules import ClientConfig
from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.credentials import Identity, Impersonation
from kscheduler.client.errors import Forbidden, NotFound
from kscheduler.client.explanation_client import Target, reach
from kscheduler.client.scheduler_location import AmbiguousError, UnreachableError
from kscheduler.client.tls import as_file
from kscheduler.sandbox import ApiServer, User
from tests.client.authority import Authority
from tests.kit.port_forwarding import PortForwarding

API = "/apis/kscheduler.dev/v1alpha1"


class Scheduler:
    """A secure port that knows one pending pod and who asked for it."""

    def __init__(self):
        self.port = 0
        self.digest = ""
        self.tokens = []
        self.authority = Authority()
        self.status = 200

    async def answer(self, request):
        self.tokens.append(request.headers.get("Authorization"))
        if self.status != 200:
            return web.Response(status=self.status)
        if request.path == API:
            return web.json_response({"kind": "APIResourceList"})
        if request.path == f"{API}/namespaces/shop/pendingpods/web-0":
            return web.json_response({"metadata": {"name": "web-0"}, "queue": "Active"})
        return web.Response(status=404)

    @contextlib.asynccontextmanager
    async def run(self):
        certificate, key = self.authority.issue("scheduler", address="127.0.0.1")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with as_file(certificate + key) as path:
            context.load_cert_chain(path)
        self.digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.decode())).hexdigest()
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(application, shutdown_timeout=0.01)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()


@pytest.fixture
async def scheduler():
    async with Scheduler().run() as running:
        yield running


class Plane:
    """The sandbox as API server, with a kubelet's end of port forwarding."""

    def __init__(self, api, scheduler):
        self.api = api
        self.scheduler = scheduler
        self.forwarding = PortForwarding(
            lambda ns, pod, port: ("127.0.0.1", scheduler.port) if pod == "leader" else None
        )
        api.interceptors.append(self._forward)
        api.users.add(User("jane", ("system:masters",)), "token-of-jane")

    async def _forward(self, request):
        is_asked = request.path.endswith("/portforward")
        return await self.forwarding(request) if is_asked else None

    def lease(self, name="kube-scheduler", namespace="kube-system", holder="me", **annotations):
        said = {f"kscheduler.dev/{k.replace('_', '-')}": v for k, v in annotations.items()}
        self.api.objects.create(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": namespace, "annotations": said},
                "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
            }
        )

    def config(self, identity=None):
        rest = RestConfig(self.api.url, identity=identity or Identity())
        return ClientConfig(rest, RestConfig("", identity=Identity(token="token-of-jane")))

    @contextlib.asynccontextmanager
    async def reached(self, target=None, identity=None):
        async with reach(
            self.config(identity), target or Target(), agent="test", timeout_seconds=20
        ) as client:
            yield client


@pytest.fixture
async def plane(scheduler):
    async with ApiServer(anonymous=User("admin", ("system:masters",))) as api:
        yield Plane(api, scheduler)


async def queue_of(client):
    return (await client.pending_pod("shop", "web-0")).queue


async def test_the_leaders_pod_is_reached_by_its_lease_with_the_certificate_it_announced(plane):
    plane.lease(pod="kube-system/leader", port="10259", certificate_sha256=plane.scheduler.digest)
    async with plane.reached() as client:
        assert await queue_of(client) == "Active"
        assert client.way == (
            "the scheduler of Lease kube-system/kube-scheduler, in pod kube-system/leader"
        )
    assert set(plane.scheduler.tokens) == {"Bearer token-of-jane"}


async def test_an_address_goes_before_the_pod(plane):
    where = f"127.0.0.1:{plane.scheduler.port}"
    plane.lease(
        pod="kube-system/leader",
        port="10259",
        address=where,
        certificate_sha256=plane.scheduler.digest,
    )
    async with plane.reached() as client:
        assert await queue_of(client) == "Active"
        assert client.way.endswith(f"at {where}")
    assert not plane.forwarding.requests


async def test_the_pod_is_asked_if_the_address_is_away(plane):
    plane.lease(
        pod="kube-system/leader",
        port="10259",
        address="127.0.0.1:1",
        certificate_sha256=plane.scheduler.digest,
    )
    async with plane.reached() as client:
        assert await queue_of(client) == "Active"


async def test_a_token_is_not_sent_to_a_server_with_another_certificate(plane):
    plane.lease(address=f"127.0.0.1:{plane.scheduler.port}", certificate_sha256="00ff")
    with pytest.raises(UnreachableError, match="its certificate has the SHA-256"):
        async with plane.reached():
            pass
    assert not plane.scheduler.tokens


async def test_a_certificate_can_be_verified_by_its_authority_instead(plane, tmp_path):
    (tmp_path / "ca.crt").write_bytes(plane.scheduler.authority.pem)
    target = Target(server=f"127.0.0.1:{plane.scheduler.port}", ca_file=str(tmp_path / "ca.crt"))
    async with plane.reached(target) as client:
        assert await queue_of(client) == "Active"


async def test_without_a_digest_and_an_authority_a_certificate_is_not_trusted(plane):
    target = Target(server=f"127.0.0.1:{plane.scheduler.port}")
    with pytest.raises(UnreachableError, match="signed by unknown authority"):
        async with plane.reached(target):
            pass
    assert not plane.scheduler.tokens


async def test_several_schedulers_are_named_and_how_to_choose_one(plane):
    digest = plane.scheduler.digest
    plane.lease(pod="kube-system/other", port="10259")
    plane.api.objects.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kscheduler"}}
    )
    plane.lease(
        "kscheduler",
        "kscheduler",
        pod="kscheduler/leader",
        port="10259",
        certificate_sha256=digest,
    )
    with pytest.raises(AmbiguousError) as error:
        async with plane.reached():
            pass
    assert str(error.value) == (
        "Several schedulers can be asked, by these Leases: kscheduler/kscheduler, "
        "kube-system/kube-scheduler. Choose one with --lease NAMESPACE/NAME."
    )
    async with plane.reached(Target(lease="kscheduler/kscheduler")) as client:
        assert await queue_of(client) == "Active"


@pytest.mark.parametrize(
    ("lease", "complaint"),
    [
        ("kube-system", '--lease has to be NAMESPACE/NAME, not "kube-system".'),
        ("a/b", "Lease a/b cannot be read: "),
        ("kube-system/free", "Lease kube-system/free is held by nobody"),
        ("kube-system/silent", "Lease kube-system/silent does not say where"),
    ],
)
async def test_a_lease_that_does_not_do_is_told_with_the_reason(plane, lease, complaint):
    plane.lease("free", holder="", pod="kube-system/leader", port="10259")
    plane.lease("silent")
    with pytest.raises(UnreachableError) as error:
        async with plane.reached(Target(lease=lease)):
            pass
    assert str(error.value).startswith(complaint)


@pytest.mark.parametrize("port", ["", "0", "70000", "99999999999999999999", "x", "١٢٣"])
async def test_a_lease_with_a_port_that_is_none_is_passed_over(plane, port):
    plane.lease(pod="kube-system/leader", port=port)
    with pytest.raises(UnreachableError, match="No Lease in kscheduler and kube-system says"):
        async with plane.reached():
            pass


async def test_with_no_lease_and_no_aggregation_both_are_told(plane):
    with pytest.raises(UnreachableError) as error:
        async with plane.reached():
            pass
    assert "No Lease in kscheduler and kube-system says" in str(error.value)
    assert str(error.value).endswith("serve kscheduler.dev (the aggregated way).")


async def test_a_pod_that_cannot_be_reached_is_told_in_the_kubelets_words(plane):
    plane.lease(pod="kube-system/gone", port="10259")
    with pytest.raises(UnreachableError, match="error forwarding port 10259 to pod gone"):
        async with plane.reached():
            pass


@pytest.mark.parametrize(
    ("status", "complaint"),
    [(401, "does not accept the credentials"), (404, "does not serve kscheduler.dev/v1alpha1")],
)
async def test_a_scheduler_that_refuses_is_told_as_such(plane, status, complaint):
    plane.scheduler.status = status
    target = Target(server=f"127.0.0.1:{plane.scheduler.port}", insecure=True)
    with pytest.raises(UnreachableError, match=complaint):
        async with plane.reached(target):
            pass


async def test_a_missing_right_shows_with_the_question(plane):
    target = Target(server=f"127.0.0.1:{plane.scheduler.port}", insecure=True)
    async with plane.reached(target) as client:
        plane.scheduler.status = 403
        with pytest.raises(Forbidden):
            await queue_of(client)


async def test_a_pod_that_does_not_wait_is_not_found(plane):
    target = Target(server=f"127.0.0.1:{plane.scheduler.port}", insecure=True)
    async with plane.reached(target) as client:
        with pytest.raises(NotFound):
            await client.pending_pod("shop", "web-1")


class TestAggregated:
    """The API server serves the group itself; here it is an interceptor that answers."""

    @pytest.fixture(autouse=True)
    def aggregation(self, plane):
        self.asked = []

        async def answer(request):
            if not request.path.startswith(API):
                return None
            self.asked.append(request.headers.get("Impersonate-User"))
            return await plane.scheduler.answer(request)

        plane.api.interceptors.append(answer)

    async def test_it_is_asked_if_no_lease_says_where(self, plane):
        async with plane.reached() as client:
            assert await queue_of(client) == "Active"
            assert client.way.startswith("the API server ")

    async def test_it_is_asked_if_the_flag_says_so(self, plane):
        plane.lease(pod="kube-system/leader", port="10259")
        async with plane.reached(Target(aggregated=True)) as client:
            assert await queue_of(client) == "Active"
        assert not plane.forwarding.requests

    async def test_only_the_api_server_is_told_whom_to_impersonate(self, plane):
        plane.lease(pod="kube-system/leader", port="10259")
        identity = Identity(impersonation=Impersonation(user="joe"))
        async with plane.reached(identity=identity) as client:
            assert await queue_of(client) == "Active"
        assert set(self.asked) == {"joe"}
        assert not plane.forwarding.requests


@pytest.mark.parametrize(
    ("identity", "complaint"),
    [
        (Identity(), "is the APIService v1alpha1.kscheduler.dev there, and available?"),
        (Identity(impersonation=Impersonation(user="joe")), "Only the API server can be told whom"),
    ],
)
async def test_an_api_server_that_does_not_serve_the_group_is_told(plane, identity, complaint):
    with pytest.raises(UnreachableError, match=re.escape(complaint)):
        async with plane.reached(Target(aggregated=not identity.impersonation.user), identity):
            pass


async def test_an_api_server_that_is_away_is_told_in_a_sentence():
    config = ClientConfig(RestConfig("http://127.0.0.1:1"), RestConfig(""))
    with pytest.raises(UnreachableError, match=r"The API server 127\.0\.0\.1:1 does not answer: "):
        async with reach(config, Target(), agent="test", timeout_seconds=10):
            pass


async def test_an_api_server_that_knows_nobody_is_told_in_a_sentence(plane):
    async def unauthorized(request):
        return web.json_response({"kind": "Status", "reason": "Unauthorized"}, status=401)

    plane.api.interceptors.append(unauthorized)
    with pytest.raises(UnreachableError, match="does not accept the credentials"):
        async with plane.reached():
            pass


async def test_without_any_server_there_is_nobody_to_ask():
    config = ClientConfig(RestConfig(""), RestConfig(""))
    with pytest.raises(UnreachableError, match="neither a kubeconfig nor --server"):
        async with reach(config, Target(), agent="test", timeout_seconds=1):
            pass
