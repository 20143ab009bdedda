"""What became of manifests: whether anything still moves, and how many pods each node group has.

A node group is a pool in a zone: its nodes are alike, so that which of them a pod gets is left to
chance, and only their sum can be compared.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import yaml

Json = dict[str, Any]
# Workload → node group → pods.
Counts = dict[str, dict[str, int]]

HERE = Path(__file__).parent
CLUSTER = HERE / "cluster" / "cluster.yaml"
MANIFESTS = sorted(HERE.glob("*.yaml"))
# Placements as kube-scheduler makes them on a real API server; null where they vary.
EXPECTED = HERE / "expected.json"
WAITING = "waiting"
ZONE = "topology.kubernetes.io/zone"
JOB_NAME = "batch.kubernetes.io/job-name"
RUN_SECONDS = "sandbox.kscheduler.dev/run-seconds"
A_DAY = str(24 * 3600)
# Of objects that are applied when all others have their pods.
APPLIED = "example.com/applied"


def read_manifest(path: Path) -> list[list[Json]]:
    """The objects of a file, in the one or two steps in which they are applied.

    Pods of Jobs are told to run on, as they do with kwok: when they end is not a scheduler's
    matter.
    """
    steps: tuple[list[Json], list[Json]] = ([], [])
    for one in yaml.safe_load_all(path.read_text()):
        if one["kind"] == "Job":
            about = one["spec"]["template"].setdefault("metadata", {})
            about.setdefault("annotations", {})[RUN_SECONDS] = A_DAY
        later = one["metadata"].get("annotations", {}).get(APPLIED) == "later"
        steps[later].append(one)
    return [step for step in steps if step]


def groups_of(objects: list[Json]) -> dict[str, str]:
    """The group of each node, by the node's name."""
    nodes = (one["metadata"] for one in objects if one["kind"] == "Node")
    return {one["name"]: f"{one['labels']['pool']}-{one['labels'][ZONE]}" for one in nodes}


def expected() -> dict[str, Counts | None]:
    """By the name of the manifest."""
    known: dict[str, Counts | None] = json.loads(EXPECTED.read_text())
    return known


class State(msgspec.Struct):
    """Workloads of a namespace, and their pods."""

    pods: list[Json]
    deployments: list[Json]
    statefulsets: list[Json]
    daemonsets: list[Json]
    jobs: list[Json]

    def counts(self, groups: dict[str, str]) -> Counts:
        found: dict[str, Counter[str]] = {}
        for pod in self.pods:
            labels = pod["metadata"]["labels"]
            workload = labels.get("app") or labels[JOB_NAME]
            node = pod["spec"].get("nodeName")
            found.setdefault(workload, Counter())[groups[node] if node else WAITING] += 1
        return {name: dict(sorted(found[name].items())) for name in sorted(found)}

    def unfinished(self) -> str:
        """The first thing that is still going on; "" when controllers, kubelets and scheduler have
        come to an end. A pod that was found unschedulable has, unless it was nominated.
        """
        for one in (*self.deployments, *self.statefulsets, *self.daemonsets):
            generation = one.get("status", {}).get("observedGeneration", 0)
            if generation < one["metadata"].get("generation", 1):
                return f"{_title(one)} has not been seen by its controller"
        for one in (*self.deployments, *self.statefulsets):
            has, wanted = one["status"].get("replicas", 0), one["spec"]["replicas"]
            if has != wanted:
                return f"{_title(one)} has {has} of {wanted} pods"
        for one in self.daemonsets:
            status = one["status"]
            has, wanted = status["currentNumberScheduled"], status["desiredNumberScheduled"]
            if not wanted or has != wanted:
                return f"{_title(one)} has {has} of {wanted} pods"
        for one in self.jobs:
            has, wanted = one.get("status", {}).get("active", 0), one["spec"]["parallelism"]
            if has != wanted:
                return f"{_title(one)} has {has} of {wanted} pods"
        return next((text for pod in self.pods if (text := _unfinished_pod(pod))), "")

    @property
    def has_waiting(self) -> bool:
        return any(not pod["spec"].get("nodeName") for pod in self.pods)

    def fingerprint(self) -> list[tuple[str, str]]:
        """The same as long as no pod comes, goes or is placed."""
        return sorted(
            (pod["metadata"]["uid"], pod["spec"].get("nodeName", "")) for pod in self.pods
        )


# The fields of a state, and where an API server has them.
PATHS = {
    "pods": "api/v1",
    "deployments": "apis/apps/v1",
    "statefulsets": "apis/apps/v1",
    "daemonsets": "apis/apps/v1",
    "jobs": "apis/batch/v1",
}


def _unfinished_pod(pod: Json) -> str:
    name, status = pod["metadata"]["name"], pod["status"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted"
    if pod["spec"].get("nodeName"):
        return "" if status["phase"] == "Running" else f"pod {name} is {status['phase']}"
    if status.get("nominatedNodeName"):
        return f"pod {name} is nominated"
    scheduled = [one for one in status.get("conditions", ()) if one["type"] == "PodScheduled"]
    if scheduled and scheduled[0].get("reason") == "Unschedulable":
        return ""
    return f"pod {name} has not been decided on"


def _title(one: Json) -> str:
    # Items of a list do not tell their kind.
    return str(one["metadata"]["name"])
