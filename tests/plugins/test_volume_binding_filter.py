"""Where a pod's volumes let it be: claims, bound volumes, free volumes, volumes to be made."""

import pytest

from kscheduler.framework.cycle_state import CycleState
from tests.plugins.machines import UNRESOLVABLE, make_node, rejected
from tests.plugins.volumes import (
    AT_ONCE,
    SELECTED_NODE,
    WAIT,
    Stage,
    make_capacity,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_volume,
    reachable_from,
    using,
)

A, B = make_node("a", labels={"zone": "a"}), make_node("b", labels={"zone": "b"})
AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

NO_PROVISIONER = make_class("wait", "kubernetes.io/no-provisioner")
PROVIDED = make_class("wait")
IN_A, IN_B = reachable_from(zone="a"), reachable_from(zone="b")


def nowhere(*reasons):
    return {"a": (UNRESOLVABLE, *sorted(reasons)), "b": (UNRESOLVABLE, *sorted(reasons))}


def only_not(node, *reasons):
    return {node: (UNRESOLVABLE, *sorted(reasons))}


def verdict(pod, *objects, **options):
    stage = Stage([A, B], *objects, **options)
    return rejected(stage.plugin, pod, stage.nodes)


OWNED = {"owners": [{"uid": "uid-p", "controller": True}]}


@pytest.mark.parametrize(
    ("pod", "objects", "want"),
    [
        pytest.param(using(), [], "Skip", id="no volumes"),
        pytest.param(
            using("c"),
            [],
            (UNRESOLVABLE, 'persistentvolumeclaim "c" not found'),
            id="no such claim",
        ),
        pytest.param(
            using(ephemeral=["v"]),
            [],
            (
                UNRESOLVABLE,
                'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"',
            ),
            id="claim of an ephemeral volume not made yet",
        ),
        pytest.param(
            using(ephemeral=["v"]),
            [make_claim("p-v", bound_to="pv"), make_volume()],
            (
                UNRESOLVABLE,
                "PVC default/p-v was not created for pod default/p (pod is not owner)",
            ),
            id="somebody else's claim under the name of an ephemeral one",
        ),
        pytest.param(
            using(ephemeral=["v"]),
            [make_claim("p-v", bound_to="pv", **OWNED), make_volume()],
            {},
            id="ephemeral claim of its own",
        ),
        pytest.param(
            using("c"),
            [make_claim(bound_to="pv", phase="Lost")],
            (
                UNRESOLVABLE,
                'persistentvolumeclaim "c" bound to non-existent persistentvolume "pv"',
            ),
            id="volume lost",
        ),
        pytest.param(
            using("c"),
            [make_claim(deleted="2026-01-01T00:00:00Z")],
            (UNRESOLVABLE, 'persistentvolumeclaim "c" is being deleted'),
            id="claim being deleted",
        ),
        pytest.param(
            using("c"),
            [make_claim(of="fast"), make_class("fast", mode=AT_ONCE)],
            (UNRESOLVABLE, "pod has unbound immediate PersistentVolumeClaims"),
            id="not bound yet",
        ),
        pytest.param(
            using("c"),
            [make_claim(of="gone")],
            (UNRESOLVABLE, "pod has unbound immediate PersistentVolumeClaims"),
            id="class does not exist",
        ),
        pytest.param(
            using("c"),
            [make_claim(of=None)],
            (UNRESOLVABLE, "pod has unbound immediate PersistentVolumeClaims"),
            id="no class",
        ),
        pytest.param(
            using("c"),
            [make_claim(volumeName="pv"), make_volume(), PROVIDED],
            (UNRESOLVABLE, "pod has unbound immediate PersistentVolumeClaims"),
            id="names its volume, though it may wait",
        ),
        pytest.param(
            using("c"),
            [make_claim(), make_class(mode=None)],
            ("Error", 'VolumeBindingMode not set for StorageClass "wait"'),
            id="class without a mode",
        ),
        pytest.param(
            using("c"),
            [
                make_claim(of="x", annotations={"volume.beta.kubernetes.io/storage-class": "wait"}),
                PROVIDED,
            ],
            {},
            id="class by annotation",
        ),
    ],
)
def test_claims(pod, objects, want):
    assert verdict(pod, *objects) == want


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([make_volume()], {}, id="usable from everywhere"),
        pytest.param([make_volume(nodeAffinity=IN_A)], only_not("b", AFFINITY), id="of one zone"),
        pytest.param(
            [make_volume(nodeAffinity={"required": {"nodeSelectorTerms": []}})],
            nowhere(AFFINITY),
            id="demands without terms",
        ),
        pytest.param(
            [
                make_volume(
                    nodeAffinity={
                        "required": {
                            "nodeSelectorTerms": [
                                {
                                    "matchFields": [
                                        {
                                            "key": "metadata.name",
                                            "operator": "In",
                                            "values": ["x"],
                                        }
                                    ]
                                }
                            ]
                        }
                    }
                )
            ],
            {},
            id="names of nodes are not looked at",
        ),
        pytest.param([], nowhere(MISSING), id="no such volume"),
    ],
)
def test_bound_volumes(objects, want):
    assert verdict(using("c"), make_claim(bound_to="pv"), *objects) == want


