"""Placement reviews against what then happens: random clusters, a daemon, an API server.

    make what-if-cases ARGS="--cases 1000 --api-server"

For each case a random cluster is set up, a review of some random pods is asked of the daemon, and
then the pods are created one after the other, each when the scheduler has come to rest. Every pod
must be where the review has it, or nowhere if that is what it says, with the victims that it names.
Where several nodes have the highest score the scheduler draws one of them: then the pod must be on
one of those that the review names.

The pods that are left are reviewed again if another node was drawn, and after a pod that fits
nowhere, which is deleted: which of several waiting pods gets room that comes free depends on how
long each of them backs off. A pod that the review has wait for a later one is left to wait for it.

The server is the embedded one in this process, or with --api-server a real one of
tests/controlplane. The daemon runs in this process.
"""

import asyncio
import io
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import click
import msgspec
from msgspec.structs import replace

from kscheduler import logs
from kscheduler.api.explanation import (
    PlacementReview,
    PlacementReviewSpec,
    PlacementReviewStatus,
    ReviewedPlacement,
)
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.scheduling import PriorityClass
from kscheduler.api.small_groups import PodDisruptionBudget
from kscheduler.api.timestamps import steady_time
from kscheduler.app import explanation
from kscheduler.app.daemon import Daemon
from kscheduler.sandbox import ApiServer
from kscheduler.what_if import LiveScheduler, Reviewer
from tests.controlplane.plane import ControlPlane
from tests.e2e.api import Api
from tests.integration.cluster import SCHEDULER, Cluster, Running
from tests.kit.manifests import Json
from tests.kit.polling import until
from tests.what_if.random_clusters import CLASSES, Case, random_case

NAMESPACE = "default"
# The words of a review for a pod that was tried again.
WAITS = "once the others were placed"
# Nothing has happened for so long: nothing will. Pods that wait are tried again after the other.
STUCK_SECONDS = 1.0
TIMEOUT_SECONDS = 400.0
BUDGETS = "poddisruptionbudgets"


class Server(Protocol):
    """An API server, as far as cases need one."""

    async def create(self, resource: str, item: Json) -> str:
        """The uid."""

    async def delete(self, resource: str, name: str) -> None: ...
    async def clear(self, resource: str) -> None: ...
    async def pods(self) -> dict[str, Json]: ...


class EmbeddedServer:
    def __init__(self, api: ApiServer) -> None:
        self._objects = api.objects

    async def create(self, resource: str, item: Json) -> str:
        uid = self._objects.create(item)["metadata"]["uid"]
        if resource == BUDGETS:
            name, status = item["metadata"]["name"], {"status": item["status"]}
            self._objects.update(
                f"{BUDGETS}.policy", name, lambda one: one.update(status), subresource="status"
            )
        return uid

    async def delete(self, resource: str, name: str) -> None:
        self._objects.delete(resource, name, NAMESPACE)

    async def clear(self, resource: str) -> None:
        resource = f"{BUDGETS}.policy" if resource == BUDGETS else resource
        for item in self._objects.list(resource):
            metadata = item["metadata"]
            self._objects.delete(resource, metadata["name"], metadata.get("namespace", ""))

    async def pods(self) -> dict[str, Json]:
        return {one["metadata"]["name"]: one for one in self._objects.list("pods")}


class RealServer:
    def __init__(self, api: Api) -> None:
        self._api = api

    async def create(self, resource: str, item: Json) -> str:
        namespace = item["metadata"].get("namespace", "")
        uid = (await self._api.create(resource, item, namespace))["metadata"]["uid"]
        if resource == BUDGETS:
            name, status = item["metadata"]["name"], {"status": item["status"]}
            await self._api.patch(resource, name, status, namespace, "status")
        return uid

    async def delete(self, resource: str, name: str) -> None:
        await self._api.delete(resource, name, NAMESPACE)

    async def clear(self, resource: str) -> None:
        await self._api.delete_all(resource, "" if resource == "nodes" else NAMESPACE)

    async def pods(self) -> dict[str, Json]:
        return {one["metadata"]["name"]: one for one in await self._api.list("pods", NAMESPACE)}


def live_scheduler(daemon: Daemon) -> LiveScheduler:
    async def priority_classes() -> list[PriorityClass]:
        return [
            msgspec.convert({"metadata": ObjectMeta(name=name), **body}, PriorityClass)
            for name, body in CLASSES.items()
        ]

    return replace(explanation.live_scheduler(daemon), priority_classes=priority_classes)


