"""How many volumes a node takes, and what frees one."""

import pytest

from kscheduler.framework.cluster_event import (
    ASSIGNED_POD,
    CSI_NODE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    VOLUME_ATTACHMENT,
    Action,
    ClusterEvent,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code
from kscheduler.plugins.node_volume_limits import NodeVolumeLimits
from kscheduler.state.what_if import PodsByRow, WhatIf
from tests.plugins.machines import UNRESOLVABLE, UNSCHEDULABLE, hint, make_node, rejected
from tests.plugins.topologies import make_pod
from tests.plugins.volumes import (
    Cluster,
    make_attachment,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_volume,
    using,
)

ERROR = Code.ERROR.text
DRIVER = "csi.example.com"
TOO_MANY = (UNSCHEDULABLE, "node(s) exceed max volume count")
NOT_THERE = (UNSCHEDULABLE, f"{DRIVER} CSI driver is not installed on the node")
NODE_1 = make_node("n1")
EBS = "awsElasticBlockStore"


def limited(count=1, driver=DRIVER):
    return make_csi_node("n1", drivers={driver: count})


def stage(*objects, pods=(), gates=None):
    cluster = Cluster([NODE_1], *objects, pods=pods, gates=gates)
    return NodeVolumeLimits(None, cluster.handle), cluster


def verdict(pod, *objects, pods=(), gates=None):
    """What is said of the only node, or by PreFilter; None for nothing."""
    plugin, cluster = stage(*objects, pods=pods, gates=gates)
    found = rejected(plugin, pod, cluster.nodes)
    return found.get("n1") if isinstance(found, dict) else found


def volume(name="pv", driver=DRIVER, handle=None):
    return make_volume(name, csi={"driver": driver, "volumeHandle": handle or f"h-{name}"})


def bound(*names):
    """Claims, each with a volume of the driver."""
    claims = [make_claim(name, bound_to=f"pv-{name}") for name in names]
    return [*claims, *(volume(f"pv-{name}") for name in names)]


def inline(kind, source, name="p", **spec):
    return make_pod(name, volumes=[{"name": "v", kind: source}], **spec)


def there(*claims, **options):
    return using(*claims, name="there", nodeName="n1", **options)


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(using(), "Skip", id="no volumes"),
        pytest.param(inline("configMap", {"name": "x"}), "Skip", id="nothing to attach"),
        pytest.param(inline("csi", {"driver": DRIVER}), "Skip", id="a driver's inline volume"),
        pytest.param(inline(EBS, {"volumeID": "x"}), None, id="a migrated plugin's"),
        pytest.param(inline("azureFile", {}), None, id="one of a plugin with a translation"),
    ],
)
def test_who_is_asked(pod, want):
    assert verdict(pod) == want


@pytest.mark.parametrize(
    ("objects", "there_already", "want"),
    [
        pytest.param([], [], None, id="nothing known of the node"),
        pytest.param([make_csi_node("n1")], [], None, id="no driver there"),
        pytest.param([limited(None)], [], None, id="no limit"),
        pytest.param([limited(1, "other")], [there("x")], None, id="another driver's limit"),
        pytest.param([limited(1)], [], None, id="room for one"),
        pytest.param([limited(0)], [], TOO_MANY, id="none at all is a limit, too"),
        pytest.param([limited(1)], [there("x")], TOO_MANY, id="taken by another volume"),
        pytest.param([limited(2)], [there("x")], None, id="room for two"),
        pytest.param([limited(1)], [there("c")], None, id="the same volume is there already"),
        pytest.param([limited(2)], [there("x", "y")], TOO_MANY, id="two volumes of one pod"),
        pytest.param([limited(1)], [there("unknown")], None, id="claims that are gone"),
        pytest.param(
            [limited(1), make_attachment(volume="pv-x")], [], TOO_MANY, id="still attached"
        ),
        pytest.param(
            [limited(2), make_attachment(volume="pv-x")],
            [there("x")],
            None,
            id="attached for a pod counts once",
        ),
        pytest.param(
            [limited(1), make_attachment(volume="pv-c")],
            [],
            TOO_MANY,
            id="its own attachment counts as another",
        ),
        pytest.param(
            [limited(1), make_attachment(volume="pv-x", node="n2")], [], None, id="elsewhere"
        ),
        pytest.param(
            [limited(1), make_attachment(volume="gone")], [], None, id="a volume that is gone"
        ),
        pytest.param(
            [limited(1), make_attachment(volume=None)], [], None, id="attached without a volume"
        ),
        pytest.param(
            [limited(1), make_attachment(volume="pv-x", attacher="")], [], None, id="by nobody"
        ),
        pytest.param(
            [limited(1), make_attachment(volume="pv-x", attacher="other")],
            [],
            None,
            id="by another driver",
        ),
        pytest.param(
            [limited(1), make_attachment("1", volume="pv-x"), make_attachment("2", volume="pv-x")],
            [there("x")],
            TOO_MANY,
            id="attached twice",
        ),
    ],
)
def test_limits(objects, there_already, want):
    assert verdict(using("c"), *bound("c", "x", "y"), *objects, pods=there_already) == want


