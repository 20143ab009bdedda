"""Targets: which resource, object or part of it a URL path names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kscheduler.api.fields import parse_field_selector
from kscheduler.api.labels import SelectorError
from kscheduler.sandbox.access.rbac import Attributes
from kscheduler.sandbox.resources import BY_PATH, Resource

_NAMESPACE_PARTS = frozenset({"status", "finalize"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about; no name means the whole collection."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def verb(self, method: str, query: Mapping[str, str]) -> str:
        """The word RBAC and discovery use for this request."""
        match method:
            case "GET" | "HEAD":
                if self.name:
                    return "get"
                return "watch" if query.get("watch", "false") not in ("false", "0") else "list"
            case "DELETE":
                return "delete" if self.name else "deletecollection"
        return _VERBS.get(method, method.lower())

    def attributes(self, verb: str, query: Mapping[str, str]) -> Attributes:
        namespace = self.namespace
        if self.resource.plural == "namespaces":
            namespace = self.name
        name = self.name or _selected_name(query)
        return Attributes(
            verb, self.resource.group, self.resource.plural, self.subresource, namespace, name
        )


def parse_target(path: str) -> Target | None:
    """The target of a path below /api or /apis; None when no resource is served there."""
    parts = path.strip("/").split("/")
    match parts:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in _NAMESPACE_PARTS:
        namespace, rest = rest[1], rest[2:]
    if not 1 <= len(rest) <= 3:
        return None
    resource = BY_PATH.get((group, version, rest[0]))
    if resource is None or (namespace and not resource.namespaced):
        return None
    name, subresource = (*rest[1:], "", "")[:2]
    if subresource and resource.subresource(subresource) is None:
        return None
    if name and resource.namespaced and not namespace:
        return None
    return Target(resource, namespace, name, subresource)


def _selected_name(query: Mapping[str, str]) -> str:
    """A list or watch of one name counts as access to that name."""
    if "metadata.name" not in query.get("fieldSelector", ""):
        return ""
    try:
        selector = parse_field_selector(query["fieldSelector"])
    except SelectorError:
        return ""
    names = [one.value for one in selector.requirements if one.field == "metadata.name"]
    return names[0] if len(names) == 1 else ""
