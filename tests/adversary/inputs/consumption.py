"""Pods that ask for much of their node: resources by the thousand, containers, ports, volumes."""

from tests.adversary.inputs.placement import requiring
from tests.adversary.inputs.table import (
    STORAGE,
    Ask,
    Json,
    Scene,
    expression,
    matching,
    named,
    pod,
    row,
)
from tests.bench.workloads import IMAGE

TINY = {"requests": {"cpu": "1m"}}
STORAGE_API = "storage.k8s.io/v1"
FULLY_BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def asking(ask: Ask, **amounts: str) -> Json:
    return pod(ask.tag, container={"resources": {"requests": amounts, "limits": amounts}})


@row(
    "extended-resources-zero",
    "NodeResourcesFit and its columns: extended resources of which none is wanted",
    size=1500,
    small=100,
)
def resources_zero(ask: Ask) -> Scene:
    return Scene(pods=[asking(ask, **dict.fromkeys(ask.label_keys(), "0"))])


@row(
    "extended-resources-missing",
    "NodeResourcesFit and its columns: extended resources that no node has",
    size=1500,
    small=100,
)
def resources_missing(ask: Ask) -> Scene:
    return Scene(pods=[asking(ask, **dict.fromkeys(ask.label_keys(), "1"))])


@row(
    "running-extended-resources",
    "columns of resources: a pod that a tenant put on a node itself asks for what no node has",
    size=1500,
    small=100,
)
def running_resources(ask: Ask) -> Scene:
    amounts = dict.fromkeys(ask.label_keys(), "1")
    container = {"resources": {"requests": amounts, "limits": amounts}}
    return Scene([pod(ask.tag, on=ask.nodes[0], container=container)])


@row(
    "huge-page-sizes",
    "columns of resources: huge pages of many sizes",
    size=1500,
    small=100,
)
def huge_pages(ask: Ask) -> Scene:
    """A number in the name is what makes a size; the tag is in the pod's name only."""
    first = 1 + sum(map(ord, ask.tag)) * 10_000
    sizes = {f"hugepages-{first + i}Ki": "0" for i in range(ask.size)}
    return Scene(pods=[asking(ask, cpu="10m", memory="16Mi", **sizes)])


@row(
    "containers",
    "requests are added up: thousands of containers, each with images of its own",
    size=3000,
    small=150,
)
def containers(ask: Ask) -> Scene:
    listed = [
        {"name": name, "image": f"{name}.example.com/image:1", "resources": TINY}
        for name in ask.names()
    ]
    return Scene(pods=[pod(ask.tag, containers=listed)])


@row(
    "restartable-init-containers",
    "requests are added up: each sidecar counts for all init containers after it",
    size=3000,
    small=150,
)
def sidecars(ask: Ask) -> Scene:
    listed = [
        {"name": name, "image": IMAGE, "restartPolicy": "Always", "resources": TINY}
        for name in ask.names()
    ]
    return Scene(pods=[pod(ask.tag, initContainers=listed)])


@row(
    "containers-with-resources-each",
    "requests are added up: containers that name an extended resource each",
    size=1000,
    small=100,
)
def containers_with_resources(ask: Ask) -> Scene:
    listed = [
        {"name": name, "image": IMAGE, "resources": {"requests": {key: "0"}, "limits": {key: "0"}}}
        for name, key in zip(ask.names(), ask.label_keys(), strict=True)
    ]
    return Scene(pods=[pod(ask.tag, containers=listed)])


@row(
    "odd-quantities",
    "quantities: finer than a nano, as large as fits, in every notation",
    size=3000,
    small=200,
)
def quantities(ask: Ask) -> Scene:
    odd = ("1e-30", "0.000000001", "1n", "1u", "0.1", "1e3", "1E", "10E", "9223372036854775807")
    listed = [
        {"name": name, "image": IMAGE, "resources": {"requests": {"memory": odd[i % len(odd)]}}}
        for i, name in enumerate(ask.names())
    ]
    return Scene(pods=[pod(ask.tag, containers=listed)])


def with_ports(ask: Ask, name: str, ports: list[Json], on: str = "") -> Json:
    return pod(name, on=on, container={"ports": ports})


def addressed(ask: Ask, start: int = 0) -> list[Json]:
    """One port on many addresses."""
    return [
        {"containerPort": 80, "hostPort": 7777, "hostIP": f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}"}
        for i in range(start, start + ask.size)
    ]


def numbered(ask: Ask, count: int | None = None) -> list[Json]:
    return [{"containerPort": 80, "hostPort": 1 + i} for i in range(ask.many(count))]


@row(
    "host-ports-of-one-number",
    "NodePorts and its table: one port on thousands of addresses",
    size=15000,
    small=300,
)
def ports_of_one_number(ask: Ask) -> Scene:
    return Scene(pods=[with_ports(ask, ask.tag, addressed(ask))])


@row(
    "host-ports-of-all-addresses",
    "NodePorts and its table: thousands of port numbers on all addresses",
    size=15000,
    small=300,
)
def ports_of_all_addresses(ask: Ask) -> Scene:
    return Scene(pods=[with_ports(ask, ask.tag, numbered(ask))])


