"""Devices, and claims for them: JSON for an API server.

slice_manifest("n1", devices=2)                 gpu-0 and gpu-1 of a pool called n1, on node n1
claim_manifest("c1", request(count=2))          two devices of the class `gpu`
pod_manifest("p1", **using("c1"))               a pod that uses the claim
"""

from typing import Any

Json = dict[str, Any]

DRIVER = "gpu.example.com"
GROUP = "resource.k8s.io/v1"
FINALIZER = "resource.kubernetes.io/delete-protection"
OF_DRIVER = f'device.driver == "{DRIVER}"'


def class_manifest(name: str = "gpu", *expressions: str, **spec: Any) -> Json:
    """Devices that all expressions accept; all of the driver's, if there are none."""
    selectors = [{"cel": {"expression": one}} for one in expressions or (OF_DRIVER,)]
    return {
        "apiVersion": GROUP,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors, **spec},
    }


def device(name: str, **fields: Any) -> Json:
    return {"name": name, **fields}


def slice_manifest(
    name: str,
    *,
    devices: int | list[Json] = 1,
    node: str | None = None,
    pool: str = "",
    generation: int = 1,
    slices: int = 1,
    **spec: Any,
) -> Json:
    """A slice of a pool of its own on the node of its own name, unless told otherwise."""
    if isinstance(devices, int):
        devices = [device(f"gpu-{n}") for n in range(devices)]
    where: Json = {} if {"nodeSelector", "allNodes"} & spec.keys() else {"nodeName": node or name}
    about = {"name": pool or name, "generation": generation, "resourceSliceCount": slices}
    return {
        "apiVersion": GROUP,
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": DRIVER, "pool": about, **where, "devices": devices, **spec},
    }


def request(name: str = "r", *, of: str = "gpu", **fields: Any) -> Json:
    return {"name": name, "exactly": {"deviceClassName": of, **fields}}


def claim_spec(*requests: Json, **devices: Any) -> Json:
    return {"devices": {"requests": list(requests or (request(),)), **devices}}


def claim_manifest(name: str, *requests: Json, **devices: Any) -> Json:
    """A claim for one device of the class `gpu`, unless there are requests."""
    return {
        "apiVersion": GROUP,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": claim_spec(*requests, **devices),
    }


def using(*claims: str) -> Json:
    """Of a pod's spec: claims that it uses, by name."""
    return {"resourceClaims": [{"name": one, "resourceClaimName": one} for one in claims]}


def template_manifest(name: str, *requests: Json, **metadata: Any) -> Json:
    """A template of claims, with `metadata` for each of them."""
    return {
        "apiVersion": GROUP,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"metadata": metadata, "spec": claim_spec(*requests)},
    }


def allocation(node: str, *devices: str) -> Json:
    """An allocation of a node's devices for the request `r`; the first, unless told otherwise."""
    results = [
        {"request": "r", "driver": DRIVER, "pool": node, "device": name}
        for name in devices or ("gpu-0",)
    ]
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    return {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms}}


def consumer(pod: Json) -> Json:
    """The entry of a pod in `reservedFor`."""
    about = pod["metadata"]
    return {"resource": "pods", "name": about["name"], "uid": about["uid"]}
