"""Random devices and claims, decided by kube-scheduler and by kscheduler, each on an API server of
its own: what differs is printed with the seed that shows it again.

    python -m tests.parity.devices_beside --seeds 1-200
    python -m tests.parity.devices_beside --seeds 17 --show        objects and answers of one case

Pods are made one after the other, each when the one before is decided; one that was refused is
deleted, so that it is not tried again. Most pods may go to one node only, since which of several
equal nodes is taken is random. Needs `make controlplane`.
"""

import argparse
import asyncio
import json
import re
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.controlplane.binaries import program
from tests.controlplane.plane import ControlPlane
from tests.e2e.api import Api, Json, RefusedError, path
from tests.e2e.daemon import Daemon
from tests.parity.random_devices import ADMIN_NAMESPACE, NAMESPACE, Case, draw

DECISION_SECONDS = 15.0
PROGRESS_CASES = 50
CLUSTER_WIDE = ("resourceslices", "deviceclasses", "devicetaintrules", "nodes")
# Random parts of names that an API server makes, and what differs from run to run.
MADE_NAME = re.compile(r"(extended-resources-)[a-z0-9]{5}\b")
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OWN = {
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "allocationTimestamp",
    "shareID",
    "lastTransitionTime",
    "lastProbeTime",
    "generation",
    "timeAdded",
}


class Side:
    """One scheduler and its cluster."""

    def __init__(self, api: Api, daemon: Daemon) -> None:
        self.api, self.daemon = api, daemon
        self.pods: dict[str, Json] = {}
        self.changed = asyncio.Event()

    async def follow(self) -> None:
        """Keep what the server says of pods; as a driver, say that devices are ready."""
        await asyncio.gather(self._follow_pods(), self._follow_claims())

    async def _follow_pods(self) -> None:
        async for line in self.api.lines("api/v1/pods", {"watch": "1"}):
            pod = json.loads(line)["object"]
            self.pods[pod["metadata"]["name"]] = pod
            self.changed.set()

    async def _follow_claims(self) -> None:
        async for line in self.api.lines("apis/resource.k8s.io/v1/resourceclaims", {"watch": "1"}):
            event = json.loads(line)
            claim = event["object"]
            status = claim.get("status", {})
            results = status.get("allocation", {}).get("devices", {}).get("results", ())
            waiting = [one for one in results if one.get("bindingConditions")]
            if (
                event["type"] == "DELETED"
                or not waiting
                or not status.get("reservedFor")
                or status.get("devices")
            ):
                continue
            status["devices"] = [
                {
                    **{
                        key: one[key]
                        for key in ("driver", "pool", "device", "shareID")
                        if key in one
                    },
                    "conditions": [
                        {
                            "type": kind,
                            "status": "True",
                            "reason": "Said",
                            "message": "",
                            "lastTransitionTime": "2026-01-01T00:00:00Z",
                        }
                        for kind in one["bindingConditions"]
                    ],
                }
                for one in waiting
            ]
            about = claim["metadata"]
            await self.api.exchange(
                "PUT",
                path("resourceclaims", about["namespace"], about["name"], "status"),
                compact(claim),
            )

    async def run(self, case: Case) -> Json:
        """What became of a case's pods and claims."""
        refused = []
        latest: dict[str, int] = {}
        for resource, namespace, body in case.objects:
            try:
                made = await self.api.create(resource, compact(body), namespace)
                if "status" in body and resource != "nodes":
                    made["status"] = body["status"]
                    made = await self.api.send(
                        "PUT", path(resource, namespace, body["metadata"]["name"], "status"), made
                    )
            except RefusedError as error:
                refused.append(f"{resource} {body['metadata']['name']} {error}")
                continue
            latest[resource] = int(made["metadata"]["resourceVersion"])
        for resource, version in latest.items():
            # The metric's label is a kind with an s.
            await self.daemon.knows(resource.replace("classes", "classs"), str(version))
        pods = {}
        for namespace, body in case.pods:
            name = body["metadata"]["name"]
            try:
                await self.api.create("pods", body, namespace)
            except RefusedError as error:
                refused.append(f"pod {name} {error}")
                continue
            pods[name] = await self._decision(name)
            if not pods[name].get("nodeName"):
                await self.api.delete("pods", name, namespace)
        claims = {}
        for namespace in (NAMESPACE, ADMIN_NAMESPACE):
            for claim in await self.api.list("resourceclaims", namespace):
                if claim["metadata"]["name"].startswith(f"k{case.seed}-"):
                    claims[MADE_NAME.sub(r"\1", claim["metadata"]["name"])] = essence(claim)
        await self.clear()
        return {"pods": pods, "claims": claims, "refused": refused}

    async def clear(self) -> None:
        await asyncio.gather(
            *(self.api.delete_all(resource) for resource in CLUSTER_WIDE),
            *(self.api.delete_all("pods", namespace) for namespace in (NAMESPACE, ADMIN_NAMESPACE)),
        )

    async def _decision(self, name: str) -> Json:
        deadline = time.monotonic() + DECISION_SECONDS
        while time.monotonic() < deadline:
            self.changed.clear()
            pod = self.pods.get(name, {})
            conditions = pod.get("status", {}).get("conditions", ())
            scheduled = next((c for c in conditions if c["type"] == "PodScheduled"), {})
            if pod.get("spec", {}).get("nodeName") or scheduled.get("status") == "False":
                return essence(
                    {
                        "nodeName": pod["spec"].get("nodeName"),
                        "reason": scheduled.get("reason"),
                        "message": scheduled.get("message"),
                        "extended": pod["status"].get("extendedResourceClaimStatus"),
                        "nominated": pod["status"].get("nominatedNodeName"),
                    }
                )
            try:
                async with asyncio.timeout(0.5):
                    await self.changed.wait()
            except TimeoutError:
                continue
        return {"message": "no decision"}


