"""Whether what a scheduler left behind is right, by a checker that shares nothing with it."""

import json
from collections.abc import Iterator

from tests.bench.device_scenarios import CLAIMS, SLICES
from tests.bench.quick_client import JSON, Connection, Request, Server
from tests.bench.scenario import MEASURED, NODES, PODS
from tests.bench.workloads import Json
from tests.kit.checker import violations
from tests.kit.claim_checker import claim_violations

TOLD = 5


class BrokenRuleError(Exception):
    """Pods are where they may not be, or nowhere."""


async def judge(server: Server) -> None:
    async with server.connection() as connection:
        nodes = await listed(connection, NODES)
        pods = await listed(connection, PODS)
        claims = await listed(connection, CLAIMS)
        slices = await listed(connection, SLICES)
    found = [
        *violations(nodes, pods),
        *claim_violations(claims, slices, pods, nodes),
        *forgotten(pods),
    ]
    if found:
        told = "\n  ".join(found[:TOLD])
        raise BrokenRuleError(f"{len(found)} rules are broken:\n  {told}")


async def listed(connection: Connection, path: str) -> list[Json]:
    items: list[Json] = json.loads(await connection.demand(Request("GET", path), JSON))["items"]
    return items


def forgotten(pods: list[Json]) -> Iterator[str]:
    """Pods that should have been bound and were not, or the other way round."""
    for pod in pods:
        name, spec = pod["metadata"]["name"], pod["spec"]
        if MEASURED in pod["metadata"]["labels"] and not spec.get("nodeName"):
            yield f"pod {name} has no node"
        if spec.get("schedulingGates") and spec.get("nodeName"):
            yield f"pod {name} was bound in spite of its gates"
