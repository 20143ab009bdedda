"""Pending pods explained, with the plugins of the default profile and their own events."""

from types import SimpleNamespace

import pytest

from kscheduler import plugins
from kscheduler.api.explanation import PendingPod, WakingEvent
from kscheduler.api.meta import ObjectMeta
from kscheduler.config.defaults import default_config
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.profiles import complete
from kscheduler.framework.cluster_event import (
    ANY_CHANGE,
    ASSIGNED_POD,
    NODE,
    POD_KINDS,
    TARGET_POD,
    UNSCHEDULED_POD,
    Action,
    ClusterEvent,
    EventWithHint,
)
from kscheduler.framework.listers import FixedListers
from kscheduler.metrics import Metrics
from kscheduler.queue import pending
from kscheduler.queue.event_descriptions import description, single_events
from kscheduler.queue.pending import pending_pod, pending_pods
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.profile import build_frameworks
from kscheduler.state.cache import Cache

# 12:03:10 UTC.
NOW = 1_700_049_790.0
DAY = 86_400
FIT = "NodeResourcesFit"
FIT_EVENTS = (
    WakingEvent(FIT, "AssignedPodDelete", "a pod on a node is deleted"),
    WakingEvent(FIT, "NodeAdd", "a node is added"),
    WakingEvent(FIT, "NodeUpdateNodeAllocatable", "a node's allocatable resources change"),
    WakingEvent(FIT, "resource.k8s.io/DeviceClassAdd", "a device class is added"),
    WakingEvent(FIT, "resource.k8s.io/DeviceClassUpdate", "a device class changes"),
    WakingEvent(
        FIT,
        "AssignedPodUpdatePodScaleDown",
        "the resource requests of a pod on a node shrink",
    ),
    WakingEvent(FIT, "TargetPodUpdatePodScaleDown", "the pod's own resource requests shrink"),
)
TIMEOUT = WakingEvent("", "UnschedulableTimeout", "it has waited for 5 minutes")


@pytest.fixture(scope="module")
def default_profiles():
    """The default profile, with every plugin in it."""
    gates = FeatureGates.defaults()
    catalog = plugins.catalog()

    def handle_for(profile):
        return RuntimeHandle(
            gates=gates,
            listers=FixedListers(),
            snapshot=Cache().snapshot,
            nominator=SimpleNamespace(nodes=(), pods_for_node=lambda node: []),
            activate=lambda pods: None,
            client=None,
            recorder=None,
            metrics=Metrics(),
        )

    completed = complete(default_config(catalog, gates), catalog, gates=gates)
    return build_frameworks(completed, plugins.factories(), handle_for)


@pytest.fixture
def h(make_queue, default_profiles):
    return make_queue(profiles=default_profiles)


def explain(h, name="p", *, now=NOW, **options):
    return pending_pod(h.queue, "ns", name, now, **options)


def summary(h, name="p", *, now=NOW, **options):
    return explain(h, name, now=now, **options).summary


def test_an_unschedulable_pod_is_explained_whole(h, make_pod):
    said = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available."}
    pod = make_pod(labels={"app": "web"}, priority=7, status={"conditions": [said]})
    h.parked(pod, by=[FIT], now=NOW)
    assert explain(h) == PendingPod(
        metadata=ObjectMeta(name="p", namespace="ns", uid="p", labels={"app": "web"}),
        summary=(
            "Waiting since 12:03:10Z for an event: NodeResourcesFit rejected it; it is tried again "
            "when a pod on a node is deleted, a node is added, a node's allocatable resources "
            "change or one of 5 other events happens."
        ),
        queue="Unschedulable",
        since="2023-11-15T12:03:10Z",
        first_attempt_time="2023-11-15T12:03:10Z",
        attempts=1,
        scheduler_name="default-scheduler",
        pod_uid="p",
        priority=7,
        unschedulable_plugins=(FIT,),
        message="0/1 nodes are available.",
        wakes_on=(*FIT_EVENTS, TIMEOUT),
    )


def test_a_pod_that_the_queue_does_not_know_is_not_explained(h, make_pod):
    h.queue.add(make_pod(), NOW)
    assert (explain(h, "q"), pending_pod(h.queue, "other", "p", NOW)) == (None, None)


def test_a_gated_pod_is_woken_by_its_gating_plugin_alone(h, make_pod):
    h.queue.add(make_pod(gates=["example.com/quota"]), NOW)
    explained = explain(h)
    assert (explained.queue, explained.gating_plugin, explained.scheduling_gates) == (
        "Gated",
        "SchedulingGates",
        ("example.com/quota",),
    )
    assert explained.wakes_on == (
        WakingEvent(
            "SchedulingGates",
            "TargetPodUpdatePodSchedulingGatesEliminated",
            "the pod's own scheduling gates are removed",
        ),
    )


@pytest.mark.parametrize(
    ("gates", "want"),
    [
        pytest.param(
            ["example.com/quota"],
            "Held by its scheduling gate example.com/quota; it is not tried until it is removed.",
            id="one gate",
        ),
        pytest.param(
            ["a", "b", "c"],
            "Held by its scheduling gates a, b and c; it is not tried until they are removed.",
            id="several gates",
        ),
    ],
)
def test_the_summary_of_a_gated_pod(h, make_pod, gates, want):
    h.queue.add(make_pod(gates=gates), NOW)
    assert summary(h) == want


