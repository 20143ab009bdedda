"""Placement reviews against what then happens: random clusters, a daemon, an API server.

    make what-if-cases ARGS="--cases 1000 --api-server"

For each case a random cluster is set up, a review of some random pods is asked of the daemon, and
then the pods are created one after the other, each when the scheduler has come to rest. Every pod
must be where the review has it, or nowhere if that is what it says, with the victims that it names.
Where several nodes have the highest score the scheduler draws one of them: then the pod must be on
one of those that the review names.

The pods that are left are reviewed again if another node was drawn, when devices were given up, and
after a pod that fits nowhere, which is deleted: which of several waiting pods gets room that comes
free depends on how long each of them backs off. A pod that the review has wait for a later one is
left to wait for it.

With --with volumes or --with devices, pods have claims of them, too (`random_claims`). The server
is the embedded one in this process, or with --api-server a real one of tests/controlplane, beside
which claims take the kube-controller-manager of tests/conformance. The daemon runs in this process.
"""

import asyncio
import io
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import click
import msgspec
from msgspec.structs import replace

from kscheduler import logs
from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kscheduler.api.decode import decoder_for
from kscheduler.api.explanation import (
    PlacementReview,
    PlacementReviewSpec,
    PlacementReviewStatus,
    ReviewedPlacement,
)
from kscheduler.api.meta import ApiObject, ObjectMeta
from kscheduler.api.resource import (
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from kscheduler.api.scheduling import PriorityClass
from kscheduler.api.small_groups import PodDisruptionBudget
from kscheduler.api.storage import CSINode, StorageClass, VolumeAttachment
from kscheduler.api.timestamps import steady_time
from kscheduler.api.volume_claims import claim_name, is_fully_bound
from kscheduler.app import explanation
from kscheduler.app.daemon import Daemon
from kscheduler.what_if import LiveScheduler, Reviewer
from tests.conformance.programs import CLUSTER_PROGRAMS, build_all
from tests.controlplane.build import build_unless_named
from tests.kit.manifests import Json
from tests.kit.polling import until
from tests.what_if.random_claims import EXTENDED, KINDS, NAMESPACE, random_case_with
from tests.what_if.random_clusters import CLASSES, Case
from tests.what_if.servers import BUDGETS, Server, embedded, real

# The words of a review for a pod that was tried again.
WAITS = "once the others were placed"
# Nothing has happened for so long: nothing will; the second where controllers are other processes.
# Pods that wait are tried again after the third.
STUCK_SECONDS, STUCK_BESIDE_CONTROLLERS_SECONDS = 1.0, 6.0
TIMEOUT_SECONDS = 400.0
# Kinds of which plugins read objects of a case.
FOLLOWED: dict[str, type[ApiObject]] = {
    "storageclasses": StorageClass,
    "csinodes": CSINode,
    "persistentvolumes": PersistentVolume,
    "persistentvolumeclaims": PersistentVolumeClaim,
    "deviceclasses": DeviceClass,
    "resourceslices": ResourceSlice,
    "resourceclaims": ResourceClaim,
}
decode_template = decoder_for(ResourceClaimTemplate)
T = TypeVar("T", bound=ApiObject)


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
    # Sharing a device claim with a victim, which may be freed in time or not.
    undetermined: int = 0
    woken_by_timeout: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.cases} cases, {self.reviews} reviews: {self.placed} pods placed as reviewed, "
            f"{self.drawn_otherwise} more on another node of their tie, {self.refused} refused, "
            f"{self.victims} victims, {self.woken_by_timeout} woken by the timeout, "
            f"{self.undetermined} undetermined; "
            f"{len(self.differences)} differences"
        )