def test_of_several_bound_volumes_the_first_failure_counts_on_each_node():
    claims = [make_claim("c1", bound_to="pv1"), make_claim("c2", bound_to="gone")]
    found = verdict(using("c1", "c2"), *claims, make_volume("pv1", nodeAffinity=IN_A))
    assert found == only_not("a", MISSING) | only_not("b", AFFINITY)


def test_a_node_is_told_everything_that_is_wrong_with_it():
    found = verdict(
        using("c", "d"),
        make_claim(bound_to="pv"),
        make_volume(nodeAffinity=IN_A, kept_for="c/uid-c"),
        make_claim("d"),
        NO_PROVISIONER,
    )
    assert found == only_not("a", NO_VOLUME) | only_not("b", AFFINITY, NO_VOLUME)


EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
MIGRATED_A = make_node("a", labels={"zone": "a", "topology.ebs.csi.aws.com/zone": "z1"})
OLD_B = make_node("b", labels={"zone": "b", "topology.kubernetes.io/zone": "z1"})
IN_Z1 = {
    "required": {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}
                ]
            }
        ]
    }
}


@pytest.mark.parametrize(
    ("migrated", "want"),
    [
        pytest.param("kubernetes.io/aws-ebs", {}, id="migrated node has the driver's label"),
        pytest.param("x,kubernetes.io/aws-ebs", {}, id="among others"),
        pytest.param("", only_not("a", AFFINITY), id="not migrated"),
        pytest.param("kubernetes.io/gce-pd", only_not("a", AFFINITY), id="another one migrated"),
    ],
)
def test_demands_of_migrated_volumes_are_the_drivers(migrated, want):
    stage = Stage(
        [MIGRATED_A, OLD_B],
        make_claim(bound_to="pv"),
        make_volume(nodeAffinity=IN_Z1, **EBS),
        make_csi_node("a", migrated),
    )
    assert rejected(stage.plugin, using("c"), stage.nodes) == want


def test_a_volume_that_cannot_be_migrated_fails_where_it_would_have_to_be():
    stage = Stage(
        [A, B],
        make_claim(bound_to="pv"),
        make_volume(awsElasticBlockStore={"volumeID": "aws://z/x"}),
        make_csi_node("b", "kubernetes.io/aws-ebs"),
    )
    problem = (
        "could not translate pv: failed to translate Kubernetes ID to EBS Volume ID "
        "Invalid format for AWS volume (aws://z/x)"
    )
    assert rejected(stage.plugin, using("c"), stage.nodes) == {"b": ("Error", problem)}
    assert stage.metrics.volume_scheduling_stage_error_total.labels("predicate").value == 1