def test_the_summary_of_a_pod_that_another_plugin_gates(make_queue, make_pod):
    events = {"Quota": [EventWithHint(ClusterEvent(NODE, Action.ADD | Action.DELETE))]}
    gates = {"Quota": lambda pod: True, "Mute": lambda pod: pod.name == "mute"}
    h = make_queue(events=events, gates=gates)
    h.queue.add(make_pod(), NOW)
    gates.pop("Quota")
    h.queue.add(make_pod("mute"), NOW)
    assert [summary(h), summary(h, "mute")] == [
        "Held by Quota, which is asked again when a node is added or a node is deleted.",
        "Held by Mute; it is not tried until that plugin lets it pass.",
    ]


@pytest.mark.parametrize(
    ("failure", "now", "want"),
    [
        pytest.param(
            {"by": ["NodeName"]},
            NOW,
            "Waiting since 12:03:10Z for an event: NodeName rejected it; it is tried again when a "
            "node is added or it has waited for 5 minutes.",
            id="one plugin",
        ),
        pytest.param(
            {"by": ["NodeName"]},
            NOW + DAY,
            "Waiting since 2023-11-15T12:03:10Z for an event: NodeName rejected it; it is tried "
            "again when a node is added or it has waited for 5 minutes.",
            id="another day",
        ),
        pytest.param(
            {"by": ["NodeName", "NodePorts"]},
            NOW,
            "Waiting since 12:03:10Z for an event: NodeName and NodePorts rejected it; it is tried "
            "again when a node is added, a pod on a node is deleted or it has waited for 5 "
            "minutes.",
            id="two plugins with a common event",
        ),
        pytest.param(
            {"by": ["NodeName"], "pending": ["NodeAffinity"]},
            NOW,
            "Waiting since 12:03:10Z for an event: NodeName rejected it and NodeAffinity keeps it "
            "pending; it is tried again when a node is added, a node's labels change or it has "
            "waited for 5 minutes.",
            id="a plugin that keeps it pending",
        ),
    ],
)
def test_the_summary_of_an_unschedulable_pod(h, make_pod, failure, now, want):
    h.parked(make_pod(), now=NOW, **failure)
    assert summary(h, now=now) == want


def test_the_summary_counts_attempts_and_names_the_nominated_node(h, make_pod):
    h.parked(make_pod(nominated="n1"), by=["NodeName"], now=NOW)
    for _ in range(2):
        h.queue.activate([make_pod()], NOW)
        h.fail(h.pop(), by=["NodeName"], now=NOW)
    explained = explain(h)
    assert (explained.attempts, explained.nominated_node) == (3, "n1")
    assert explained.summary == (
        "Waiting since 12:03:10Z for an event, nominated to node n1: NodeName rejected it in the "
        "last of 3 attempts; it is tried again when a node is added or it has waited for 5 minutes."
    )


def test_a_pod_that_backs_off_is_explained_to_the_second_in_which_it_leaves(h, make_pod):
    h.queue.add(make_pod(), NOW + 0.5)
    h.fail(h.pop(), now=NOW + 0.5)
    explained = explain(h)
    assert (explained.queue, explained.backoff_until, explained.wakes_on) == (
        "BackingOff",
        "2023-11-15T12:03:12Z",
        (),
    )
    assert explained.summary == "Backing off until 12:03:12Z after 1 failed attempt."
    h.queue.flush_backoff_completed(NOW + 1.999)
    assert explain(h).queue == "BackingOff"
    h.queue.flush_backoff_completed(NOW + 2)
    assert explain(h).queue == "Active"


def test_the_summary_of_a_pod_that_is_put_off(h, make_pod):
    h.queue.add(make_pod(), NOW)
    h.queue.postpone(h.pop(), NOW + 30.5, NOW)
    assert explain(h).backoff_until == "2023-11-15T12:03:41Z"
    assert summary(h) == "Put off until 12:03:41Z: deciding on pods like it takes too long."


def test_the_summary_of_an_active_pod_says_how_many_are_ahead(h, make_pod):
    h.queue.add(make_pod("last"), NOW)
    h.queue.add(make_pod("first", priority=2), NOW)
    h.queue.add(make_pod("second", priority=1), NOW)
    assert [summary(h, name) for name in ("first", "second", "last")] == [
        "In the active queue for attempt 1; it is the next to be tried.",
        "In the active queue for attempt 1; 1 pod is ahead of it.",
        "In the active queue for attempt 1; 2 pods are ahead of it.",
    ]
    unranked = {"In the active queue for attempt 1."}
    assert {pod.summary for pod in pending_pods(h.queue, NOW)} == unranked


def test_the_pods_ahead_of_an_active_pod_are_not_counted_if_they_are_many(h, make_pod, monkeypatch):
    monkeypatch.setattr(pending, "MAX_RANKED", 1)
    h.queue.add(make_pod("p"), NOW)
    h.queue.add(make_pod("q"), NOW)
    assert summary(h) == "In the active queue for attempt 1."