@pytest.mark.parametrize(
    ("claim", "others", "want"),
    [
        pytest.param(make_claim(of=""), [], None, id="no class"),
        pytest.param(make_claim(), [], None, id="class unknown"),
        pytest.param(make_claim(), [make_class()], TOO_MANY, id="to be made by the driver"),
        pytest.param(
            make_claim(bound_to="gone"), [make_class()], TOO_MANY, id="volume not there yet"
        ),
        pytest.param(make_claim(), [make_class(provisioner="x")], None, id="by another driver"),
        pytest.param(make_claim(bound_to="pv"), [make_volume()], None, id="volume of no driver"),
        pytest.param(make_claim(bound_to="pv"), [volume()], TOO_MANY, id="volume of the driver"),
    ],
)
def test_what_a_claim_brings(claim, others, want):
    assert verdict(using("c"), claim, *others, limited(0)) == want


def test_two_claims_to_be_made_are_two_volumes():
    objects = [make_claim("c"), make_claim("x"), make_class()]
    assert verdict(using("c", "x"), *objects, limited(2)) is None
    assert verdict(using("c", "x"), *objects, limited(1)) == TOO_MANY
    assert verdict(using("c"), *objects, limited(1), pods=[there("x")]) == TOO_MANY
    assert verdict(using("c"), *objects, limited(1), pods=[there("c")]) is None


OF_EBS = make_csi_node("n1", drivers={"ebs.csi.aws.com": 1})
EBS_VOLUME = make_volume("pv", **{EBS: {"volumeID": "aws://a/vol-1"}})


@pytest.mark.parametrize(
    ("pod", "objects", "want"),
    [
        pytest.param(
            inline(EBS, {"volumeID": "vol-2"}),
            [make_claim("x", bound_to="pv"), EBS_VOLUME, OF_EBS],
            TOO_MANY,
            id="a volume in the pod, another one there",
        ),
        pytest.param(
            inline(EBS, {"volumeID": "vol-1"}),
            [make_claim("x", bound_to="pv"), EBS_VOLUME, OF_EBS],
            None,
            id="the same volume",
        ),
        pytest.param(
            inline(EBS, {"volumeID": "aws://a/bad"}),
            [OF_EBS],
            (
                ERROR,
                "converting volume(v) from inline to csi: failed to translate Kubernetes ID to EBS "
                "Volume ID Invalid format for AWS volume (aws://a/bad)",
            ),
            id="a volume that cannot be translated",
        ),
        pytest.param(
            inline(EBS, {"volumeID": "aws://a/bad"}), [], None, id="a node without drivers"
        ),
        pytest.param(
            using("c"),
            [
                *(make_claim("c", of="gp2"), make_class("gp2", "kubernetes.io/aws-ebs"), OF_EBS),
                *(make_claim("x", bound_to="pv"), EBS_VOLUME),
            ],
            TOO_MANY,
            id="to be made by a former plugin",
        ),
        pytest.param(
            using("c"),
            [
                *(make_claim("c", of="f"), make_class("f", "kubernetes.io/azure-file")),
                make_csi_node("n1", drivers={"file.csi.azure.com": 0}),
            ],
            None,
            id="to be made by a plugin that never counts",
        ),
    ],
)
def test_former_plugins(pod, objects, want):
    assert verdict(pod, *objects, pods=[there("x")]) == want


def test_a_volume_that_cannot_be_translated_does_not_count_behind_a_claim():
    bad = make_volume("pv", **{EBS: {"volumeID": "aws://a/bad"}})
    full = make_csi_node("n1", drivers={"ebs.csi.aws.com": 0})
    assert verdict(using("c"), make_claim(bound_to="pv"), bad, full) is None


