"""Clusters with devices, and those who come and go on them, without a server."""

import asyncio
import json
from collections import defaultdict
from contextlib import asynccontextmanager
from itertools import chain, islice

import pytest

from tests.bench import floor, plan
from tests.bench.device_scenarios import AT_A_TIME, CLAIMS, SCENARIOS, SLICES, Scenario
from tests.bench.quick_client import METADATA_ONLY
from tests.bench.results import TURNOVER
from tests.bench.scenario import NODES, PODS, Size, named
from tests.bench.scenarios import SCENARIOS as ALL
from tests.bench.sightings import Sightings
from tests.bench.turnover import Turnover
from tests.kit.claim_checker import claim_violations

NAMESPACED = {"namespace": "bench"}


class Store:
    """What a server would have after these requests; patches replace what they name."""

    def __init__(self, requests=()):
        self.items = defaultdict(dict)
        for request in requests:
            self.take(request)

    def take(self, request):
        body = json.loads(request.body) if request.body else {}
        path, _, name = request.path.rpartition("/")
        if request.method == "POST":
            if request.path.endswith("/binding"):
                pod = self.items[PODS][path.rpartition("/")[2]]
                pod["spec"]["nodeName"] = body["target"]["name"]
                return {}
            metadata = {**NAMESPACED, "uid": f"uid-{body['metadata']['name']}", **body["metadata"]}
            self.items[request.path][metadata["name"]] = {**body, "metadata": metadata}
            return {"metadata": metadata}
        if request.method == "DELETE":
            del self.items[path][name]
            return {}
        if name == "status":
            path, _, name = path.rpartition("/")
        item = self.items[path][name]
        for part in body.keys() - {"metadata", "apiVersion", "kind"}:
            item[part] = {**item.get(part, {}), **body[part]}
        return {"metadata": item["metadata"]}

    def listed(self, path):
        return list(self.items[path].values())

    def problems(self):
        return claim_violations(*map(self.listed, (CLAIMS, SLICES, PODS, NODES)))


def filled(scenario: Scenario, size: Size) -> Store:
    store = Store(chain(scenario.objects(size), scenario.statuses(size)))
    for pod in store.listed(PODS) if scenario.controller else ():
        metadata = pod["metadata"]
        for request in scenario.controller(metadata["name"], metadata["uid"]):
            store.take(request)
    return store


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_allocated_from_the_start_breaks_no_rule(name):
    assert filled(SCENARIOS[name], Size(20, 10)).problems() == []


@pytest.mark.parametrize(
    ("name", "claims"),
    [
        pytest.param("claims-empty", 0, id="no device is in use"),
        pytest.param("claims-half", 100, id="half of ten devices each"),
        pytest.param("claims-full", 200 - AT_A_TIME, id="room for those at a time"),
        pytest.param("backtracking", 10, id="one claim takes a node"),
        pytest.param("consumable", 80, id="eight claims share a node"),
    ],
)
def test_clusters_are_as_full_as_they_are_said_to_be(name, claims):
    store = filled(SCENARIOS[name], Size(20, AT_A_TIME))
    allocated = [one for one in store.listed(CLAIMS) if one.get("status")]
    assert len(allocated) == claims


def test_shapes_that_keep_a_cluster_as_it_is_are_measured_so():
    assert plan.case("claims-half", 500) == plan.Case("claims-half", 500, AT_A_TIME, TURNOVER)
    assert plan.case("claim-template", 500).pods == 2500
    assert plan.case("extended-25", 500).pods == 5000


class TakingServer:
    """Keeps what it is sent, and tells a watcher of each pod that can be bound."""

    def __init__(self, store, seen):
        self._store, self._seen = store, seen
        self.most_pods = 0

    @asynccontextmanager
    async def connection(self):
        yield self

    async def demand(self, request, accept=METADATA_ONLY):
        answer = self._store.take(request)
        pods = self._store.listed(PODS)
        self.most_pods = max(self.most_pods, len(pods))
        for pod in pods:
            if pod["status"].get("resourceClaimStatuses"):
                name = pod["metadata"]["name"]
                asyncio.get_running_loop().call_soon(self._seen.see, name, float(len(name)))
        await asyncio.sleep(0)
        return json.dumps(answer).encode()


async def test_pods_are_replaced_when_they_are_bound_and_the_last_stay():
    scenario, size, seen = ALL["claims-empty"], Size(2, 3), Sightings()
    store = Store(scenario.objects(size))
    pods = Turnover(scenario, size, seen)
    server = TakingServer(store, seen)
    async with pods.going_on(server):
        assert await seen.reached(20, within=5.0)
    assert server.most_pods == len(store.listed(PODS)) == 3
    assert len(pods.taken) == len(seen.at)
    assert {one["metadata"]["name"] for one in store.listed(PODS)} <= seen.at.keys()
    freed = store.items[CLAIMS][f"{named(0)}-resource"]["status"]
    assert freed == {"allocation": None, "reservedFor": None}


def test_whoever_only_binds_gives_each_claim_a_device_that_is_free():
    scenario, size = SCENARIOS["claim-template"], Size(4, 20)
    store = filled(scenario, size)
    for claim in store.listed(CLAIMS):
        claim["metadata"]["resourceVersion"] = "1"
    nodes, pods, claims, slices = map(store.listed, (NODES, PODS, CLAIMS, SLICES))
    steps = list(floor.bindings(pods, floor.places(nodes, claims, slices), claims))
    assert len(steps) == 20
    for request in chain.from_iterable(steps):
        store.take(request)
    assert all(pod["spec"]["nodeName"] for pod in store.listed(PODS))
    assert store.problems() == []


def test_whoever_only_binds_needs_no_devices_where_there_are_none():
    nodes = [{"metadata": {"name": name}} for name in ("a", "b")]
    assert list(islice(floor.places(nodes, [], []), 3)) == [("a", None), ("b", None), ("a", None)]