@pytest.mark.parametrize(
    ("volume", "want"),
    [
        pytest.param(make_volume(), {}, id="large enough, everywhere"),
        pytest.param(make_volume(nodeAffinity=IN_A), only_not("b", NO_VOLUME), id="in one zone"),
        pytest.param(make_volume(size="4Gi"), nowhere(NO_VOLUME), id="too small"),
        pytest.param(make_volume(size="5Gi"), {}, id="just large enough"),
        pytest.param(make_volume(of="other"), nowhere(NO_VOLUME), id="another class"),
        pytest.param(
            make_volume(
                of="other", annotations={"volume.beta.kubernetes.io/storage-class": "wait"}
            ),
            {},
            id="class by annotation",
        ),
        pytest.param(make_volume(volumeMode="Block"), nowhere(NO_VOLUME), id="another mode"),
        pytest.param(
            make_volume(accessModes=["ReadOnlyMany"]), nowhere(NO_VOLUME), id="not to be written"
        ),
        pytest.param(
            make_volume(accessModes=["ReadOnlyMany", "ReadWriteOnce"]), {}, id="more access modes"
        ),
        pytest.param(
            make_volume(volumeAttributesClassName="gold"),
            nowhere(NO_VOLUME),
            id="another attributes class",
        ),
        pytest.param(make_volume(volumeAttributesClassName=""), {}, id="no attributes class"),
        pytest.param(make_volume(phase="Pending"), nowhere(NO_VOLUME), id="not available"),
        pytest.param(
            make_volume(deletionTimestamp="2026-01-01T00:00:00Z"),
            nowhere(NO_VOLUME),
            id="being deleted",
        ),
        pytest.param(make_volume(kept_for="other"), nowhere(NO_VOLUME), id="kept for another"),
        pytest.param(make_volume(kept_for="c"), {}, id="kept for a claim of this name"),
        pytest.param(make_volume(kept_for="c/uid-c"), {}, id="kept for this claim"),
        pytest.param(
            make_volume(kept_for="c/uid-x"), nowhere(NO_VOLUME), id="kept for an earlier claim"
        ),
        pytest.param(
            make_volume(kept_for="c", phase="Bound", accessModes=["ReadOnlyMany"]),
            {},
            id="kept: phase and access modes are not looked at",
        ),
        pytest.param(
            make_volume(kept_for="c", volumeMode="Block"), nowhere(NO_VOLUME), id="kept, but a disk"
        ),
        pytest.param(
            make_volume(kept_for="c", of="other"), nowhere(NO_VOLUME), id="kept in another class"
        ),
    ],
)
def test_a_free_volume_must_be_what_the_claim_asks_for(volume, want):
    assert verdict(using("c"), make_claim(), NO_PROVISIONER, volume) == want


@pytest.mark.parametrize(
    ("volumes", "want"),
    [
        pytest.param([make_volume(kept_for="c")], nowhere(NO_VOLUME), id="kept for it"),
        pytest.param([make_volume()], nowhere(NO_VOLUME), id="free"),
        pytest.param(
            [make_volume(kept_for="c"), make_volume("other")], {}, id="kept for it, and a free one"
        ),
        pytest.param(
            [make_volume(kept_for="c"), make_volume("other", kept_for="c")], {}, id="two kept"
        ),
        pytest.param(
            [make_volume(kept_for="c", nodeAffinity=IN_A), make_volume("other")],
            only_not("b", NO_VOLUME),
            id="where the kept one cannot be used, the claim gets none",
        ),
    ],
)
def test_a_claim_mounted_twice_needs_two_volumes(volumes, want):
    assert verdict(using("c", "c"), make_claim(), NO_PROVISIONER, *volumes) == want


def test_a_volume_assumed_for_a_claim_is_not_given_to_it_twice():
    stage = Stage([A, B], make_claim(), NO_PROVISIONER, make_volume())
    _, status = stage.reserve(using("c"), "a")
    assert status is None
    assert rejected(stage.plugin, using("c", name="q"), stage.nodes) == {}
    assert rejected(stage.plugin, using("c", "c", name="q"), stage.nodes) == nowhere(NO_VOLUME)


NONSENSE = (
    "error creating internal label selector for claim: default/c: "
    '"Like" is not a valid label selector operator'
)


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param({}, {}, id="anything"),
        pytest.param({"matchLabels": {"disk": "ssd"}}, {}, id="what it is"),
        pytest.param({"matchLabels": {"disk": "hdd"}}, nowhere(NO_VOLUME), id="something else"),
        pytest.param(
            {"matchExpressions": [{"key": "disk", "operator": "Like"}]},
            dict.fromkeys("ab", ("Error", NONSENSE)),
            id="nonsense",
        ),
    ],
)
def test_a_claim_may_select_its_volume(selector, want):
    volume = make_volume(labels={"disk": "ssd"})
    assert verdict(using("c"), make_claim(selector=selector), NO_PROVISIONER, volume) == want


def test_a_volume_kept_for_the_claim_is_taken_or_none():
    volumes = [make_volume("kept", kept_for="c", nodeAffinity=IN_A), make_volume("free")]
    assert verdict(using("c"), make_claim(), NO_PROVISIONER, *volumes) == only_not("b", NO_VOLUME)


