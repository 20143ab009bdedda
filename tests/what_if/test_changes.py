"""Remedies carried out: every change lets as many nodes take the pod as it says."""

import copy
import random
import re

import pytest

from kscheduler.app.explanation import explained
from kscheduler.what_if import Reviewer
from tests.kit.manifests import HOSTNAME, ZONE, near, node_terms, pod_manifest, required
from tests.kit.objects import make_node, make_pod

CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
RULES = {
    "node affinity": "nodeAffinity",
    "pod affinity": "podAffinity",
    "pod anti-affinity": "podAntiAffinity",
}


def random_node(rng, name):
    taints = [
        {"key": key, "value": "v", "effect": rng.choice(["NoSchedule", "NoExecute"])}
        for key in rng.sample(["t1", "t2"], rng.choice([0, 0, 0, 1, 2]))
    ]
    is_cordoned = rng.random() < 0.2
    return {
        "name": name,
        "labels": {HOSTNAME: name, ZONE: rng.choice("ab"), "disk": rng.choice(["ssd", "hdd"])},
        "taints": [*taints, CORDON] if is_cordoned else taints,
        "unschedulable": is_cordoned,
        "allocatable": {
            "cpu": rng.choice(["2", "4", "3500m"]),
            "memory": rng.choice(["2Gi", "4Gi", "3333Mi"]),
            "pods": rng.choice(["2", "10"]),
        },
    }


def random_pod(rng, name, node):
    rules = {}
    if rng.random() < 0.2:
        rules["podAntiAffinity"] = required(near({"app": "new"}, rng.choice([HOSTNAME, ZONE])))
    return {
        "name": name,
        "node": node,
        "labels": {"app": rng.choice(["a", "b", "new"])},
        "requests": {"cpu": rng.choice(["100m", "1500m"]), "memory": rng.choice(["1Gi", "100Mi"])},
        "affinity": rules,
        "host_port": rng.choice([0, 0, 0, 80]),
    }


def random_question(rng):
    wishes = {}
    if rng.random() < 0.4:
        wishes["nodeSelector"] = {rng.choice(["disk", "none"]): "ssd"}
    if rng.random() < 0.3:
        wish = {"key": ZONE, "operator": "In", "values": [rng.choice("abc")]}
        wishes["node_affinity"] = node_terms(wish)
    for kind in ("pod_affinity", "pod_anti_affinity"):
        if rng.random() < 0.35:
            term = near({"app": rng.choice("abz")}, rng.choice([HOSTNAME, ZONE]))
            wishes[kind] = required(term)
    amounts = {"cpu": rng.choice(["1", "2500m", "9"]), "memory": rng.choice(["512Mi", "3Gi"])}
    port = rng.choice([0, 0, 80])
    return pod_manifest("p", labels={"app": "new"}, host_port=port, **amounts, **wishes)


def changed(change, nodes, pods, pod):
    """The cluster and the pod when the change has been made."""
    nodes, pods, pod = copy.deepcopy((nodes, pods, pod))
    spec = pod["spec"]
    if found := re.match(r"with (\S+) instead of \S+ of (\S+)", change):
        spec["containers"][0]["resources"]["requests"][found[2]] = found[1]
    elif found := re.match(r"with a toleration of (\w+)=v:(\w+)", change):
        spec["tolerations"] = [{"key": found[1], "value": "v", "effect": found[2]}]
    elif change == "with cordoned nodes uncordoned":
        for node in nodes:
            node["unschedulable"] = False
            node["taints"] = [taint for taint in node["taints"] if taint != CORDON]
    elif change == "without the anti-affinity of pods that run there":
        for other in pods:
            other["affinity"] = {}
    elif change.startswith("without its host port"):
        del spec["containers"][0]["ports"]
    else:
        for rule in change.removeprefix("without its ").split(" and "):
            del (spec if rule == "node selector" else spec["affinity"])[
                RULES.get(rule, "nodeSelector")
            ]
    return nodes, pods, pod


@pytest.mark.parametrize("seed", range(60))
async def test_a_change_lets_as_many_nodes_take_the_pod_as_it_says(world, seed):
    rng = random.Random(seed)

    def asked(nodes, pods, pod):
        cluster = world([make_node(**one) for one in nodes], [make_pod(**one) for one in pods])
        return cluster.review(
            pod, detail="Candidates", reviewer=Reviewer(cluster.live, explain=explained)
        )

    nodes = [random_node(rng, f"n{number}") for number in range(rng.randint(1, 7))]
    pods = [
        random_pod(rng, f"e{number}", rng.choice(nodes)["name"])
        for number in range(rng.randint(0, 9))
    ]
    pod = random_question(rng)
    for remedy in (await asked(nodes, pods, pod)).remedies:
        status = await asked(*changed(remedy.change, nodes, pods, pod))
        counts = status.placements[0].explanation.nodes
        assert (remedy.change, counts.feasible) == (remedy.change, remedy.more_nodes)
