import asyncio

import pytest

from kscheduler.api.resources import CONFIG_MAPS, NODES, PODS
from kscheduler.client.informers.informer import InformerFactory
from kscheduler.client.observation import InformerObserver
from kscheduler.errors import ConfigError
from kscheduler.metrics import Metrics
from tests.client.following import Story
from tests.client.scripted import HOLD, Stream, bookmark, event, pod, settle
from tests.kit.polling import until

END = bookmark(9, initial_end=True)


@pytest.fixture
async def started():
    """Starts a factory for the length of the test."""
    stop = asyncio.Event()

    async def until_stopped(factory, ready):
        async with asyncio.TaskGroup() as tasks:
            factory.start(tasks)
            factory.tasks = tasks
            ready.set()
            await stop.wait()
            raise asyncio.CancelledError

    running = []

    async def start(factory):
        ready = asyncio.Event()
        running.append(asyncio.create_task(until_stopped(factory, ready)))
        await ready.wait()

    yield start
    stop.set()
    await asyncio.gather(*running, return_exceptions=True)


def test_one_informer_per_collection():
    factory = InformerFactory(client=None)
    pods = factory.informer(PODS)
    assert factory.informer(PODS) is pods
    assert factory.informer(PODS, field_selector="x=y") is not pods
    assert factory.dynamic("foos.v1.example.com") is factory.dynamic("foos.v1.example.com")


@pytest.mark.parametrize("name", ["foos", "foos.v1"])
def test_dynamic_resource_needs_plural_version_and_group(name):
    with pytest.raises(ConfigError, match="Incorrect event registration"):
        InformerFactory(client=None).dynamic(name)


async def test_all_informers_sync_before_anyone_is_told_so(server, client, started):
    nodes_ready = asyncio.Event()
    server.on("GET", "/api/v1/pods", Stream(event("ADDED", pod("a", 1)), END, HOLD))
    server.on("GET", "/api/v1/nodes", Stream(nodes_ready, END, HOLD))
    factory = InformerFactory(client)
    pods, nodes = factory.informer(PODS), factory.informer(NODES)
    story = Story()
    registrations = [pods.add_handler(story), nodes.add_handler(Story())]
    await started(factory)
    await pods.wait_for_sync()
    waiting = asyncio.create_task(factory.wait_for_sync())
    await settle()
    assert not waiting.done()
    nodes_ready.set()
    await waiting
    await factory.wait_for_handlers(registrations)
    assert story.calls == [("initial", "a", "1")]


async def test_informer_made_later_is_started_by_a_second_start(server, client, started):
    server.on("GET", "/api/v1/pods", Stream(END, HOLD))
    server.on("GET", "/api/v1/nodes", Stream(END, HOLD))
    factory = InformerFactory(client)
    factory.informer(PODS)
    await started(factory)
    await factory.wait_for_sync()
    nodes = factory.informer(NODES)
    factory.start(factory.tasks)
    await nodes.wait_for_sync()
    assert len(server.seen("GET", "/api/v1/pods")) == 1


async def test_namespace_and_selector_narrow_the_collection(server, client, started):
    path = "/api/v1/namespaces/kube-system/configmaps"
    server.on("GET", path, Stream(END, HOLD))
    factory = InformerFactory(client)
    name = "metadata.name=extension-apiserver-authentication"
    factory.informer(CONFIG_MAPS, namespace="kube-system", field_selector=name)
    await started(factory)
    await factory.wait_for_sync()
    assert server.requests[0].query["fieldSelector"] == name


@pytest.mark.parametrize(
    ("resource", "path"),
    [("foos.v1.example.com", "/apis/example.com/v1/foos"), ("foos.v1.", "/api/v1/foos")],
    ids=["group", "core group"],
)
async def test_dynamic_objects_are_plain_dicts_without_managed_fields(
    resource, path, server, client, started
):
    item = {
        "kind": "Foo",
        "metadata": {
            "name": "a",
            "namespace": "ns",
            "resourceVersion": "3",
            "managedFields": [{"manager": "x"}],
        },
        "spec": {"anything": None},
    }
    server.on("GET", path, Stream(event("ADDED", item), END, HOLD))
    factory = InformerFactory(client)
    foos = factory.dynamic(resource)
    await started(factory)
    await factory.wait_for_sync()
    assert foos.get("ns/a") == {
        "kind": "Foo",
        "metadata": {"name": "a", "namespace": "ns", "resourceVersion": "3"},
        "spec": {"anything": None},
    }


async def test_hold_keeps_the_world_still_until_it_ends(server, client, started):
    change = asyncio.Event()
    stream = Stream(END, change, event("ADDED", pod("a", 11)), HOLD)
    server.on("GET", "/api/v1/pods", stream)
    factory = InformerFactory(client)
    pods = factory.informer(PODS)
    await started(factory)
    await factory.wait_for_sync()
    with factory.hold():
        change.set()
        await until(lambda: stream.sent == 2)
        await settle()
        assert len(pods) == 0
    await until(lambda: len(pods) == 1)


async def test_informers_tell_what_they_know_and_how_long_changes_took(server, client, started):
    version = "1234567890123456789"
    server.on("GET", "/api/v1/pods", Stream(END, event("ADDED", pod("a", version)), HOLD))
    metrics = Metrics()
    factory = InformerFactory(client, observer=InformerObserver(metrics, "mine"))
    factory.informer(PODS)
    labels = {"name": "mine", "group": "", "version": "v1", "resource": "pods"}

    def told(family):
        return metrics.registry.get_sample_value(f"informer_{family}", labels)

    names = ("queued_items", "store_resource_version", "processing_latency_seconds_count")
    assert [told(name) for name in names] == [0, 0, 0]
    await started(factory)
    await until(lambda: told(names[2]) == 1)
    assert [told(name) for name in names] == [0, 567890123456789, 1]
