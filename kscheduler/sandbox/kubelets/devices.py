"""Example devices: two models of GPUs, as the driver on a node would publish them.

Nodes have one model each, in turn. A `lynx` is allocated as a whole. A `tiger` is allocated whole,
in halves or in quarters: its partitions are devices of their own, which draw on the counters of the
GPU they are part of, so that no more is allocated than there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kscheduler.sandbox.store import Object

DRIVER = "gpu.example.com"
GPU_CLASS = DRIVER
PARTITION_CLASS = f"partition.{DRIVER}"
EXTENDED_RESOURCE = "example.com/gpu"
_API = "resource.k8s.io/v1"
_LYNX_MEMORY = 24  # GiB
_TIGER_MEMORY = 96
_TIGER_UNITS = 4  # of compute
# Partitions of a tiger: name, and how many of them make a whole one.
_PROFILES = (("whole", 1), ("half", 2), ("quarter", 4))


def example_device_classes() -> Iterator[Object]:
    """A class of whole GPUs, also known as an extended resource, and one of partitions."""
    for name, kind, resource in (
        (GPU_CLASS, "gpu", EXTENDED_RESOURCE),
        (PARTITION_CLASS, "partition", None),
    ):
        is_ours = f'device.driver == "{DRIVER}"'
        expression = f'{is_ours} && device.attributes["{DRIVER}"].type == "{kind}"'
        spec: Object = {"selectors": [{"cel": {"expression": expression}}]}
        if resource is not None:
            spec["extendedResourceName"] = resource
        yield {"apiVersion": _API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def example_resource_slices(node: str, index: int, gpus: int) -> Iterator[Object]:
    """The slices of a node with `gpus` GPUs; `index` decides their model.

    Up to eight, as many sets of counters as fit into a slice.
    """
    if index % 2 == 0:
        yield _slice(node, "gpus", 1, devices=[_lynx(number) for number in range(gpus)])
        return
    counters = [
        {
            "name": f"gpu-{number}",
            "counters": {
                "memory": {"value": f"{_TIGER_MEMORY}Gi"},
                "compute": {"value": str(_TIGER_UNITS)},
            },
        }
        for number in range(gpus)
    ]
    devices = [part for number in range(gpus) for part in _tiger(number)]
    # Counters and devices are not allowed in one slice.
    yield _slice(node, "counters", 2, sharedCounters=counters)
    yield _slice(node, "gpus", 2, devices=devices)


def _slice(node: str, name: str, slices: int, **content: Any) -> Object:
    pool = {"name": node, "generation": 1, "resourceSliceCount": slices}
    return {
        "apiVersion": _API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{name}"},
        "spec": {"driver": DRIVER, "pool": pool, "nodeName": node, **content},
    }


def _lynx(number: int) -> Object:
    return _device(f"gpu-{number}", number, _LYNX_MEMORY, "lynx", type="gpu")


def _tiger(number: int) -> Iterator[Object]:
    """One GPU and all its partitions."""
    for profile, parts in _PROFILES:
        for part in range(parts):
            name = f"gpu-{number}" if parts == 1 else f"gpu-{number}-{profile}-{part}"
            kind, memory = "gpu" if parts == 1 else "partition", _TIGER_MEMORY // parts
            device = _device(name, number, memory, "tiger", type=kind, profile=profile)
            consumed = {
                "memory": {"value": f"{memory}Gi"},
                "compute": {"value": str(_TIGER_UNITS // parts)},
            }
            device["consumesCounters"] = [{"counterSet": f"gpu-{number}", "counters": consumed}]
            yield device


def _device(name: str, number: int, memory: int, model: str, **attributes: str) -> Object:
    named = {"model": model, **attributes}
    return {
        "name": name,
        "attributes": {
            **{attribute: {"string": value} for attribute, value in named.items()},
            "numa": {"int": number // 2},
            "driverVersion": {"version": "1.2.0"},
        },
        "capacity": {"memory": {"value": f"{memory}Gi"}},
    }
