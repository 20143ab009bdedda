"""Work of plugins for pods and nodes of hostile size: in proportion to what is there.

Each case asks one plugin, twice: with lists of some length, and of twice that length.
"""

import pytest

from kscheduler.framework.cluster_event import ASSIGNED_POD, Action, ClusterEvent
from kscheduler.plugins.image_locality import ImageLocality
from kscheduler.plugins.node_volume_limits import NodeVolumeLimits
from kscheduler.plugins.scheduling_gates import SchedulingGates
from kscheduler.plugins.taint_toleration import TaintToleration
from kscheduler.plugins.volume_restrictions import VolumeRestrictions
from kscheduler.plugins.volume_zone import VolumeZone
from kscheduler.state.cache import Cache
from kscheduler.state.disks import Disks, DiskUse
from tests.adversary.work import forget_shared, work_of
from tests.plugins.machines import container, hint, make_node, prepared, raw_scores, rejected
from tests.plugins.topologies import make_cluster, make_handle, make_pod
from tests.plugins.volumes import (
    Cluster,
    Stage,
    make_claim,
    make_csi_node,
    make_volume,
    reachable_from,
    using,
)

pytestmark = pytest.mark.slow

ZONE = "topology.kubernetes.io/zone"


def many_tolerations(size):
    """As many tolerations as nodes, each with a taint of its own; none tolerates any."""
    nodes = make_cluster(
        [
            make_node(f"n{number}", taints=[{"key": f"k{number}", "effect": "NoSchedule"}])
            for number in range(size)
        ]
    )
    tolerations = [{"key": f"t{number}", "operator": "Exists"} for number in range(size)]
    pod, plugin = make_pod(tolerations=tolerations), TaintToleration(None, make_handle())
    return lambda: rejected(plugin, pod, nodes)


def many_taints(size):
    """A node with as many taints as the pod has tolerations, in opposite order."""
    taints = [{"key": f"k{number}", "effect": "PreferNoSchedule"} for number in range(size)]
    nodes = make_cluster([make_node(taints=taints)])
    tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(size)]
    pod = make_pod(tolerations=tolerations[::-1])
    plugin = TaintToleration(None, make_handle())
    return lambda: raw_scores(plugin, pod, nodes)


def many_gates(size):
    pod = make_pod(schedulingGates=[{"name": f"example.com/g{number}"} for number in range(size)])
    return lambda: SchedulingGates().pre_enqueue(pod)


def many_images(size):
    names = [f"image-{number}:v1" for number in range(size)]
    nodes = make_cluster([make_node(images=dict.fromkeys(names, 10**9)) for _ in range(10)])
    pod = make_pod(containers=[container(image=name) for name in names])
    return lambda: raw_scores(ImageLocality(), pod, nodes)


def node_with_many_images(size):
    node = make_node(images={f"image-{number}:v1": 1 for number in range(size)})
    return lambda: Cache().add_node(node)


def disks(size, **source):
    volumes = [
        {"name": f"v{number}", "gcePersistentDisk": {"pdName": f"disk-{number}", **source}}
        for number in range(size)
    ]
    return make_pod(volumes=volumes)


def many_disks(size):
    cluster = Cluster([make_node("n1")])
    plugin, pod = VolumeRestrictions(None, cluster.handle), disks(size)
    return lambda: rejected(plugin, pod, cluster.nodes)


def deleted_pod_with_many_disks(size):
    """A waiting pod and one that goes, with the same disks; both only read."""
    plugin = VolumeRestrictions(None, Cluster([]).handle)
    waiting, deleted = disks(size, readOnly=True), disks(size, readOnly=True)
    event = ClusterEvent(ASSIGNED_POD, Action.DELETE)
    return lambda: hint(plugin, event, waiting, deleted, None)


def one_disk_on_many_rows(size):
    """A disk that is read on many nodes, and mounted many times by one pod more."""
    use, used = DiskUse(("gce", "d"), writes=False), Disks()
    for row in range(size):
        used.add(use, row)
    return lambda: [used.add(use, size) for _ in range(size)]


def claims_of_many_drivers(size):
    """Each claim has a volume of a driver of its own, and the node has them all."""
    drivers = [f"d{number}.example.com" for number in range(size)]
    cluster = Cluster(
        [make_node("n1")],
        make_csi_node("n1", drivers=dict.fromkeys(drivers, 5)),
        *(make_claim(f"c{number}", bound_to=f"pv{number}") for number in range(size)),
        *(
            make_volume(f"pv{number}", csi={"driver": driver, "volumeHandle": driver})
            for number, driver in enumerate(drivers)
        ),
    )
    plugin = NodeVolumeLimits(None, cluster.handle)
    pod = using(*(f"c{number}" for number in range(size)))
    return lambda: rejected(plugin, pod, cluster.nodes)