def compact(body: Json) -> bytes:
    """As Go's clients write it: opaque parameters are stored as they are sent, and may not be
    written back otherwise.
    """
    return json.dumps(body, separators=(",", ":")).replace("<", "\\u003c").encode()


def essence(value: Any) -> Any:
    """A JSON value without what differs by nature."""
    if isinstance(value, dict):
        return {
            key: essence(item) for key, item in value.items() if key not in OWN and item is not None
        }
    if isinstance(value, list):
        return [essence(item) for item in value]
    if isinstance(value, str):
        return MADE_NAME.sub(r"\1", ID.sub("ID", value))
    return value


def kind_of(pod: Json) -> str:
    """What became of a pod, in words that do not name objects."""
    if pod.get("nodeName"):
        return "bound"
    text = pod["message"].partition(" preemption: ")[0]
    text = re.sub(r"\S*\bk\d+\S*", "…", text)
    return re.sub(r"\d+/\d+ nodes are available: ", "", text)[:160]


def forget_choice(case: Case, told: Json) -> None:
    """Of the last pod, which may go anywhere: which of equal nodes it got is random, and so is
    which of several nodes' errors is told.
    """
    name = case.pods[-1][1]["metadata"]["name"]
    pod = told["pods"].get(name, {})
    if pod.get("nodeName") or pod.get("reason") == "SchedulerError":
        told["pods"][name] = {key: "any" for key in pod if key in ("nodeName", "reason")}
        told["claims"] = {k: v for k, v in told["claims"].items() if not k.startswith(f"{name}-")}


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Places where two JSON values differ, with both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted(one.keys() | other.keys())
        return [
            d for key in keys for d in differences(one.get(key), other.get(key), f"{where}/{key}")
        ]
    if one == other:
        return []
    return [
        f"{where}\n    kube-scheduler: {json.dumps(one)}\n    kscheduler:     {json.dumps(other)}"
    ]


async def open_side(stack: AsyncExitStack, folder: Path, gates: str, original: bool) -> Side:
    flags = (f"--feature-gates={gates}",) if gates else ()
    plane = ControlPlane(folder, extra_flags=flags)
    await asyncio.to_thread(plane.start)
    stack.callback(plane.stop)
    api = Api(folder / "kubeconfig")
    stack.push_async_callback(api.close)
    for namespace in (NAMESPACE, ADMIN_NAMESPACE):
        labels = (
            {"resource.kubernetes.io/admin-access": "true"} if namespace == ADMIN_NAMESPACE else {}
        )
        await api.create("namespaces", {"metadata": {"name": namespace, "labels": labels}})
    where = folder / "kubeconfig"
    daemon = await Daemon.start(
        folder / "scheduler.log",
        api.token,
        f"--kubeconfig={where}",
        f"--authentication-kubeconfig={where}",
        f"--authorization-kubeconfig={where}",
        "--leader-elect=false",
        "--kube-api-qps=5000",
        "--kube-api-burst=5000",
        *flags,
        program=program("kube-scheduler") if original else None,
    )
    stack.push_async_callback(daemon.stop)
    await daemon.in_sync()
    side = Side(api, daemon)
    task = asyncio.create_task(side.follow())
    stack.callback(task.cancel)
    return side


async def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="1-20", help="a number, or the first and the last")
    parser.add_argument("--gates", default="", help="feature gates, of servers and schedulers")
    parser.add_argument("--show", action="store_true", help="print objects and answers")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so long")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    deadline = time.monotonic() + 60 * options.minutes
    reasons: Counter[str] = Counter()
    different = decided = bound = tried = turned_away = 0
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sides = await asyncio.gather(
            open_side(stack, folder / "original", options.gates, True),
            open_side(stack, folder / "ours", options.gates, False),
        )
        for seed in range(int(first), int(last or first) + 1):
            if time.monotonic() > deadline:
                break
            case = draw(seed)
            theirs, ours = await asyncio.gather(*(side.run(case) for side in sides))
            tried += 1
            if tried % PROGRESS_CASES == 0:
                print(f"{tried} cases, {different} differ", flush=True)
            turned_away += len(theirs["refused"])
            decided += len(theirs["pods"])
            bound += sum("nodeName" in pod for pod in theirs["pods"].values())
            reasons.update(kind_of(pod) for pod in theirs["pods"].values())
            if options.show:
                print(json.dumps({"objects": case.objects, "pods": case.pods}, indent=1))
                print(json.dumps(theirs, indent=1))
            for told in (theirs, ours):
                forget_choice(case, told)
            if found := differences(theirs, ours):
                different += 1
                print(f"seed {seed}:", *found, sep="\n  ", flush=True)
    for reason, count in reasons.most_common():
        print(f"{count:6d}  {reason}")
    print(f"{tried} cases, {decided} pods, {bound} bound, {turned_away} objects refused")
    print(f"{different} cases differ")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
