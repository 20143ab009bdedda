"""Are these claims that a scheduler may leave behind? Asked in plain Python, of plain JSON.

Like `checker`, it shares nothing with the program it judges. It asks what holds whenever the
cluster is at rest: no device is given away twice, no more of a device or of a counter set than
there is, nothing that no slice has, what each request asked for, and users that are pods which
really use the claim, on a node where its devices are. Selectors and taints speak only at the moment
of a decision and are not asked.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain
from typing import NamedTuple

from tests.kit.checker import FINISHED, Json, admits, name_of, quantity

MOST_USERS = 256
MOST_RESULTS = 32
# Marks a claim that a scheduler has made for a pod's extended resources.
EXTENDED = "resource.kubernetes.io/extended-resource-claim"
Device = tuple[str, str, str]  # driver, pool, name
CounterName = tuple[str, str, str, str]  # driver, pool, counter set, counter


class Used(NamedTuple):
    """One device of one claim."""

    claim: str
    result: Json


def claim_violations(
    claims: Iterable[Json],
    slices: Iterable[Json],
    pods: Iterable[Json],
    nodes: Iterable[Json],
    *,
    withdrawn: Iterable[Json] = (),
) -> list[str]:
    """Every rule that is broken, one sentence each.

    `withdrawn` are slices that were there when devices were allocated, and are not any more.
    """
    claims, pods = list(claims), list(pods)
    inventory = Inventory(slices, withdrawn)
    uses = [Used(name_of(claim), result) for claim in claims for result in results_of(claim)]
    problems = chain(
        inventory.problems(uses),
        *map(_unlike_its_requests, claims),
        _misused(claims, pods, {node["metadata"]["name"]: node for node in nodes}),
    )
    return list(problems)


def allocation_of(claim: Json) -> Json | None:
    return (claim.get("status") or {}).get("allocation")


def results_of(claim: Json) -> list[Json]:
    allocation = allocation_of(claim) or {}
    return allocation.get("devices", {}).get("results") or []


class Inventory:
    """Devices and counters of all slices; of a device in several versions, the newest counts."""

    def __init__(self, slices: Iterable[Json], withdrawn: Iterable[Json]) -> None:
        self.devices: dict[Device, Json] = {}
        self.counters: dict[CounterName, Fraction] = {}
        for one in sorted([*withdrawn, *slices], key=_generation):
            spec = one["spec"]
            pool = (spec["driver"], spec["pool"]["name"])
            for device in spec.get("devices") or ():
                self.devices[*pool, device["name"]] = device
            for counters in spec.get("sharedCounters") or ():
                for name, counter in counters["counters"].items():
                    self.counters[*pool, counters["name"], name] = quantity(counter["value"])

    def problems(self, uses: Iterable[Used]) -> Iterator[str]:
        by_device: dict[Device, list[Used]] = defaultdict(list)
        for use in uses:
            device = (use.result["driver"], use.result["pool"], use.result["device"])
            if device not in self.devices:
                yield f"claim {use.claim} has {told(device)}, which no slice has"
            elif not use.result.get("adminAccess"):
                by_device[device].append(use)
        for device, users in by_device.items():
            yield from self._overused(device, users)
        yield from self._overdrawn(by_device)

    def _overused(self, device: Device, users: list[Used]) -> Iterator[str]:
        shared = self.devices[device].get("allowMultipleAllocations")
        names = ", ".join(sorted(user.claim for user in users))
        if not shared:
            if len(users) > 1:
                yield f"{told(device)} belongs to {names}"
            return
        shares = Counter(user.result.get("shareID") for user in users)
        if None in shares or max(shares.values()) > 1:
            yield f"shares of {told(device)} cannot be told apart: {names}"
        for capacity, there in (self.devices[device].get("capacity") or {}).items():
            consumed = (user.result.get("consumedCapacity") or {} for user in users)
            total = sum((quantity(one.get(capacity, "0")) for one in consumed), Fraction())
            if total > quantity(there["value"]):
                yield f"{float(total)} of {capacity} of {told(device)} are given to {names}"

    def _overdrawn(self, used: Iterable[Device]) -> Iterator[str]:
        """A device draws on its counter sets once, however many share it."""
        drawn: dict[CounterName, Fraction] = defaultdict(Fraction)
        for device in used:
            for one in self.devices[device].get("consumesCounters") or ():
                for name, counter in one["counters"].items():
                    drawn[*device[:2], one["counterSet"], name] += quantity(counter["value"])
        for counter, total in drawn.items():
            if total > self.counters.get(counter, Fraction()):
                yield f"{float(total)} are drawn on counter {'/'.join(counter)}"


def _generation(one: Json) -> int:
    generation: int = one["spec"]["pool"].get("generation", 0)
    return generation


def told(device: Device) -> str:
    return f"device {'/'.join(device)}"


def _unlike_its_requests(claim: Json) -> Iterator[str]:
    """Too many or too few devices for what the claim asks for."""
    if allocation_of(claim) is None:
        return
    given = Counter(result["request"] for result in results_of(claim))
    if given.total() > MOST_RESULTS:
        yield f"claim {name_of(claim)} has {given.total()} devices"
    for request in claim["spec"].get("devices", {}).get("requests") or ():
        name, exactly = request["name"], request.get("exactly")
        asked = (
            {name: exactly}
            if exactly is not None
            else {f"{name}/{one['name']}": one for one in request["firstAvailable"]}
        )
        served = [one for one in asked if one in given]
        counts = {given.pop(one) for one in served}
        wanted = {asked[one].get("count", 1) for one in served if not _all(asked[one])}
        if len(served) > 1 or (wanted and wanted != counts):
            yield f"claim {name_of(claim)} asks for {wanted} by {name} and has {counts}"
        if not served and not any(map(_all, asked.values())):
            yield f"claim {name_of(claim)} has nothing for {name}"
    if given:
        yield f"claim {name_of(claim)} does not ask for what it has: {', '.join(given)}"


def _all(request: Json) -> bool:
    return request.get("allocationMode") == "All"


def _misused(claims: list[Json], pods: list[Json], nodes: dict[str, Json]) -> Iterator[str]:
    """Users that are no such pods, and pods on nodes whose claims do not know of them."""
    by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
    by_key = {_key(claim): claim for claim in claims}
    for claim in claims:
        name, users = name_of(claim), _users(claim)
        if users and allocation_of(claim) is None:
            yield f"claim {name} is reserved and not allocated"
        if len(users) > MOST_USERS:
            yield f"claim {name} has {len(users)} users"
        for uid, user in users.items():
            pod = by_uid.get(uid)
            if pod is None or pod.get("status", {}).get("phase") in FINISHED:
                yield f"claim {name} is reserved for {user['name']}, which is gone"
            elif _key(claim) not in set(_claims_of(pod)):
                yield f"claim {name} is reserved for {name_of(pod)}, which does not use it"
        yield from _orphaned(claim, by_uid)
    for pod in pods:
        node = nodes.get(pod["spec"].get("nodeName", ""))
        if node is None or pod.get("status", {}).get("phase") in FINISHED:
            continue
        for key in _claims_of(pod):
            used = by_key.get(key)
            allocation = used and allocation_of(used)
            if not used or not allocation or pod["metadata"]["uid"] not in _users(used):
                yield f"pod {name_of(pod)} runs without its claim {'/'.join(key)}"
            elif allocation.get("nodeSelector") and not admits(allocation["nodeSelector"], node):
                at = node["metadata"]["name"]
                yield f"pod {name_of(pod)} is on {at}, where the devices of {key[1]} are not"


def _orphaned(claim: Json, pods: dict[str, Json]) -> Iterator[str]:
    """A claim that was made for a pod's extended resources and is not that pod's."""
    metadata = claim["metadata"]
    if (metadata.get("annotations") or {}).get(EXTENDED) != "true":
        return
    owners = [pods.get(owner["uid"]) for owner in metadata.get("ownerReferences") or ()]
    if not any(owner and _key(claim) in set(_claims_of(owner)) for owner in owners):
        yield f"claim {name_of(claim)} was made for a pod that does not use it"


def _users(claim: Json) -> dict[str, Json]:
    reserved = (claim.get("status") or {}).get("reservedFor") or ()
    return {user["uid"]: user for user in reserved}


def _claims_of(pod: Json) -> Iterator[tuple[str, str]]:
    """Namespace and name of each claim that a pod uses."""
    namespace, status = pod["metadata"]["namespace"], pod.get("status") or {}
    generated = {
        one["name"]: one.get("resourceClaimName")
        for one in status.get("resourceClaimStatuses") or ()
    }
    for one in pod["spec"].get("resourceClaims") or ():
        if name := one.get("resourceClaimName") or generated.get(one["name"]):
            yield namespace, name
    if extended := status.get("extendedResourceClaimStatus"):
        yield namespace, extended["resourceClaimName"]


def _key(claim: Json) -> tuple[str, str]:
    return claim["metadata"]["namespace"], claim["metadata"]["name"]
