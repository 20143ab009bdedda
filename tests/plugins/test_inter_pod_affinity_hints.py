"""Which events may help a pod that was rejected for its neighbours; whether pods can be signed."""

import pytest

from kscheduler.api.labels import SelectorError
from kscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity, InterPodAffinityArgs
from tests.plugins.topologies import REQUIRED, ZONE, hint, make_handle, make_node, make_pod

WEB, DB = {"app": "web"}, {"app": "db"}


def term(labels, key=ZONE, **more):
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **more}


def near(*terms, **how):
    return make_pod("waiting", affinity={"podAffinity": {REQUIRED: list(terms)}}, **how)


def away(*terms, name="waiting", labels=None, **how):
    return make_pod(name, labels, affinity={"podAntiAffinity": {REQUIRED: list(terms)}}, **how)


def placed(labels=None, **how):
    return make_pod("other", labels, **{"nodeName": "n0", **how})


def plugin(**args):
    return InterPodAffinity(InterPodAffinityArgs(**args), make_handle())


def test_registered_events():
    registered = [
        (one.event.resource, one.event.action.value, one.hint is None)
        for one in plugin().events_to_register()
    ]
    # Without a hint every such event queues the pod.
    assert registered == [
        ("AssignedPod", 1 | 2 | 512, False),
        ("TargetPod", 512, True),
        ("Node", 1 | 8, False),
    ]


NEAR_BOTH = near(term(WEB), term({"x": "1"}))
EVERY_NAMESPACE = {"namespaceSelector": {}}
TEAM1 = {"namespaceSelector": {"matchLabels": {"team": "team1"}}}
AVOIDING = away(term(WEB), name="other", nodeName="n0")
NOMINATED = placed(WEB, nodeName="", status={"nominatedNodeName": "n0"})


@pytest.mark.parametrize(
    ("pod", "old", "new", "want"),
    [
        pytest.param(near(term(WEB)), None, placed(WEB), "Queue", id="a wanted pod came"),
        pytest.param(near(term(WEB)), None, placed(DB), "QueueSkip", id="an unrelated pod came"),
        pytest.param(
            near(term(WEB)), None, placed(WEB, nodeName=""), "QueueSkip", id="not placed anywhere"
        ),
        pytest.param(
            near(term(WEB)), None, NOMINATED, "Queue", id="nominated is as good as placed"
        ),
        pytest.param(
            near(term(WEB)), None, placed(WEB, namespace="x"), "QueueSkip", id="another namespace"
        ),
        pytest.param(
            near(term(WEB, **EVERY_NAMESPACE)),
            None,
            placed(WEB, namespace="x"),
            "Queue",
            id="any namespace",
        ),
        pytest.param(
            near(term(WEB, **TEAM1)),
            None,
            placed(WEB),
            "QueueSkip",
            id="labels of namespaces are not looked up",
        ),
        pytest.param(NEAR_BOTH, None, placed(WEB), "QueueSkip", id="half of what is wanted came"),
        pytest.param(
            NEAR_BOTH, None, placed({**WEB, "x": "1"}), "Queue", id="all of what is wanted came"
        ),
        pytest.param(
            NEAR_BOTH, placed(WEB), placed({**WEB, "x": "1"}), "Queue", id="became what is wanted"
        ),
        pytest.param(
            near(term(WEB)), placed(WEB), placed({**WEB, "y": ""}), "QueueSkip", id="was it before"
        ),
        pytest.param(near(term(WEB)), placed(WEB), placed(DB), "QueueSkip", id="is it no more"),
        pytest.param(away(term(WEB)), None, placed(WEB), "QueueSkip", id="an unwanted pod came"),
        pytest.param(away(term(WEB)), placed(WEB), None, "Queue", id="an unwanted pod went"),
        pytest.param(away(term(WEB)), placed(DB), None, "QueueSkip", id="an unrelated pod went"),
        pytest.param(away(term(WEB)), placed(WEB), placed(DB), "Queue", id="is unwanted no more"),
        pytest.param(away(term(WEB)), placed(DB), placed(WEB), "QueueSkip", id="is unwanted now"),
        pytest.param(
            away(term(WEB), term(DB)), placed(WEB), placed(DB), "QueueSkip", id="unwanted otherwise"
        ),
        pytest.param(
            make_pod("waiting", WEB), AVOIDING, None, "Queue", id="a pod that avoids this one went"
        ),
        pytest.param(
            make_pod("waiting", DB), AVOIDING, None, "QueueSkip", id="it avoided others only"
        ),
    ],
)
def test_a_pod_elsewhere_changed(pod, old, new, want):
    assert hint(plugin(), "AssignedPod", pod, old, new) == want


