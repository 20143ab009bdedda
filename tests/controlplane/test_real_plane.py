"""What the real control plane promises to those who test on it."""

import asyncio
import json
import os
import uuid

import pytest
import yaml

from kscheduler.api.resources import RESOURCE_CLAIMS
from kscheduler.client.clientcmd.rest_config import load_rest_config
from kscheduler.client.errors import Forbidden
from kscheduler.client.informers.informer import InformerFactory
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.transport import Transport
from tests.controlplane.binaries import ASSETS_VARIABLE, HERE
from tests.controlplane.build import KUBERNETES
from tests.e2e.api import Api, RefusedError
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until


@pytest.fixture
async def api(control_plane):
    api = Api(control_plane / "kubeconfig")
    yield api
    await api.close()


@pytest.fixture
async def namespace(api):
    name = f"plane-{uuid.uuid4().hex[:8]}"
    await api.create("namespaces", {"metadata": {"name": name}})
    yield name
    await api.delete_all("pods", name)


@pytest.mark.skipif(ASSETS_VARIABLE in os.environ, reason="a control plane of our own build")
async def test_it_is_the_release_that_is_pinned(api):
    told = await api.send("GET", "version")
    assert f"{KUBERNETES} {told['gitVersion']}" in (HERE / "go.mod").read_text()


def pod(name, **spec):
    """One that no scheduler of a test that runs meanwhile will look at."""
    return pod_manifest(name, schedulerName="nobody", **spec)


async def test_rules_decide_who_may_do_what(control_plane, namespace):
    scheduler = Api(control_plane / "kube-scheduler.kubeconfig")
    try:
        assert await scheduler.list("pods", namespace) == []
        with pytest.raises(RefusedError, match="cannot create resource") as refused:
            await scheduler.create("pods", pod("p1"), namespace)
        assert refused.value.code == 403
    finally:
        await scheduler.close()


async def test_admission_is_a_default_clusters(api, namespace):
    """Priorities are looked up, tolerations filled in, and only namespaces that exist are used."""
    made = await api.create("pods", pod("p1", priorityClassName="system-node-critical"), namespace)
    assert made["spec"]["priority"] == 2000001000
    assert [t["key"] for t in made["spec"]["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    with pytest.raises(RefusedError, match="no PriorityClass with name bogus was found"):
        await api.create("pods", pod("p2", priorityClassName="bogus"), namespace)
    with pytest.raises(RefusedError, match="not found"):
        await api.create("pods", pod("p3"), "nowhere")


async def test_client_acts_as_whom_its_kubeconfig_names(control_plane, tmp_path):
    text = (control_plane / "kubeconfig").read_text()
    kubeconfig = yaml.safe_load(text)
    extra = {"acme.com/Team": ["red", "green"], "50%": ["x"]}
    for entry in kubeconfig["users"]:
        entry["user"] |= {"as": "jane", "as-uid": "u7", "as-groups": ["g"], "as-user-extra": extra}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    config = load_rest_config(str(tmp_path / "kubeconfig"))
    async with Transport(config, agent="x") as transport:
        review = b'{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}'
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        answer = json.loads(await transport.request("POST", path, body=review))
        with pytest.raises(Forbidden, match='User "jane" cannot list resource'):
            await transport.request("GET", "/api/v1/pods")
    assert answer["status"]["userInfo"] == {
        "username": "jane",
        "uid": "u7",
        "groups": ["g", "system:authenticated"],
        "extra": {"acme.com/team": ["red", "green"], "50%": ["x"]},
    }


async def test_claim_nested_as_deeply_as_is_admitted_is_followed_like_others(
    control_plane, namespace
):
    """Listed and watched; what is in `parameters` is for the driver."""
    nested = b'{"a":%s}' % (b"[" * 5000 + b"]" * 5000)

    def claim(name):
        return (
            b'{"kind":"ResourceClaim","apiVersion":"resource.k8s.io/v1","metadata":{"name":"%s"},'
            b'"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c"}}],'
            b'"config":[{"opaque":{"driver":"d.example","parameters":%s}}]}}}'
        ) % (name.encode(), nested)

    config = load_rest_config(str(control_plane / "kubeconfig"))
    async with Transport(config, agent="x") as transport:
        client = KubeClient(transport)
        await client.create(RESOURCE_CLAIMS, claim("listed"), namespace)
        factory = InformerFactory(client)
        informer = factory.informer(RESOURCE_CLAIMS, namespace=namespace)
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            factory.start(tasks)
            await factory.wait_for_sync()
            assert [one.name for one in informer.items()] == ["listed"]
            await client.create(RESOURCE_CLAIMS, claim("watched"), namespace)
            await until(lambda: len(informer) == 2)
            for one in informer.items():
                assert one.spec.devices.requests[0].exactly.device_class_name == "c"
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                if task.get_name().startswith("reflector/"):
                    task.cancel()
