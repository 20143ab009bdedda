"""The chapters of scenarios, each a short play around the small workload that is there already.

A chapter takes the cluster as it is: one node or thousands, of any size. What it makes it deletes,
also when it is broken off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from kscheduler.cli.scenarios import moves
from kscheduler.cli.scenarios.moves import DEPLOYMENTS
from kscheduler.cli.scenarios.stage import Json, Stage
from kscheduler.cli.scenarios.workload import (
    BURST,
    IMAGE,
    OTHER_IMAGE,
    TOLERATED_SECONDS,
    deployment,
    gpu_workload,
    pod_manifest,
)
from kscheduler.rest.status import StatusError
from kscheduler.sandbox import example_device_classes, example_resource_slices

# Nodes that a preemption or devices are played on, of however many there are.
STAGE_NODES = 3
BURST_PER_NODE, MOST_IN_BURST = 8, 60
IMPORTANT = "important"
# GPUs that the pods of the chapter need at most, when no partition is left for any of them.
GPUS_NEEDED = 6
_READY_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Chapter(msgspec.Struct, frozen=True):
    """A part of a scenario that can be played alone."""

    title: str
    play: Callable[[Stage], Awaitable[None]]


async def rollout(stage: Stage) -> None:
    """A rolling update of `web` to the other one of two images."""
    images = (IMAGE, OTHER_IMAGE)

    def change(item: Json) -> None:
        container = item["spec"]["template"]["spec"]["containers"][0]
        container["image"] = images[container["image"] == images[0]]

    def is_done() -> bool:
        found = stage.objects.get(DEPLOYMENTS, "web")
        wanted, state = found["spec"]["replicas"], found.get("status") or {}
        seen = state.get("observedGeneration", 0) >= found["metadata"]["generation"]
        counts = (state.get(one, 0) for one in ("replicas", "updatedReplicas", "availableReplicas"))
        return seen and all(count == wanted for count in counts)

    await stage.tell(
        "the Deployment web gets a new image. Two pods more than its six may exist, and none may "
        "be missing: so new ones have to run before old ones go."
    )
    stage.objects.update(DEPLOYMENTS, "web", change)
    stage.say("watch web: every new pod is placed so that zones stay nearly even, step by step.")
    await stage.until(is_done)
    await stage.tell(
        "done. Old pods count until they are gone, so zones may differ now, by the two pods that "
        "the spread constraint of web allows."
    )


async def burst(stage: Stage) -> None:
    """A Deployment of many small pods that comes and goes."""
    count = min(MOST_IN_BURST, BURST_PER_NODE * max(2, stage.objects.count("nodes")))
    await stage.tell(f"{count} pods are about to come at once.", 0.6)
    before = moves.replicas_of(stage.objects, BURST)
    stage.change_burst(count)
    try:
        stage.say(
            "the queue fills and is empty again in a moment. Each pod is decided on its own, on "
            "the cluster as the pod before has left it."
        )
        await stage.all_run(BURST, before + count)
        await stage.tell(f"all {count} run.", 2, hint="Keys + and - make bursts of your own.")
    finally:
        stage.change_burst(-count)
    await stage.until(lambda: stage.count(BURST) <= before)


async def node_failure(stage: Stage) -> None:
    """A node of `web` whose kubelet stops, and starts again."""
    there = {
        one["spec"].get("nodeName", "")
        for one in stage.objects.list("pods", label_selector="app=web")
    }
    candidates = sorted(there & set(stage.usable_nodes()))
    if not candidates:
        await stage.tell("no usable node has a pod of web, so none of them fails today.")
        return
    node = stage.rng.choice(candidates)

    def taints() -> set[str]:
        return {one["key"] for one in stage.objects.get("nodes", node)["spec"].get("taints") or ()}

    def has_left() -> bool:
        pods = stage.objects.list(
            "pods", field_selector=f"spec.nodeName={node}", label_selector="app=web"
        )
        return all("deletionTimestamp" in pod["metadata"] for pod in pods)

    await stage.tell(f"the kubelet of {node} is about to stop.", 0.6)
    moves.set_kubelet(stage.objects, node, runs=False)
    try:
        stage.say(
            f"{node} is silent. Its Lease is not renewed any more, and that is all anybody can "
            "know: it takes some seconds until the cluster believes it."
        )
        await stage.until(lambda: bool(taints() & set(_READY_TAINTS)))
        stage.say(
            f"{node} is NotReady and tainted. Its pods tolerate that for {TOLERATED_SECONDS} s, by "
            "a toleration of theirs; then they are evicted, and their owners make new ones."
        )
        await stage.until(has_left)
        await stage.tell(
            f"web is on other nodes, as far as there are any. {node} will be back soon.", 2
        )
    finally:
        moves.set_kubelet(stage.objects, node, runs=True)
    await stage.until(lambda: not taints() & set(_READY_TAINTS))
    await stage.tell(
        f"{node} is back and its taints are gone, but nobody moves back to it: a scheduler places "
        "pods, and does not move them."
    )


async def pending(stage: Stage) -> None:
    """A pod that waits for a label of some node."""
    nodes = stage.some_nodes(1)
    if not nodes:
        await stage.tell("no node takes pods, so all of them wait.")
        return
    (node,) = nodes
    stage.create(
        pod_manifest("picky", "picky", cpu="10m", memory="16Mi", nodeSelector={"disk": "ssd"})
    )
    try:
        stage.say(
            "picky wants a node with the label disk=ssd, and there is none. It waits.",
            "Select it below and press Enter to be told why, and what would help.",
        )
        await stage.until(lambda: stage.is_refused("picky"))
        await stage.rest(2.5)
        moves.set_label(stage.objects, node, "disk", "ssd")
        stage.say(
            f"{node} gets the label. That wakes the pods that wait for a label, and no others."
        )
        await stage.all_run("picky", 1)
        await stage.rest()
    finally:
        moves.delete(stage.objects, "pods", "picky")
        moves.set_label(stage.objects, node, "disk", None)
    await stage.until(lambda: not stage.count("picky"))


async def preemption(stage: Stage) -> None:
    """Nodes full of pods of low priority, and a pod of a higher one."""
    nodes = stage.some_nodes(STAGE_NODES)
    free = stage.free_milli_cpu(nodes)
    # Some of them fill a node, and no node is left with room for one more.
    each = max(min(free.values(), default=0) // 3, max(free.values(), default=0) // 20)
    if each < 10:
        await stage.tell("no node has CPU left, so there is nothing to play a preemption with.")
        return
    only_there = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
                    for name in nodes
                ]
            }
        }
    }
    count = sum(room // each for room in free.values())
    stage.objects.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": IMPORTANT},
            "value": 1000,
            "description": "Of the sandbox's scenario.",
        }
    )
    try:
        stage.create(
            deployment("filler", count, cpu=f"{each}m", memory="16Mi", affinity=only_there)
        )
        stage.say(f"fillers of priority 0 take all CPU that is left on {', '.join(nodes)}.")
        await stage.all_run("filler", count)
        await stage.tell(
            f"{', '.join(nodes)} are full. Now a pod of priority 1000 comes that wants as much as "
            "two fillers have, on one of these nodes.",
            1.5,
        )
        asked = f"{2 * each}m"
        vip = pod_manifest("vip", "vip", cpu=asked, memory="16Mi", affinity=only_there)
        vip["spec"]["priorityClassName"] = IMPORTANT
        stage.create(vip)
        stage.say(
            "the scheduler looks for the node where it hurts least. It is nominated for vip, which "
            "gets it when the victims are gone.",
            "They are struck through.",
        )
        await stage.all_run("vip", 1)
        await stage.tell(
            "vip runs. New fillers were made for those that had to go; they wait, for nobody makes "
            "room for them.",
            2.5,
        )
        moves.delete(stage.objects, "pods", "vip")
        stage.say("vip is done and deleted: that event wakes the fillers, and they are placed.")
        await stage.until(lambda: not stage.count("vip") and not stage.waiting("filler"))
        await stage.rest()
    finally:
        moves.delete(stage.objects, "pods", "vip")
        moves.delete(stage.objects, DEPLOYMENTS, "filler")
        moves.delete(stage.objects, "priorityclasses.scheduling.k8s.io", IMPORTANT)
    await stage.until(lambda: not stage.count("filler"))


async def devices(stage: Stage) -> None:
    """Pods with claims, on nodes that have GPUs for as long as the chapter lasts, or always."""
    made: list[tuple[str, str]] = []

    def create(manifest: Json) -> None:
        stage.create(manifest)
        made.append((_RESOURCES[manifest["kind"]], manifest["metadata"]["name"]))

    apps: set[str] = set()
    try:
        if not stage.objects.count("resourceslices.resource.k8s.io"):
            nodes = stage.some_nodes(STAGE_NODES)
            for device_class in example_device_classes():
                create(device_class)
            for index, node in enumerate(nodes):
                for one in example_resource_slices(node, index, -(-GPUS_NEEDED // len(nodes))):
                    create(one)
            await stage.tell(
                f"the driver on {', '.join(nodes)} publishes GPUs in ResourceSlices: models lynx "
                "and tiger; a tiger can be had in quarters."
            )
        for manifest in gpu_workload():
            create(manifest)
            if manifest["kind"] == "Pod":
                apps.add(manifest["metadata"]["labels"]["app"])
                await stage.rest(0.2)
        stage.say(
            "train wants a whole GPU each, infer a quarter, two notebooks share one, render asks "
            "by the name of an extended resource. Devices are chosen together with the node."
        )
        await stage.until(lambda: not any(map(stage.waiting, apps)))
        await stage.tell(
            "all of them have devices.",
            2.5,
            hint="The column DEVICES says how many of a node's are allocated.",
        )
    finally:
        # Claims before the classes they name; pods first of all.
        for resource, name in reversed(made):
            moves.delete(stage.objects, resource, name)
    await stage.until(lambda: not any(map(stage.count, apps)))
    await stage.tell("the pods are gone, and the claims that were made for them with them.")


_RESOURCES = {
    "Pod": "pods",
    "DeviceClass": "deviceclasses.resource.k8s.io",
    "ResourceSlice": "resourceslices.resource.k8s.io",
    "ResourceClaim": "resourceclaims.resource.k8s.io",
    "ResourceClaimTemplate": "resourceclaimtemplates.resource.k8s.io",
}

CHAPTERS = {
    "rollout": Chapter("A rollout", rollout),
    "burst": Chapter("A burst", burst),
    "node-failure": Chapter("A node fails", node_failure),
    "pending": Chapter("A pod that fits nowhere", pending),
    "preemption": Chapter("A preemption", preemption),
    "devices": Chapter("Devices", devices),
}


def chapters_of(scenario: str) -> Sequence[Chapter]:
    """Chapters of a scenario by its name; `workload` and `none` have none."""
    if scenario == "tour":
        return tuple(CHAPTERS.values())
    return (CHAPTERS[scenario],) if scenario in CHAPTERS else ()


async def play(stage: Stage, chapters: Sequence[Chapter], *, again: bool) -> None:
    """All chapters in turn, and `again` from the start for as long as it is let.

    What the API server refuses, because somebody else plays there too, ends a chapter.
    """
    while chapters:
        for number, chapter in enumerate(chapters, 1):
            place = f"{number}/{len(chapters)} " if len(chapters) > 1 else ""
            stage.title = f"{place}{chapter.title}"
            try:
                await chapter.play(stage)
            except StatusError as error:
                await stage.tell(f"it ends early, for the API server says: {error}.")
        stage.title = "The end"
        if not again:
            stage.say("nothing more happens by itself; the cluster is yours.")
            return
        await stage.tell(
            "it begins again in a moment. Space holds it, and the cluster is yours.", 2
        )