IN_A = make_node("n", {ZONE: "a"})
IN_B = make_node("n", {ZONE: "b"})
NOWHERE = make_node("n")
OTHERWISE = make_node("n", {ZONE: "a", "x": ""})


@pytest.mark.parametrize(
    ("pod", "old", "new", "want"),
    [
        pytest.param(near(term(WEB)), None, IN_A, "Queue", id="near: a node in a domain came"),
        pytest.param(near(term(WEB)), None, NOWHERE, "QueueSkip", id="near: a node in none came"),
        pytest.param(near(term(WEB)), NOWHERE, IN_A, "Queue", id="near: joined a domain"),
        pytest.param(near(term(WEB)), IN_A, IN_B, "Queue", id="near: moved"),
        pytest.param(near(term(WEB)), IN_A, NOWHERE, "QueueSkip", id="near: left its domain"),
        pytest.param(near(term(WEB)), IN_A, OTHERWISE, "QueueSkip", id="near: unrelated label"),
        pytest.param(away(term(WEB)), None, NOWHERE, "Queue", id="away: any node came"),
        pytest.param(away(term(WEB)), IN_A, NOWHERE, "Queue", id="away: left its domain"),
        pytest.param(away(term(WEB)), IN_A, IN_B, "Queue", id="away: moved"),
        pytest.param(away(term(WEB)), NOWHERE, IN_A, "QueueSkip", id="away: joined a domain"),
        pytest.param(away(term(WEB)), IN_A, OTHERWISE, "QueueSkip", id="away: unrelated label"),
        pytest.param(make_pod(), None, IN_A, "QueueSkip", id="avoided by others only"),
    ],
)
def test_a_node_changed(pod, old, new, want):
    assert hint(plugin(), "Node", pod, old, new) == want


@pytest.mark.parametrize("resource", ["AssignedPod", "Node"])
def test_a_term_that_cannot_be_parsed_raises_in_hints(resource):
    broken = {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}
    changed = IN_A if resource == "Node" else placed()
    with pytest.raises(SelectorError, match="Near"):
        hint(plugin(), resource, near(broken), None, changed)


def test_a_deleted_pod_whose_terms_cannot_be_parsed_raises():
    broken = {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}
    deleted = away(broken, name="other", nodeName="n0")
    with pytest.raises(SelectorError, match="Near"):
        hint(plugin(), "AssignedPod", make_pod("waiting"), deleted, None)


@pytest.mark.parametrize(
    "affinity",
    [
        pytest.param({"podAffinity": {REQUIRED: [term(WEB)]}}, id="affinity"),
        pytest.param({"podAntiAffinity": {}}, id="empty anti-affinity"),
    ],
)
def test_pods_with_affinity_cannot_be_signed(affinity):
    status = plugin().sign(make_pod(affinity=affinity))
    assert (status.code.text, status.message) == (
        "Unschedulable",
        "pods with InterPodAffinity are not signable",
    )


def test_other_pods_are_told_apart_by_labels_unless_preferences_are_ignored():
    pod = make_pod(labels=WEB, affinity={"nodeAffinity": {}})
    assert plugin().sign(pod) == {"v1.Pod.Labels": WEB}
    assert plugin(ignore_preferred_terms_of_existing_pods=True).sign(pod) == {}
