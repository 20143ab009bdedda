"""What the leader tells about where it is, and the Service that leads to it."""

import asyncio
import datetime
import socket

import pytest

from kscheduler.api.explanation import (
    ADDRESS_ANNOTATION,
    CERTIFICATE_ANNOTATION,
    POD_ANNOTATION,
    PORT_ANNOTATION,
)
from kscheduler.app.advertisement import (
    ENDPOINT_SLICES,
    Advertisement,
    LeaderEndpoint,
    advertised,
    own_address,
    pod_of,
)
from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.transport import Transport
from kscheduler.serving.certificate import self_signed
from tests.kit.polling import until

SERVER = "https://127.0.0.1:6443"


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as one:
        yield one


@pytest.fixture
def any_listener():
    with socket.create_server(("0.0.0.0", 0)) as one:
        yield one


@pytest.fixture(scope="module")
def certificate():
    return self_signed("127.0.0.1", now=datetime.datetime.now(datetime.UTC))[0]


def told(listener, certificate, **environment):
    advertisement = Advertisement(listener, SERVER, environment)
    assert advertisement.annotations == {}
    advertisement.look_up()
    advertisement.refresh(certificate)
    return advertisement.annotations


def test_outside_a_pod_the_address_is_told(listener, any_listener, certificate):
    for one in (listener, any_listener):
        port = one.getsockname()[1]
        found = told(one, certificate)
        assert found[ADDRESS_ANNOTATION] == f"127.0.0.1:{port}"
        assert found[PORT_ANNOTATION] == str(port)
        assert len(found[CERTIFICATE_ANNOTATION]) == 64
        assert POD_ANNOTATION not in found


def test_in_a_pod_the_pod_is_told_instead_of_an_address_that_may_be_any(any_listener, certificate):
    found = told(any_listener, certificate, POD_NAMESPACE="ns", POD_NAME="p")
    assert found[POD_ANNOTATION] == "ns/p"
    assert ADDRESS_ANNOTATION not in found


def test_a_pod_knows_itself_by_its_service_account(tmp_path):
    file = tmp_path / "namespace"
    assert pod_of({}, file) == ""
    file.write_text("ns\n")
    assert pod_of({}, file) == f"ns/{socket.gethostname()}"
    assert pod_of({"POD_NAME": "p"}, file) == "ns/p"


def test_the_own_address_is_that_on_the_way_to_the_api_server():
    assert own_address(SERVER, {}) == "127.0.0.1"
    assert own_address("https://nowhere.invalid", {}) == ""
    assert own_address(SERVER, {"POD_IP": "10.1.2.3"}) == "10.1.2.3"


def test_annotations_of_ours_are_replaced_and_others_stay():
    lease = {"metadata": {"annotations": {POD_ANNOTATION: "old", "other": "kept"}}, "spec": {}}
    assert advertised(lease, {PORT_ANNOTATION: "1"})["metadata"]["annotations"] == {
        "other": "kept",
        PORT_ANNOTATION: "1",
    }
    assert advertised({"metadata": {"annotations": {POD_ANNOTATION: "old"}}}, {})["metadata"] == {}
    assert lease["metadata"]["annotations"][POD_ANNOTATION] == "old"


async def test_the_leader_is_the_endpoint_of_its_service(api, monkeypatch):
    monkeypatch.setattr("kscheduler.app.advertisement.LOOK_SECONDS", 0.01)
    leads, looks = False, 0

    def is_leading():
        nonlocal looks
        looks += 1
        return leads

    async def looked():
        before = looks
        await until(lambda: looks > before + 2)

    async with Transport(RestConfig(server=api.url), agent="test", qps=-1, burst=1) as transport:
        endpoint = LeaderEndpoint(
            KubeClient(transport),
            "default/kscheduler",
            address=lambda: address,
            port=10259,
            leads=is_leading,
        )
        address = "10.0.0.1"
        task = asyncio.create_task(endpoint.run())

        def found():
            return api.objects.find(ENDPOINT_SLICES.group_resource, "kscheduler", "default")

        await looked()
        assert found() is None
        leads = True
        one = await until(found)
        assert one["metadata"]["labels"]["kubernetes.io/service-name"] == "kscheduler"
        assert one["endpoints"][0]["addresses"] == ["10.0.0.1"]
        assert one["ports"] == [{"name": "https", "port": 10259, "protocol": "TCP"}]
        leads = False
        await looked()
        address, leads = "10.0.0.2", True
        await until(lambda: found()["endpoints"][0]["addresses"] == ["10.0.0.2"])
        task.cancel()
        await asyncio.wait({task})
