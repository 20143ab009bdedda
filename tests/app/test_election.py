"""The lease on an API server, as the elector uses it."""

import pytest
from aiohttp import web

from kscheduler.api.core import ObjectReference
from kscheduler.app.election import KubeLease, election_config, make_elector, request_seconds
from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.errors import ApiError, Conflict
from kscheduler.client.transport import Transport
from kscheduler.config.model import LeaderElectionConfiguration
from kscheduler.gotext.duration import Duration
from kscheduler.metrics import Metrics

SPEC = {
    "holderIdentity": "me",
    "leaseDurationSeconds": 15,
    "acquireTime": "2026-01-01T00:00:00.000000Z",
    "renewTime": "2026-01-01T00:00:00.000000Z",
    "leaseTransitions": 0,
}


@pytest.fixture
async def transport(api):
    async with Transport(RestConfig(server=api.url), agent="test") as one:
        yield one


@pytest.fixture
def lease(transport):
    return KubeLease(transport, "kube-system", "kube-scheduler", 5.0)


async def test_a_lease_is_made_read_and_written(lease, api):
    assert await lease.get() is None
    created = await lease.create(SPEC)
    assert (await lease.get())["spec"] == SPEC
    metadata = created["metadata"] | {"labels": {"keep": "me"}}
    written = await lease.update(created | {"metadata": metadata})
    assert written["metadata"]["labels"] == {"keep": "me"}
    with pytest.raises(Conflict):
        await lease.update(created)


async def test_requests_say_how_long_they_may_take(lease, api):
    seen = []

    async def note(request):
        seen.append((request.method, request.path_qs))

    api.interceptors.append(note)
    await lease.get()
    await lease.create(SPEC)
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    assert seen == [
        ("GET", f"{path}/kube-scheduler?timeout=5s"),
        ("POST", f"{path}?timeout=5s"),
    ]


async def test_events_refer_to_the_lease_as_last_seen(lease):
    named = ObjectReference(
        kind="Lease",
        namespace="kube-system",
        name="kube-scheduler",
        api_version="coordination.k8s.io/v1",
    )
    assert lease.reference == named
    metadata = (await lease.create(SPEC))["metadata"]
    assert (lease.reference.uid, lease.reference.resource_version) == (
        metadata["uid"],
        metadata["resourceVersion"],
    )


@pytest.mark.parametrize("body", ["<html>hello</html>", "[]", "", '"x"'])
async def test_an_answer_that_is_no_object_is_an_error_like_any_other(lease, api, body):
    async def proxy(request):
        return web.Response(text=body)

    api.interceptors.append(proxy)
    with pytest.raises(ApiError, match=r"leases\.coordination\.k8s\.io kube-scheduler: "):
        await lease.get()


@pytest.mark.parametrize(("deadline", "want"), [(10.0, 5.0), (1.0, 1.0), (0.5, 1.0), (60.0, 30.0)])
def test_a_request_may_take_half_the_deadline(deadline, want):
    config = LeaderElectionConfiguration(renew_deadline=Duration.of(deadline))
    assert request_seconds(config) == want


def test_identities_differ():
    config = LeaderElectionConfiguration()
    first, second = election_config(config), election_config(config)
    assert first.identity != second.identity
    assert first.lock == f"{config.resource_namespace}/{config.resource_name}"


async def test_leading_is_told_in_events_and_metrics(lease):
    told = []

    class Recorder:
        def record(self, regarding, **fields):
            told.append((regarding.name, fields))

    metrics = Metrics()
    config = LeaderElectionConfiguration(
        lease_duration=Duration.of(15.0),
        renew_deadline=Duration.of(10.0),
        retry_period=Duration.of(2.0),
        resource_namespace="kube-system",
        resource_name="kube-scheduler",
    )
    elector = make_elector(lease, election_config(config), Recorder(), metrics)
    status = metrics.leader_election_master_status.labels("kube-scheduler")

    async def lead():
        assert status.value == 1

    await elector.run(lead)
    assert status.value == 0
    identity = elector.config.identity
    assert told == [
        (
            "kube-scheduler",
            {
                "type": "Normal",
                "reason": "LeaderElection",
                "action": "",
                "note": f"{identity} {what}",
            },
        )
        for what in ("became leader", "stopped leading")
    ]
