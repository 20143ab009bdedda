"""The official Python client against the sandbox, in both of its forms."""

import asyncio

import pytest
from kubernetes import client, config, watch
from kubernetes.aio import client as aio_client
from kubernetes.aio import config as aio_config
from kubernetes.aio import watch as aio_watch

from tests.kit.manifests import pod_manifest


@pytest.fixture
def kubeconfig(server):
    return server.kubeconfig()


async def test_the_synchronous_client(server, objects, kubeconfig):
    def work():
        with config.new_client_from_config_dict(kubeconfig) as api:
            core = client.CoreV1Api(api)
            created = core.create_namespaced_pod("default", pod_manifest("p"))
            assert created.spec.scheduler_name == "default-scheduler"
            core.patch_namespaced_pod("p", "default", {"metadata": {"labels": {"a": "b"}}})
            listed = core.list_namespaced_pod("default", label_selector="a=b", limit=1)
            assert [pod.metadata.name for pod in listed.items] == ["p"]
            binding = client.V1Binding(
                metadata=client.V1ObjectMeta(name="p"),
                target=client.V1ObjectReference(kind="Node", name="n"),
            )
            core.create_namespaced_binding("default", binding, _preload_content=False)
            stream = watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=1)
            seen = [(event["type"], event["object"].spec.node_name) for event in stream]
            core.delete_namespaced_pod("p", "default", grace_period_seconds=0)
            with pytest.raises(client.ApiException) as missing:
                core.read_namespaced_pod("p", "default")
            return seen, missing.value.status

    assert await asyncio.to_thread(work) == ([("ADDED", "n")], 404)


async def test_the_asynchronous_client(server, objects, kubeconfig):
    api = await aio_config.new_client_from_config_dict(kubeconfig)
    async with api:
        core = aio_client.CoreV1Api(api)
        await core.create_namespaced_pod("default", pod_manifest("p"))
        await core.patch_namespaced_pod_status(
            "p", "default", {"status": {"nominatedNodeName": "n"}}
        )
        pod = await core.read_namespaced_pod("p", "default")
        assert pod.status.nominated_node_name == "n"
        listed = await core.list_pod_for_all_namespaces(field_selector="metadata.name=p")
        assert len(listed.items) == 1
        kinds = []
        async with aio_watch.Watch().stream(
            core.list_namespaced_pod, "default", timeout_seconds=5
        ) as stream:
            async for event in stream:
                kinds.append(event["type"])
                if event["type"] == "ADDED":
                    await core.delete_namespaced_pod("p", "default")
                elif event["type"] == "DELETED":
                    break
        assert kinds == ["ADDED", "MODIFIED", "DELETED"]
        lease = aio_client.V1Lease(
            metadata=aio_client.V1ObjectMeta(name="l"),
            spec=aio_client.V1LeaseSpec(holder_identity="me", lease_duration_seconds=15),
        )
        leases = aio_client.CoordinationV1Api(api)
        created = await leases.create_namespaced_lease("kube-system", lease)
        created.spec.holder_identity = "you"
        replaced = await leases.replace_namespaced_lease("l", "kube-system", created)
        assert replaced.spec.holder_identity == "you"
