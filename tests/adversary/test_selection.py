"""A few hostile inputs against the daemon as its users run it: it goes on, and so do other pods."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import pytest

from tests.adversary.comparison import collection, path_of
from tests.adversary.inputs import ROWS, SELECTION, Ask, encoded, feature_labels, pod
from tests.bench.workloads import node
from tests.e2e.api import AT_ONCE, Json, until
from tests.e2e.cluster import Cluster, scheduled_condition
from tests.e2e.fixtures import REAL

NODES = 20
# Generous: these tests share the machine with others. Growth is what `test_growth` counts.
SECONDS = 20.0


@pytest.mark.parametrize("name", SELECTION)
async def test_an_innocent_pod_is_bound_beside_it(request, cluster: Cluster, name: str):
    made = [node(number) for number in range(NODES)]
    for number, item in enumerate(made):
        item["metadata"]["labels"] |= feature_labels(number)
    await cluster.create_nodes(*made)
    # An object that cannot be decoded may be told of, and costs nobody else anything.
    cluster.expected_errors.append("Undecodable object skipped")
    daemon = await cluster.start_daemon()
    row = ROWS[name]
    # The embedded server is no subject of this test, and need not admit what is large or deep.
    size = row.size if request.node.callspec.params["cluster"] == REAL else row.small // 16
    scene = row.build(Ask(size, "hostile", [item["metadata"]["name"] for item in made]))
    async with created(cluster, [*scene.before, *scene.pods, pod("innocent")]):
        assert await cluster.node_of("innocent", SECONDS)
        async with asyncio.timeout(SECONDS):
            for item in scene.pods:
                await until(decided(cluster, item), "the hostile pod is decided about")
        assert daemon.running


@asynccontextmanager
async def created(cluster: Cluster, items: Iterable[Json]) -> AsyncIterator[None]:
    """Gone afterwards, whatever happens meanwhile: the next test may have the same server."""
    paths = []
    try:
        for item in items:
            item["metadata"]["namespace"] = cluster.namespace
            path = collection(item).lstrip("/")
            status, text = await cluster.api.exchange("POST", path, encoded(item))
            assert status == 201, text[:1000]
            paths.append(path_of(item).lstrip("/"))
        yield
    finally:
        for path in reversed(paths):
            await cluster.api.exchange("DELETE", path, AT_ONCE)


def decided(cluster: Cluster, item: Json) -> Callable[[], Awaitable[str]]:
    async def ask() -> str:
        stored = await cluster.pod(item["metadata"]["name"])
        return stored["spec"].get("nodeName") or scheduled_condition(stored).get("status", "")

    return ask
