"""Random volumes and devices, and claims for them, for the pods of a case.

Volumes are local ones, of a class without a provisioner, or made by a driver for the zone of the
selected node; claims may be bound already, or be those of ephemeral volumes. Devices are of two
models, on some of the nodes; claims of them are named, and then shared by some pods, or made from a
template, or stand behind an extended resource. Sizes of volumes differ, so that the smallest that
does is one.
"""

from dataclasses import replace
from random import Random
from typing import Any

from tests.kit.devices import (
    claim_manifest,
    class_manifest,
    device,
    request,
    slice_manifest,
    template_manifest,
)
from tests.kit.manifests import HOSTNAME, ZONE, Json
from tests.what_if.random_clusters import Case, random_case

VOLUMES, DEVICES = "volumes", "devices"
KINDS = (VOLUMES, DEVICES)
NAMESPACE = "default"
LOCAL, ZONAL = "case-local", "case-zonal"
CSI_DRIVER = "csi.example.com"
EXTENDED = "example.com/device"
ATTRIBUTE = "gpu.example.com"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def random_case_with(kinds: tuple[str, ...], seed: int) -> Case:
    """The case of the seed, with these kinds of claims."""
    case, random = random_case(seed), Random(f"{seed} {kinds}")
    if VOLUMES in kinds:
        case = _with_volumes(case, random)
    if DEVICES in kinds:
        case = _with_devices(case, random)
    return case


def _with_volumes(case: Case, random: Random) -> Case:
    names = [node["metadata"]["name"] for node in case.nodes]
    zones = sorted({node["metadata"]["labels"].get(ZONE, "") for node in case.nodes} - {""})
    sizes = iter(random.sample(range(1, 2000), 200))
    objects: list[tuple[str, Json]] = [
        ("storageclasses", _class(LOCAL, "kubernetes.io/no-provisioner")),
        ("storageclasses", _class(ZONAL, CSI_DRIVER)),
    ]
    limit = random.choice((1, 2, 20, 20))
    objects += [("csinodes", _csi_node(name, limit)) for name in names]
    for number in range(random.randrange(1, 9)):
        where = {HOSTNAME: random.choice(names)}
        volume = _volume(f"case-pv-{number}", LOCAL, next(sizes), where)
        objects.append(("persistentvolumes", volume))
    claims = []
    for number in range(random.randrange(1, 6)):
        name, of_class = f"case-pvc-{number}", random.choice((LOCAL, ZONAL))
        claims.append(name)
        if random.random() < 0.25 and zones:
            # Bound already, to a volume of some zone.
            where = {ZONE: random.choice(zones)}
            volume = _volume(f"{name}-pv", ZONAL, 2000, where)
            reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
            reference |= {"namespace": NAMESPACE, "name": name}
            volume["spec"]["claimRef"] = reference
            objects.append(("persistentvolumes", volume))
            claim = _claim(random, name, ZONAL, 2000)
            claim["spec"] |= {"volumeName": f"{name}-pv", "accessModes": ["ReadWriteOnce"]}
        else:
            claim = _claim(random, name, of_class, random.randrange(1, 2000))
        objects.append(("persistentvolumeclaims", claim))
    asked = []
    for pod in case.asked:
        volumes: list[Json] = []
        if random.random() < 0.6:
            source = {"persistentVolumeClaim": {"claimName": random.choice(claims)}}
            volumes.append({"name": "data", **source})
        if random.random() < 0.25:
            template = {"spec": _claim_spec(random, random.choice((LOCAL, ZONAL)), 1 + len(asked))}
            volumes.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}})
        asked.append(_with_spec(pod, volumes=volumes) if volumes else pod)
    nodes = [_attached_by_controller(node) for node in case.nodes]
    return replace(case, nodes=nodes, objects=[*case.objects, *objects], asked=asked)


def _attached_by_controller(node: Json) -> Json:
    """As kubelets mark their nodes: volumes are not attached by themselves."""
    managed = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
    return {**node, "metadata": {**node["metadata"], "annotations": managed}}


