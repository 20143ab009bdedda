"""Discovery: which groups, versions and resources there are, in both forms clients ask for."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from kscheduler.sandbox.resources import RESOURCES, Resource, Subresource
from kscheduler.version import KUBERNETES_VERSION

Json = dict[str, Any]
AGGREGATED = {"v2": "apidiscovery.k8s.io/v2", "v2beta1": "apidiscovery.k8s.io/v2beta1"}


def version_info() -> Json:
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


def api_versions(address: str) -> Json:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


@lru_cache(maxsize=1)
def group_names() -> tuple[str, ...]:
    return tuple(sorted({row.group for row in RESOURCES if row.group}))


def versions_of(group: str) -> list[str]:
    """Preferred version first: stable before beta before alpha."""
    found = {row.version for row in RESOURCES if row.group == group}
    return sorted(found, key=lambda version: ("alpha" in version, "beta" in version, version))


def api_groups() -> Json:
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(name) for name in group_names()],
    }


def api_group(name: str) -> Json | None:
    if name not in group_names():
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name)}


def _group(name: str) -> Json:
    versions = [{"groupVersion": f"{name}/{one}", "version": one} for one in versions_of(name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def api_resources(group: str, version: str) -> Json | None:
    rows = _rows(group, version)
    if not rows:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": rows[0].group_version,
        "resources": [entry for row in rows for entry in _entries(row)],
    }


def _rows(group: str, version: str) -> list[Resource]:
    rows = [row for row in RESOURCES if (row.group, row.version) == (group, version)]
    return sorted(rows, key=lambda row: row.plural)


def _entries(row: Resource) -> list[Json]:
    main: Json = {
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        main["shortNames"] = list(row.short_names)
    if row.categories:
        main["categories"] = list(row.categories)
    return [main, *(_subresource_entry(row, part) for part in row.subresources)]


def _subresource_entry(row: Resource, part: Subresource) -> Json:
    entry: Json = {
        "name": f"{row.plural}/{part.name}",
        "singularName": "",
        "namespaced": row.namespaced,
        "kind": part.kind or row.kind,
        "verbs": list(part.verbs),
    }
    if part.group:
        entry |= {"group": part.group, "version": part.version}
    return entry


def aggregated(groups: tuple[str, ...], version: str) -> Json:
    """All of discovery in one document, as kubectl asks since 1.26."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": AGGREGATED[version],
        "metadata": {},
        "items": [_aggregated_group(group) for group in groups],
    }


def _aggregated_group(group: str) -> Json:
    versions = [
        {
            "version": version,
            "resources": [_aggregated_resource(row) for row in _rows(group, version)],
            "freshness": "Current",
        }
        for version in versions_of(group)
    ]
    metadata: Json = {"name": group} if group else {}
    return {"metadata": metadata, "versions": versions}


def _aggregated_resource(row: Resource) -> Json:
    entry: Json = {
        "resource": row.plural,
        "responseKind": {"group": row.group, "version": row.version, "kind": row.kind},
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    if row.subresources:
        entry["subresources"] = [
            {
                "subresource": part.name,
                "responseKind": {
                    "group": part.group or row.group,
                    "version": part.version or row.version,
                    "kind": part.kind or row.kind,
                },
                "verbs": list(part.verbs),
            }
            for part in row.subresources
        ]
    return entry
