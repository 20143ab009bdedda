"""Discovery: groups, versions and resources, and the other paths that are not resources.

The documents are those of `kscheduler.rest.discovery`, made of the table of resources and of what
other servers tell of theirs. OpenAPI, version and health share the module because they share the
dispatch by path.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any

import msgspec
from aiohttp import web

from kscheduler.rest import openapi
from kscheduler.rest.discovery import (
    aggregated,
    aggregated_content_type,
    api_group,
    api_group_list,
    api_resource_list,
    groups,
)
from kscheduler.rest.status import unknown_path
from kscheduler.sandbox.aggregation.aggregator import Aggregator, Extension
from kscheduler.sandbox.resources import RESOURCES
from kscheduler.sandbox.rest import schemas
from kscheduler.sandbox.rest.negotiation import aggregated_discovery_version
from kscheduler.sandbox.rest.request import Exchange, json_answer, text_answer
from kscheduler.version import KUBERNETES_VERSION

Json = dict[str, Any]

_HEALTH = ("healthz", "livez", "readyz")
_OPENAPI = openapi.OpenApi(
    RESOURCES,
    lambda rows: schemas.closure([schemas.model_name(row) for row in rows]),
    schemas.model_name,
    title="Kubernetes",
    version=KUBERNETES_VERSION,
)


async def answer_path(exchange: Exchange, address: str, aggregator: Aggregator) -> web.Response:
    """The document at a path, or the plain 404 of the real server."""
    parts = [part for part in exchange.path.split("/") if part]
    extensions = aggregator.extensions()
    rows = (*RESOURCES, *(row for extension in extensions for row in extension.resources))
    match parts:
        case ["api" | "apis" as root]:
            if version := aggregated_discovery_version(exchange.accept):
                names = ("",) if root == "api" else groups(rows)
                document = aggregated(rows, names, version)
                _mark_stale(document, extensions)
                answer = json_answer(document)
                answer.headers["Content-Type"] = aggregated_content_type(version)
                return answer
            found: Json | None
            if root == "api":
                addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
                found = {
                    "kind": "APIVersions",
                    "versions": ["v1"],
                    "serverAddressByClientCIDRs": addresses,
                }
            else:
                found = api_group_list(rows)
        case ["api", version]:
            found = api_resource_list(RESOURCES, "", version)
        case ["apis", group]:
            found = api_group(rows, group)
        case ["apis", group, version]:
            found = api_resource_list(RESOURCES, group, version)
        case ["version"]:
            found = _version_info()
        case ["openapi", *rest]:
            return await _openapi_answer(exchange, rest, aggregator)
        case [check, *_] if check in _HEALTH:
            return text_answer("ok")
        case []:
            found = {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/version"]}
        case _:
            found = None
    return not_found(exchange.path) if found is None else json_answer(found)


def not_found(path: str) -> web.Response:
    """A Status below the groups that are served, plain text elsewhere."""
    match path.strip("/").split("/"):
        case ["api", _, *_]:
            raise unknown_path()
        case ["apis", group, _, *_] if group in _groups():
            raise unknown_path()
    return text_answer("404 page not found\n", 404)


def _mark_stale(document: Json, extensions: list[Extension]) -> None:
    """Versions of servers that are away are shown as they were last seen, and said to be so."""
    stale = {(one.spec.group, one.spec.version) for one in extensions if not one.available}
    for item in document["items"]:
        for version in item["versions"]:
            if (item["metadata"].get("name"), version["version"]) in stale:
                version["freshness"] = "Stale"


async def _openapi_answer(
    exchange: Exchange, rest: list[str], aggregator: Aggregator
) -> web.Response:
    """OpenAPI documents; a thread makes them, because the first one imports all client models."""
    match rest:
        case ["v2"] if openapi.PROTOBUF_V2 in exchange.accept:
            others = await aggregator.documents("/openapi/v2")
            body = await asyncio.to_thread(_OPENAPI.v2_protobuf, *others)
            return web.Response(
                body=body, headers={"Content-Type": openapi.PROTOBUF_V2_CONTENT_TYPE}
            )
        case ["v2"]:
            others = await aggregator.documents("/openapi/v2")
            return json_answer(await asyncio.to_thread(_OPENAPI.v2_document, *others))
        case ["v3"]:
            index = _OPENAPI.v3_index()
            for document in await aggregator.documents("/openapi/v3"):
                index["paths"] |= _openapi_paths(document, aggregator)
            return json_answer(index)
        case ["v3", *parts]:
            found = await asyncio.to_thread(_OPENAPI.v3_document, "/".join(parts))
            if found is not None:
                answer = json_answer(found)
                answer.headers["Cache-Control"] = openapi.CACHED
                return answer
    return not_found(exchange.path)


def _openapi_paths(document: bytes, aggregator: Aggregator) -> Json:
    """The entries of an index of OpenAPI documents about groups that are the other server's."""
    try:
        paths = msgspec.json.decode(document, type=dict[str, Json]).get("paths") or {}
    except msgspec.DecodeError:
        return {}
    known = (f"apis/{one.group_version}" for one in aggregator.extensions())
    return {path: paths[path] for path in known if path in paths}


def _version_info() -> Json:
    major, minor, *_ = KUBERNETES_VERSION.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "gitVersion": f"{KUBERNETES_VERSION}+sandbox",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


@lru_cache(maxsize=1)
def _groups() -> tuple[str, ...]:
    return groups(RESOURCES)
