"""Random small clusters and pods to ask about, as JSON; the same for the same seed.

Sizes are odd numbers of millicores, so that few nodes have equal scores. Pods need no kubelet to
end: their grace period is zero.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.kit.manifests import HOSTNAME, ZONE, Json, node_manifest, pod_manifest

CLASSES: dict[str, Json] = {
    "case-low": {"value": -100},
    "case-middle": {"value": 100},
    "case-high": {"value": 1000},
    "case-polite": {"value": 1000, "preemptionPolicy": "Never"},
}
PRIORITIES = {"": 0, **{name: body["value"] for name, body in CLASSES.items()}}
APPS = ("web", "db", "job")
TAINTS = ("gpu", "spot")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Case:
    """`pods` are there already, `asked` are the pods of the review, in their order."""

    seed: int
    nodes: list[Json]
    pods: list[Json]
    budgets: list[Json]
    asked: list[Json]
    # Others that must be there, each with its resource.
    objects: list[tuple[str, Json]] = field(default_factory=list)


def random_case(seed: int) -> Case:
    random = Random(seed)
    zones = random.randrange(1, 4)
    # Now and then more nodes than a search looks at.
    many = random.random() < 0.03
    count = random.randrange(105, 140) if many else random.randrange(1, 13)
    nodes = [_node(random, f"n{number:03d}", zones) for number in range(count)]
    crowded = random.random() < 0.5
    there = random.randrange(count * (4 if crowded else 2) + 1)
    pods = [_there(random, f"old-{number}", nodes) for number in range(there)]
    number = random.randrange(1, 11)
    asked = [_asked(random, f"new-{position}", zones) for position in range(number)]
    if random.random() < 0.2:
        # Replicas of one pod.
        asked = [_renamed(asked[0], f"new-{position}") for position in range(number)]
    budgets = [_budget(random, app) for app in APPS if random.random() < 0.3]
    return Case(seed, nodes, pods, budgets, asked)


def _node(random: Random, name: str, zones: int) -> Json:
    labels = {}
    if random.random() < 0.95:
        labels[ZONE] = f"z{random.randrange(zones)}"
    if random.random() < 0.4:
        labels["disk"] = random.choice(("ssd", "hdd"))
    spec: dict[str, Any] = {}
    taints = [
        {"key": key, "value": "yes", "effect": random.choice(("NoSchedule", "PreferNoSchedule"))}
        for key in TAINTS
        if random.random() < 0.15
    ]
    if taints:
        spec["taints"] = taints
    return node_manifest(
        name,
        cpu=f"{random.randrange(1001, 9001, 2)}m",
        memory=f"{random.randrange(1001, 17001, 2)}Mi",
        pods=random.choice((3, 5, 110, 110, 110)),
        labels=labels,
        **spec,
    )


def _pod(random: Random, name: str, **fields: Any) -> Json:
    ranks = list(PRIORITIES)
    rank = random.choices(ranks, weights=[6, 2, 2, 2, 1])[0]
    if rank:
        fields["priorityClassName"] = rank
    return pod_manifest(
        name,
        namespace="default",
        labels={"app": random.choice(APPS)},
        cpu=f"{random.randrange(51, 2001, 2)}m",
        memory=f"{random.randrange(21, 3001, 2)}Mi",
        host_port=random.choice((0, 0, 0, 0, 0, 0, 8080, 9090)),
        terminationGracePeriodSeconds=0,
        **fields,
    )


def _there(random: Random, name: str, nodes: list[Json]) -> Json:
    fields: dict[str, Any] = {"nodeName": random.choice(nodes)["metadata"]["name"]}
    if random.random() < 0.1:
        fields["pod_anti_affinity"] = {REQUIRED: [_term(random)]}
    if random.random() < 0.1:
        fields["pod_affinity"] = {PREFERRED: [{"weight": 37, "podAffinityTerm": _term(random)}]}
    return _pod(random, name, **fields)


def _asked(random: Random, name: str, zones: int) -> Json:
    fields: dict[str, Any] = {}
    if random.random() < 0.2:
        fields["nodeSelector"] = random.choice(
            ({"disk": "ssd"}, {ZONE: f"z{random.randrange(zones)}"})
        )
    if random.random() < 0.3:
        fields["tolerations"] = [
            {"key": key, "operator": "Exists"} for key in TAINTS if random.random() < 0.7
        ]
    if random.random() < 0.15:
        disk = {"key": "disk", "operator": random.choice(("Exists", "DoesNotExist"))}
        fields["node_affinity"] = random.choice(
            (
                {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [disk]}]}},
                {PREFERRED: [{"weight": 23, "preference": {"matchExpressions": [disk]}}]},
            )
        )
    for kind in ("pod_affinity", "pod_anti_affinity"):
        chance = random.random()
        if chance < 0.12:
            fields[kind] = {REQUIRED: [_term(random)]}
        elif chance < 0.25:
            fields[kind] = {PREFERRED: [{"weight": 41, "podAffinityTerm": _term(random)}]}
    if random.random() < 0.2:
        fields["topologySpreadConstraints"] = [
            {
                "maxSkew": random.randrange(1, 3),
                "topologyKey": random.choice((ZONE, HOSTNAME)),
                "whenUnsatisfiable": random.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": {"matchLabels": {"app": random.choice(APPS)}},
            }
        ]
    return _pod(random, name, **fields)


def _term(random: Random) -> Json:
    selector = {"matchLabels": {"app": random.choice(APPS)}}
    return {"topologyKey": random.choice((ZONE, HOSTNAME)), "labelSelector": selector}


def _budget(random: Random, app: str) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"case-{app}", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        "status": {
            "disruptionsAllowed": random.randrange(3),
            "currentHealthy": 3,
            "desiredHealthy": 1,
            "expectedPods": 3,
        },
    }


def _renamed(pod: Json, name: str) -> Json:
    return {**pod, "metadata": {**pod["metadata"], "name": name}}
