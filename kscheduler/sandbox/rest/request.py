"""A request: its exchange with the client, and the resource or object its URL names.

`Exchange` is one HTTP request with everything that becomes known about it; `RequestInfo` is what
upstream calls the same: verb, group, resource, namespace, name and subresource, read off the path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from kscheduler.api.fields import parse_field_selector
from kscheduler.api.labels import SelectorError
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.access.authorization import Attributes
from kscheduler.sandbox.access.users import ANONYMOUS, User
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.resources import BY_PATH
from kscheduler.sandbox.rest.representation import encode

JSON = "application/json"
_HEADERS = {"Cache-Control": "no-cache, private"}
# Third parts of /api/v1/namespaces/<name>/… that are subresources and not resources within it.
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_WRITE_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(slots=True)
class Exchange:
    """One request with its user and, once it is known, the HTTP status of the answer."""

    method: str
    path: str
    query: dict[str, str]
    headers: Any
    body: bytes = b""
    user: User = ANONYMOUS
    status: int = 0
    warnings: list[str] = field(default_factory=list)  # sent as Warning headers

    @property
    def user_agent(self) -> str:
        return str(self.headers.get("User-Agent", ""))

    @property
    def content_type(self) -> str:
        return str(self.headers.get("Content-Type", ""))

    @property
    def accept(self) -> str:
        return ",".join(self.headers.getall("Accept", ()))

    @property
    def dry_run(self) -> bool:
        return "dryRun" in self.query


def json_answer(body: bytes | dict[str, Any], code: int = 200) -> web.Response:
    encoded = body if isinstance(body, bytes) else encode(body)
    return web.Response(body=encoded, status=code, content_type=JSON, headers=_HEADERS)


def text_answer(text: str, code: int = 200) -> web.Response:
    return web.Response(text=text, status=code, headers=_HEADERS)


def error_answer(error: StatusError) -> web.Response:
    """The Status object of a refused request, with Retry-After where upstream sends one."""
    answer = json_answer(error.body, error.code)
    retry_after = (error.details or {}).get("retryAfterSeconds")
    if retry_after:
        answer.headers["Retry-After"] = str(retry_after)
    return answer


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The resource a request is about; without a name, the whole collection."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def verb(self, method: str, query: Mapping[str, str]) -> str:
        """The API verb of this request, as RBAC and discovery spell it."""
        match method:
            case "GET" | "HEAD":
                if self.name:
                    return "get"
                return "watch" if query.get("watch", "false") not in ("false", "0") else "list"
            case "DELETE":
                return "delete" if self.name else "deletecollection"
        return _WRITE_VERBS.get(method, method.lower())

    def attributes(self, verb: str, query: Mapping[str, str]) -> Attributes:
        """The attributes to authorize: a namespace counts as lying within itself."""
        namespace = self.name if self.resource.plural == "namespaces" else self.namespace
        name = self.name or _selected_name(query)
        return Attributes(
            verb, self.resource.group, self.resource.plural, self.subresource, namespace, name
        )


def parse_request_info(path: str, *, aggregated: bool = False) -> RequestInfo | None:
    """The resource of a path below /api or /apis; None when none is served there.

    Another server knows which resources there are in its group: any name is one if `aggregated`.
    """
    match path.strip("/").split("/"):
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    if aggregated and rest:
        unknown = Resource(group, version, rest[0], kind="", namespaced=bool(namespace))
        return RequestInfo(unknown, namespace, *rest[1:3])
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
    return RequestInfo(resource, namespace, name, subresource)


def _selected_name(query: Mapping[str, str]) -> str:
    """A list or watch of one name counts as access to that name, so `resourceNames` rules hold."""
    if "metadata.name" not in query.get("fieldSelector", ""):
        return ""
    try:
        selector = parse_field_selector(query["fieldSelector"])
    except SelectorError:
        return ""
    names = [one.value for one in selector.requirements if one.field == "metadata.name"]
    return names[0] if len(names) == 1 else ""
