"""Discovery: groups, versions and resources, and the other paths that are not resources.

Clients ask in two forms: a document per group version, or one aggregated document for all (kubectl
since 1.26). Everything is derived from the table of resources, and from what other servers tell of
theirs. OpenAPI, version and health share the module because they share the dispatch by path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
from aiohttp import web

from kscheduler.sandbox.aggregation.aggregator import Aggregator, Extension
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.resources import RESOURCES
from kscheduler.sandbox.rest import openapi
from kscheduler.sandbox.rest.negotiation import aggregated_discovery_version
from kscheduler.sandbox.rest.request import Exchange, json_answer, text_answer
from kscheduler.sandbox.status import unknown_path
from kscheduler.version import KUBERNETES_VERSION

Json = dict[str, Any]

_HEALTH = ("healthz", "livez", "readyz")
_OPENAPI_PROTOBUF = "application/com.github.proto-openapi.spec.v2"
_CACHED = "public, max-age=31536000"  # v3 documents carry their hash in the URL


async def answer_path(exchange: Exchange, address: str, aggregator: Aggregator) -> web.Response:
    """The document at a path, or the plain 404 of the real server."""
    parts = [part for part in exchange.path.split("/") if part]
    extensions = aggregator.extensions()
    groups = tuple(dict.fromkeys((*_groups(), *(one.spec.group for one in extensions))))
    match parts:
        case ["api" | "apis" as root]:
            if version := aggregated_discovery_version(exchange.accept):
                shown = ("",) if root == "api" else groups
                answer = json_answer(_aggregated(shown, version, extensions))
                answer.headers["Content-Type"] = (
                    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
                )
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
                found = {
                    "kind": "APIGroupList",
                    "apiVersion": "v1",
                    "groups": [_group(group, extensions) for group in groups],
                }
        case ["api", version]:
            found = _api_resource_list("", version)
        case ["apis", group]:
            found = {"kind": "APIGroup", "apiVersion": "v1", **_group(group, extensions)}
            if group not in groups:
                found = None
        case ["apis", group, version]:
            found = _api_resource_list(group, version)
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


async def _openapi_answer(
    exchange: Exchange, rest: list[str], aggregator: Aggregator
) -> web.Response:
    """OpenAPI documents; a thread makes them, because the first one imports all client models."""
    match rest:
        case ["v2"] if _OPENAPI_PROTOBUF in exchange.accept:
            others = await aggregator.documents("/openapi/v2")
            body = await asyncio.to_thread(openapi.v2_protobuf, *others)
            kind = f"{_OPENAPI_PROTOBUF}.v1.0+protobuf"
            return web.Response(body=body, headers={"Content-Type": kind})
        case ["v2"]:
            others = await aggregator.documents("/openapi/v2")
            return json_answer(await asyncio.to_thread(openapi.v2_document, *others))
        case ["v3"]:
            index = openapi.v3_index()
            for document in await aggregator.documents("/openapi/v3"):
                index["paths"] |= _openapi_paths(document, aggregator)
            return json_answer(index)
        case ["v3", *parts]:
            found = await asyncio.to_thread(openapi.v3_document, "/".join(parts))
            if found is not None:
                answer = json_answer(found)
                answer.headers["Cache-Control"] = _CACHED
                return answer
    return not_found(exchange.path)


def _openapi_paths(document: bytes, aggregator: Aggregator) -> Json:
    """What an index of OpenAPI documents says of groups that are really the other server's."""
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
    """Named groups, in order; the core group has no name and a root of its own."""
    return tuple(sorted({row.group for row in RESOURCES if row.group}))


def _versions(group: str) -> list[str]:
    """Preferred version first: stable before beta before alpha."""
    found = {row.version for row in RESOURCES if row.group == group}
    return sorted(found, key=lambda version: ("alpha" in version, "beta" in version, version))


def _group(name: str, extensions: list[Extension]) -> Json:
    others = (one.spec.version for one in extensions if one.spec.group == name)
    names = dict.fromkeys((*_versions(name), *others))
    versions = [{"groupVersion": f"{name}/{one}", "version": one} for one in names]
    return {"name": name, "versions": versions, "preferredVersion": (versions or [{}])[0]}


def _rows(group: str, version: str) -> list[Resource]:
    rows = [row for row in RESOURCES if (row.group, row.version) == (group, version)]
    return sorted(rows, key=lambda row: row.plural)


def _api_resource_list(group: str, version: str) -> Json | None:
    rows = _rows(group, version)
    if not rows:
        return None
    entries: list[Json] = []
    for row in rows:
        entries.append(
            {
                "name": row.plural,
                "singularName": row.singular,
                "namespaced": row.namespaced,
                "kind": row.kind,
                "verbs": list(row.verbs),
                **_nicknames(row),
            }
        )
        for part in row.subresources:
            other_group = {"group": part.group, "version": part.version} if part.group else {}
            entries.append(
                {
                    "name": f"{row.plural}/{part.name}",
                    "singularName": "",
                    "namespaced": row.namespaced,
                    "kind": part.kind or row.kind,
                    "verbs": list(part.verbs),
                    **other_group,
                }
            )
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": rows[0].group_version,
        "resources": entries,
    }


def _aggregated(groups: tuple[str, ...], version: str, extensions: list[Extension]) -> Json:
    """All of discovery in one document; `version` is v2 or v2beta1."""
    items = []
    for group in groups:
        versions: Json = {}
        for one in _versions(group):
            listed = _api_resource_list(group, one) or {}
            versions[one] = _aggregated_version(group, one, listed["resources"])
        for extension in extensions:
            if extension.spec.group == group:
                one = extension.spec.version
                versions[one] = _aggregated_version(group, one, extension.resources)
                if not extension.available:
                    versions[one]["freshness"] = "Stale"
        items.append(
            {"metadata": {"name": group} if group else {}, "versions": list(versions.values())}
        )
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _aggregated_version(group: str, version: str, listed: Sequence[Json]) -> Json:
    """One group version, from the entries of its APIResourceList."""
    entries: dict[str, Json] = {}
    for row in listed:
        plural, _, subresource = row["name"].partition("/")
        kind = {
            "group": row.get("group") or group,
            "version": row.get("version") or version,
            "kind": row["kind"],
        }
        entry = entries.setdefault(plural, {"resource": plural})
        if subresource:
            part = {"subresource": subresource, "responseKind": kind, "verbs": row["verbs"]}
            entry.setdefault("subresources", []).append(part)
            continue
        entry |= {
            "responseKind": kind,
            "scope": "Namespaced" if row["namespaced"] else "Cluster",
            "singularResource": row["singularName"],
            "verbs": row["verbs"],
            **{key: row[key] for key in ("shortNames", "categories") if row.get(key)},
        }
    return {"version": version, "resources": list(entries.values()), "freshness": "Current"}


def _nicknames(row: Resource) -> Json:
    """Short names and categories; Go leaves empty lists out."""
    entry: Json = {}
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    return entry
