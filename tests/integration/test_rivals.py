"""Another scheduler on the same nodes: its binds are seen and counted, and nobody overcommits for
longer than the watch takes to tell.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from kscheduler.sandbox import ControllerManager, Kubelets
from tests.integration.cluster import Cluster, pod
from tests.kit.manifests import node_manifest
from tests.kit.polling import until

PLUGINS = Path(__file__).with_name("labelled_plugins.py")
HELD = {
    "args": ("--plugin", f"{PLUGINS}:Gate"),
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {"permit": {"enabled": [{"name": "Gate"}]}},
        }
    ],
}
ALLOWS = {"labels": {"others": "allow"}}


def counted(running, family: str) -> dict[str, float]:
    """What the daemon has counted, by the one label of the family."""
    found = getattr(running.daemon.cc.metrics, f"kscheduler_{family}_total").collect()
    return {next(iter(one.labels.values())): one.value for one in found.samples}


class Rival:
    """Acts when a binding of ours has arrived at the API server and is not carried out yet."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name
        cluster.api.interceptors.append(self._intercept)

    def act(self) -> None:
        raise NotImplementedError

    async def _intercept(self, request: web.BaseRequest) -> web.StreamResponse | None:
        if request.path.endswith(f"/{self._name}/binding"):
            self._cluster.api.interceptors.remove(self._intercept)
            self.act()
        return None


