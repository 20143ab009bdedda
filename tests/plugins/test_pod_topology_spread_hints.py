"""Which events may help a pod that was rejected for its spreading; whether pods can be signed."""

import pytest

from kscheduler.api.core import Service
from kscheduler.api.decode import convert
from kscheduler.api.labels import SelectorError
from kscheduler.plugins.pod_topology_spread.args import PodTopologySpreadArgs
from kscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from tests.plugins.topologies import (
    HOST,
    ZONE,
    hint,
    make_handle,
    make_node,
    make_pod,
)

FOO = {"foo": ""}


def constraint(key=ZONE, *, selector=FOO, when="DoNotSchedule", **more):
    return {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": selector},
        **more,
    }


def waiting(*constraints, labels=FOO, **spec):
    return make_pod("waiting", labels, topologySpreadConstraints=list(constraints), **spec)


def plugin(objects=(), **args):
    return PodTopologySpread(PodTopologySpreadArgs.model_validate(args), make_handle(objects))


def placed(labels=None, **how):
    return make_pod("other", labels, **{"nodeName": "n0", **how})


def test_registered_events():
    registered = [(one.event.resource, one.event.action) for one in plugin().events_to_register()]
    assert [(resource, action.value) for resource, action in registered] == [
        ("AssignedPod", 1 | 2 | 512),
        ("TargetPod", 512 | 4096),
        ("Node", 1 | 2 | 8 | 16),
    ]


POD = waiting(constraint(), constraint(HOST, selector={"bar": ""}))
NOMINATED = placed(FOO, nodeName="", status={"nominatedNodeName": "n0"})


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(None, placed(FOO), "Queue", id="a matching pod came"),
        pytest.param(None, placed({"bar": ""}), "Queue", id="a pod for the other constraint came"),
        pytest.param(None, placed({"baz": ""}), "QueueSkip", id="an unrelated pod came"),
        pytest.param(placed(FOO), None, "Queue", id="a matching pod went"),
        pytest.param(placed({"baz": ""}), None, "QueueSkip", id="an unrelated pod went"),
        pytest.param(None, placed(FOO, namespace="other"), "QueueSkip", id="another namespace"),
        pytest.param(None, placed(FOO, nodeName=""), "QueueSkip", id="not placed anywhere"),
        pytest.param(None, NOMINATED, "Queue", id="nominated is as good as placed"),
        pytest.param(placed(FOO), placed({}), "Queue", id="does not match any more"),
        pytest.param(placed({}), placed(FOO), "Queue", id="matches now"),
        pytest.param(placed(FOO), placed(FOO), "QueueSkip", id="labels are the same"),
        pytest.param(
            placed({**FOO, "x": "1"}),
            placed({**FOO, "x": "2"}),
            "QueueSkip",
            id="matches as before",
        ),
        pytest.param(placed(FOO, nodeName=""), placed({}), "QueueSkip", id="was not placed before"),
    ],
)
def test_a_pod_elsewhere_changed(old, new, want):
    assert hint(plugin(), "AssignedPod", POD, old, new) == want


HONORING = waiting(constraint(nodeTaintsPolicy="Honor"))
TOLERANT = {"tolerations": [{"key": "k", "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("pod", "old", "new", "want"),
    [
        pytest.param(HONORING, waiting(), waiting(**TOLERANT), "Queue", id="new toleration"),
        pytest.param(POD, waiting(), waiting(**TOLERANT), "QueueSkip", id="taints are ignored"),
        pytest.param(POD, waiting(labels={}), waiting(), "Queue", id="counts itself now"),
        pytest.param(POD, waiting(), waiting(labels={}), "Queue", id="counts itself no more"),
        pytest.param(
            POD, waiting(), waiting(labels={**FOO, "x": ""}), "QueueSkip", id="unrelated label"
        ),
        pytest.param(HONORING, waiting(), waiting(), "QueueSkip", id="nothing of interest"),
    ],
)
def test_the_pod_itself_changed(pod, old, new, want):
    assert hint(plugin(), "TargetPod", pod, old, new) == want


BOTH = make_node("n", {ZONE: "a", HOST: "n"})
ONE = make_node("n", {ZONE: "a"})
MOVED = make_node("n", {ZONE: "b", HOST: "n"})
MORE_LABELS = make_node("n", {ZONE: "a", HOST: "n", "x": ""})
TAINTED = make_node("n", {ZONE: "a", HOST: "n"}, taints=[{"key": "k", "effect": "NoSchedule"}])
ONE_TAINTED = make_node("n", {ZONE: "a"}, taints=[{"key": "k", "effect": "NoSchedule"}])


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(None, BOTH, "Queue", id="a node in all domains came"),
        pytest.param(None, ONE, "QueueSkip", id="a node in one of two domains came"),
        pytest.param(BOTH, None, "Queue", id="a node in all domains went"),
        pytest.param(ONE, None, "QueueSkip", id="a node in one of two domains went"),
        pytest.param(ONE, BOTH, "Queue", id="joined the domains"),
        pytest.param(BOTH, ONE, "Queue", id="left a domain"),
        pytest.param(BOTH, MOVED, "Queue", id="moved to another domain"),
        pytest.param(BOTH, MORE_LABELS, "QueueSkip", id="an unrelated label"),
        pytest.param(BOTH, TAINTED, "Queue", id="other taints"),
        pytest.param(ONE, ONE_TAINTED, "QueueSkip", id="other taints outside of the domains"),
    ],
)
def test_a_node_changed(old, new, want):
    assert hint(plugin(), "Node", POD, old, new) == want


def test_default_constraints_count_in_hints():
    metadata = {"name": "s", "namespace": "default"}
    service = convert({"metadata": metadata, "spec": {"selector": FOO}}, Service)
    default = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    listed = plugin([service], defaultingType="List", defaultConstraints=[default])
    found = [
        hint(listed, "AssignedPod", make_pod("waiting", FOO), None, placed(labels))
        for labels in (FOO, {"bar": ""})
    ]
    assert found == ["Queue", "QueueSkip"]


@pytest.mark.parametrize("resource", ["AssignedPod", "TargetPod", "Node"])
def test_a_selector_that_cannot_be_parsed_raises_in_hints(resource):
    broken = {"matchExpressions": [{"key": "foo", "operator": "Near"}]}
    pod = waiting({**constraint(), "labelSelector": broken})
    changed = BOTH if resource == "Node" else placed()
    with pytest.raises(SelectorError, match="hard topology spread constraints"):
        hint(plugin(), resource, pod, changed, changed)


@pytest.mark.parametrize(
    ("pod", "args", "want"),
    [
        pytest.param(
            POD,
            {"defaultingType": "List"},
            "pods with topology constraints are not signable",
            id="own constraints",
        ),
        pytest.param(
            make_pod(),
            {},
            "pods with default topology constraints are not signable",
            id="default constraints",
        ),
    ],
)
def test_pods_that_cannot_be_signed(pod, args, want):
    status = plugin(**args).sign(pod)
    assert (status.code.text, status.message) == ("Unschedulable", want)


def test_a_pod_without_any_constraint_is_signed_without_a_trace():
    assert plugin(defaultingType="List").sign(make_pod()) == {}
