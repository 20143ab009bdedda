"""The gate: authentication, impersonation and authorization of every request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kscheduler.sandbox import status
from kscheduler.sandbox.access.rbac import Attributes, Rbac
from kscheduler.sandbox.access.users import User, Users, by_certificate
from kscheduler.sandbox.resources import BY_NAME
from kscheduler.sandbox.rest.exchange import Exchange
from kscheduler.sandbox.rest.target import Target
from kscheduler.sandbox.status import StatusError

_VERBS = {"GET": "get", "HEAD": "head", "POST": "post", "PUT": "put", "DELETE": "delete"}
_ALWAYS_OPEN = ("/healthz", "/livez", "/readyz")


class Gate:
    """Lets requests in as somebody, and only where they may go."""

    def __init__(
        self, users: Users, rbac: Rbac, *, authorizes: bool, anonymous: User | None
    ) -> None:
        self._users = users
        self._rbac = rbac
        self._authorizes = authorizes
        self._anonymous = anonymous

    def decide(self, user: User, wanted: Attributes) -> str | None:
        """Why `user` may do it, possibly an empty text; None when they may not."""
        return self._rbac.allows(user, wanted) if self._authorizes else ""

    def admit(self, exchange: Exchange, certificate: Mapping[str, Any] | None) -> User:
        """Who the request counts as. Raises 401, or 403 for a forbidden impersonation."""
        user = self._authenticate(exchange, certificate)
        wanted = exchange.headers.get("Impersonate-User")
        if not wanted:
            return user
        groups = tuple(exchange.headers.getall("Impersonate-Group", ()))
        self._check(user, Attributes("impersonate", resource="users", name=wanted))
        for group in groups:
            self._check(user, Attributes("impersonate", resource="groups", name=group))
        return User(wanted, groups).authenticated()

    def authorize(self, exchange: Exchange, target: Target | None, verb: str) -> None:
        if target is not None:
            self._check(exchange.user, target.attributes(verb, exchange.query))
        elif exchange.path not in _ALWAYS_OPEN:
            method = _VERBS.get(exchange.method, exchange.method.lower())
            self._check(exchange.user, Attributes(method, path=exchange.path))

    def _authenticate(self, exchange: Exchange, certificate: Mapping[str, Any] | None) -> User:
        if certificate and (user := by_certificate(certificate)):
            return user
        scheme, _, token = exchange.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            found = self._users.by_token(token.strip())
            if found is None:
                raise status.unauthorized()
            return found
        if self._anonymous is None:
            raise status.unauthorized()
        return self._anonymous

    def _check(self, user: User, wanted: Attributes) -> None:
        if self.decide(user, wanted) is None:
            raise _forbidden(user, wanted)


def _forbidden(user: User, wanted: Attributes) -> StatusError:
    why = f'User "{user.name}" cannot {wanted}'
    name = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
    if name in BY_NAME:
        return status.forbidden(BY_NAME[name], wanted.name, why)
    subject = f'{name} "{wanted.name}" is forbidden' if name else "forbidden"
    about = {"kind": wanted.resource, "name": wanted.name} if name else {}
    return StatusError(403, "Forbidden", f"{subject}: {why}", about)