def drivers_that_nobody_asks_for(size):
    """As many nodes as drivers on one of them."""
    cluster = Cluster(
        [make_node(f"n{number}") for number in range(size)],
        make_csi_node("n1", drivers={f"d{number}.example.com": 5 for number in range(size)}),
        make_claim(bound_to="pv"),
        make_volume(csi={"driver": "d1.example.com", "volumeHandle": "h"}),
    )
    plugin = NodeVolumeLimits(None, cluster.handle)
    return lambda: rejected(plugin, using("c"), cluster.nodes)


def claims_in_many_zones(size):
    cluster = Cluster(
        [make_node(f"n{number}", labels={ZONE: f"z{number}"}) for number in range(10)],
        *(make_claim(f"c{number}", bound_to=f"pv{number}") for number in range(size)),
        *(make_volume(f"pv{number}", labels={ZONE: f"z{number}"}) for number in range(size)),
    )
    plugin = VolumeZone(None, cluster.handle)
    pod = using(*(f"c{number}" for number in range(size)))
    return lambda: rejected(plugin, pod, cluster.nodes)


def volume_with_many_terms(size):
    term = {"key": "host", "operator": "In"}
    terms = [{"matchExpressions": [{**term, "values": [f"h{number}"]}]} for number in range(size)]
    affinity = {"required": {"nodeSelectorTerms": terms}}
    nodes = [make_node(f"n{number}", labels={"host": f"h{number}"}) for number in range(10)]
    stage = Stage(nodes, make_claim(bound_to="pv"), make_volume(nodeAffinity=affinity))
    return lambda: rejected(stage.plugin, using("c"), stage.nodes)


def volume_with_many_values(size):
    affinity = reachable_from(host=" ".join(f"h{number}" for number in range(size)))
    nodes = [make_node(f"n{number}", labels={"host": f"h{number}"}) for number in range(10)]
    stage = Stage(nodes, make_claim(bound_to="pv"), make_volume(nodeAffinity=affinity))
    return lambda: rejected(stage.plugin, using("c"), stage.nodes)


CASES = [
    many_tolerations,
    many_taints,
    many_gates,
    many_images,
    node_with_many_images,
    many_disks,
    deleted_pod_with_many_disks,
    one_disk_on_many_rows,
    claims_of_many_drivers,
    drivers_that_nobody_asks_for,
    claims_in_many_zones,
    volume_with_many_terms,
    volume_with_many_values,
]


@pytest.mark.parametrize("case", CASES, ids=[case.__name__ for case in CASES])
def test_lists_of_twice_the_length_are_twice_the_work(case):
    case(3)()  # What is made once per process is not a matter of size.
    forget_shared()
    large = work_of(case(600))
    forget_shared()
    assert large.ratio(work_of(case(300))) < 2.5


def test_a_decision_keeps_nothing_of_long_lists_of_tolerations_but_the_last():
    plugin, nodes = TaintToleration(None, make_handle()), make_cluster([make_node()])
    for pod in range(3):
        tolerations = [{"key": f"{pod}-{number}", "operator": "Exists"} for number in range(100)]
        prepared(plugin, make_pod(tolerations=tolerations), nodes)
        rejected(plugin, make_pod(tolerations=tolerations), nodes)
    assert not plugin._remembered._recent


def test_columns_are_kept_of_drivers_that_pods_ask_for():
    drivers = {f"d{number}.example.com": 5 for number in range(100)}
    csi_node = make_csi_node("n1", drivers=drivers)
    cluster = Cluster(
        [make_node("n1")],
        csi_node,
        make_claim(bound_to="pv"),
        make_volume(csi={"driver": "d1.example.com", "volumeHandle": "h"}),
    )
    plugin = NodeVolumeLimits(None, cluster.handle)
    rejected(plugin, using("c"), cluster.nodes)
    assert list(plugin._attached._drivers) == ["d1.example.com"]
    cluster.informers.remove(csi_node)
    rejected(plugin, using("c"), cluster.nodes)
    assert not plugin._attached._drivers
    assert not plugin._attached._installed
