"""Field validation: unknown fields refused or warned about, when the client asks for that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kscheduler.sandbox import fields, status
from kscheduler.sandbox.catalog.schemas import model_name, unknown_fields
from kscheduler.sandbox.resources import Resource
from kscheduler.sandbox.rest.exchange import Exchange
from kscheduler.sandbox.store import Object

Edit = Callable[[Object], Object]


async def check_fields(exchange: Exchange, resource: Resource, item: Object) -> None:
    """For a whole object in the body of a request."""
    if not _is_wanted(exchange):
        return
    await asyncio.to_thread(model_name, resource)
    if problems := _problems(exchange, resource, item):
        what = f'{resource.kind} in version "{resource.version}"'
        raise status.bad_request(f"{what} cannot be handled as a {resource.kind}: {problems}")


async def checked_edit(exchange: Exchange, resource: Resource, edit: Edit) -> Edit:
    """For a patch: the object it leads to is checked before it is stored."""
    if not _is_wanted(exchange):
        return edit
    await asyncio.to_thread(model_name, resource)

    def checked(item: Object) -> Object:
        edited = edit(item)
        if problems := _problems(exchange, resource, edited):
            error = fields.invalid("patch", exchange.body.decode(errors="replace"), problems)
            raise status.invalid("", "", [error])
        return edited

    return checked


def _is_wanted(exchange: Exchange) -> bool:
    return exchange.query.get("fieldValidation") in ("Strict", "Warn")


def _problems(exchange: Exchange, resource: Resource, item: Object) -> str:
    """What a strict client is refused for; a client that only wants warnings gets those."""
    unknown = [f'unknown field "{path}"' for path in unknown_fields(resource, item)]
    if exchange.query["fieldValidation"] == "Warn":
        exchange.warnings += unknown
        return ""
    return f"strict decoding error: {', '.join(unknown)}" if unknown else ""
