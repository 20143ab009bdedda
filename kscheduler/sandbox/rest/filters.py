"""Access filters: authentication, impersonation and authorization, in the order of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kscheduler.rest import status
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.access.authorization import Attributes, Rbac
from kscheduler.sandbox.access.users import User, Users, user_of_certificate
from kscheduler.sandbox.resources import BY_NAME
from kscheduler.sandbox.rest.request import Exchange, RequestInfo

_PATH_VERBS = {"GET": "get", "HEAD": "head", "POST": "post", "PUT": "put", "DELETE": "delete"}
_ALWAYS_ALLOWED_PATHS = ("/healthz", "/livez", "/readyz")


class AccessFilter:
    """The user of every request, and whether that user may do what it asks for."""

    def __init__(
        self, users: Users, rbac: Rbac, *, authorizes: bool, anonymous: User | None
    ) -> None:
        self._users = users
        self._rbac = rbac
        self._authorizes = authorizes
        self._anonymous = anonymous

    def decide(self, user: User, wanted: Attributes) -> str | None:
        """The reason why `user` may do it, possibly an empty text; None when they may not."""
        return self._rbac.allows(user, wanted) if self._authorizes else ""

    def authenticate(self, exchange: Exchange, certificate: Mapping[str, Any] | None) -> User:
        """The user a request counts as. Raises 401, or 403 for a forbidden impersonation."""
        user = self._user_by_credentials(exchange, certificate)
        wanted = exchange.headers.get("Impersonate-User")
        if not wanted:
            return user
        groups = tuple(exchange.headers.getall("Impersonate-Group", ()))
        self._check(user, Attributes("impersonate", resource="users", name=wanted))
        for group in groups:
            self._check(user, Attributes("impersonate", resource="groups", name=group))
        return User(wanted, groups).authenticated()

    def authorize(self, exchange: Exchange, info: RequestInfo | None, verb: str) -> None:
        """Raises 403 unless the user may; `info` is None for paths that are not resources."""
        if info is not None:
            self._check(exchange.user, info.attributes(verb, exchange.query))
        elif exchange.path not in _ALWAYS_ALLOWED_PATHS:
            method = _PATH_VERBS.get(exchange.method, exchange.method.lower())
            self._check(exchange.user, Attributes(method, path=exchange.path))

    def _user_by_credentials(
        self, exchange: Exchange, certificate: Mapping[str, Any] | None
    ) -> User:
        """The first credential that is present decides: a wrong token is not anonymous access."""
        if certificate and (user := user_of_certificate(certificate)):
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

    def refusal(self, user: User, wanted: Attributes) -> str:
        """The text `user` is refused an access with; empty when they may."""
        try:
            self._check(user, wanted)
        except StatusError as error:
            return str(error)
        return ""

    def _check(self, user: User, wanted: Attributes) -> None:
        if self.decide(user, wanted) is not None:
            return
        why = f'User "{user.name}" cannot {wanted}'
        name = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
        if name in BY_NAME:
            raise status.forbidden(BY_NAME[name], wanted.name, why)
        named = f' "{wanted.name}"' if wanted.name else ""
        subject = f"{name}{named} is forbidden" if name else "forbidden"
        about = {"name": wanted.name, "group": wanted.group, "kind": wanted.resource}
        about = {key: value for key, value in about.items() if value}
        raise StatusError(403, "Forbidden", f"{subject}: {why}", about)
