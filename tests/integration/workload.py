"""Mixed work: nodes in zones, and pods that use every hard rule there is.

Pods that a constraint or term selects carry it themselves, so that the final state can be judged.
"""

import random
from collections.abc import Iterator

from tests.integration.cluster import Object, pod
from tests.kit.manifests import node_manifest

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
ZONES = ("a", "b", "c")
DEDICATED = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}


def mixed_nodes(count: int, *, cpu: str = "4") -> Iterator[Object]:
    """A tenth is tainted, a tenth is cordoned, half has a fast disk."""
    for number in range(count):
        labels = {ZONE: ZONES[number % len(ZONES)], "size": str(number % 7)}
        if number % 2:
            labels["disk"] = "ssd"
        fields = {}
        if number % 10 == 3:
            fields["taints"] = [DEDICATED]
        if number % 10 == 7:
            fields["unschedulable"] = True
        yield node_manifest(f"n{number}", cpu=cpu, labels=labels, **fields)


def mixed_pods(count: int, rng: random.Random, *, group: int = 8) -> Iterator[Object]:
    """Each kind in groups of so many pods, in random order."""
    pods = [_pod(number, group, rng) for number in range(count)]
    rng.shuffle(pods)
    yield from pods


def _pod(number: int, group: int, rng: random.Random) -> Object:
    make = _KINDS[number % len(_KINDS)]
    app = f"{make.__name__[1:].replace('_', '-')}-{number // len(_KINDS) // group}"
    size = rng.choice(("50m", "100m", "200m"))
    return pod(f"{app}-{number}", cpu=size, labels={"app": app}, **make(app, number))


def _plain(app: str, number: int) -> Object:
    return {}


def _selecting(app: str, number: int) -> Object:
    return {"nodeSelector": {"disk": "ssd"}}


def _choosy(app: str, number: int) -> Object:
    wanted = [
        {"key": "size", "operator": "Gt", "values": ["2"]},
        {"key": ZONE, "operator": "NotIn", "values": ["c"]},
    ]
    terms = {"nodeSelectorTerms": [{"matchExpressions": wanted}]}
    return {"affinity": {"nodeAffinity": {_REQUIRED: terms}}}


def _tolerant(app: str, number: int) -> Object:
    return {
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "batch"}],
        "nodeSelector": {ZONE: "a"},
    }


def _listening(app: str, number: int) -> Object:
    return {"ports": [{"containerPort": 80, "hostPort": 8000 + number % 5}]}


def _spread_over_zones(app: str, number: int) -> Object:
    return {"topologySpreadConstraints": [_constraint(app, ZONE)]}


def _spread_over_hosts(app: str, number: int) -> Object:
    return {"topologySpreadConstraints": [_constraint(app, HOST)]}


def _apart(app: str, number: int) -> Object:
    return {"affinity": {"podAntiAffinity": {_REQUIRED: [_term(app, HOST)]}}}


def _together(app: str, number: int) -> Object:
    return {"affinity": {"podAffinity": {_REQUIRED: [_term(app, ZONE)]}}}


_KINDS = (
    _plain,
    _selecting,
    _choosy,
    _tolerant,
    _listening,
    _spread_over_zones,
    _spread_over_hosts,
    _apart,
    _together,
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _term(app: str, key: str) -> Object:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def _constraint(app: str, key: str) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