class Judge:
    """One daemon on one server, case after case."""

    def __init__(
        self, server: Server, daemon: Daemon, *, stuck_seconds: float = STUCK_SECONDS
    ) -> None:
        self._server = server
        self._stuck_seconds = stuck_seconds
        self._daemon = daemon
        self._templates: dict[str, ResourceClaimTemplate] = {}
        self._reviewer = Reviewer(self._live_scheduler())
        # Of the pods asked about, by name.
        self._uids: dict[str, str] = {}
        self.tally = Tally()

    def _live_scheduler(self) -> LiveScheduler:
        """With what kube-scheduler's own role, which the daemon has here, does not let it read."""

        async def priority_classes() -> list[PriorityClass]:
            return [
                msgspec.convert({"metadata": ObjectMeta(name=name), **body}, PriorityClass)
                for name, body in CLASSES.items()
            ]

        async def claim_template(namespace: str, name: str) -> ResourceClaimTemplate | None:
            return self._templates.get(name)

        live = explanation.live_scheduler(self._daemon)
        return replace(live, priority_classes=priority_classes, claim_template=claim_template)

    async def try_case(self, case: Case) -> None:
        scheduler = self._daemon.scheduler
        for budget in case.budgets:
            await self._server.create(BUDGETS, budget)
        self._templates.clear()
        for resource, item in case.objects:
            made = await self._server.create(resource, item)
            if resource == "resourceclaimtemplates":
                template = decode_template(msgspec.json.encode(made))
                self._templates[template.name] = template
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
        await until(lambda: self._knows(case), "volumes, devices and claims are known")
        left = case.asked
        while left:
            try:
                left = await self._review_and_create(case, left)
            except AssertionError as error:
                raise AssertionError(f"seed {case.seed}: {error}; {self._state()}") from error
        self.tally.cases += 1
        await self._server.clear("pods")
        await until(lambda: not cache.pod_count and self._claims_are_at_rest(), "pods are gone")
        resources = dict.fromkeys(resource for resource, _ in case.objects)
        for resource in (*resources, BUDGETS, "nodes"):
            await self._server.clear(resource)
        if resources:
            # Those that were provisioned.
            await self._server.clear("persistentvolumes")
        await until(
            lambda: (
                (cache.node_count, cache.pod_count) == (0, 0)
                and not scheduler.queue.pending().pods
                and not self._known_budgets()
                and not any(self._listed(kind) for kind in FOLLOWED.values())
            ),
            "the cluster is empty again",
        )

    def _listed(self, kind: type[T]) -> list[T]:
        return list(self._daemon.scheduler.informers.lister(kind).items())

    def _knows(self, case: Case) -> bool:
        """Whether the scheduler has heard of all that is there; volumes are bound or available."""
        for resource, kind in FOLLOWED.items():
            wanted = {one["metadata"]["name"] for of, one in case.objects if of == resource}
            if {one.name for one in self._listed(kind)} != wanted:
                return False
        settled = ("Available", "Bound")
        if any(one.status.phase not in settled for one in self._listed(PersistentVolume)):
            return False
        claims = self._listed(PersistentVolumeClaim)
        return all(is_fully_bound(one) for one in claims if one.spec.volume_name)

    def _claims_are_at_rest(self) -> bool:
        """Whether controllers have done with the claims of pods that are gone, and of those that
        are there.
        """
        uids = {one.uid for one in self._listed(Pod)}
        claims = self._listed(ResourceClaim)
        users = {user.uid for claim in claims for user in claim.status.reserved_for}
        owned = (*claims, *self._listed(PersistentVolumeClaim))
        owners = {one.metadata.controller.uid for one in owned if one.metadata.controller}
        attached, in_use = self._attached(), self._volumes_in_use()
        # A volume for one node is not attached to a second one.
        is_attached = attached <= in_use and {one for _, one in in_use} == {
            one for _, one in attached
        }
        made = {one.key for one in self._listed(PersistentVolumeClaim)}
        to_be_made = {
            f"{pod.namespace}/{claim_name(pod.name, volume)}"
            for pod in self._listed(Pod)
            for volume in pod.spec.volumes
            if volume.ephemeral is not None
        }
        return users | owners <= uids and to_be_made <= made and is_attached

    def _attached(self) -> set[tuple[str, str | None]]:
        return {
            (one.spec.node_name, one.spec.source.persistent_volume_name)
            for one in self._listed(VolumeAttachment)
        }

    def _volumes_in_use(self) -> set[tuple[str, str | None]]:
        """Volumes of the driver, by the nodes where pods use them."""
        claims = {one.key: one.spec.volume_name for one in self._listed(PersistentVolumeClaim)}
        provided = {one.name for one in self._listed(PersistentVolume) if one.spec.csi}
        return {
            (pod.spec.node_name, claims.get(f"{pod.namespace}/{name}"))
            for pod in self._listed(Pod)
            if pod.spec.node_name
            for volume in pod.spec.volumes
            if (name := claim_name(pod.name, volume))
            and claims.get(f"{pod.namespace}/{name}") in provided
        }

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
            made = await self._server.create("pods", pod)
            self._uids[name] = made["metadata"]["uid"]
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
                if not self._claims_of_victims(case, wanted):
                    continue
            elif node in wanted.ties:
                self.tally.drawn_otherwise += 1
            elif _claims(pod) & self._claims_of_victims(case, wanted):
                self.tally.undetermined += 1
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

    @staticmethod
    def _claims_of_victims(case: Case, wanted: ReviewedPlacement) -> set[str]:
        """Device claims that victims had. Which devices the pod that comes is given depends on
        whether a controller has freed theirs by then, so the rest is reviewed again; and its node
        does, if it shares a claim with them.
        """
        victims = {one.name for one in wanted.victims}
        gone = [pod for pod in case.asked if pod["metadata"]["name"] in victims]
        return set().union(*map(_claims, gone))

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
            seconds = self._stuck_seconds
            await until(lambda: self._is_at_rest(name), f"{name} is settled", seconds=seconds)
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
        if cache.assumed_pod_count or scheduler.writer.busy or not self._claims_are_at_rest():
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
            f"{scheduler.cache.assumed_pod_count} assumed, waiting {waiting}, volumes in use "
            f"{self._volumes_in_use()}, attached {self._attached()}"
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


