"""Discovery: groups, versions and resources, and the other paths that are not resources.

The documents are those of `kscheduler.rest.discovery`, made of the table of resources. OpenAPI,
version and health share the module because they share the dispatch by path.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any

from aiohttp import web

from kscheduler.rest.discovery import (
    aggregated,
    aggregated_content_type,
    api_group,
    api_group_list,
    api_resource_list,
    groups,
)
from kscheduler.rest.status import unknown_path
from kscheduler.sandbox.resources import RESOURCES
from kscheduler.sandbox.rest import openapi
from kscheduler.sandbox.rest.negotiation import aggregated_discovery_version
from kscheduler.sandbox.rest.request import Exchange, json_answer, text_answer
from kscheduler.version import KUBERNETES_VERSION

Json = dict[str, Any]

_HEALTH = ("healthz", "livez", "readyz")
_OPENAPI_PROTOBUF = "application/com.github.proto-openapi.spec.v2"
_CACHED = "public, max-age=31536000"  # v3 documents carry their hash in the URL


async def answer_path(exchange: Exchange, address: str) -> web.Response:
    """The document at a path, or the plain 404 of the real server."""
    parts = [part for part in exchange.path.split("/") if part]
    match parts:
        case ["api" | "apis" as root]:
            if version := aggregated_discovery_version(exchange.accept):
                names = ("",) if root == "api" else _groups()
                answer = json_answer(aggregated(RESOURCES, names, version))
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
                found = api_group_list(RESOURCES)
        case ["api", version]:
            found = api_resource_list(RESOURCES, "", version)
        case ["apis", group]:
            found = api_group(RESOURCES, group)
        case ["apis", group, version]:
            found = api_resource_list(RESOURCES, group, version)
        case ["version"]:
            found = _version_info()
        case ["openapi", *rest]:
            return await _openapi_answer(exchange, rest)
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


async def _openapi_answer(exchange: Exchange, rest: list[str]) -> web.Response:
    """OpenAPI documents; a thread makes them, because the first one imports all client models."""
    match rest:
        case ["v2"] if _OPENAPI_PROTOBUF in exchange.accept:
            body = await asyncio.to_thread(openapi.v2_protobuf)
            kind = f"{_OPENAPI_PROTOBUF}.v1.0+protobuf"
            return web.Response(body=body, headers={"Content-Type": kind})
        case ["v2"]:
            return json_answer(await asyncio.to_thread(openapi.v2_document))
        case ["v3"]:
            return json_answer(openapi.v3_index())
        case ["v3", *parts]:
            document = await asyncio.to_thread(openapi.v3_document, "/".join(parts))
            if document is not None:
                answer = json_answer(document)
                answer.headers["Cache-Control"] = _CACHED
                return answer
    return not_found(exchange.path)


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
