"""The API: requests by resource and verb, discovery, and errors as Status objects."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aiohttp import web

from kscheduler import logs
from kscheduler.api.decode import DecodeError
from kscheduler.api.explanation import GROUP, VERSION
from kscheduler.api.fields import parse_field_selector
from kscheduler.api.labels import SelectorError
from kscheduler.api.small_groups import ResourceAttributes, UserInfo
from kscheduler.client.errors import ApiError
from kscheduler.metrics import Metrics
from kscheduler.rest import discovery, status
from kscheduler.rest.openapi import PROTOBUF_V2, PROTOBUF_V2_CONTENT_TYPE
from kscheduler.rest.status import StatusError
from kscheduler.serving import answers
from kscheduler.serving.access import Authorizer, ContradictionError
from kscheduler.serving.answers import JSON, Handler, Target
from kscheduler.serving.explanation import schemas
from kscheduler.serving.explanation.placement_reviews import PlacementReviews
from kscheduler.serving.explanation.reads import Reader, Sources
from kscheduler.serving.explanation.resources import (
    BY_PLURAL,
    DECISION,
    NODE_INFO,
    PENDING_POD,
    RESOURCES,
    ROOT,
    Served,
)
from kscheduler.serving.explanation.responses import (
    document,
    encode,
    form_for,
    stream,
    warning_header,
)
from kscheduler.serving.explanation.rights import Asker
from kscheduler.serving.explanation.watch import Watches
from kscheduler.serving.gate import Pages, path_of

log = logs.logger(__name__)

_WRITES = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_NO_WATCH = ("", "0", "false", "False")


class ExplanationApi:
    """Requests about resources, as the gate hands them over (`gate.ResourceRequests`)."""

    def __init__(self, sources: Sources, authorizer: Authorizer, metrics: Metrics) -> None:
        self._reader = Reader(sources)
        self._reviews = PlacementReviews(sources.review, self._reader.check_leading, metrics)
        self._watches = Watches(self._reader)
        self._authorizer = authorizer

    def attributes(self, request: web.BaseRequest) -> ResourceAttributes | None:
        """Verb, resource and name, as API servers read them off method and path; None for
        discovery.
        """
        path = path_of(request)
        if not path.startswith(f"{ROOT}/"):
            return None
        parts = [part for part in path.removeprefix(ROOT).split("/") if part]
        if not parts:
            return None
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        resource, name, subresource = (*parts, "", "")[:3]
        query = query_of(request)
        match request.method:
            case "GET" | "HEAD":
                verb = "get" if name else "list"
                if verb == "list" and query.get("watch", "") not in _NO_WATCH:
                    verb = "watch"
                name = name or _selected_name(query)
            case "DELETE":
                verb = "delete" if name else "deletecollection"
            case method:
                verb = _WRITES.get(method, method.lower())
        return ResourceAttributes(
            namespace=namespace,
            verb=verb,
            group=GROUP,
            version=VERSION,
            resource=resource,
            subresource=subresource,
            name=name,
        )

    def end_watches(self) -> None:
        """Clients have to come back: to this instance, or to the one that schedules then."""
        self._watches.end()

    async def answer(
        self, request: web.BaseRequest, user: UserInfo, asked: ResourceAttributes
    ) -> web.StreamResponse:
        try:
            served = self._served(request, asked)
            return await self._answer(request, Asker(user, self._authorizer), served, asked)
        except StatusError as error:
            return answers.status_error(request, error)
        except (ApiError, DecodeError, ContradictionError) as error:
            log.error(error, "Unable to authorize the request")
            return answers.status_error(request, status.internal_error(str(error)))

    def _served(self, request: web.BaseRequest, asked: ResourceAttributes) -> Served:
        """404 for what is not served, 405 for verbs that it does not have."""
        served = BY_PLURAL.get(asked.resource)
        parts = path_of(request).removeprefix(ROOT).strip("/").split("/")
        longest = 2 if not asked.namespace else 4
        if served is None or len(parts) > longest or (asked.namespace and not served.namespaced):
            raise status.unknown_path()
        if asked.verb == "get" and served.namespaced and not asked.namespace:
            raise status.unknown_path()
        if asked.verb not in served.verbs:
            raise status.method_not_allowed()
        return served

    async def _answer(
        self,
        request: web.BaseRequest,
        asker: Asker,
        served: Served,
        asked: ResourceAttributes,
    ) -> web.StreamResponse:
        query, namespace, name = query_of(request), asked.namespace, asked.name
        form = form_for(request, served, query)
        reader = self._reader
        if asked.verb == "create":
            review, warnings = await self._reviews.create(request, asker, namespace, query)
            created = document(form.one(review), code=201)
            for warning in warnings:
                created.headers.add("Warning", warning_header(warning))
            return created
        if asked.verb == "get":
            if served is DECISION:
                return document(form.one(await reader.decision(asker, namespace, name)))
            if served is PENDING_POD:
                return document(form.one(await reader.pending_pod(asker, namespace, name)))
            if served is NODE_INFO:
                return document(form.one(await reader.node_info(asker, name)))
            return document(form.one(reader.scheduler_status(name)))
        if asked.verb == "watch":

            def is_gone() -> bool:
                return request.transport is None or request.transport.is_closing()

            lines = self._watches.watch(served, asker, form, namespace, query, is_gone)
            return await stream(request, lines, at_once=True)
        if served is DECISION:
            listing = await reader.decisions(asker, form, namespace, query)
        elif served is PENDING_POD:
            listing = await reader.pending_pods(asker, form, namespace, query)
        elif served is NODE_INFO:
            listing = await reader.node_infos(asker, form, query)
        else:
            listing = await reader.scheduler_statuses(form, query)
        return await stream(request, listing.pieces, warnings=listing.warnings)


def query_of(request: web.BaseRequest) -> Mapping[str, str]:
    """Parameters of the query, the first of each."""
    return {name: values[0] for name, values in answers.query_of(request).items()}


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


def install_discovery(pages: Pages) -> None:
    """Discovery of the API: paths that are not resources."""
    pages.add("/apis", _groups)
    pages.add(f"/apis/{GROUP}", _document(discovery.api_group(RESOURCES, GROUP)))
    pages.add(ROOT, _document(discovery.api_resource_list(RESOURCES, GROUP, VERSION)))
    pages.add("/openapi/v2", _openapi_v2)
    pages.add("/openapi/v3", _openapi_v3)
    pages.add(f"/openapi/v3{ROOT}", _openapi_v3)


async def _groups(request: web.BaseRequest) -> web.StreamResponse:
    """The groups, in the older form or in the aggregated one."""

    def allows(media_type: str, target: Target | None) -> bool:
        if target is None:
            return True
        known = target.version in discovery.AGGREGATED_VERSIONS
        return known and (target.group, target.kind) == (
            "apidiscovery.k8s.io",
            "APIGroupDiscoveryList",
        )

    choice = answers.choose(request.headers.get("Accept", ""), (JSON,), allows)
    if choice is None or choice.target is None:
        return document(encode(discovery.api_group_list(RESOURCES)))
    version = choice.target.version
    found = discovery.aggregated(RESOURCES, (GROUP,), version)
    return document(encode(found), content_type=discovery.aggregated_content_type(version))


async def _openapi_v2(request: web.BaseRequest) -> web.StreamResponse:
    wants_protobuf = PROTOBUF_V2 in request.headers.get("Accept", "")
    # Made in a thread: 20 ms, once.
    if wants_protobuf:
        body = await asyncio.to_thread(schemas.openapi().v2_protobuf)
        return document(body, content_type=PROTOBUF_V2_CONTENT_TYPE)
    return document(await asyncio.to_thread(schemas.openapi().v2_document))


async def _openapi_v3(request: web.BaseRequest) -> web.StreamResponse:
    """The index of documents, or the one there is."""
    made = schemas.openapi()
    if path_of(request) == "/openapi/v3":
        return document(encode(made.v3_index()))
    body = await asyncio.to_thread(made.v3_document, f"apis/{GROUP}/{VERSION}")
    assert body is not None
    return document(body)


def _document(value: Mapping[str, object] | None) -> Handler:
    body = encode(value)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return document(body)

    return answer