def _claims(pod: Json) -> set[str]:
    """Claims of devices, by names that only say which are shared."""
    spec = pod["spec"]
    found = {
        one.get("resourceClaimName") or f"{pod['metadata']['name']}/{one['name']}"
        for one in spec.get("resourceClaims", ())
    }
    if EXTENDED in spec["containers"][0]["resources"]["requests"]:
        found.add(f"{pod['metadata']['name']}/{EXTENDED}")
    return found


async def run(seeds: range, kinds: tuple[str, ...], *, real_server: bool) -> Tally:
    with tempfile.TemporaryDirectory() as folder:
        server = real if real_server else embedded
        async with server(Path(folder), claims=bool(kinds)) as (api, daemon):
            beside_controllers = bool(kinds) and real_server
            seconds = STUCK_BESIDE_CONTROLLERS_SECONDS if beside_controllers else STUCK_SECONDS
            judge, told = Judge(api, daemon, stuck_seconds=seconds), time.monotonic()
            for seed in seeds:
                await judge.try_case(random_case_with(kinds, seed))
                if time.monotonic() > told + 20:
                    told = time.monotonic()
                    print(judge.tally, file=sys.stderr, flush=True)
            return judge.tally


@click.command(help=__doc__)
@click.option("--cases", default=100, show_default=True)
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--with", "kinds", type=click.Choice(KINDS), multiple=True, help="Claims of pods.")
@click.option("--api-server", is_flag=True, help="A real etcd and kube-apiserver.")
def main(cases: int, first: int, kinds: tuple[str, ...], api_server: bool) -> None:
    if api_server:
        build_unless_named()
        if kinds:
            build_all(CLUSTER_PROGRAMS)
    logs.configure(logs.Logging(), stderr=io.BytesIO())
    tally = asyncio.run(run(range(first, first + cases), kinds, real_server=api_server))
    print(tally)
    for line in tally.differences[:50]:
        print(f"  {line}")
    sys.exit(1 if tally.differences else 0)


if __name__ == "__main__":
    main()
