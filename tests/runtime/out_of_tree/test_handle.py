"""What a plugin of others may use, and that it cannot break it."""

import json
import time

import pytest

from kscheduler.api.core import ConfigMap
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.resources import CONFIG_MAPS
from kscheduler.errors import ConfigError
from kscheduler.framework.listers import FixedLister
from kscheduler.runtime.out_of_tree.handle import MERGE_PATCH, PluginMetrics, snake_case
from kscheduler.runtime.out_of_tree.health import Limits


class Holder:
    """A plugin that keeps its handle for the test to use."""

    name = "Holder"

    def __init__(self, args, handle):
        self.handle = handle

    def permit(self, cycle, pod, node):
        return None


@pytest.fixture
def plugin_handle(guarded):
    return guarded(Holder).plugin.handle


def test_pods_that_wait_can_be_found_allowed_and_rejected(plugin_handle, handle, make_pod):
    for name in ("a", "b"):
        handle.waiting_pods.add(make_pod(name, node="n"), {"Holder": 9, "Other": 9}, now=0)
    waiting = plugin_handle.waiting_pods
    assert [(one.pod.name, one.pod.node_name) for one in waiting] == [("a", "n"), ("b", "n")]
    first = waiting.get("uid-a")
    first.allow()
    assert first.pending_plugins == ("Other",)
    first.allow("Other")
    assert not first.reject("too late")
    assert waiting.get("uid-b").reject("no")
    assert waiting.get("nobody") is None
    assert len(waiting) == 2


def test_events_go_to_the_pods_users(plugin_handle, handle, guarded, recorder, make_pod):
    view = next(iter(_waiting(plugin_handle, handle, make_pod))).pod
    plugin_handle.event(view, "Odd", "this is odd", kind="Warning")
    assert recorder.events == [("p", "Warning", "Odd", "this is odd")]


def test_pods_can_be_activated(plugin_handle, handle, make_pod):
    activated = []
    handle.activate = activated.extend
    plugin_handle.activate(one.pod for one in _waiting(plugin_handle, handle, make_pod))
    assert [pod.key for pod in activated] == ["default/p"]


def _waiting(plugin_handle, handle, make_pod):
    handle.waiting_pods.add(make_pod("p"), {"Holder": 9}, now=0)
    return plugin_handle.waiting_pods


def test_what_is_followed_is_read_only(plugin_handle, handle):
    asked = []
    stored = ConfigMap(metadata=ObjectMeta(name="m", namespace="ns"), data={"a": "1"})

    def follow(*args):
        asked.append(args)
        return FixedLister({"ns/m": stored})

    handle.out_of_tree.follow = follow
    maps = plugin_handle.follow(CONFIG_MAPS, namespace="ns", name="m", label_selector="x=y")
    assert asked == [(CONFIG_MAPS, "ns", "metadata.name=m", "x=y")]
    assert maps.get("ns/m") == stored
    assert maps.get("ns/other") is None
    assert list(maps.items()) == [stored]
    with pytest.raises(TypeError):
        maps.get("ns/m").data["a"] = "2"


class Client:
    def __init__(self):
        self.calls = []

    async def get(self, *args):
        self.calls.append(("get", *args))
        return b'{"a": 1}'

    async def list(self, *args):
        self.calls.append(("list", *args))
        return b'{"items": [{"a": 1}]}'

    async def patch(self, resource, name, body, *args, kind):
        self.calls.append(("patch", resource, name, json.loads(body), *args, kind))
        return b"{}"


async def test_calls_are_json_in_and_out(guarded, handle):
    made = guarded(Holder).plugin.handle
    client = made.client._client = Client()
    assert await made.client.get(CONFIG_MAPS, "m", "ns") == {"a": 1}
    assert await made.client.list(CONFIG_MAPS, "ns", label_selector="x=y") == [{"a": 1}]
    await made.client.patch(CONFIG_MAPS, "m", {"data": {"a": "2"}}, "ns")
    assert client.calls == [
        ("get", CONFIG_MAPS, "m", "ns"),
        ("list", CONFIG_MAPS, "ns", {"labelSelector": "x=y"}),
        ("patch", CONFIG_MAPS, "m", {"data": {"a": "2"}}, "ns", "", MERGE_PATCH),
    ]


def test_our_own_code_is_not_interrupted_but_the_plugin_is_right_after(
    guarded, handle, cycle, pod, make_pod
):
    finished = []

    class Activating(Holder):
        def permit(self, cycle, pod, node):
            self.handle.activate([pod])
            time.sleep(60)

    def slow(pods):
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            pass
        finished.append(True)

    plugin = guarded(Activating, limits=Limits(call_seconds=0.2))
    handle.activate = slow
    started = time.monotonic()
    with pytest.raises(Exception, match="timed out"):
        plugin.permit(cycle, pod, "n")
    assert finished
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("NodeLoad", "node_load"),
        ("GPUShare2", "gpu_share2"),
        ("my-plugin", "my_plugin"),
        ("X", "x"),
    ],
)
def test_the_prefix_of_a_plugins_metrics(name, want):
    assert snake_case(name) == want


def test_metrics_of_ones_own_are_served_with_all_others(metrics):
    mine = PluginMetrics("NodeLoad", metrics)
    mine.counter("node_load_reads_total", "Reads.", ("kind",)).labels("a").inc()
    mine.gauge("node_load_age", "Age.").labels().set(3)
    mine.histogram("node_load_seconds", "Took.").labels().observe(0.2)
    assert metrics.registry.get_sample_value("node_load_reads_total", {"kind": "a"}) == 1
    assert metrics.registry.get_sample_value("node_load_age") == 3
    again = PluginMetrics("NodeLoad", metrics).gauge("node_load_age", "Age.")
    assert again.labels().value == 3


@pytest.mark.parametrize(
    ("register", "reason"),
    [
        (lambda m: m.gauge("scheduler_pending_pods", ""), 'it must start with "node_load_"'),
        (lambda m: m.gauge("node_load_", ""), 'it must start with "node_load_"'),
        (lambda m: m.gauge("node_load_a-b", ""), "'node_load_a-b' is no name"),
        (lambda m: m.counter("node_load_reads", ""), "the name of a counter ends in _total"),
        (
            lambda m: (m.gauge("node_load_x", ""), m.gauge("node_load_x", "", ("a",))),
            "it exists already with another kind or other labels",
        ),
    ],
    ids=["others' prefix", "nothing but the prefix", "no name", "a counter", "twice"],
)
def test_metrics_that_are_refused(register, reason, metrics):
    with pytest.raises(ConfigError) as caught:
        register(PluginMetrics("NodeLoad", metrics))
    assert str(caught.value).endswith(f": {reason}")