@asynccontextmanager
async def beside(*parts: Kubelets | ControllerManager) -> AsyncIterator[None]:
    """Runs these while the test goes on."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(part.run()) for part in parts]
        yield
        for task in running:
            task.cancel()


async def test_pods_that_others_place_are_counted(cluster):
    cluster.create(node_manifest("n1"), pod("before", nodeName="n1"))
    cluster.create(pod("theirs", schedulerName="another"))
    async with cluster.scheduler() as running:
        cluster.create(pod("ours"))
        await until(lambda: cluster.place("ours"))
        cluster.api.objects.bind("theirs", "n1")
        await until(lambda: counted(running, "foreign_binds"))
        cluster.create(pod("static", nodeName="n1"))
        await until(lambda: len(counted(running, "foreign_binds")) == 2)
        assert counted(running, "foreign_binds") == {"other-pod": 1, "own-pod": 1}
        assert counted(running, "conflicts") == {}


@pytest.mark.parametrize("node", ["n1", "n2"])
async def test_a_pod_that_a_rival_binds_first_is_a_conflict_and_stays_where_it_is(cluster, node):
    class BindsFirst(Rival):
        def act(self) -> None:
            cluster.api.objects.bind("p", node)

    cluster.create(node_manifest("n1"), node_manifest("n2", unschedulable=True))
    BindsFirst(cluster, "p")
    async with cluster.scheduler() as running:
        cluster.create(pod("p"))
        await until(lambda: counted(running, "conflicts") and counted(running, "foreign_binds"))
        assert counted(running, "conflicts") == {"already-bound": 1}
        assert counted(running, "foreign_binds") == {"own-pod": 1}
        assert cluster.place("p") == node
        await until(lambda: running.daemon.scheduler.cache.assumed_pod_count == 0)
        assert running.daemon.scheduler.queue.pending().pods == []


async def test_a_pod_whose_room_a_rival_took_goes_elsewhere_before_a_kubelet_refuses_it(cluster):
    cluster.create(node_manifest("n1"))
    async with cluster.scheduler(**HELD) as running:
        cache = running.daemon.scheduler.cache
        cluster.create(pod("ours", cpu="3"))
        await until(lambda: cache.assumed_pod_count == 1)
        cluster.create(pod("theirs", cpu="2", schedulerName="another"))
        cluster.api.objects.bind("theirs", "n1")
        await until(lambda: counted(running, "conflicts") == {"node-overcommitted": 1})
        cluster.create(node_manifest("n2"), pod("allows", **ALLOWS))
        await until(lambda: counted(running, "conflicts").get("node-taken"))
        assert cluster.place("ours") is None
        await until(lambda: "ours" in {one.name for one in cache.pods if cache.is_assumed(one)})
        cluster.create(pod("allows-again", **ALLOWS))
        await until(lambda: cluster.place("ours") == "n2")
        reasons = [text for reason, text in cluster.events("ours") if reason == "FailedScheduling"]
        assert reasons == [
            'node "n1" has too little left (cpu): another scheduler has placed pods there since it '
            "was chosen"
        ]


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}


@pytest.mark.parametrize("owned", [False, True])
async def test_a_pod_that_its_kubelet_refuses_is_counted_and_its_owner_told(cluster, owned):
    class TakesTheRoom(Rival):
        def act(self) -> None:
            cluster.create(pod("theirs", cpu="3", nodeName="n1", schedulerName="another"))

    cluster.create(node_manifest("n1"))
    TakesTheRoom(cluster, "ours")
    async with cluster.scheduler() as running, beside(Kubelets(cluster.api.registry)):
        ours = pod("ours", cpu="2")
        if owned:
            ours["metadata"]["ownerReferences"] = [{**OWNER, "controller": True}]
        cluster.create(ours)
        await until(lambda: counted(running, "refused_pods"))
        assert counted(running, "refused_pods") == {"OutOfcpu": 1}
        about = "web" if owned else "ours"
        await until(lambda: "PodRefused" in dict(cluster.events(about)))
        assert dict(cluster.events(about))["PodRefused"] == (
            "Node n1 refused pod default/ours: OutOfcpu: Node didn't have enough resource: cpu, "
            "requested: 2000, used: 3000, capacity: 4000"
        )


async def test_pods_that_are_deleted_in_haste_were_not_refused(cluster):
    cluster.create(node_manifest("n1"))
    async with cluster.scheduler() as running:
        for name in ("first", "second"):
            cluster.create(pod(name))
            await until(lambda name=name: cluster.place(name))
            cluster.api.objects.delete("pods", name, grace_period_seconds=0)
        cache = running.daemon.scheduler.cache
        await until(lambda: cache.pod_count == 0)
        assert counted(running, "refused_pods") == {}


def replica_set(scheduler: str, replicas: int):
    """Pods of one CPU each."""
    labels = {"app": scheduler}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": scheduler, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": pod("template", cpu="1", schedulerName=scheduler)["spec"],
            },
        },
    }


async def test_two_schedulers_fill_the_same_nodes_to_the_last_cpu(cluster):
    """Ten nodes of four CPUs, and forty pods: kubelets refuse what came too late, and controllers
    make it anew, until all run.
    """
    cluster.create(*(node_manifest(f"n{number}") for number in range(10)))
    names = ("first", "second")
    registry = cluster.api.registry
    async with (
        beside(Kubelets(registry, start_seconds=0.0), ControllerManager(registry)),
        cluster.scheduler(profiles=[{"schedulerName": "first"}]) as first,
        cluster.scheduler(profiles=[{"schedulerName": "second"}]) as second,
    ):
        cluster.create(*(replica_set(name, 20) for name in names))

        def running() -> list[str]:
            found = [one for one in cluster.pods() if one["status"].get("phase") == "Running"]
            return [one["spec"]["schedulerName"] for one in found]

        await until(lambda: len(running()) == 40)
        assert {name: running().count(name) for name in names} == {"first": 20, "second": 20}
        refused = [one for one in cluster.pods() if one["status"].get("phase") == "Failed"]
        for own, scheduler in zip(names, (first, second), strict=True):
            others = [one for one in cluster.pods() if one["spec"]["schedulerName"] != own]
            await until(
                lambda scheduler=scheduler, others=others: (
                    counted(scheduler, "foreign_binds") == {"other-pod": len(others)}
                )
            )
            mine = [one for one in refused if one["spec"]["schedulerName"] == own]
            await until(
                lambda scheduler=scheduler, mine=mine: (
                    sum(counted(scheduler, "refused_pods").values()) == len(mine)
                )
            )
