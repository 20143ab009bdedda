"""Outcome of a row: asked of the server, of the proxy's log, and of independent judges."""

import time
from collections.abc import Iterator

import aiohttp
import msgspec

from tests.faults.mirror import key_of
from tests.faults.rig import Rig
from tests.faults.stand_ins import users_of
from tests.kit.checker import FINISHED, violations
from tests.kit.claim_checker import allocation_of, claim_violations
from tests.kit.polling import until

# So long everything may take to come to rest after the last pod was bound.
REST_SECONDS = 20.0
MOST_SENTENCES = 5


class Outcome(msgspec.Struct, tag="outcome", tag_field="kind"):
    """Of one row with one scheduler, in one round."""

    row: int
    who: str
    round: int
    seed: int
    # Durations were multiplied by it.
    scale: float = 1.0
    at: str = ""
    # Pods that came, and those of them that were never bound although there was room.
    pods: int = 0
    lost: int = 0
    # The first few of those.
    unbound: list[str] = []
    # Pods whose binding was carried out more than once, or that were seen on two nodes.
    twice: int = 0
    # Pods that a kubelet had no room for.
    overcommitted: int = 0
    # Rules that the final state breaks, and what else single rows do not allow.
    violations: list[str] = []
    broken: list[str] = []
    # Assumed pods, claims and volumes that are left over.
    leaks: list[str] = []
    # From the end of the fault until all pods were bound that had come until then.
    recovery: float | None = None
    # Codes of processes that ended although nobody had asked them to.
    exits: list[int] = []
    exits_expected: bool = False
    # How often each fault happened.
    faults: dict[str, int] = {}
    # Figures of single rows, by their names.
    notes: dict[str, float] = {}
    # From the first pod to the verdict.
    seconds: float = 0.0
    # What kept the row from being run to its end.
    failed: str = ""

    @property
    def problems(self) -> list[str]:
        """All that must not be."""
        counted = {
            f"lost: {', '.join(self.unbound)}": self.lost,
            "bound twice": self.twice,
            "refused by kubelets": self.overcommitted,
        }
        told = [f"{count} pods {what}" for what, count in counted.items() if count]
        if not self.exits_expected:
            told += [f"ended with code {code}" for code in self.exits]
        told += [] if self.faults else ["no fault happened"]
        found = (*told, *self.violations, *self.broken, *self.leaks)
        return [*([self.failed] if self.failed else []), *found]

    def told(self) -> str:
        took = "never" if self.recovery is None else f"{self.recovery:.1f} s"
        trouble = "; ".join(self.problems[:MOST_SENTENCES])
        return f"{self.pods} pods, recovered after {took}" + (f"; {trouble}" if trouble else "")


async def judge(rig: Rig, outcome: Outcome, fault_ended: float) -> None:
    """Fills in what the cluster and the log tell, once everything has come to rest."""
    load = rig.workload
    outcome.pods = len(load.arrived)
    outcome.lost = len(load.waiting)
    outcome.unbound = load.waiting[:MOST_SENTENCES]
    if not outcome.lost:
        before = [name for name, one in load.arrived.items() if one.at <= fault_ended]
        last = max((load.bound_at.get(name, 0.0) for name in before), default=0.0)
        outcome.recovery = round(max(0.0, last - fault_ended), 3)
    bindings = rig.bindings()
    outcome.twice = sum(
        len(bindings.get(name, ())) > 1 or len(load.places.get(name, ())) > 1
        for name in load.arrived
    )
    outcome.overcommitted = rig.kubelets.overcommitted.total()
    outcome.leaks = await rested(rig)
    pods = [pod for pod in rig.mirrors["pods"].items.values() if is_ours(rig, pod)]
    outcome.violations = violations(rig.mirrors["nodes"].items.values(), pods)
    outcome.exits = [code for scheduler in rig.schedulers for code in scheduler.exits]
    outcome.faults = dict(rig.proxy.counts)
    outcome.notes = dict(rig.notes)


async def rested(rig: Rig) -> list[str]:
    """What is still left over when it should have gone."""
    found: list[str] = []

    async def nothing_left() -> bool:
        found[:] = [*left_in_cluster(rig), *await left_in_cache(rig)]
        return not found and rig.hands.idle

    deadline = time.monotonic() + REST_SECONDS
    try:
        await until(nothing_left, seconds=deadline - time.monotonic(), longest_pause=0.2)
    except AssertionError:
        return found or ["stand-ins do not come to rest"]
    return []


def left_in_cluster(rig: Rig) -> Iterator[str]:
    """Claims and volumes that were taken for a pod and then not used."""
    items = {name: mirror.items for name, mirror in rig.mirrors.items()}
    pods = [pod for pod in items["pods"].values() if is_ours(rig, pod)]
    claims = [claim for claim in items["resourceclaims"].values() if is_ours(rig, claim)]
    yield from claim_violations(claims, rig.slices, pods, items["nodes"].values())
    for claim in claims:
        if allocation_of(claim) and not users_of(claim):
            yield f"claim {claim['metadata']['name']} is allocated and nobody uses it"
    volume_claims = items["persistentvolumeclaims"]
    for volume in items["persistentvolumes"].values():
        reference = volume["spec"].get("claimRef")
        if reference and reference["namespace"] == rig.workload.namespace:
            owner = volume_claims.get((reference["namespace"], reference["name"]))
            if owner is None or owner["spec"].get("volumeName") != volume["metadata"]["name"]:
                yield f"volume {volume['metadata']['name']} is taken and not bound"


async def left_in_cache(rig: Rig) -> list[str]:
    """Of the scheduler that works: pods that are assumed for ever, or are not there any more."""
    scheduler = rig.acting()
    if scheduler is None or rig.workload.waiting:
        return []
    try:
        cached = await scheduler.cached()
    except aiohttp.ClientError as error:
        return [f"{scheduler.name} does not tell its metrics: {error}"]
    there = sum(
        bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in FINISHED
        for pod in rig.mirrors["pods"].items.values()
    )
    found = []
    if cached["assumed_pods"]:
        found.append(f"{cached['assumed_pods']} pods are still assumed")
    if cached["pods"] != there:
        found.append(f"{cached['pods']} pods are in the cache, {there} on nodes")
    return found


def is_ours(rig: Rig, item: dict[str, object]) -> bool:
    return key_of(item)[0] == rig.workload.namespace
