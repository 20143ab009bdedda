"""What wakes a pod that its volumes kept from being placed, and what tells pods apart."""

import pytest

from kscheduler.framework.cluster_event import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    Action,
    ClusterEvent,
    Hint,
)
from kscheduler.framework.status import Status
from kscheduler.plugins.volume_binding import plugin as hints
from tests.plugins.topologies import make_pod
from tests.plugins.volumes import (
    Stage,
    in_version,
    make_capacity,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    using,
)

QUEUE, SKIP = Hint.QUEUE, Hint.SKIP
POD = using("c", ephemeral=["v"])
INLINE = make_pod(volumes=[{"name": "v", "csi": {"driver": "csi.example.com"}}])


def test_events():
    changed = Action.ADD | Action.UPDATE
    registered = {one.event: one.hint is not None for one in Stage([]).plugin.events_to_register()}
    assert registered == {
        ClusterEvent(STORAGE_CLASS, changed): True,
        ClusterEvent(PERSISTENT_VOLUME_CLAIM, changed): True,
        ClusterEvent(PERSISTENT_VOLUME, changed): False,
        ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL): False,
        ClusterEvent(CSI_NODE, changed): True,
        ClusterEvent(CSI_DRIVER, Action.UPDATE): True,
        ClusterEvent(CSI_STORAGE_CAPACITY, changed): True,
    }


IN_A = make_class("wait", "d", "WaitForFirstConsumer", {"zone": "a"})


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(None, make_class(), QUEUE, id="added"),
        pytest.param(make_class(), IN_A, QUEUE, id="topologies changed"),
        pytest.param(make_class(), make_class(provisioner="x"), SKIP, id="something else changed"),
    ],
)
def test_a_class_changed(old, new, want):
    assert hints.class_changed(POD, old, new) is want


@pytest.mark.parametrize(
    ("claim", "want"),
    [
        pytest.param(make_claim("c"), QUEUE, id="the pod's"),
        pytest.param(make_claim("p-v"), QUEUE, id="of its ephemeral volume"),
        pytest.param(make_claim("x"), SKIP, id="another"),
    ],
)
def test_a_claim_changed(claim, want):
    assert hints.claim_changed(POD, None, claim) is want
    assert hints.claim_changed(POD, claim, in_version(claim, 2)) is want


def test_claims_of_other_namespaces_are_of_no_use():
    elsewhere = using("c", namespace="elsewhere")
    assert hints.claim_changed(elsewhere, None, make_claim("c")) is SKIP


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(None, make_csi_node("n"), QUEUE, id="added"),
        pytest.param(make_csi_node("n"), make_csi_node("n", "x"), QUEUE, id="migrated"),
        pytest.param(make_csi_node("n", "x"), make_csi_node("n", "x"), SKIP, id="as before"),
    ],
)
def test_a_csi_node_changed(old, new, want):
    assert hints.csi_node_changed(POD, old, new) is want


@pytest.mark.parametrize(
    ("pod", "old", "new", "want"),
    [
        pytest.param(INLINE, True, False, QUEUE, id="tells no more"),
        pytest.param(INLINE, True, None, QUEUE, id="says nothing any more"),
        pytest.param(INLINE, False, True, SKIP, id="begins to tell"),
        pytest.param(INLINE, False, None, SKIP, id="as before"),
        pytest.param(POD, True, False, SKIP, id="not the pod's"),
    ],
)
def test_a_driver_changed(pod, old, new, want):
    before, after = make_driver(capacity=old), make_driver(capacity=new)
    assert hints.driver_changed(pod, before, after) is want


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(None, {}, QUEUE, id="added"),
        pytest.param({"capacity": "1Gi"}, {"capacity": "2Gi"}, QUEUE, id="grew"),
        pytest.param({"capacity": "2Gi"}, {"capacity": "1Gi"}, SKIP, id="shrank"),
        pytest.param({"capacity": "1Gi"}, {"capacity": "1024Mi"}, SKIP, id="as before"),
        pytest.param({}, {"capacity": "1Gi"}, QUEUE, id="told at last"),
        pytest.param({"capacity": "1Gi"}, {}, SKIP, id="no longer told"),
        pytest.param(
            {"capacity": "9Gi", "maximumVolumeSize": "1Gi"},
            {"capacity": "9Gi", "maximumVolumeSize": "2Gi"},
            QUEUE,
            id="larger volumes",
        ),
        pytest.param(
            {"capacity": "1Gi", "maximumVolumeSize": "1Gi"},
            {"capacity": "9Gi", "maximumVolumeSize": "1Gi"},
            SKIP,
            id="more of the same size",
        ),
    ],
)
def test_a_capacity_changed(old, new, want):
    before = None if old is None else make_capacity(**old)
    assert hints.capacity_changed(POD, before, make_capacity(**new)) is want


def signed(*volumes):
    return Stage([]).plugin.sign(make_pod(volumes=list(volumes)))


CLAIMED = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        pytest.param([CLAIMED], [CLAIMED | {"name": "w"}], True, id="under another name"),
        pytest.param(
            [CLAIMED],
            [{"name": "v", "persistentVolumeClaim": {"claimName": "d"}}],
            False,
            id="another claim",
        ),
        pytest.param([], [{"name": "v", "configMap": {"name": "x"}}], True, id="a config map"),
        pytest.param([CLAIMED], [], False, id="no claim"),
    ],
)
def test_pods_with_the_same_volumes_are_alike(one, other, alike):
    assert (signed(*one) == signed(*other)) is alike


def test_a_pod_with_a_volume_of_its_own_is_like_no_other():
    assert isinstance(signed({"name": "v", "ephemeral": {}}), Status)
