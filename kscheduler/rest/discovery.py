"""Discovery documents: groups, versions and resources, derived from declarations of resources.

Clients ask in two forms: a document per group version, or one aggregated document for all (kubectl
since 1.26).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kscheduler.rest.resources import ServedResource

Json = dict[str, Any]
Rows = Sequence[ServedResource]

# Versions of aggregated discovery, by the `v` of an Accept header.
AGGREGATED_VERSIONS = ("v2", "v2beta1")


def aggregated_content_type(version: str) -> str:
    return f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


def groups(rows: Rows) -> tuple[str, ...]:
    """Named groups, in order; the core group has no name and a root of its own."""
    return tuple(sorted({row.group for row in rows if row.group}))


def api_group_list(rows: Rows) -> Json:
    listed = [_group(rows, group) for group in groups(rows)]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def api_group(rows: Rows, group: str) -> Json | None:
    if group not in groups(rows):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(rows, group)}


def api_resource_list(all_rows: Rows, group: str, version: str) -> Json | None:
    rows = _of_version(all_rows, group, version)
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


def aggregated(rows: Rows, names: Sequence[str], version: str) -> Json:
    """All of discovery of these groups in one document; `version` is v2 or v2beta1."""
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": one,
                    "resources": [
                        _aggregated_resource(row) for row in _of_version(rows, group, one)
                    ],
                    "freshness": "Current",
                }
                for one in _versions(rows, group)
            ],
        }
        for group in names
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _aggregated_resource(row: ServedResource) -> Json:
    entry: Json = {
        "resource": row.plural,
        "responseKind": {"group": row.group, "version": row.version, "kind": row.kind},
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular,
        "verbs": list(row.verbs),
        **_nicknames(row),
    }
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


def _nicknames(row: ServedResource) -> Json:
    """Short names and categories; Go leaves empty lists out."""
    entry: Json = {}
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    return entry


def _group(rows: Rows, name: str) -> Json:
    versions = [{"groupVersion": f"{name}/{one}", "version": one} for one in _versions(rows, name)]
    return {"name": name, "versions": versions, "preferredVersion": (versions or [{}])[0]}


def _versions(rows: Rows, group: str) -> list[str]:
    """Preferred version first: stable before beta before alpha."""
    found = {row.version for row in rows if row.group == group}
    return sorted(found, key=lambda version: ("alpha" in version, "beta" in version, version))


def _of_version(rows: Rows, group: str, version: str) -> list[ServedResource]:
    found = [row for row in rows if (row.group, row.version) == (group, version)]
    return sorted(found, key=lambda row: row.plural)
