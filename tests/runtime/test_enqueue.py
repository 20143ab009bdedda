"""What the queue learns from a profile: order, gates, wake-up events, signatures."""

from types import SimpleNamespace as Plugin

import pytest

from kscheduler.framework.cluster_event import NODE, Action, ClusterEvent, EventWithHint
from kscheduler.framework.status import Code, Status, failed, rejected, rejected_for_good


def gating(name, answer, heard=None):
    return Plugin(
        name=name, pre_enqueue=lambda pod: (heard is None or heard.append(name), answer)[1]
    )


def raising(*_):
    raise ValueError("oops")


@pytest.mark.parametrize(
    ("plugins", "want"),
    [
        pytest.param([gating("A", None), gating("B", None)], None, id="all let it in"),
        pytest.param(
            [gating("A", None), gating("B", rejected("wait"))],
            Status(Code.UNSCHEDULABLE, ("wait",), "B"),
            id="one holds it back",
        ),
        pytest.param(
            [gating("A", failed("boom"))], Status(Code.ERROR, ("boom",), "A"), id="an error too"
        ),
        pytest.param(
            [Plugin(name="A", pre_enqueue=raising)],
            Status(Code.ERROR, ("ValueError: oops",), "A"),
            id="and an exception",
        ),
    ],
)
def test_pre_enqueue(plugins, want, make_framework, pod):
    assert make_framework(*plugins).run_pre_enqueue(pod) == want


@pytest.mark.parametrize(
    ("first", "want"),
    [
        pytest.param("", ["A", "B"], id="in order"),
        pytest.param("B", ["B"], id="who gated it last time is asked first"),
        pytest.param("gone", ["A", "B"], id="unless it is no longer there"),
    ],
)
def test_order_of_pre_enqueue(first, want, make_framework, pod):
    heard = []
    framework = make_framework(gating("A", None, heard), gating("B", rejected_for_good("b"), heard))
    framework.run_pre_enqueue(pod, first)
    assert heard == want


def test_pre_enqueue_is_timed_as_a_success_whatever_the_answer(make_framework, pod, metrics):
    make_framework(gating("A", rejected("no"))).run_pre_enqueue(pod)
    family = metrics.framework_extension_point_duration_seconds
    assert family.labels("PreEnqueue", "Success", "default-scheduler").count == 1


def test_pods_are_sorted_by_the_queue_sort_plugin(make_framework):
    framework = make_framework()
    assert framework.sort_key(Plugin(timestamp=3)) < framework.sort_key(Plugin(timestamp=4))


NODE_ADDED = EventWithHint(ClusterEvent(NODE, Action.ADD))
EVERYTHING = {
    "AssignedPod",
    "UnscheduledPod",
    "TargetPod",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "storage.k8s.io/CSINode",
    "storage.k8s.io/CSIDriver",
    "storage.k8s.io/CSIStorageCapacity",
    "storage.k8s.io/StorageClass",
    "resource.k8s.io/ResourceClaim",
    "resource.k8s.io/DeviceClass",
}


def test_a_plugin_says_which_events_it_waits_for(make_framework):
    plugin = Plugin(name="A", filter=lambda *_: [], events_to_register=lambda: [NODE_ADDED])
    assert make_framework(plugin).events == {"A": [NODE_ADDED]}


def test_a_plugin_that_waits_for_nothing_is_never_woken(make_framework):
    plugin = Plugin(name="A", filter=lambda *_: [], events_to_register=list)
    assert make_framework(plugin).events == {"A": []}


@pytest.mark.parametrize("method", ["pre_enqueue", "pre_filter", "filter", "reserve", "permit"])
def test_a_plugin_that_rejects_pods_and_does_not_say_hears_of_everything(method, make_framework):
    plugin = Plugin(name="A", unreserve=None, **{method: lambda *_: None})
    (events,) = make_framework(plugin).events.values()
    assert {one.event.resource for one in events} == EVERYTHING
    assert {(one.event.action, one.hint) for one in events} == {(Action.ALL, None)}


@pytest.mark.parametrize("method", ["post_filter", "pre_score", "score", "pre_bind", "bind"])
def test_plugins_that_cannot_leave_a_pod_waiting_register_nothing(method, make_framework):
    methods = {method: lambda *_: None}
    plugin = Plugin(name="A", events_to_register=lambda: [NODE_ADDED], **methods)
    assert make_framework(plugin).events == {}


def test_pod_groups_are_heard_of_where_there_are_any(make_framework, handle):
    handle.gates = Plugin(enabled=lambda name: name == "GenericWorkload")
    events = make_framework(Plugin(name="A", filter=lambda *_: [])).events["A"]
    assert {one.event.resource for one in events} == EVERYTHING | {"scheduling.k8s.io/PodGroup"}


def signing(name, part, **methods):
    methods = methods or {"filter": lambda *_: []}
    return Plugin(name=name, sign=lambda pod: part, **methods)


def test_equal_parts_give_equal_signatures_in_whatever_order(make_framework, make_pod):
    one = make_framework(signing("A", {"x": 1, "y": [2]}), signing("B", {"z": {"k": 3}}))
    other = make_framework(signing("B", {"z": {"k": 3}}), signing("A", {"y": [2], "x": 1}))
    different = make_framework(signing("A", {"x": 1, "y": [2]}), signing("B", {"z": {"k": 4}}))
    assert one.sign(make_pod()) == other.sign(make_pod()) != different.sign(make_pod())


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(signing("B", rejected("cannot tell")), id="a plugin that cannot tell"),
        pytest.param(signing("B", failed("boom")), id="a plugin that fails"),
        pytest.param(Plugin(name="B", sign=raising, score=None), id="a plugin that raises"),
        pytest.param(Plugin(name="B", score=lambda *_: 0), id="a judging plugin that never can"),
    ],
)
def test_no_signature_for_the_pod_of(plugin, make_framework, pod):
    assert make_framework(signing("A", {"x": 1}), plugin).sign(pod) is None


def test_a_plugin_that_refused_is_asked_first_the_next_time(make_framework, pod):
    asked = []

    def plugin(name, part):
        def sign(pod):
            asked.append(name)
            return part

        return Plugin(name=name, sign=sign, filter=lambda *_: [])

    framework = make_framework(plugin("A", {"x": 1}), plugin("B", rejected("cannot tell")))
    framework.sign(pod)
    framework.sign(pod)
    assert asked == ["A", "B", "B"]


def test_plugins_that_do_not_judge_nodes_need_not_sign(make_framework, pod):
    bystander = Plugin(name="B", bind=lambda *_: None)
    assert make_framework(signing("A", {"x": 1}), bystander).sign(pod) is not None
