"""Volumes with a zone are used from nodes in that zone."""

import pytest

from kscheduler.framework.cluster_event import (
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    Action,
    ClusterEvent,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.volume_zone import VolumeZone
from tests.plugins.machines import UNRESOLVABLE, hint, make_node, rejected
from tests.plugins.volumes import AT_ONCE, Cluster, make_claim, make_class, make_volume, using

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ELSEWHERE = (UNRESOLVABLE, "node(s) had no available volume zone")


def verdict(pod, *objects, nodes=(), gates=None):
    cluster = Cluster(nodes, *objects, gates=gates)
    return rejected(VolumeZone(None, cluster.handle), pod, cluster.nodes)


@pytest.mark.parametrize(
    ("pod", "objects", "want"),
    [
        pytest.param(using(), [], "Skip", id="no volumes"),
        pytest.param(using(ephemeral=["v"]), [], "Skip", id="ephemeral volumes only"),
        pytest.param(using(""), [], "PersistentVolumeClaim had no name", id="no name"),
        pytest.param(using("c"), [], 'persistentvolumeclaim "c" not found', id="no claim"),
        pytest.param(
            using("c"),
            [make_claim(of="")],
            "PersistentVolumeClaim had no pv name and storageClass name",
            id="neither volume nor class",
        ),
        pytest.param(
            using("c"),
            [make_claim()],
            'storageclass.storage.k8s.io "wait" not found',
            id="no such class",
        ),
        pytest.param(
            using("c"),
            [make_claim(), make_class(mode=None)],
            'VolumeBindingMode not set for StorageClass "wait"',
            id="class without a mode",
        ),
        pytest.param(
            using("c"),
            [make_claim(of="now"), make_class("now", mode=AT_ONCE)],
            "PersistentVolume had no name",
            id="not bound yet",
        ),
        pytest.param(using("c"), [make_claim(), make_class()], "Skip", id="gets a volume later"),
        pytest.param(
            using("c"),
            [make_claim(bound_to="pv")],
            'persistentvolume "pv" not found',
            id="no such volume",
        ),
        pytest.param(
            using("c"), [make_claim(bound_to="pv"), make_volume()], "Skip", id="a volume anywhere"
        ),
        pytest.param(
            using("c"),
            [make_claim(bound_to="pv"), make_volume(labels={ZONE: "a__", REGION: ""})],
            "Skip",
            id="labels that cannot be understood",
        ),
        pytest.param(
            using("c", "gone"),
            [make_claim(bound_to="pv"), make_volume(labels={ZONE: "a"})],
            'persistentvolumeclaim "gone" not found',
            id="the second of two claims",
        ),
    ],
)
def test_what_claims_say(pod, objects, want):
    found = verdict(pod, *objects)
    assert found == (want if want == "Skip" else (UNRESOLVABLE, want))


@pytest.mark.parametrize(
    ("volume", "node", "fits"),
    [
        pytest.param({ZONE: "a"}, {ZONE: "a"}, True, id="same zone"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, False, id="other zone"),
        pytest.param({ZONE: "a"}, {}, True, id="a node that tells nothing"),
        pytest.param({ZONE: "a"}, {REGION: "r"}, False, id="a node that tells only its region"),
        pytest.param({ZONE: "a__b"}, {ZONE: "b"}, True, id="one of two zones"),
        pytest.param({ZONE: "a__ b "}, {ZONE: "b"}, True, id="with space around it"),
        pytest.param({ZONE: "a__b"}, {ZONE: "c"}, False, id="none of two zones"),
        pytest.param({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "r"}, True, id="and region"),
        pytest.param({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False, id="other region"),
        pytest.param({ZONE: "a", REGION: "r"}, {ZONE: "a"}, False, id="region not told"),
        pytest.param({BETA_ZONE: "a"}, {BETA_ZONE: "a"}, True, id="beta on both sides"),
        pytest.param({BETA_ZONE: "a"}, {ZONE: "a"}, True, id="beta volume, newer node"),
        pytest.param({BETA_REGION: "a"}, {REGION: "b"}, False, id="beta volume, other region"),
        pytest.param({ZONE: "a"}, {BETA_ZONE: "a"}, False, id="newer volume, beta node"),
        pytest.param(
            {BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, False, id="the same label goes first"
        ),
        pytest.param({ZONE: "a", BETA_ZONE: ""}, {ZONE: "a"}, True, id="one label of two is read"),
    ],
)
def test_where_a_volume_can_be_used(volume, node, fits):
    objects = [make_claim(bound_to="pv"), make_volume(labels=volume)]
    found = verdict(using("c"), *objects, nodes=[make_node("n", labels=node)])
    assert found == ({} if fits else {"n": ELSEWHERE})


def test_all_volumes_have_to_be_there():
    objects = [make_claim(name, bound_to=f"pv-{name}") for name in "ab"]
    objects += [make_volume(f"pv-{name}", labels={ZONE: name}) for name in "ab"]
    nodes = [make_node(zone, labels={ZONE: zone}) for zone in "ab"]
    assert verdict(using("a"), *objects, nodes=nodes) == {"b": ELSEWHERE}
    assert verdict(using("a", "b"), *objects, nodes=nodes) == {"a": ELSEWHERE, "b": ELSEWHERE}


def test_a_pod_that_waits_for_its_resize_is_not_asked():
    conditions = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
    pod = using("c", status={"conditions": conditions})
    assert verdict(pod)[0] == UNRESOLVABLE
    assert verdict(pod, gates={"InPlacePodVerticalScalingSchedulerPreemption": True}) == "Skip"


ANY = object()


@pytest.mark.parametrize(
    ("resource", "action", "old", "new", "want"),
    [
        pytest.param(STORAGE_CLASS, "ADD", None, make_class(), "Queue", id="a class that waits"),
        pytest.param(
            STORAGE_CLASS,
            "ADD",
            None,
            make_class(mode=AT_ONCE),
            "QueueSkip",
            id="one that does not",
        ),
        pytest.param(STORAGE_CLASS, "UPDATE", ANY, ANY, None, id="modes of classes stay"),
        pytest.param(NODE, "ADD", None, ANY, "Queue", id="a node"),
        pytest.param(NODE, "UPDATE_NODE_LABEL", ANY, ANY, "Queue", id="labels of a node"),
        pytest.param(NODE, "UPDATE_NODE_TAINT", ANY, ANY, None, id="taints of a node"),
        pytest.param(
            PERSISTENT_VOLUME_CLAIM, "ADD", None, make_claim("c"), "Queue", id="the pod's claim"
        ),
        pytest.param(
            PERSISTENT_VOLUME_CLAIM, "UPDATE", ANY, make_claim("c"), "Queue", id="claim changed"
        ),
        pytest.param(
            PERSISTENT_VOLUME_CLAIM, "ADD", None, make_claim("x"), "QueueSkip", id="another claim"
        ),
        pytest.param(
            PERSISTENT_VOLUME_CLAIM,
            "ADD",
            None,
            make_claim("p-v"),
            "QueueSkip",
            id="an ephemeral one",
        ),
        pytest.param(PERSISTENT_VOLUME, "ADD", None, make_volume(), "Queue", id="a volume"),
        pytest.param(
            PERSISTENT_VOLUME,
            "UPDATE",
            make_volume(labels={ZONE: "a"}),
            make_volume(labels={ZONE: "b"}),
            "Queue",
            id="another zone",
        ),
        pytest.param(
            PERSISTENT_VOLUME,
            "UPDATE",
            make_volume(labels={ZONE: "a__b"}),
            make_volume(labels={ZONE: "b__a", "x": "y"}, phase="Bound"),
            "QueueSkip",
            id="the same zones",
        ),
    ],
)
def test_hints(resource, action, old, new, want):
    plugin = VolumeZone(None, Cluster([]).handle)
    event = ClusterEvent(resource, Action[action])
    assert hint(plugin, event, using("c", ephemeral=["v"]), old, new) == want


def test_claims_of_other_namespaces_are_of_no_use():
    plugin = VolumeZone(None, Cluster([]).handle)
    event = ClusterEvent(PERSISTENT_VOLUME_CLAIM, Action.ADD)
    assert hint(plugin, event, using("c", namespace="x"), None, make_claim("c")) == "QueueSkip"


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(using(), {}, id="no volumes"),
        pytest.param(using("c"), {"b": ELSEWHERE}, id="a volume elsewhere"),
        pytest.param(
            using("gone"),
            dict.fromkeys("ab", (UNRESOLVABLE, 'persistentvolumeclaim "gone" not found')),
            id="no claim",
        ),
    ],
)
def test_filter_looks_for_itself_where_pre_filter_is_switched_off(pod, want):
    nodes = [make_node(zone, labels={ZONE: zone}) for zone in "ab"]
    cluster = Cluster(nodes, make_claim(bound_to="pv"), make_volume(labels={ZONE: "a"}))
    plugin = VolumeZone(None, cluster.handle)
    assert rejected(plugin, pod, cluster.nodes, CycleState()) == want
