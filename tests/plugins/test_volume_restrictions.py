"""Claims for one pod only, and disks with one writer."""

import numpy as np
import pytest

from kscheduler.framework.cluster_event import (
    ASSIGNED_POD,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    Action,
    ClusterEvent,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code
from kscheduler.plugins.volume_restrictions import NOT_PREPARED, VolumeRestrictions
from kscheduler.state.what_if import WhatIf
from tests.plugins.machines import UNRESOLVABLE, UNSCHEDULABLE, hint, make_node, rejected
from tests.plugins.topologies import make_pod
from tests.plugins.volumes import Cluster, make_claim, using

DISK = (UNSCHEDULABLE, "node(s) had no available disk")
IN_USE = (
    UNSCHEDULABLE,
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod",
)
NODES = [make_node("a"), make_node("b")]
ONE_POD = {"accessModes": ["ReadWriteOncePod"]}


def stage(*objects, pods=(), gates=None):
    cluster = Cluster(NODES, *objects, pods=pods, gates=gates)
    return VolumeRestrictions(None, cluster.handle), cluster.nodes


def verdict(pod, *objects, pods=(), **options):
    plugin, nodes = stage(*objects, pods=pods, **options)
    return rejected(plugin, pod, nodes)


def mounting(*volumes, name="p", **spec):
    """Each volume: the name of its source, and the source."""
    listed = [{"name": f"v{n}", kind: source} for n, (kind, source) in enumerate(volumes)]
    return make_pod(name, volumes=listed, **spec)


EVERYWHERE = {"a": IN_USE, "b": IN_USE}


def test_filter_needs_what_pre_filter_prepares_unless_a_disk_is_taken():
    taken = ("gcePersistentDisk", {"pdName": "d"})
    plugin, nodes = stage(pods=[mounting(taken, name="o", nodeName="a")])
    answer = rejected(plugin, mounting(taken), nodes, CycleState())
    assert answer == {"a": DISK, "b": (Code.ERROR.text, NOT_PREPARED)}


@pytest.mark.parametrize(
    ("pod", "objects", "others", "want"),
    [
        pytest.param(using(), [], [], "Skip", id="no volumes"),
        pytest.param(
            using("c"),
            [],
            [],
            (UNRESOLVABLE, 'persistentvolumeclaim "c" not found'),
            id="no such claim",
        ),
        pytest.param(using(ephemeral=["v"]), [], [], "Skip", id="ephemeral claims are not asked"),
        pytest.param(
            using("c"),
            [make_claim()],
            [using("c", name="o", nodeName="a")],
            "Skip",
            id="a claim that may be shared",
        ),
        pytest.param(using("c"), [make_claim(**ONE_POD)], [], "Skip", id="used by nobody"),
        pytest.param(
            using("c"),
            [make_claim(**ONE_POD)],
            [using("c", name="o", nodeName="a")],
            EVERYWHERE,
            id="used by another pod",
        ),
        pytest.param(
            using("c"),
            [make_claim(**ONE_POD)],
            [using("c", name="o", nodeName="a", namespace="elsewhere")],
            "Skip",
            id="of that name, in another namespace",
        ),
        pytest.param(
            using("c"),
            [make_claim(**ONE_POD)],
            [using("c", name="o", nodeName="gone")],
            "Skip",
            id="on a node that is not there",
        ),
        pytest.param(
            using("x", "c"),
            [make_claim("x"), make_claim(**ONE_POD)],
            [using("x", name="o", nodeName="a"), using("c", name="q", nodeName="b")],
            EVERYWHERE,
            id="one of two claims",
        ),
    ],
)
def test_claims_for_one_pod(pod, objects, others, want):
    assert verdict(pod, *objects, pods=others) == want


GCE, EBS, ISCSI, RBD = "gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"


def gce(name="d", *, read=False):
    return GCE, {"pdName": name, "readOnly": read}


def ebs(name="d", *, read=False):
    return EBS, {"volumeID": name, "readOnly": read}


def iscsi(iqn="d", *, read=False, lun=0):
    return ISCSI, {"targetPortal": "t", "iqn": iqn, "lun": lun, "readOnly": read}


def rbd(monitors="m", pool="p", image="i", *, read=False):
    source = {"monitors": monitors.split(), "pool": pool, "image": image, "readOnly": read}
    return RBD, source


@pytest.mark.parametrize(
    ("wanted", "used", "conflict"),
    [
        pytest.param(gce(), gce(), True, id="gce: two writers"),
        pytest.param(gce(read=True), gce(), True, id="gce: a reader and a writer"),
        pytest.param(gce(), gce(read=True), True, id="gce: a writer and a reader"),
        pytest.param(gce(read=True), gce(read=True), False, id="gce: two readers"),
        pytest.param(gce(), gce("e"), False, id="gce: another disk"),
        pytest.param(ebs(read=True), ebs(read=True), True, id="ebs: even two readers"),
        pytest.param(ebs(), ebs("e"), False, id="ebs: another disk"),
        pytest.param(iscsi(lun=1), iscsi(lun=2), True, id="iscsi: the number does not matter"),
        pytest.param(iscsi(read=True), iscsi(read=True), False, id="iscsi: two readers"),
        pytest.param(iscsi(), iscsi("e"), False, id="iscsi: another name"),
        pytest.param(rbd("m n"), rbd("x n"), True, id="rbd: one monitor in common"),
        pytest.param(rbd("m"), rbd("n"), False, id="rbd: no monitor in common"),
        pytest.param(rbd(), rbd(pool="q"), False, id="rbd: another pool"),
        pytest.param(rbd(), rbd(image="j"), False, id="rbd: another image"),
        pytest.param(rbd("m n"), rbd("m n", read=True), True, id="rbd: a writer and a reader"),
        pytest.param(rbd(read=True), rbd(read=True), False, id="rbd: two readers"),
        pytest.param(gce(), ebs(), False, id="disks of one name, of two clouds"),
    ],
)
def test_disks(wanted, used, conflict):
    other = mounting(used, name="o", nodeName="a", namespace="elsewhere")
    assert verdict(mounting(wanted), pods=[other]) == ({"a": DISK} if conflict else {})
    same_namespace = mounting(used, name="o", nodeName="a")
    plugin, _ = stage()
    event = ClusterEvent(ASSIGNED_POD, Action.DELETE)
    found = hint(plugin, event, mounting(wanted), same_namespace, None)
    assert found == ("Queue" if conflict else "QueueSkip")


def test_a_disk_is_told_before_a_claim():
    pod = make_pod(
        volumes=[
            {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "w", GCE: {"pdName": "d"}},
        ]
    )
    others = [
        using("c", name="o", nodeName="b"),
        mounting(gce(), name="q", nodeName="a"),
    ]
    assert verdict(pod, make_claim(**ONE_POD), pods=others) == {"a": DISK, "b": IN_USE}


def test_preemption_frees_a_claim():
    user = using("c", name="o", nodeName="a")
    namesake = using("c", name="q", nodeName="b", namespace="elsewhere")
    plugin, nodes = stage(make_claim(**ONE_POD), pods=[user, namesake])
    cycle, pod = CycleState(), using("c")
    assert plugin.pre_filter(cycle, pod, nodes) is None
    twin = cycle.clone()
    assert plugin.remove_pod(twin, pod, user, 0, nodes) is None
    assert rejected(plugin, pod, nodes, twin) == {}
    assert rejected(plugin, pod, nodes, cycle) == EVERYWHERE
    assert plugin.add_pod(twin, pod, user, 0, nodes) is None
    assert rejected(plugin, pod, nodes, twin) == EVERYWHERE
    # Namespaces are not compared, as upstream does not, either.
    assert plugin.remove_pod(twin, pod, namesake, 1, nodes) is None
    assert rejected(plugin, pod, nodes, twin) == {}


def test_users_of_a_claim_leave_many_nodes_each_in_its_own_world():
    users = [
        using("c", name="o", nodeName="a"),
        using("d", name="q", nodeName="b"),
        using("d", name="r", nodeName="b"),
    ]
    plugin, nodes = stage(make_claim("c", **ONE_POD), make_claim("d", **ONE_POD), pods=users)
    cycle, pod = CycleState(), using("c", "d")
    assert plugin.pre_filter(cycle, pod, nodes) is None
    rows = np.array([0, 1, 1])

    def alone(gone):
        worlds = [cycle.clone(), cycle.clone()]
        for number in gone:
            plugin.remove_pod(worlds[rows[number]], pod, users[number], rows[number], nodes)
        found = [rejected(plugin, pod, nodes.take([row]), worlds[row]) for row in (0, 1)]
        return found[0] | found[1]

    together = cycle.clone()
    tell = plugin.track_pods_by_row(together, users, rows, nodes)
    tell(np.arange(3), -1)
    assert rejected(plugin, pod, nodes, together) == alone([0, 1, 2]) == {"a": IN_USE}
    tell(np.array([0, 2]), 1)
    assert rejected(plugin, pod, nodes, together) == alone([1]) == EVERYWHERE
    assert rejected(plugin, pod, nodes, cycle) == EVERYWHERE


def test_what_a_disk_s_user_leaves_behind():
    user = mounting(gce(), name="o", nodeName="a")
    plugin, nodes = stage(pods=[user])
    branch = WhatIf(nodes)
    branch.remove_pod(user, 0)
    branch.add_pod(user, 1)
    cycle, pod = CycleState(), mounting(gce())
    assert plugin.pre_filter(cycle, pod, nodes) is None
    assert rejected(plugin, pod, branch.nodes, cycle) == {"b": DISK}
    assert rejected(plugin, pod, nodes, cycle) == {"a": DISK}


def test_without_a_beginning_nothing_is_counted():
    plugin, nodes = stage()
    status = plugin.add_pod(CycleState(), using("c"), using("c", name="o"), 0, nodes)
    assert status.code is Code.ERROR
    assert status.message == 'cannot read "PreFilterVolumeRestrictions" from cycleState'


def test_a_pod_that_waits_for_its_resize_is_not_asked():
    conditions = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
    pod = using("c", status={"conditions": conditions})
    assert verdict(pod)[0] == UNRESOLVABLE
    assert verdict(pod, gates={"InPlacePodVerticalScalingSchedulerPreemption": True}) == "Skip"


@pytest.mark.parametrize(
    ("resource", "action", "old", "new", "want"),
    [
        pytest.param(ASSIGNED_POD, "DELETE", using("c"), None, "Queue", id="a user of the claim"),
        pytest.param(ASSIGNED_POD, "DELETE", using("x"), None, "QueueSkip", id="a user of another"),
        pytest.param(
            ASSIGNED_POD,
            "DELETE",
            using("c", namespace="elsewhere"),
            None,
            "QueueSkip",
            id="a user of a namesake",
        ),
        pytest.param(ASSIGNED_POD, "ADD", None, using("c"), None, id="a pod comes"),
        pytest.param(NODE, "ADD", None, make_node(), "Queue", id="a node"),
        pytest.param(PERSISTENT_VOLUME_CLAIM, "ADD", None, make_claim(), "Queue", id="the claim"),
        pytest.param(
            PERSISTENT_VOLUME_CLAIM, "ADD", None, make_claim("x"), "QueueSkip", id="another claim"
        ),
        pytest.param(
            PERSISTENT_VOLUME_CLAIM, "UPDATE", make_claim(), make_claim(), None, id="modes stay"
        ),
    ],
)
def test_hints(resource, action, old, new, want):
    plugin, _ = stage()
    event = ClusterEvent(resource, Action[action])
    assert hint(plugin, event, using("c", ephemeral=["v"]), old, new) == want
