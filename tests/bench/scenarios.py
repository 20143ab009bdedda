"""What is measured beside kube-scheduler.

The pods of `workloads.py` on their own; the same with something in the way; and the shapes of
upstream's scheduler_perf that need more than pods: preemption, volumes and devices.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import count

from tests.bench import device_scenarios, workloads
from tests.bench.quick_client import Request
from tests.bench.scenario import (
    MOST_PER_NODE,
    NODES,
    PODS,
    Disturbance,
    Scenario,
    Size,
    create,
    delete,
    measured,
    named,
    node_name,
)
from tests.bench.workloads import IMAGE, NAMESPACE, Json, node, pod

VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
DRIVER = "ebs.csi.aws.com"
ATTACHABLE = 39
# Classes that every server has.
HIGHEST_PRIORITY = "system-node-critical"
HIGH_PRIORITY = "system-cluster-critical"
MOST_PREEMPTORS = 1000


def requesting(cpu: str) -> list[Json]:
    amounts = {"cpu": cpu, "memory": "500Mi"}
    resources = {"requests": amounts, "limits": amounts}
    return [{"name": "pause", "image": IMAGE, "resources": resources}]


def shaped(*shapes: workloads.Shape, pods_per_node: float = MOST_PER_NODE) -> Scenario:
    """Nothing but pods; those of several shapes take turns."""

    def backlog(number: int, size: Size) -> Iterator[Request]:
        yield measured(shapes[number % len(shapes)](named(number)))

    return Scenario(backlog, pods_per_node=pods_per_node)


def plain(number: int, size: Size) -> Iterator[Request]:
    yield measured(pod(named(number)))


def placed(how_many: Callable[[Size], int]) -> Callable[[Size], Iterator[Request]]:
    def before(size: Size) -> Iterator[Request]:
        for number in range(how_many(size)):
            yield create(PODS, workloads.placed(number, node_name(number, size)))

    return before


# Churn: every tenth pod of the backlog is deleted while it waits or just after it was bound, in
# turn with pods that run already; and a cordoned node comes and goes each second.


def with_doomed_ones(number: int, size: Size) -> Iterator[Request]:
    yield from plain(number, size)
    if number % 10 == 0:
        yield create(PODS, pod(f"{named(number)}-doomed"))


def deletions(size: Size) -> Iterator[Request]:
    for number in range(size.pods):
        yield delete(PODS, f"placed-{number}")
        if number % 10 == 0:
            # Those that are last in the queue.
            yield delete(PODS, f"{named((size.pods - 1 - number) // 10 * 10)}-doomed")


def nodes_that_come_and_go(size: Size) -> Iterator[Request]:
    for number in count():
        body = node(size.nodes + number)
        body["spec"] = {"unschedulable": True}
        yield create(NODES, body)
        yield delete(NODES, body["metadata"]["name"])


CHURN = Scenario(
    with_doomed_ones,
    before=placed(lambda size: size.pods),
    meanwhile=(Disturbance(100, deletions), Disturbance(2, nodes_that_come_and_go)),
    pods_per_node=15,
)


# Gated: as many pods wait for a gate as for a node, and each pod that is deleted is a reason to
# look at them again.


def gated_and_placed(size: Size) -> Iterator[Request]:
    for number in range(size.pods):
        gates = [{"name": "test.k8s.io/hold"}]
        yield create(PODS, pod(f"gated-{number:06d}", schedulingGates=gates))
    yield from placed(lambda size: size.pods)(size)


def deletions_of_placed(size: Size) -> Iterator[Request]:
    return (delete(PODS, f"placed-{number}") for number in range(size.pods))


GATED = Scenario(
    plain,
    before=gated_and_placed,
    meanwhile=(Disturbance(50, deletions_of_placed),),
    pods_per_node=15,
)


# Unschedulable: every tenth pod fits nowhere, and five more important ones that fit nowhere arrive
# each second.


def with_stuck_ones(number: int, size: Size) -> Iterator[Request]:
    yield from plain(number, size)
    if number % 10 == 0:
        yield create(PODS, pod(f"{named(number)}-stuck", containers=requesting("9")))


def stuck_arrivals(size: Size) -> Iterator[Request]:
    for number in count():
        body = pod(
            f"stuck-{number:06d}",
            containers=requesting("9"),
            priorityClassName=HIGH_PRIORITY,
        )
        yield create(PODS, body)


UNSCHEDULABLE = Scenario(with_stuck_ones, meanwhile=(Disturbance(5, stuck_arrivals),))


# Pinned: each pod may run on one node only, as the pods of a DaemonSet.


def pinned(number: int, size: Size) -> Iterator[Request]:
    wanted = {
        "key": "metadata.name",
        "operator": "In",
        "values": [node_name(number, size)],
    }
    required = {"nodeSelectorTerms": [{"matchFields": [wanted]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    yield measured(pod(named(number), affinity=affinity))


# Preemption: four pods on each node leave 400m of its CPU; a preemptor needs a node for itself. All
# of them evict before the first is bound, so a small pod before all others starts the clock. They
# are as many as upstream has; upstream does not run one for each of 5,000 nodes because that fails.


def full_nodes(size: Size) -> Iterator[Request]:
    for number in range(4 * size.nodes):
        body = pod(
            f"low-{number:06d}",
            nodeName=node_name(number, size),
            containers=requesting("900m"),
            terminationGracePeriodSeconds=0,
        )
        yield create(PODS, body)


def preemptor(name: str) -> Json:
    return pod(
        name,
        containers=requesting("3970m"),
        priorityClassName=HIGH_PRIORITY,
        terminationGracePeriodSeconds=0,
    )


def preempting(number: int, size: Size) -> Iterator[Request]:
    if number:
        yield measured(preemptor(named(number)))
    else:
        yield measured(pod(named(number), priorityClassName=HIGHEST_PRIORITY))


def plain_for_short(number: int, size: Size) -> Iterator[Request]:
    """A plain pod that no kubelet must be asked about if a preemptor evicts it."""
    yield measured(pod(named(number), terminationGracePeriodSeconds=0))


def preemptors(size: Size) -> Iterator[Request]:
    """So few that whoever is slow still has room for all that are measured."""
    for number in range(size.nodes // 10):
        yield create(PODS, preemptor(f"preemptor-{number:06d}"))


PREEMPTION_BASIC = Scenario(
    preempting, before=full_nodes, pods_per_node=0.9, most_pods=MOST_PREEMPTORS
)
PREEMPTION_ASYNC = Scenario(
    plain_for_short,
    before=full_nodes,
    meanwhile=(Disturbance(5, preemptors),),
    pods_per_node=3,
)


# Volumes: each pod has a claim that is bound already; as many pods as nodes run with such ones.


def with_secret(number: int, size: Size) -> Iterator[Request]:
    secret = {"name": "secret", "secret": {"secretName": "secret"}}
    yield measured(pod(named(number), volumes=[secret]))


def claimed(name: str, source: Json) -> Iterator[Request]:
    """A volume and the claim that has got it."""
    sizes = {"storage": "1Gi"}
    claim = {"kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": name}
    yield create(
        VOLUMES,
        {
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadOnlyMany"],
                "capacity": sizes,
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": claim,
                **source,
            },
        },
    )
    yield create(
        CLAIMS,
        {
            "metadata": {
                "name": name,
                "annotations": {"pv.kubernetes.io/bind-completed": "true"},
            },
            "spec": {
                "accessModes": ["ReadOnlyMany"],
                "resources": {"requests": sizes},
                "volumeName": name,
            },
        },
    )


def using(claim: str) -> list[Json]:
    return [{"name": "volume", "persistentVolumeClaim": {"claimName": claim}}]


def with_volumes(
    source: Callable[[str], Json], make_node: Callable[[int], Iterable[Request]]
) -> Scenario:
    def backlog(number: int, size: Size) -> Iterator[Request]:
        name = named(number)
        yield from claimed(name, source(name))
        yield measured(pod(name, volumes=using(name)))

    def before(size: Size) -> Iterator[Request]:
        for number in range(size.nodes):
            name = f"placed-{number:06d}"
            yield from claimed(name, source(name))
            yield create(PODS, pod(name, nodeName=node_name(number, size), volumes=using(name)))

    return Scenario(backlog, before=before, node=make_node, pods_per_node=20)


def plain_node(number: int) -> Iterator[Request]:
    yield create(NODES, node(number))


def attaching_node(number: int) -> Iterator[Request]:
    """With a driver that attaches some volumes and no more."""
    body = node(number)
    limit = {f"attachable-volumes-csi-{DRIVER}": str(ATTACHABLE)}
    for field in ("capacity", "allocatable"):
        body["status"][field] = body["status"][field] | limit
    yield create(NODES, body)
    name = body["metadata"]["name"]
    driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": ATTACHABLE}}
    yield create(CSI_NODES, {"metadata": {"name": name}, "spec": {"drivers": [driver]}})


def csi_volume(name: str) -> Json:
    return {"csi": {"driver": DRIVER, "volumeHandle": name}}


def in_tree_volume(name: str) -> Json:
    return {"awsElasticBlockStore": {"volumeID": name}}


# Those with required anti-affinity take a node each; required affinity keeps to one zone in three.
ROOM = {"anti-affinity": 0.8, "affinity": 10.0, "node-affinity": 20.0}

SCENARIOS: dict[str, Scenario] = {
    **{
        name: shaped(shape, pods_per_node=ROOM.get(name, MOST_PER_NODE))
        for name, shape in workloads.SHAPES.items()
    },
    workloads.MIXED: shaped(*workloads.SHAPES.values(), pods_per_node=6),
    "churn": CHURN,
    "gated": GATED,
    "unschedulable": UNSCHEDULABLE,
    "pinned": Scenario(pinned),
    "preemption-basic": PREEMPTION_BASIC,
    "preemption-async": PREEMPTION_ASYNC,
    "secrets": Scenario(with_secret),
    "in-tree-pvs": with_volumes(in_tree_volume, plain_node),
    "csi-pvs": with_volumes(csi_volume, attaching_node),
    **device_scenarios.SCENARIOS,
}