@pytest.mark.parametrize(
    ("allowed", "want"),
    [
        pytest.param([], {}, id="everywhere"),
        pytest.param([{"zone": "a"}], only_not("b", NO_VOLUME), id="one zone"),
        pytest.param([{"zone": "a"}, {"zone": "b"}], {}, id="either zone"),
        pytest.param([{"zone": "a b"}], {}, id="one of two zones"),
        pytest.param([{"zone": "a", "rack": "1"}], nowhere(NO_VOLUME), id="zone and rack"),
        pytest.param([{}], nowhere(NO_VOLUME), id="a term that says nothing"),
    ],
)
def test_volumes_are_made_where_the_class_allows(allowed, want):
    assert verdict(using("c"), make_claim(), make_class("wait", "d", WAIT, *allowed)) == want


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param("a", only_not("b", NO_VOLUME), id="one of ours"),
        pytest.param("gone", nowhere(NO_VOLUME), id="a node that is gone"),
    ],
)
def test_a_claim_that_has_a_node_stays_with_it(node, want):
    claim = make_claim(annotations={SELECTED_NODE: node})
    free = make_volume(nodeAffinity=IN_B)
    assert verdict(using("c"), claim, PROVIDED, free) == want


EVERYWHERE = {}


@pytest.mark.parametrize(
    ("capacities", "want"),
    [
        pytest.param([], nowhere(NO_SPACE), id="none told"),
        pytest.param(
            [make_capacity(labels=EVERYWHERE, capacity="5Gi")], {}, id="just enough everywhere"
        ),
        pytest.param(
            [make_capacity(labels={"zone": "a"}, capacity="9Gi")],
            only_not("b", NO_SPACE),
            id="in one zone",
        ),
        pytest.param(
            [make_capacity(labels=EVERYWHERE, capacity="4Gi")], nowhere(NO_SPACE), id="too little"
        ),
        pytest.param([make_capacity(capacity="9Gi")], nowhere(NO_SPACE), id="from nowhere"),
        pytest.param(
            [make_capacity(of="other", labels=EVERYWHERE, capacity="9Gi")],
            nowhere(NO_SPACE),
            id="of another class",
        ),
        pytest.param(
            [make_capacity(labels=EVERYWHERE, capacity="9Gi", maximumVolumeSize="1Gi")],
            nowhere(NO_SPACE),
            id="in small pieces",
        ),
        pytest.param(
            [make_capacity(labels=EVERYWHERE, maximumVolumeSize="9Gi")], {}, id="only pieces told"
        ),
        pytest.param(
            [make_capacity(labels=EVERYWHERE)], nowhere(NO_SPACE), id="nothing told about it"
        ),
        pytest.param(
            [
                make_capacity("one", labels={"zone": "a"}, capacity="1Gi"),
                make_capacity("two", labels={"zone": "a"}, capacity="9Gi"),
            ],
            only_not("b", NO_SPACE),
            id="in the second segment",
        ),
    ],
)
def test_volumes_are_made_where_the_driver_has_room(capacities, want):
    assert verdict(using("c"), make_claim(), PROVIDED, make_driver(), *capacities) == want


@pytest.mark.parametrize(
    "driver",
    [
        pytest.param([], id="no driver object"),
        pytest.param([make_driver(capacity=False)], id="not told by the driver"),
        pytest.param([make_driver(capacity=None)], id="nothing said"),
    ],
)
def test_room_is_no_matter_to_drivers_that_do_not_tell(driver):
    assert verdict(using("c"), make_claim(), PROVIDED, *driver) == {}


def test_a_claim_without_a_size_fits_everywhere():
    assert verdict(using("c"), make_claim(size=None), PROVIDED, make_driver()) == {}


def test_missing_room_is_the_only_reason_told():
    """Even where a volume that exists was missing, too."""
    found = verdict(using("c", "d"), make_claim(), make_claim("d"), PROVIDED, make_driver())
    assert found == nowhere(NO_SPACE)


def test_without_pre_filter_nothing_is_known():
    stage = Stage([A])
    answer = rejected(stage.plugin, using("c"), stage.nodes, CycleState())
    assert answer == {"a": ("Error", "not found")}


def test_a_pod_whose_resize_was_deferred_has_its_volumes_already():
    deferred = {"conditions": [{"type": "PodResizePending", "reason": "Deferred"}]}
    gates = {"InPlacePodVerticalScalingSchedulerPreemption": True}
    assert verdict(using("gone", status=deferred), gates=gates) == "Skip"