def test_a_pod_in_flight_is_being_tried_or_bound(h, make_pod):
    h.queue.add(make_pod(), NOW)
    h.pop()
    tried, bound = explain(h), explain(h, is_assumed=lambda pod: True)
    assert [(one.queue, one.since, one.attempts) for one in (tried, bound)] == [
        ("InFlight", "", 1),
        ("Binding", "", 1),
    ]
    assert [tried.summary, bound.summary] == [
        "Being tried now, in attempt 1.",
        "Attempt 1 found a node, and the pod is being bound to it.",
    ]
    h.queue.done("p")
    assert explain(h) is None


def places(h, **options):
    return {pod.name: pod.queue for pod in pending_pods(h.queue, NOW, **options)}


def one_in_each_place(h, make_pod):
    h.queue.add(make_pod("tried", priority=9), NOW)
    h.pop("tried")
    h.parked(make_pod("rejected"), by=[FIT], now=NOW)
    h.queue.add(make_pod("failed"), NOW)
    h.fail(h.pop("failed"), now=NOW)
    h.queue.add(make_pod("gated", gates=["g"]), NOW)
    h.queue.add(make_pod("new"), NOW)


def test_every_pod_is_listed_once(h, make_pod):
    one_in_each_place(h, make_pod)
    assert len(list(pending_pods(h.queue, NOW))) == 5
    assert places(h) == {
        "new": "Active",
        "failed": "BackingOff",
        "rejected": "Unschedulable",
        "gated": "Gated",
        "tried": "InFlight",
    }


def test_pods_of_other_namespaces_are_left_out(h, make_pod):
    h.queue.add(make_pod("mine"), NOW)
    h.queue.add(make_pod("theirs", namespace="other"), NOW)
    assert places(h, namespace="other") == {"theirs": "Active"}


def test_a_pod_that_leaves_while_the_list_is_read_is_passed_over(h, make_pod):
    one_in_each_place(h, make_pod)
    read = pending_pods(h.queue, NOW)
    h.queue.delete(make_pod("rejected"))
    h.queue.delete(make_pod("gated"))
    h.queue.add(make_pod("gated", uid="another"), NOW)
    h.queue.done("tried")
    assert {pod.name for pod in read} == {"failed", "new"}


def test_a_pod_in_flight_gives_way_to_the_one_that_replaced_it(h, make_pod):
    h.queue.add(make_pod(uid="old"), NOW)
    h.pop()
    h.queue.add(make_pod(uid="new"), NOW)
    assert [pod.uid for pod in pending_pods(h.queue, NOW)] == ["new"]


def test_every_event_of_the_in_tree_plugins_has_a_label_and_a_description(default_profiles):
    [profile] = default_profiles.values()
    registered = [one.event for events in profile.events.values() for one in events]
    events = {event for one in registered for event in single_events(one)}
    assert events
    texts = {(event.label, description(event)) for event in events}
    assert not [text for text in texts if text[0].endswith(("Pod", "Node"))]
    # Kinds without words of their own are called by their names.
    assert not [text for text in texts if "an object of" in text[1]]


@pytest.mark.parametrize(
    ("registered", "want"),
    [
        pytest.param(
            ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT),
            {"NodeAdd": "a node is added", "NodeUpdateNodeTaint": "a node's taints change"},
            id="two bits",
        ),
        pytest.param(
            ClusterEvent(NODE, Action.ALL),
            {
                "NodeAdd": "a node is added",
                "NodeDelete": "a node is deleted",
                "NodeUpdate": "a node changes",
            },
            id="all changes of a kind",
        ),
        pytest.param(
            ClusterEvent(ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL),
            {
                "AssignedPodAdd": "a pod is placed on a node",
                "AssignedPodUpdatePodLabel": "the labels of a pod on a node change",
            },
            id="pods on nodes",
        ),
        pytest.param(
            ClusterEvent(TARGET_POD, Action.ALL),
            {"TargetPodUpdate": "the pod itself changes"},
            id="the waiting pod can only be updated",
        ),
        pytest.param(
            ClusterEvent(UNSCHEDULED_POD, Action.ADD | Action.DELETE),
            {"UnscheduledPodDelete": "another pending pod is deleted"},
            id="a pod that is created wakes no other",
        ),
        pytest.param(
            ClusterEvent("foos.v1.example.com", Action.ADD | Action.UPDATE_NODE_LABEL),
            {"foos.v1.example.comAdd": "an object of foos.v1.example.com is added"},
            id="a kind of one's own",
        ),
        pytest.param(
            ANY_CHANGE,
            {"*All": "an object of any kind is added, changed or deleted"},
            id="anything",
        ),
    ],
)
def test_events_in_words(registered, want):
    assert {one.label: description(one) for one in single_events(registered)} == want


@pytest.mark.parametrize("kind", [NODE, *POD_KINDS])
def test_single_events_are_matched_by_their_registration(kind):
    for bits in range(1, Action.ALL + 1, 7):
        registered = ClusterEvent(kind, Action(bits))
        assert all(registered.matches(one) for one in single_events(registered))
