"""Recorded scenarios, changed in ways whose outcome is known: the decisions must not change.

    python -m tests.parity.variants [FILE…]

A recording says what kube-scheduler decided on one cluster. Much of a cluster is no matter to a
decision: in which order objects were listed, what they are called as long as names sort as before,
how a driver cuts its pool into slices, objects that are nobody's. Each variant changes one of
these, so what was recorded holds for it, too, apart from names.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from tests.parity.run import VECTORS, lines, replay, silenced, told
from tests.parity.vector_difference import Mismatch

Json = dict[str, Any]
Variant = Callable[[Json, Json], tuple[Json, Json]]

RESOURCE_GROUP = "resource.k8s.io/v1"
# Sorts among other names as nothing does that a recording has.
PREFIX = "x-"
NOWHERE = "nowhere.example.com"


def permuted(scenario: Json, result: Json) -> tuple[Json, Json]:
    """Objects are listed in another order."""
    objects = list(scenario["objects"])
    Random(scenario["name"]).shuffle(objects)
    return {**scenario, "objects": objects}, result


def renamed(scenario: Json, result: Json) -> tuple[Json, Json]:
    """Nodes and pools have other names, which sort as before."""
    names = {one["metadata"]["name"] for one in scenario["objects"] if one["kind"] == "Node"}
    names |= {one["spec"]["pool"]["name"] for one in _slices(scenario)}
    # A pool may be called `all`, which is not meant where a text says it.
    plain = "|".join(name for name in names if name.isalpha()) or "(?!)"
    longest_first = sorted((name for name in names if not name.isalpha()), key=len, reverse=True)
    others = "|".join(map(re.escape, longest_first))
    word = re.compile(rf'((?<=["/])(?:{plain})|(?<![\w.-])(?:{others}))(?![\w.])')
    texts = (word.sub(rf"{PREFIX}\1", json.dumps(one)) for one in (scenario, result))
    other_scenario, other_result = map(json.loads, texts)
    return other_scenario, other_result


def with_strangers(scenario: Json, result: Json) -> tuple[Json, Json]:
    """There are also a class nobody asks for, devices of a node that is gone, claims of others."""
    return {**scenario, "objects": [*_strangers(), *scenario["objects"]]}, result


def _strangers() -> Iterator[Json]:
    pool = {"name": NOWHERE, "generation": 1, "resourceSliceCount": 1}
    device = {"request": "r", "driver": NOWHERE, "pool": NOWHERE, "device": "d0"}
    wants = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": NOWHERE}}]}}
    taint = {"key": "example.com/broken", "effect": "NoExecute"}
    specs: list[tuple[str, Json]] = [
        ("DeviceClass", {"spec": {"selectors": [{"cel": {"expression": "true"}}]}}),
        (
            "ResourceSlice",
            {
                "spec": {
                    "driver": NOWHERE,
                    "nodeName": NOWHERE,
                    "pool": pool,
                    "devices": [{"name": "d0"}],
                }
            },
        ),
        (
            "ResourceClaim",
            {"spec": wants, "status": {"allocation": {"devices": {"results": [device]}}}},
        ),
        ("DeviceTaintRule", {"spec": {"deviceSelector": {"driver": NOWHERE}, "taint": taint}}),
    ]
    for number, (kind, body) in enumerate(specs):
        metadata = {"name": NOWHERE, "uid": f"stranger-{number}", "resourceVersion": "1"}
        if kind == "ResourceClaim":
            metadata["namespace"] = "nowhere"
        yield {"apiVersion": RESOURCE_GROUP, "kind": kind, "metadata": metadata, **body}


def split(scenario: Json, result: Json) -> tuple[Json, Json]:
    """A pool that is one slice becomes two, each with a part of its devices."""
    slices_of_pool = Counter(map(_pool, _slices(scenario)))
    objects: list[Json] = []
    for one in scenario["objects"]:
        halves = _halves(one) if slices_of_pool.get(_pool(one)) == 1 else [one]
        objects += halves
    return {**scenario, "objects": objects}, result


def _halves(whole: Json) -> list[Json]:
    spec = whole["spec"]
    devices = spec.get("devices") or []
    complete = spec["pool"].get("resourceSliceCount") == 1
    if len(devices) < 2 or not complete or spec.get("sharedCounters"):
        return [whole]
    middle = len(devices) // 2
    halves = []
    for number, part in enumerate((devices[:middle], devices[middle:])):
        half = deepcopy(whole)
        half["metadata"] |= {
            "name": f"{whole['metadata']['name']}-{number}",
            "uid": f"{whole['metadata']['uid']}-{number}",
        }
        half["spec"]["devices"] = part
        half["spec"]["pool"]["resourceSliceCount"] = 2
        halves.append(half)
    return halves


def outdated(scenario: Json, result: Json) -> tuple[Json, Json]:
    """Beside every slice there is the one that it has replaced.

    Except where nodes are scored by devices: upstream counts those of old slices, too.
    """
    if _scores_devices(scenario):
        return scenario, result
    objects: list[Json] = []
    for one in scenario["objects"]:
        objects.append(one)
        if one["kind"] == "ResourceSlice":
            newer = objects[-1] = deepcopy(one)
            newer["spec"]["pool"]["generation"] = one["spec"]["pool"].get("generation", 0) + 1
            older = deepcopy(one)
            older["metadata"] |= {
                "name": f"old-{one['metadata']['name']}",
                "uid": f"old-{one['metadata']['uid']}",
            }
            objects.append(older)
    return {**scenario, "objects": objects}, result


def _scores_devices(scenario: Json) -> bool:
    """Whether the arguments of a plugin name a resource that a class stands behind."""
    classes = [one for one in scenario["objects"] if one["kind"] == "DeviceClass"]
    names = {one["spec"].get("extendedResourceName") for one in classes} - {None}
    names.add("deviceclass.resource.kubernetes.io/")
    config = json.dumps(scenario.get("config"))
    return any(name in config for name in names)


VARIANTS: tuple[Variant, ...] = (permuted, renamed, with_strangers, split, outdated)


def _slices(scenario: Json) -> list[Json]:
    return [one for one in scenario["objects"] if one["kind"] == "ResourceSlice"]


def _pool(one: Json) -> tuple[str, str] | None:
    if one["kind"] != "ResourceSlice":
        return None
    return one["spec"]["driver"], one["spec"]["pool"]["name"]


def differences(path: Path, variant: Variant, every: int = 1) -> list[str]:
    """What a family's decisions differ in when one thing is different that should not matter."""
    found = []
    with silenced():
        for line in islice(lines(path), 0, None, every):
            scenario, result = variant(line["scenario"], line["result"])
            found += [
                told(scenario["name"], one)
                for one in replay(scenario, result)
                if isinstance(one, Mismatch)
            ]
    return found


def main(paths: list[str]) -> int:
    differing = 0
    for path in map(Path, paths or sorted(VECTORS.glob("dra*"))):
        for variant in VARIANTS:
            found = differences(path, variant)
            differing += bool(found)
            print(f"{path.name.split('.')[0]}, {variant.__name__}: {len(found)} differences")
            print("".join(f"  {one}\n" for one in found[:5]), end="", flush=True)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