@row(
    "host-ports-waiting-and-running",
    "queueing hints: a pod waits for thousands of ports that others hold, and they come and go",
    size=8000,
    small=100,
)
def ports_waiting(ask: Ask) -> Scene:
    """Nobody has an address in common; what the pod waits for is a port that all nodes are out
    of because it asks for a node that does not exist.
    """
    running = with_ports(ask, f"{ask.tag}-r", addressed(ask), on=ask.nodes[0])
    waiting = with_ports(ask, ask.tag, addressed(ask, ask.size) + addressed(ask)[:1])
    only = requiring(matching(expression("kubernetes.io/hostname", "In", [ask.nodes[0]])))
    waiting["spec"]["affinity"] = only
    return Scene([running], [waiting])


@row(
    "image-volumes",
    "ImageLocality: thousands of volumes that are images",
    size=5000,
    small=150,
)
def image_volumes(ask: Ask) -> Scene:
    volumes = [
        {"name": name, "image": {"reference": f"{name}.example.com/image:1"}}
        for name in ask.names()
    ]
    return Scene(pods=[pod(ask.tag, volumes=volumes)])


@row(
    "volumes-without-claims",
    "readers: thousands of volumes that only a kubelet looks into",
    size=5000,
    small=150,
)
def plain_volumes(ask: Ask) -> Scene:
    kinds: list[Json] = [
        {"emptyDir": {}},
        {"configMap": {"name": "x"}},
        {"secret": {"secretName": "x"}},
        {"hostPath": {"path": "/x"}},
    ]
    volumes = [{"name": name, **kinds[i % 4]} for i, name in enumerate(ask.names())]
    return Scene(pods=[pod(ask.tag, volumes=volumes)])


def disk_volumes(ask: Ask, prefix: str) -> list[Json]:
    return [
        {"name": name, "gcePersistentDisk": {"pdName": f"{prefix}-{name}"}} for name in ask.names()
    ]


@row(
    "disks",
    "VolumeRestrictions: thousands of disks that only one pod may use",
    size=5000,
    small=150,
)
def disks(ask: Ask) -> Scene:
    return Scene(pods=[pod(ask.tag, volumes=disk_volumes(ask, "a"))])


@row(
    "disks-waiting-and-running",
    "queueing hints: a pod waits for a disk among thousands, and others come and go",
    size=5000,
    small=100,
)
def disks_waiting(ask: Ask) -> Scene:
    held = {"name": "held", "gcePersistentDisk": {"pdName": f"{ask.tag}-held"}}
    running = pod(f"{ask.tag}-r", on=ask.nodes[0], volumes=[*disk_volumes(ask, "r"), held])
    waiting = pod(ask.tag, volumes=[*disk_volumes(ask, "w"), held])
    only = requiring(matching(expression("kubernetes.io/hostname", "In", [ask.nodes[0]])))
    waiting["spec"]["affinity"] = only
    return Scene([running], [waiting])


@row(
    "ceph-monitors",
    "VolumeRestrictions: a disk that has thousands of names",
    size=20000,
    small=200,
)
def monitors(ask: Ask) -> Scene:
    rbd = {"monitors": ask.names(), "image": ask.tag}
    volumes = [{"name": "v", "rbd": rbd}]
    return Scene(
        [pod(f"{ask.tag}-r", on=ask.nodes[0], volumes=volumes)], [pod(ask.tag, volumes=volumes)]
    )


def claim(name: str, of_class: str | None = "", **more: Json) -> Json:
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": of_class,
        **more.pop("spec", {}),
    }
    return named("PersistentVolumeClaim", name, spec=spec, **more)


def claiming(names: list[str]) -> list[Json]:
    return [
        {"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}}
        for i, name in enumerate(names)
    ]


def waiting_class(ask: Ask, **more: object) -> Json:
    return named(
        "StorageClass",
        ask.tag,
        api=STORAGE_API,
        namespace="",
        provisioner="kubernetes.io/no-provisioner",
        volumeBindingMode="WaitForFirstConsumer",
        **more,
    )


@row(
    "missing-claims",
    "VolumeBinding: thousands of claims that do not exist",
    size=5000,
    small=300,
)
def missing_claims(ask: Ask) -> Scene:
    return Scene(pods=[pod(ask.tag, volumes=claiming(ask.names()))])


@row(
    "one-claim-many-times",
    "VolumeBinding: one claim under thousands of volume names",
    size=5000,
    small=150,
)
def one_claim(ask: Ask) -> Scene:
    return Scene([claim(ask.tag)], [pod(ask.tag, volumes=claiming([ask.tag] * ask.size))])


@row(
    "unbound-claims",
    "VolumeBinding: hundreds of claims that nobody will ever bind",
    size=300,
    small=40,
)
def unbound_claims(ask: Ask) -> Scene:
    names = ask.names()
    return Scene([claim(name) for name in names], [pod(ask.tag, volumes=claiming(names))])


@row(
    "claims-that-say-they-are-bound",
    "VolumeZone, NodeVolumeLimits: claims that name volumes that do not exist",
    size=300,
    small=40,
)
def falsely_bound_claims(ask: Ask) -> Scene:
    names = ask.names()
    claims = [
        claim(name, spec={"volumeName": f"{name}-absent"}, metadata={"annotations": FULLY_BOUND})
        for name in names
    ]
    return Scene(claims, [pod(ask.tag, volumes=claiming(names))])


@row(
    "ephemeral-volumes",
    "VolumeBinding, NodeVolumeLimits: thousands of volumes whose claims a controller is to make",
    size=2500,
    small=300,
)
def ephemeral_volumes(ask: Ask) -> Scene:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volumes = [
        {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}} for name in ask.names()
    ]
    return Scene(pods=[pod(ask.tag, volumes=volumes)])