@dataclass
class Tally:
    """How many pods were where the review had them; what was otherwise."""

    cases: int = 0
    reviews: int = 0
    placed: int = 0
    refused: int = 0
    victims: int = 0
    # Drawn otherwise among nodes with equal scores.
    drawn_otherwise: int = 0
    woken_by_timeout: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.cases} cases, {self.reviews} reviews: {self.placed} pods placed as reviewed, "
            f"{self.drawn_otherwise} more on another node of their tie, {self.refused} refused, "
            f"{self.victims} victims, {self.woken_by_timeout} woken by the timeout; "
            f"{len(self.differences)} differences"
        )


class Judge:
    """One daemon on one server, case after case."""

    def __init__(self, server: Server, daemon: Daemon) -> None:
        self._server = server
        self._daemon = daemon
        self._reviewer = Reviewer(live_scheduler(daemon))
        # Of the pods asked about, by name.
        self._uids: dict[str, str] = {}
        self.tally = Tally()

    async def try_case(self, case: Case) -> None:
        scheduler = self._daemon.scheduler
        for budget in case.budgets:
            await self._server.create(BUDGETS, budget)
        for node in case.nodes:
            await self._server.create("nodes", node)
        for pod in case.pods:
            await self._server.create("pods", pod)
        cache = scheduler.cache
        counts = len(case.nodes), len(case.pods)
        await until(lambda: (cache.node_count, cache.pod_count) == counts, "the cluster is known")
        allowed = {
            one["metadata"]["name"]: one["status"]["disruptionsAllowed"] for one in case.budgets
        }
        await until(lambda: self._known_budgets() == allowed, "budgets are known")
        left = case.asked
        while left:
            try:
                left = await self._review_and_create(case, left)
            except AssertionError as error:
                raise AssertionError(f"seed {case.seed}: {error}; {self._state()}") from error
        self.tally.cases += 1
        for resource in ("pods", BUDGETS, "nodes"):
            await self._server.clear(resource)
        await until(
            lambda: (
                (cache.node_count, cache.pod_count) == (0, 0)
                and not scheduler.queue.pending().pods
                and not self._known_budgets()
            ),
            "the cluster is empty again",
        )

    def _known_budgets(self) -> dict[str, int]:
        listed = self._daemon.scheduler.informers.lister(PodDisruptionBudget).items()
        return {one.name: one.status.disruptions_allowed for one in listed}

    async def _review_and_create(self, case: Case, pods: list[Json]) -> list[Json]:
        """Creates the pods as long as all goes as reviewed; returns those that are left."""
        status = await self._reviewed(pods)
        predicted: dict[str, ReviewedPlacement] = {}
        for placement in status.placements:
            predicted.setdefault(placement.name, placement)
        has_victims = any(one.victims for one in status.placements)
        waiting: list[ReviewedPlacement] = []
        before = set(await self._server.pods())
        for number, pod in enumerate(pods):
            name = pod["metadata"]["name"]
            wanted = predicted[name]
            self._uids[name] = await self._server.create("pods", pod)
            await self._settled(name)
            there = await self._server.pods()
            node = there[name]["spec"].get("nodeName", "") if name in there else "(gone)"
            if WAITS in wanted.message and not has_victims:
                # It waits for a later one, and is looked at when all are there.
                waiting.append(wanted)
                before.add(name)
                continue
            self._compare_victims(case, wanted, before - set(there))
            before = set(there)
            if not node and (not wanted.node or WAITS in wanted.message):
                self.tally.refused += 1
            elif node == wanted.node:
                self.tally.placed += 1
                continue
            elif node in wanted.ties:
                self.tally.drawn_otherwise += 1
            else:
                self._differs(case, f"{name} is on {node!r}", wanted)
            await self._drop_waiting(there)
            return pods[number + 1 :]
        there = await self._server.pods()
        for wanted in waiting:
            node = there[wanted.name]["spec"].get("nodeName", "")
            if node == wanted.node:
                self.tally.placed += 1
            elif node in wanted.ties:
                self.tally.drawn_otherwise += 1
            else:
                self._differs(case, f"{wanted.name} is on {node!r} in the end", wanted)
        return []

    def _compare_victims(self, case: Case, wanted: ReviewedPlacement, gone: set[str]) -> None:
        # A pod that is to wait has evicted no pod yet.
        victims = () if WAITS in wanted.message else wanted.victims
        if gone != {one.name for one in victims}:
            self._differs(case, f"for {wanted.name} went {sorted(gone)}", wanted)
        self.tally.victims += len(gone)

    async def _reviewed(self, pods: list[Json]) -> PlacementReviewStatus:
        self.tally.reviews += 1
        spec = PlacementReviewSpec(
            pods=tuple(msgspec.Raw(msgspec.json.encode(pod)) for pod in pods),
            allow_preemption=True,
        )
        return (await self._reviewer.review(PlacementReview(spec=spec))).status

    async def _settled(self, name: str) -> None:
        """Waits until the pod has been tried, and nothing else is about to be.

        A pod whose victims have gone may go on waiting: none of its plugins' hints expects anything
        from the last of them (upstream's are the same). It is tried again after five minutes, which
        are let pass here.
        """
        try:
            await until(lambda: self._is_at_rest(name), f"{name} is settled", seconds=STUCK_SECONDS)
        except AssertionError:
            self.tally.woken_by_timeout += 1
            self._daemon.scheduler.queue.flush_unschedulable_leftover(
                steady_time() + TIMEOUT_SECONDS
            )
            await until(lambda: self._is_at_rest(name), f"{name} is settled")

    def _is_at_rest(self, name: str) -> bool:
        scheduler = self._daemon.scheduler
        queue, cache = scheduler.queue, scheduler.cache
        sizes = queue.sizes()
        if sizes["active"] or sizes["backoff"] or len(queue.in_flight):
            return False
        if cache.assumed_pod_count or scheduler.writer.busy:
            return False
        for waiting in queue.pending().unschedulable:
            # Its victims are on their way out.
            if waiting.gated or queue.nominator.node_of(waiting.uid):
                return False
        tried = scheduler.decisions.get(NAMESPACE, name)
        # A pod of the same name in an earlier case may be known.
        return tried is not None and tried.uid == self._uids[name]

    def _state(self) -> str:
        scheduler = self._daemon.scheduler
        queue = scheduler.queue
        waiting = [
            (one.key, one.gating_plugin, queue.nominator.node_of(one.uid))
            for one in queue.pending().pods
        ]
        return (
            f"{queue.sizes()}, {len(queue.in_flight)} in flight, "
            f"{scheduler.cache.assumed_pod_count} assumed, waiting {waiting}"
        )

    async def _drop_waiting(self, there: dict[str, Json]) -> None:
        """The next review knows nothing of pods that wait, so there must be none."""
        for name, pod in there.items():
            if not pod["spec"].get("nodeName"):
                await self._server.delete("pods", name)
        queue = self._daemon.scheduler.queue
        await until(lambda: not queue.pending().pods, "no pod waits")

    def _differs(self, case: Case, what: str, wanted: ReviewedPlacement) -> None:
        victims = [one.name for one in wanted.victims]
        self.tally.differences.append(
            f"seed {case.seed}: {what}; reviewed: {wanted.node!r}, victims {victims}, "
            f"{len(wanted.ties)} equal, {wanted.message}"
        )


