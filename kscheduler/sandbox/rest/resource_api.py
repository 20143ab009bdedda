"""The resource API: every verb on stored objects and their subresources."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from kscheduler.sandbox import status
from kscheduler.sandbox.access.reviews import Reviews
from kscheduler.sandbox.binding import bind
from kscheduler.sandbox.deletion import DeleteOptions, delete, parse_delete_options
from kscheduler.sandbox.eviction import evict
from kscheduler.sandbox.kinds import events
from kscheduler.sandbox.lists import ListOptions, list_page, parse_list_options
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.representation import Representation
from kscheduler.sandbox.resources import EVENTS, PODS, Resource
from kscheduler.sandbox.rest.exchange import Exchange, json_answer
from kscheduler.sandbox.rest.field_validation import check_fields, checked_edit
from kscheduler.sandbox.rest.negotiation import decode_body, decode_object, representation
from kscheduler.sandbox.rest.patch_request import edit_for
from kscheduler.sandbox.rest.target import Target
from kscheduler.sandbox.rest.watch_stream import Watch, Watches
from kscheduler.sandbox.scale import scale_of, with_scale
from kscheduler.sandbox.selection import parse_selection
from kscheduler.sandbox.store import Object, Stored

Answer = web.Response | Watch
_POD_ACTIONS = ("binding", "eviction")
_NEEDS_NAME = ("update", "patch")


class ResourceApi:
    """Answers requests on resources; refusals are raised as StatusErrors."""

    def __init__(
        self,
        registry: Registry,
        watches: Watches,
        reviews: Reviews,
        *,
        streams_lists: bool,
        copies_topology: bool,
    ) -> None:
        self._registry = registry
        self._watches = watches
        self._reviews = reviews
        self.streams_lists = streams_lists
        self._copies_topology = copies_topology

    async def answer(self, exchange: Exchange, target: Target, verb: str) -> Answer:
        part = target.resource.subresource(target.subresource) if target.subresource else None
        allowed = part.verbs if part is not None else target.resource.verbs
        if verb not in allowed or (verb in _NEEDS_NAME and not target.name):
            raise status.method_not_allowed()
        match verb:
            case "get":
                return self._get(exchange, target)
            case "list" | "watch":
                return self._list(exchange, target)
            case "create":
                return await self._create(exchange, target)
            case "update":
                return await self._update(exchange, target)
            case "patch":
                return await self._patch(exchange, target)
            case "delete":
                return self._delete(exchange, target)
        return self._delete_collection(exchange, target)

    def _get(self, exchange: Exchange, target: Target) -> Answer:
        resource = target.resource
        stored = self._registry.get(_storage(resource), target.namespace, target.name)
        if target.subresource == "scale":
            return json_answer(scale_of(stored.decode()))
        return self._shown(exchange, resource, stored)

    def _list(self, exchange: Exchange, target: Target) -> Answer:
        resource = target.resource
        options = parse_list_options(exchange.query, streaming=self.streams_lists)
        selection = parse_selection(resource, target.namespace, exchange.query)
        shown = self._representation(exchange, resource)
        if options.watch:
            return self._watches.open(resource, selection, shown, options)
        collection = self._registry.collection(resource)
        page = list_page(collection, self._registry.store.version, selection, options)
        return json_answer(shown.many(page.items, page.metadata))

    async def _create(self, exchange: Exchange, target: Target) -> Answer:
        resource = target.resource
        if target.subresource in _POD_ACTIONS or resource.kind == "Binding":
            return self._act_on_pod(exchange, target)
        if "list" not in resource.verbs:
            review = decode_object(exchange.content_type, exchange.body, resource)
            return json_answer(self._reviews.answer(resource, review, exchange.user), 201)
        if target.name or (resource.namespaced and not target.namespace):
            raise status.method_not_allowed()
        return await self._create_object(exchange, target)

    async def _create_object(self, exchange: Exchange, target: Target) -> Answer:
        resource = target.resource
        item = decode_object(exchange.content_type, exchange.body, resource)
        await check_fields(exchange, resource, item)
        if resource.shows:
            item = _new_event(item)
        stored = self._registry.create(
            _storage(resource), target.namespace, item, dry_run=exchange.dry_run
        )
        return self._shown(exchange, resource, stored, 201)

    def _act_on_pod(self, exchange: Exchange, target: Target) -> Answer:
        body = decode_body(exchange.content_type, exchange.body)
        name = target.name or (body.get("metadata") or {}).get("name", "")
        self._registry.check_namespace(PODS, target.namespace, name)
        if target.subresource == "eviction":
            evict(self._registry, target.namespace, name, body, dry_run=exchange.dry_run)
        else:
            bind(
                self._registry,
                target.namespace,
                name,
                body,
                copies_topology=self._copies_topology,
                dry_run=exchange.dry_run,
            )
        return json_answer(status.success(201), 201)

    async def _update(self, exchange: Exchange, target: Target) -> Answer:
        resource = target.resource
        if target.subresource == "scale":
            scale = decode_body(exchange.content_type, exchange.body)
            return self._scale(exchange, target, lambda _: scale)
        item = decode_object(exchange.content_type, exchange.body, resource)
        await check_fields(exchange, resource, item)
        named = (item.get("metadata") or {}).get("name", "")
        if named != target.name:
            raise status.bad_request(
                f"the name of the object ({named}) does not match "
                f"the name on the URL ({target.name})"
            )
        may_create = resource.creates_on_update
        return self._change(exchange, target, lambda _: item, may_create=may_create)

    async def _patch(self, exchange: Exchange, target: Target) -> Answer:
        resource = target.resource
        kind = "Scale" if target.subresource == "scale" else resource.kind
        edit, may_create = edit_for(
            exchange.content_type, exchange.body, kind, exchange.query, target.subresource
        )
        if target.subresource == "scale":
            return self._scale(exchange, target, edit)
        edit = await checked_edit(exchange, resource, edit)
        return self._change(exchange, target, edit, may_create=may_create)

    def _change(
        self,
        exchange: Exchange,
        target: Target,
        edit: Callable[[Object], Object],
        *,
        may_create: bool = False,
    ) -> Answer:
        resource = target.resource
        stored, created = self._registry.update(
            _storage(resource),
            target.namespace,
            target.name,
            _through_events_group(edit) if resource.shows else _named(edit, target.name),
            subresource=target.subresource,
            dry_run=exchange.dry_run,
            may_create=may_create and not target.subresource,
        )
        return self._shown(exchange, resource, stored, 201 if created else 200)

    def _scale(
        self, exchange: Exchange, target: Target, edit: Callable[[Object], Object]
    ) -> Answer:
        stored, _ = self._registry.update(
            target.resource,
            target.namespace,
            target.name,
            lambda workload: with_scale(workload, edit(scale_of(workload))),
            dry_run=exchange.dry_run,
        )
        return json_answer(scale_of(stored.decode()))

    def _delete(self, exchange: Exchange, target: Target) -> Answer:
        resource = target.resource
        options = _delete_options(exchange)
        deleted = delete(self._registry, _storage(resource), target.namespace, target.name, options)
        if resource.returns_deleted or not deleted.gone:
            return self._shown(exchange, resource, deleted.stored)
        about = status.details(resource, target.name)
        about["uid"] = deleted.stored.decode()["metadata"]["uid"]
        return json_answer(status.success(details=about))

    def _delete_collection(self, exchange: Exchange, target: Target) -> Answer:
        resource = _storage(target.resource)
        selection = parse_selection(target.resource, target.namespace, exchange.query)
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
        shown = self._representation(exchange, target.resource)
        return json_answer(shown.many(gone, {"resourceVersion": str(self._registry.store.version)}))

    def _representation(self, exchange: Exchange, resource: Resource) -> Representation:
        return representation(exchange.accept, resource, exchange.query.get("includeObject", ""))

    def _shown(
        self, exchange: Exchange, resource: Resource, stored: Stored, code: int = 200
    ) -> web.Response:
        return json_answer(self._representation(exchange, resource).one(stored), code)


def _storage(resource: Resource) -> Resource:
    return EVENTS if resource.shows else resource


def _new_event(item: Object) -> Object:
    event = events.to_core(item)
    if errors := events.strict_errors(event):
        raise status.invalid("Event", (item.get("metadata") or {}).get("name", ""), errors)
    return event


def _through_events_group(edit: Callable[[Object], Object]) -> Callable[[Object], Object]:
    def through(item: Object) -> Object:
        event = events.to_core(edit(events.to_events_group(item)))
        if item and (errors := events.change_errors(event, item)):
            raise status.invalid("Event", item["metadata"]["name"], errors)
        return event

    return through


def _named(edit: Callable[[Object], Object], name: str) -> Callable[[Object], Object]:
    """An object created by apply takes its name from the URL."""

    def named(item: Object) -> Object:
        edited = edit(item)
        edited.setdefault("metadata", {}).setdefault("name", name)
        return edited

    return named


def _delete_options(exchange: Exchange) -> DeleteOptions:
    body = decode_body(exchange.content_type, exchange.body)
    return parse_delete_options(body, exchange.query)