def _class(name: str, provisioner: str) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _csi_node(name: str, limit: int) -> Json:
    driver = {"name": CSI_DRIVER, "nodeID": name, "topologyKeys": [ZONE]}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": [{**driver, "allocatable": {"count": limit}}]},
    }


def _volume(name: str, of_class: str, size: int, where: dict[str, str]) -> Json:
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in where.items()]
    selector = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    source: Json = {"csi": {"driver": CSI_DRIVER, "volumeHandle": name}}
    if of_class == LOCAL:
        source = {"local": {"path": f"/{name}"}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": f"{size}Mi"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": of_class,
            "nodeAffinity": {"required": selector},
            **source,
        },
    }


def _claim(random: Random, name: str, of_class: str, size: int) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": _claim_spec(random, of_class, size),
    }


def _claim_spec(random: Random, of_class: str, size: int) -> Json:
    # Volumes that are there have the one mode.
    modes = ("ReadWriteOnce",) if of_class == LOCAL else ("ReadWriteOnce", "ReadWriteOncePod")
    return {
        "accessModes": [random.choice(modes)],
        "storageClassName": of_class,
        "resources": {"requests": {"storage": f"{size}Mi"}},
    }


def _with_devices(case: Case, random: Random) -> Case:
    names = [node["metadata"]["name"] for node in case.nodes]
    objects: list[tuple[str, Json]] = [
        ("deviceclasses", class_manifest("case-device", extendedResourceName=EXTENDED))
    ]
    for name in random.sample(names, random.randrange(1, min(6, len(names)) + 1)):
        models = [random.choice("ab") for _ in range(random.randrange(1, 4))]
        devices = [
            device(f"gpu-{number}", attributes={"model": {"string": model}})
            for number, model in enumerate(models)
        ]
        objects.append(("resourceslices", slice_manifest(name, devices=devices)))
    claims = []
    for number in range(random.randrange(1, 4)):
        claim = claim_manifest(f"case-claim-{number}", _request(random))
        claim["metadata"]["namespace"] = NAMESPACE
        claims.append(claim["metadata"]["name"])
        objects.append(("resourceclaims", claim))
    template = template_manifest("case-template", _request(random))
    template["metadata"]["namespace"] = NAMESPACE
    objects.append(("resourceclaimtemplates", template))
    asked = []
    for pod in case.asked:
        chance = random.random()
        if chance < 0.3:
            entry = {"name": "device", "resourceClaimName": random.choice(claims)}
            pod = _with_spec(pod, resourceClaims=[entry])
        elif chance < 0.6:
            entry = {"name": "device", "resourceClaimTemplateName": "case-template"}
            pod = _with_spec(pod, resourceClaims=[entry])
        elif chance < 0.75:
            pod = _with_extended_resource(pod, random.randrange(1, 3))
        asked.append(pod)
    return replace(case, objects=[*case.objects, *objects], asked=asked)


def _request(random: Random) -> Json:
    fields: dict[str, Any] = {"count": random.choice((1, 1, 1, 2))}
    if random.random() < 0.4:
        model = random.choice("ab")
        expression = f'device.attributes["{ATTRIBUTE}"].model == "{model}"'
        fields["selectors"] = [{"cel": {"expression": expression}}]
    return request(of="case-device", **fields)


def _with_spec(pod: Json, **fields: Any) -> Json:
    return {**pod, "spec": {**pod["spec"], **fields}}


def _with_extended_resource(pod: Json, count: int) -> Json:
    (container,) = pod["spec"]["containers"]
    resources = container.get("resources", {})
    amounts = {EXTENDED: str(count)}
    resources = {
        "requests": {**resources.get("requests", {}), **amounts},
        "limits": {**resources.get("limits", {}), **amounts},
    }
    return _with_spec(pod, containers=[{**container, "resources": resources}])