@row(
    "waiting-claims",
    "VolumeBinding: claims that wait for a node, all of one class, and volumes too small for them",
    size=400,
    small=120,
    by=STORAGE,
)
def waiting_claims(ask: Ask) -> Scene:
    names = ask.names()
    volumes = [volume(name, ask.tag, "1Mi") for name in ask.names(30)]
    claims = [claim(name, ask.tag) for name in names]
    before = [waiting_class(ask), *volumes, *claims]
    return Scene(before, [pod(ask.tag, volumes=claiming(names))])


def volume(name: str, of_class: str, size: str, **more: object) -> Json:
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": size},
        "storageClassName": of_class,
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": "example.com", "volumeHandle": name},
        **more,
    }
    return named("PersistentVolume", name, namespace="", spec=spec)


@row(
    "many-volumes-of-a-class",
    "VolumeBinding: hundreds of volumes that are all looked at for one claim and are too small",
    size=500,
    small=40,
    by=STORAGE,
)
def many_volumes(ask: Ask) -> Scene:
    volumes = [volume(name, ask.tag, "1Mi") for name in ask.names()]
    before = [waiting_class(ask), *volumes, claim(ask.tag, ask.tag)]
    return Scene(before, [pod(ask.tag, volumes=claiming([ask.tag]))])


@row(
    "bound-volumes",
    "VolumeBinding, VolumeZone: bound claims whose volumes say which nodes reach them",
    size=200,
    small=30,
    by=STORAGE,
)
def bound_volumes(ask: Ask) -> Scene:
    reach = [matching(expression(key)) for key in ask.label_keys()]
    volumes = [
        volume(name, "", "1Gi", nodeAffinity={"required": {"nodeSelectorTerms": [one]}})
        for name, one in zip(ask.names(), reach, strict=True)
    ]
    claims = [
        claim(name, spec={"volumeName": name}, metadata={"annotations": FULLY_BOUND})
        for name in ask.names()
    ]
    return Scene([*volumes, *claims], [pod(ask.tag, volumes=claiming(ask.names()))])


@row(
    "volume-reach",
    "VolumeBinding: a bound claim whose volume names thousands of terms for its nodes",
    size=10000,
    small=400,
    by=STORAGE,
)
def volume_reach(ask: Ask) -> Scene:
    terms = [matching(expression(key, "Exists")) for key in ask.label_keys()]
    one = volume(ask.tag, "", "1Gi", nodeAffinity={"required": {"nodeSelectorTerms": terms}})
    held = claim(ask.tag, spec={"volumeName": ask.tag}, metadata={"annotations": FULLY_BOUND})
    return Scene([one, held], [pod(ask.tag, volumes=claiming([ask.tag]))])


@row(
    "allowed-topologies",
    "VolumeBinding: a storage class that allows thousands of topologies, none of which exists",
    size=1500,
    small=400,
    by=STORAGE,
)
def allowed_topologies(ask: Ask) -> Scene:
    terms = [{"matchLabelExpressions": [{"key": key, "values": ["x"]}]} for key in ask.label_keys()]
    of_class = waiting_class(ask, allowedTopologies=terms)
    of_class["provisioner"] = "example.com/provisioner"
    return Scene([of_class, claim(ask.tag, ask.tag)], [pod(ask.tag, volumes=claiming([ask.tag]))])


@row(
    "storage-capacities",
    "VolumeBinding: hundreds of capacities that are too small, each with a selector of its own",
    size=500,
    small=40,
    by=STORAGE,
)
def storage_capacities(ask: Ask) -> Scene:
    driver = f"{ask.tag}.example.com"
    of_class = waiting_class(ask)
    of_class["provisioner"] = driver
    capacities = [
        named(
            "CSIStorageCapacity",
            name,
            api=STORAGE_API,
            storageClassName=ask.tag,
            capacity="1Mi",
            nodeTopology=matching(expression(key)),
        )
        for name, key in zip(ask.names(), ask.label_keys(), strict=True)
    ]
    told = named("CSIDriver", driver, api=STORAGE_API, namespace="", spec={"storageCapacity": True})
    before = [told, of_class, *capacities, claim(ask.tag, ask.tag)]
    return Scene(before, [pod(ask.tag, volumes=claiming([ask.tag]))])