@pytest.mark.parametrize(
    ("driver", "there_is", "gates", "want"),
    [
        pytest.param(make_driver(required=True), {DRIVER: None}, {}, None, id="it is there"),
        pytest.param(make_driver(required=True), {"x": 1}, {}, NOT_THERE, id="only another one"),
        pytest.param(make_driver(required=True), None, {}, NOT_THERE, id="nothing known"),
        pytest.param(make_driver(required=False), None, {}, None, id="it need not"),
        pytest.param(make_driver(), None, {}, None, id="nobody says it must"),
        pytest.param(
            make_driver(required=True), None, {"VolumeLimitScaling": False}, None, id="gate off"
        ),
    ],
)
def test_drivers_that_must_be_there(driver, there_is, gates, want):
    objects = [driver, *bound("c")]
    if there_is is not None:
        objects.append(make_csi_node("n1", drivers=there_is))
    assert verdict(using("c"), *objects, gates=gates) == want


def test_where_a_driver_is_missing_another_one_s_limit_is_not_told():
    full = make_csi_node("n1", drivers={"other": 0})
    others = [make_claim("x", bound_to="pv-x"), volume("pv-x", "other")]
    objects = [*bound("c"), *others, full]
    assert verdict(using("c", "x"), make_driver(required=True), *objects) == NOT_THERE
    assert verdict(using("c", "x"), make_driver(), *objects) == TOO_MANY


OWNER = {"owners": [{"uid": "uid-p", "controller": True}]}


@pytest.mark.parametrize(
    ("pod", "objects", "want"),
    [
        pytest.param(
            using("c"),
            [],
            (
                UNRESOLVABLE,
                'looking up PVC default/c: persistentvolumeclaim "c" not found',
            ),
            id="no such claim",
        ),
        pytest.param(
            using(ephemeral=["v"]),
            [],
            (
                UNRESOLVABLE,
                'looking up PVC default/p-v: persistentvolumeclaim "p-v" not found',
            ),
            id="ephemeral claim not made yet",
        ),
        pytest.param(
            using(""), [], (ERROR, "PersistentVolumeClaim had no name"), id="claim without a name"
        ),
        pytest.param(
            using(ephemeral=["v"]),
            [make_claim("p-v")],
            (ERROR, "PVC default/p-v was not created for pod default/p (pod is not owner)"),
            id="somebody else's claim",
        ),
        pytest.param(
            using(ephemeral=["v"]),
            [make_claim("p-v", **OWNER), make_class(), limited(0)],
            TOO_MANY,
            id="its own claim",
        ),
    ],
)
def test_claims_of_the_pod(pod, objects, want):
    assert verdict(pod, *objects) == want


def test_a_pod_there_with_somebody_else_s_claim_fails_the_node():
    other = there(ephemeral=["v"])
    problem = "PVC default/there-v was not created for pod default/there (pod is not owner)"
    objects = [*bound("c"), make_claim("there-v")]
    assert verdict(using("c"), *objects, limited(5), pods=[other]) == (ERROR, problem)
    assert verdict(using("c"), *objects, limited(None), pods=[other]) is None


def test_what_if_pods_came_or_went():
    other = there("x")
    plugin, cluster = stage(*bound("c", "x", "y"), limited(1), pods=[other])
    pod, cycle, nodes = using("c"), CycleState(), cluster.nodes
    assert plugin.pre_filter(cycle, pod, nodes) is None
    gone = WhatIf(nodes)
    gone.remove_pod(other, 0)
    assert rejected(plugin, pod, gone.nodes, cycle) == {}
    gone.add_pod(using("y", name="q"), 0)
    assert rejected(plugin, pod, gone.nodes, cycle) == {"n1": TOO_MANY}
    evicted, pods = WhatIf(nodes), PodsByRow({0: [other]})
    evicted.remove(pods)
    assert rejected(plugin, pod, evicted.nodes, cycle) == {}
    evicted.add(pods.some(pods.first_of_row))
    assert rejected(plugin, pod, evicted.nodes, cycle) == {"n1": TOO_MANY}
    assert rejected(plugin, pod, nodes, cycle) == {"n1": TOO_MANY}


def test_an_attempt_may_begin_in_a_what_if():
    plugin, cluster = stage(*bound("c", "x"), limited(1))
    branch = WhatIf(cluster.nodes)
    branch.add_pod(using("x", name="q"), 0)
    assert rejected(plugin, using("c"), branch.nodes) == {"n1": TOO_MANY}
    assert rejected(plugin, using("c"), cluster.nodes) == {}


def test_a_pod_that_waits_for_its_resize_is_not_asked():
    conditions = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
    pod = using("c", status={"conditions": conditions})
    assert verdict(pod)[0] == UNRESOLVABLE
    assert verdict(pod, gates={"InPlacePodVerticalScalingSchedulerPreemption": True}) == "Skip"


