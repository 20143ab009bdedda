"""Handlers: every verb on resources and their subresources.

A handler decodes the body, hands it to the registry and shows what was stored. Refusals are raised
as StatusErrors and never answered here. Field validation and patches are part of it: both are ways
of reading a body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn

from aiohttp import web

from kscheduler.rest import fields, status
from kscheduler.rest.lists import ListOptions, parse_list_options
from kscheduler.sandbox.access.authorization import Attributes, Reviews
from kscheduler.sandbox.access.users import User
from kscheduler.sandbox.deletion import DeleteOptions, delete, parse_delete_options
from kscheduler.sandbox.kinds import events
from kscheduler.sandbox.kinds.metrics import METRICS_GROUP
from kscheduler.sandbox.kinds.resource import Caller, Resource
from kscheduler.sandbox.lists import list_page, parse_selection
from kscheduler.sandbox.metadata import now
from kscheduler.sandbox.patching.apply import apply_configuration
from kscheduler.sandbox.patching.json_patch import json_patch, merge_patch
from kscheduler.sandbox.patching.shapes import shape_of_kind
from kscheduler.sandbox.patching.strategic import strategic_merge
from kscheduler.sandbox.registry import Edit, Registry
from kscheduler.sandbox.resources import EVENTS, PODS
from kscheduler.sandbox.rest import negotiation
from kscheduler.sandbox.rest.metrics import answer_metrics
from kscheduler.sandbox.rest.negotiation import decode_body, decode_object, representation
from kscheduler.sandbox.rest.representation import Representation
from kscheduler.sandbox.rest.request import Exchange, RequestInfo, json_answer
from kscheduler.sandbox.rest.schemas import model_name, unknown_fields
from kscheduler.sandbox.rest.watch import Watch, Watches
from kscheduler.sandbox.store import Object, Stored
from kscheduler.sandbox.subresources import bind, evict, scale_of, with_scale

Answer = web.Response | Watch
Refusal = Callable[[User, Attributes], str]  # the text of a refused access; empty: it is allowed
_POD_ACTIONS = ("binding", "eviction")
_OF_KUBELETS = {
    "attach": "nothing to attach to",
    "exec": "nothing to run a command in",
    "log": "no log",
    "portforward": "no port to forward to",
}
_NEEDS_NAME = ("update", "patch")


class ResourceHandlers:
    """Handlers of all verbs on stored objects, subresources and reviews."""

    def __init__(
        self,
        registry: Registry,
        watches: Watches,
        reviews: Reviews,
        refusal: Refusal,
        *,
        streams_lists: bool,
        copies_topology: bool,
    ) -> None:
        self._registry = registry
        self._watches = watches
        self._reviews = reviews
        self._refusal = refusal
        self.streams_lists = streams_lists
        self._copies_topology = copies_topology

    async def handle(self, exchange: Exchange, info: RequestInfo, verb: str) -> Answer:
        """Answer one request; 405 for verbs the resource or subresource does not have."""
        part = info.resource.subresource(info.subresource) if info.subresource else None
        allowed = part.verbs if part is not None else info.resource.verbs
        if verb not in allowed or (verb in _NEEDS_NAME and not info.name):
            raise status.method_not_allowed()
        if info.resource.group == METRICS_GROUP:
            return json_answer(answer_metrics(self._registry, info, exchange.query))
        if info.subresource in _OF_KUBELETS:
            self._refuse_kubelet(info)
        match verb:
            case "get":
                return self._get(exchange, info)
            case "list" | "watch":
                return self._list(exchange, info)
            case "create":
                return await self._create(exchange, info)
            case "update":
                return await self._update(exchange, info)
            case "patch":
                return await self._patch(exchange, info)
            case "delete":
                return self._delete(exchange, info)
        return self._delete_collection(exchange, info)

    def _refuse_kubelet(self, info: RequestInfo) -> NoReturn:
        """Requests that only a real kubelet can answer are refused with a sentence."""
        pod = self._registry.get(PODS, info.namespace, info.name)
        node = pod.fields["spec.nodeName"]
        if not node:
            raise status.bad_request(f"pod {info.name} does not have a host assigned")
        what = _OF_KUBELETS[info.subresource]
        why = f"the kubelet of node {node} is simulated: no container runs, so there is {what}"
        raise status.StatusError(501, "NotImplemented", why, status.details(PODS, info.name))

    def _get(self, exchange: Exchange, info: RequestInfo) -> Answer:
        resource = info.resource
        stored = self._registry.get(_storage(resource), info.namespace, info.name)
        if info.subresource == "scale":
            return json_answer(scale_of(stored.decode()))
        return self._shown(exchange, resource, stored)

    def _list(self, exchange: Exchange, info: RequestInfo) -> Answer:
        resource = info.resource
        options = parse_list_options(exchange.query, streaming=self.streams_lists)
        selection = parse_selection(resource, info.namespace, exchange.query)
        shown = self._representation(exchange, resource)
        if options.watch:
            return self._watches.open(resource, selection, shown, options)
        collection = self._registry.collection(resource)
        page = list_page(collection, self._registry.store.version, selection, options)
        return json_answer(shown.many(page.items, page.metadata))

    async def _create(self, exchange: Exchange, info: RequestInfo) -> Answer:
        resource = info.resource
        if info.subresource in _POD_ACTIONS or resource.kind == "Binding":
            return self._act_on_pod(exchange, info)
        if info.subresource == "token":
            request = decode_body(exchange.content_type, exchange.body)
            account = self._registry.get(resource, info.namespace, info.name).decode()
            return json_answer(self._reviews.token_request(request, account), 201)
        if "list" not in resource.verbs:
            review = decode_object(exchange.content_type, exchange.body, resource)
            return json_answer(self._reviews.answer(resource, review, exchange.user), 201)
        if info.name or (resource.namespaced and not info.namespace):
            raise status.method_not_allowed()
        item = decode_object(exchange.content_type, exchange.body, resource)
        await _check_fields(exchange, resource, item)
        if resource.shows:  # events.k8s.io is stricter than core about new events
            name = (item.get("metadata") or {}).get("name", "")
            item = events.to_core(item)
            if errors := events.strict_errors(item):
                raise status.invalid("Event", name, errors)
        stored = self._registry.create(
            _storage(resource), info.namespace, item, dry_run=exchange.dry_run
        )
        return self._shown(exchange, resource, stored, 201)

    def _act_on_pod(self, exchange: Exchange, info: RequestInfo) -> Answer:
        body = decode_body(exchange.content_type, exchange.body)
        name = info.name or (body.get("metadata") or {}).get("name", "")
        self._registry.check_namespace(PODS, info.namespace, name)
        if info.subresource == "eviction":
            evict(self._registry, info.namespace, name, body, dry_run=exchange.dry_run)
        else:
            bind(
                self._registry,
                info.namespace,
                name,
                body,
                copies_topology=self._copies_topology,
                dry_run=exchange.dry_run,
            )
        return json_answer(status.success(201), 201)

    async def _update(self, exchange: Exchange, info: RequestInfo) -> Answer:
        resource = info.resource
        if info.subresource == "scale":
            scale = decode_body(exchange.content_type, exchange.body)
            return self._scale(exchange, info, lambda _: scale)
        item = decode_object(exchange.content_type, exchange.body, resource)
        await _check_fields(exchange, resource, item)
        named = (item.get("metadata") or {}).get("name", "")
        if named != info.name:
            raise status.bad_request(
                f"the name of the object ({named}) does not match the name on the URL ({info.name})"
            )
        may_create = resource.creates_on_update
        return self._change(exchange, info, lambda _: item, may_create=may_create)

    async def _patch(self, exchange: Exchange, info: RequestInfo) -> Answer:
        resource = info.resource
        kind = "Scale" if info.subresource == "scale" else resource.kind
        edit, may_create = _patch_edit(exchange, kind, info.subresource)
        if info.subresource == "scale":
            return self._scale(exchange, info, edit)
        if not _wants_field_validation(exchange):
            return self._change(exchange, info, edit, may_create=may_create)
        await asyncio.to_thread(model_name, resource)

        def checked(item: Object) -> Object:
            """The patched object, checked for unknown fields before it is stored."""
            edited = edit(item)
            if problems := _unknown_field_problems(exchange, resource, edited):
                error = fields.invalid("patch", exchange.body.decode(errors="replace"), problems)
                raise status.invalid("", "", [error])
            return edited

        return self._change(exchange, info, checked, may_create=may_create)

    def _change(
        self,
        exchange: Exchange,
        info: RequestInfo,
        edit: Edit,
        *,
        may_create: bool = False,
    ) -> Answer:
        resource = info.resource
        stored, created = self._registry.update(
            _storage(resource),
            info.namespace,
            info.name,
            _through_events_group(edit) if resource.shows else _named(edit, info.name),
            subresource=info.subresource,
            dry_run=exchange.dry_run,
            may_create=may_create and not info.subresource,
            caller=Caller(
                info.verb(exchange.method, exchange.query),
                lambda wanted: self._refusal(exchange.user, wanted),
            ),
        )
        return self._shown(exchange, resource, stored, 201 if created else 200)

    def _scale(self, exchange: Exchange, info: RequestInfo, edit: Edit) -> Answer:
        stored, _ = self._registry.update(
            info.resource,
            info.namespace,
            info.name,
            lambda workload: with_scale(workload, edit(scale_of(workload))),
            dry_run=exchange.dry_run,
        )
        return json_answer(scale_of(stored.decode()))

    def _delete(self, exchange: Exchange, info: RequestInfo) -> Answer:
        resource = info.resource
        options = _delete_options(exchange)
        deleted = delete(self._registry, _storage(resource), info.namespace, info.name, options)
        if resource.returns_deleted or not deleted.gone:
            return self._shown(exchange, resource, deleted.stored)
        about = status.details(resource, info.name)
        about["uid"] = deleted.stored.decode()["metadata"]["uid"]
        return json_answer(status.success(details=about))

    def _delete_collection(self, exchange: Exchange, info: RequestInfo) -> Answer:
        resource = _storage(info.resource)
        selection = parse_selection(info.resource, info.namespace, exchange.query)
        page = list_page(
            self._registry.collection(resource),
            self._registry.store.version,
            selection,
            ListOptions(),
        )
        options = _delete_options(exchange)
        gone = [
            delete(self._registry, resource, *stored.key, options).stored for stored in page.items
        ]
        shown = self._representation(exchange, info.resource)
        return json_answer(shown.many(gone, {"resourceVersion": str(self._registry.store.version)}))

    def _representation(self, exchange: Exchange, resource: Resource) -> Representation:
        return representation(exchange.accept, resource, exchange.query.get("includeObject", ""))

    def _shown(
        self, exchange: Exchange, resource: Resource, stored: Stored, code: int = 200
    ) -> web.Response:
        return json_answer(self._representation(exchange, resource).one(stored), code)


def _storage(resource: Resource) -> Resource:
    """The resource under which objects are stored: events of both groups are one collection."""
    return EVENTS if resource.shows else resource


def _through_events_group(edit: Edit) -> Edit:
    """Let `edit` see an event in its events.k8s.io form, and check what that group allows."""

    def through(item: Object) -> Object:
        event = events.to_core(edit(events.to_events_group(item)))
        if item and (errors := events.change_errors(event, item)):
            raise status.invalid("Event", item["metadata"]["name"], errors)
        return event

    return through


def _named(edit: Edit, name: str) -> Edit:
    """An object created by apply takes its name from the URL."""

    def named(item: Object) -> Object:
        edited = edit(item)
        edited.setdefault("metadata", {}).setdefault("name", name)
        return edited

    return named


def _delete_options(exchange: Exchange) -> DeleteOptions:
    body = decode_body(exchange.content_type, exchange.body)
    return parse_delete_options(body, exchange.query)


async def _check_fields(exchange: Exchange, resource: Resource, item: Object) -> None:
    """Refuse or warn about unknown fields of a whole object, if the client asks for that."""
    if not _wants_field_validation(exchange):
        return
    await asyncio.to_thread(model_name, resource)  # the first call imports all client models
    if problems := _unknown_field_problems(exchange, resource, item):
        what = f'{resource.kind} in version "{resource.version}"'
        raise status.bad_request(f"{what} cannot be handled as a {resource.kind}: {problems}")


def _wants_field_validation(exchange: Exchange) -> bool:
    return exchange.query.get("fieldValidation") in ("Strict", "Warn")


def _unknown_field_problems(exchange: Exchange, resource: Resource, item: Object) -> str:
    """The text a strict client is refused with; with Warn, warnings and an empty text."""
    unknown = [f'unknown field "{path}"' for path in unknown_fields(resource, item)]
    if exchange.query["fieldValidation"] == "Warn":
        exchange.warnings += unknown
        return ""
    return f"strict decoding error: {', '.join(unknown)}" if unknown else ""


def _patch_edit(exchange: Exchange, kind: str, subresource: str) -> tuple[Edit, bool]:
    """The edit a PATCH asks for on an object of `kind`, and whether it may also create one."""
    media, patch = negotiation.decode_patch(exchange.content_type, exchange.body)
    match media:
        case negotiation.JSON_PATCH:

            def edit(item: Object) -> Object:
                patched = json_patch(item, patch)
                if not isinstance(patched, dict):
                    why = "error decoding patch: the result is not an object"
                    raise status.bad_request(why)
                return patched

            return edit, False
        case negotiation.MERGE_PATCH:
            return lambda item: merge_patch(item, patch), False
        case negotiation.APPLY_PATCH:
            return _apply_edit(exchange, patch, kind, subresource), True
    return lambda item: strategic_merge(item, patch, shape_of_kind(kind)), False


def _apply_edit(exchange: Exchange, wanted: Any, kind: str, subresource: str) -> Edit:
    query = exchange.query
    manager = query.get("fieldManager", "")
    if not manager:
        error = fields.required("fieldManager", "is required for apply patch")
        raise status.invalid("PatchOptions", "", [error], group="meta.k8s.io")
    if (wanted.get("metadata") or {}).get("managedFields"):
        raise status.bad_request("metadata.managedFields must be nil")
    if not wanted.get("apiVersion") or not wanted.get("kind"):
        raise status.bad_request("error decoding YAML: Object 'Kind' is missing")
    force = query.get("force", "false").lower() not in ("false", "0")
    return lambda item: apply_configuration(
        item or {"metadata": {}},
        wanted,
        shape_of_kind(kind),
        manager=manager,
        now=now(),
        subresource=subresource,
        force=force,
    )
