"""Paths that are not resources: discovery, OpenAPI, version and health."""

from __future__ import annotations

import asyncio

from aiohttp import web

from kscheduler.sandbox.catalog import discovery, openapi
from kscheduler.sandbox.rest.exchange import Exchange, json_answer, text_answer
from kscheduler.sandbox.rest.negotiation import discovery_version
from kscheduler.sandbox.status import unknown_path

_HEALTH = ("healthz", "livez", "readyz")
_PROTOBUF = "application/com.github.proto-openapi.spec.v2"
_CACHED = "public, max-age=31536000"


async def answer_path(exchange: Exchange, address: str) -> web.Response:
    """The document at a path, or the plain 404 of the real server."""
    parts = [part for part in exchange.path.split("/") if part]
    match parts:
        case ["api"] | ["apis"]:
            return _roots(exchange, parts[0], address)
        case ["api", version]:
            found = discovery.api_resources("", version)
        case ["apis", group]:
            found = discovery.api_group(group)
        case ["apis", group, version]:
            found = discovery.api_resources(group, version)
        case ["version"]:
            found = discovery.version_info()
        case ["openapi", *rest]:
            return await _openapi(exchange, rest)
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
        case ["apis", group, _, *_] if group in discovery.group_names():
            raise unknown_path()
    return text_answer("404 page not found\n", 404)


def _roots(exchange: Exchange, root: str, address: str) -> web.Response:
    if version := discovery_version(exchange.accept):
        groups = ("",) if root == "api" else discovery.group_names()
        answer = json_answer(discovery.aggregated(groups, version))
        answer.headers["Content-Type"] = (
            f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        )
        return answer
    return json_answer(discovery.api_versions(address) if root == "api" else discovery.api_groups())


async def _openapi(exchange: Exchange, rest: list[str]) -> web.Response:
    match rest:
        case ["v2"] if _PROTOBUF in exchange.accept:
            body = await asyncio.to_thread(openapi.v2_protobuf)
            kind = f"{_PROTOBUF}.v1.0+protobuf"
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