@asynccontextmanager
async def embedded(folder: Path) -> AsyncIterator[Judge]:
    async with ApiServer(anonymous=SCHEDULER) as api:
        cluster = Cluster(api, folder)
        for name, body in CLASSES.items():
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            cluster.create({**kind, "metadata": {"name": name}, **body})
        async with cluster.scheduler() as running:
            yield Judge(EmbeddedServer(api), running.daemon)


@asynccontextmanager
async def real(folder: Path) -> AsyncIterator[Judge]:
    plane = ControlPlane(folder / "plane")
    await asyncio.to_thread(plane.start)
    api = Api(plane.folder / "kubeconfig")
    running = None
    try:
        for name, body in CLASSES.items():
            await api.create("priorityclasses", {"metadata": {"name": name}, **body})
        config = folder / "scheduler.yaml"
        kubeconfig = plane.folder / "kube-scheduler.kubeconfig"
        config.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            f"clientConnection: {{kubeconfig: {kubeconfig}, qps: -1}}\n"
            "leaderElection: {leaderElect: false}\n"
        )
        running = Running(["--config", str(config), "--secure-port", "0"])
        await until(lambda: running.synced)
        yield Judge(RealServer(api), running.daemon)
    finally:
        if running is not None:
            await running.kill()
        await api.close()
        await asyncio.to_thread(plane.stop)


async def run(seeds: range, *, real_server: bool) -> Tally:
    with tempfile.TemporaryDirectory() as folder:
        async with (real if real_server else embedded)(Path(folder)) as judge:
            told = time.monotonic()
            for seed in seeds:
                await judge.try_case(random_case(seed))
                if time.monotonic() > told + 20:
                    told = time.monotonic()
                    print(judge.tally, file=sys.stderr, flush=True)
            return judge.tally


@click.command(help=__doc__)
@click.option("--cases", default=100, show_default=True)
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--api-server", is_flag=True, help="A real etcd and kube-apiserver.")
def main(cases: int, first: int, api_server: bool) -> None:
    logs.configure(logs.Logging(), stderr=io.BytesIO())
    tally = asyncio.run(run(range(first, first + cases), real_server=api_server))
    print(tally)
    for line in tally.differences[:50]:
        print(f"  {line}")
    sys.exit(1 if tally.differences else 0)


if __name__ == "__main__":
    main()
