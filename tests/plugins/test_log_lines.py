"""What plugins say in the log about volumes, zones, preemption and pods that come or go."""

import asyncio
from types import SimpleNamespace

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import failed
from kscheduler.plugins.volume_binding import binder
from kscheduler.plugins.volume_zone import VolumeZone
from tests.kit.clusters import make_framework, make_handle, snapshot_of
from tests.kit.log import captured_log
from tests.kit.objects import make_node as node_of
from tests.kit.objects import make_pod_info
from tests.plugins.dynamic_resources.stage import Stage as Devices
from tests.plugins.dynamic_resources.stage import make_claim as make_device_claim
from tests.plugins.dynamic_resources.stage import using as using_devices
from tests.plugins.evictions import Stage as Preemption
from tests.plugins.evictions import make_node, make_pod
from tests.plugins.machines import make_node as machine
from tests.plugins.volumes import Cluster, make_claim, make_class, make_volume, using
from tests.plugins.volumes import Stage as Volumes

ZONE = "topology.kubernetes.io/zone"


def about(log, *starts):
    return [line for line in log.messages if line.startswith(tuple(f'"{one}' for one in starts))]


def test_a_volume_in_another_zone():
    claim, volume = make_claim(bound_to="pv"), make_volume(labels={ZONE: "z1"})
    nodes = [machine("a", labels={ZONE: "z1"}), machine("b", labels={ZONE: "z2"}), machine("c")]
    cluster, pod = Cluster(nodes, claim, volume), using("c")
    framework = make_framework(make_handle(), [VolumeZone(None, cluster.handle)])
    cycle = CycleState()
    for verbosity, lines in (
        (9, []),
        (
            10,
            [
                '"Won\'t schedule pod onto node due to volume (mismatch on label key)" '
                'logger="FilterWithNominatedPods.Filter.VolumeZone" '
                f'pod="{pod.key}" node="b" PV="pv" PVLabelKey="{ZONE}"'
            ],
        ),
    ):
        with captured_log(verbosity) as log:
            framework.run_pre_filter(cycle, pod, cluster.nodes)
            framework.filter_with_nominated(cycle, pod, cluster.nodes)
        assert log.messages == lines


def test_nodes_that_preemption_tries_and_their_victims():
    nodes = [make_node("n1"), make_node("n2", "1")]
    stage = Preemption(nodes, [make_pod("a", "2", node="n1"), make_pod("b", "2", node="n1")])
    for verbosity in (4, 5):
        with captured_log(verbosity) as log:
            stage.victims_of(make_pod("high", "3", priority=1))
        logger = 'logger="PostFilter.DefaultPreemption" pod="ns/high"'
        tried = f'"Check the potential node for preemption" {logger} node="n1"'
        victim = '"Pods are potential preemption victims on node"'
        assert about(log, "Check the", "Pods are") == (
            []
            if verbosity == 4
            else [
                tried,
                f'{victim} {logger} pods=[{{"name":"a","namespace":"ns"}}] node="n1"',
                f'{victim} {logger} pods=[{{"name":"b","namespace":"ns"}}] node="n1"',
            ]
        )


async def test_a_victim_that_waits_or_is_in_pre_bind():
    victim = make_pod("a", "3", node="n1")
    for part, text in (
        ("waiting_pods", '"Preemptor preempted a waiting pod" {} waitingPod="ns/a"'),
        ("pods_in_pre_bind", '"Preemptor rejected a pod in preBind" {} podInPreBind="ns/a"'),
    ):
        stage = Preemption([make_node("n1")], [victim])
        held = SimpleNamespace(preempt=lambda *why: True, cancel=lambda why: True)
        nobody = SimpleNamespace(get=lambda uid: None)
        stage.handle.waiting_pods = stage.handle.pods_in_pre_bind = nobody
        setattr(stage.handle, part, SimpleNamespace(get=lambda uid, held=held: held))
        with captured_log(2) as log:
            stage.preempt(make_pod("high", "3", priority=1))
            await stage.settle()
        preemptor = 'preemptorType="pod" preemptor="ns/high"'
        assert about(log, "Preemptor") == [text.format(preemptor) + ' node="n1"']


def test_a_plugin_that_cannot_follow_a_pod():
    plugin = SimpleNamespace(
        name="A",
        pre_filter=lambda cycle, pod, nodes: None,
        add_pod=lambda *what: failed("lost"),
        remove_pod=lambda *what: failed("lost"),
    )
    framework, nodes = make_framework(make_handle(), [plugin]), snapshot_of([node_of("n1")])
    pod, other, cycle = make_pod_info("p"), make_pod_info("q"), CycleState()
    with captured_log(0) as log:
        framework.run_add_pod(cycle, pod, other, 0, nodes)
        framework.run_remove_pod(cycle, pod, other, 0, nodes)
    assert log.messages == [
        '"Plugin failed" err="lost" pod="default/p" node="n1" operation="addPod" plugin="A"',
        '"Plugin failed" err="lost" node="n1" operation="removePod" plugin="A" pod="default/p"',
    ]


def test_volumes_that_are_assumed():
    local = make_class(provisioner="kubernetes.io/no-provisioner")
    stage, pod = Volumes([machine("a")], make_claim(), local, make_volume()), using("c")
    with captured_log(5) as log:
        stage.reserve(pod, "a")
    logger = 'logger="Reserve.VolumeBinding"'
    claim = f"{pod.namespace}/c"
    assert about(log, "AssumePodVolumes") == [
        f'"AssumePodVolumes" {logger} pod="{pod.key}" node="a"',
        f'"AssumePodVolumes: GetBindVolumeToClaim" {logger} node="a" pod="{pod.key}" '
        f'PV="pv" PVC="{claim}" newPV="pv" dirty=true',
    ]


async def test_volumes_that_are_bound(monkeypatch):
    monkeypatch.setattr(binder, "LOOK_SECONDS", 0.001)
    local = make_class(provisioner="kubernetes.io/no-provisioner")
    stage, pod = Volumes([machine("a")], make_claim(), local, make_volume()), using("c")
    cycle, _ = stage.reserve(pod, "a")
    with captured_log(5) as log:
        attempt = asyncio.create_task(stage.plugin.pre_bind(cycle, pod, "a"))
        await asyncio.sleep(0)
        stage.informers.put(stage.writes.made[0])
        stage.informers.put(make_claim(version="2", bound_to="pv"))
        async with asyncio.timeout(20):
            assert await attempt is None
    logger, ref = 'logger="PreBind.VolumeBinding"', f'pod="{pod.key}"'
    both = f'{ref} PV="pv" PVC="{pod.namespace}/c"'
    assert about(log, "Trying", "Success", "BindPodVolumes", "Updating") == [
        f'"Trying to bind volumes for pod" {logger} node="a" {ref}',
        f'"BindPodVolumes" {logger} {ref} node="a"',
        f'"Updating PersistentVolume: binding to claim" {logger} node="a" {both}',
        f'"Success binding volumes for pod" {logger} node="a" {ref}',
    ]


def test_claims_of_a_pod():
    stage = Devices(make_device_claim())
    pods = using_devices("c"), using_devices(name="q")
    with captured_log(5) as log:
        for pod in pods:
            stage.plugin.pre_filter(CycleState(), pod, stage.nodes)
    head = '"pod resource claims" logger="PreFilter.DynamicResources"'
    assert about(log, "pod resource claims") == [
        f'{head} pod="{pods[0].key}" resourceclaims=["{pods[0].namespace}/c"]',
        f'{head} pod="{pods[1].key}" resourceclaims=[]',
    ]