INLINE = inline(EBS, {"volumeID": "vol-1"})
POD = using("c", ephemeral=["v"])


@pytest.mark.parametrize(
    ("pod", "resource", "action", "old", "new", "want"),
    [
        pytest.param(POD, CSI_NODE, "ADD", None, limited(), "Queue", id="drivers of a new node"),
        pytest.param(POD, CSI_NODE, "UPDATE", limited(1), limited(2), "Queue", id="limit grew"),
        pytest.param(
            POD, CSI_NODE, "UPDATE", limited(2), limited(1), "QueueSkip", id="limit shrank"
        ),
        pytest.param(POD, CSI_NODE, "UPDATE", limited(None), limited(1), "Queue", id="limit set"),
        pytest.param(
            POD, CSI_NODE, "UPDATE", limited(1), limited(None), "QueueSkip", id="limit gone"
        ),
        pytest.param(
            POD, CSI_NODE, "UPDATE", make_csi_node("n1"), limited(1), "Queue", id="driver came"
        ),
        pytest.param(
            POD,
            CSI_NODE,
            "UPDATE",
            make_csi_node("n1"),
            limited(0),
            "QueueSkip",
            id="driver for none",
        ),
        pytest.param(POD, CSI_NODE, "DELETE", limited(), None, None, id="drivers gone"),
        pytest.param(POD, NODE, "ADD", None, NODE_1, None, id="a node"),
        pytest.param(POD, ASSIGNED_POD, "DELETE", there("x"), None, "Queue", id="a pod's claim"),
        pytest.param(
            POD, ASSIGNED_POD, "DELETE", there(ephemeral=["e"]), None, "Queue", id="ephemeral"
        ),
        pytest.param(
            POD,
            ASSIGNED_POD,
            "DELETE",
            inline(EBS, {"volumeID": "x"}, nodeName="n1"),
            None,
            "Queue",
            id="a pod with a migrated volume",
        ),
        pytest.param(
            POD, ASSIGNED_POD, "DELETE", there(), None, "QueueSkip", id="nothing attached"
        ),
        pytest.param(
            POD, ASSIGNED_POD, "DELETE", using("x"), None, "QueueSkip", id="a pod nowhere"
        ),
        pytest.param(
            POD,
            ASSIGNED_POD,
            "DELETE",
            using("x", status={"nominatedNodeName": "n1"}),
            None,
            "Queue",
            id="a pod that was nominated to a node",
        ),
        pytest.param(
            POD, PERSISTENT_VOLUME_CLAIM, "ADD", None, make_claim("c"), "Queue", id="its claim"
        ),
        pytest.param(
            POD, PERSISTENT_VOLUME_CLAIM, "ADD", None, make_claim("p-v"), "Queue", id="ephemeral"
        ),
        pytest.param(
            POD,
            PERSISTENT_VOLUME_CLAIM,
            "ADD",
            None,
            make_claim("x"),
            "QueueSkip",
            id="another's claim",
        ),
        pytest.param(
            POD, VOLUME_ATTACHMENT, "DELETE", make_attachment(), None, "Queue", id="detached"
        ),
        pytest.param(
            using(ephemeral=["v"]),
            VOLUME_ATTACHMENT,
            "DELETE",
            make_attachment(),
            None,
            "QueueSkip",
            id="detached, and only ephemeral volumes",
        ),
        pytest.param(
            INLINE,
            VOLUME_ATTACHMENT,
            "DELETE",
            make_attachment(),
            None,
            "QueueSkip",
            id="by another",
        ),
        pytest.param(
            INLINE,
            VOLUME_ATTACHMENT,
            "DELETE",
            make_attachment(attacher="ebs.csi.aws.com"),
            None,
            "Queue",
            id="by the driver of a migrated volume",
        ),
        pytest.param(
            inline(EBS, {"volumeID": "aws://a/bad"}),
            VOLUME_ATTACHMENT,
            "DELETE",
            make_attachment(),
            None,
            "Queue",
            id="a volume that cannot be translated",
        ),
    ],
)
def test_hints(pod, resource, action, old, new, want):
    plugin, _ = stage()
    assert hint(plugin, ClusterEvent(resource, Action[action]), pod, old, new) == want


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(using(), {}, id="no volumes"),
        pytest.param(using("c", "d"), {"n1": TOO_MANY}, id="one too many"),
    ],
)
def test_filter_counts_for_itself_where_pre_filter_is_switched_off(pod, want):
    plugin, cluster = stage(limited(), *bound("c", "d"))
    assert rejected(plugin, pod, cluster.nodes, CycleState()) == want
