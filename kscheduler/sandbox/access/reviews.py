"""Reviews: the server's answer to "who is this?" and "may they?" when a client asks for others."""

from __future__ import annotations

from collections.abc import Callable

from kscheduler.sandbox import status
from kscheduler.sandbox.access.rbac import Attributes
from kscheduler.sandbox.access.users import User, Users
from kscheduler.sandbox.resources import Resource
from kscheduler.sandbox.store import Object

Decide = Callable[[User, Attributes], str | None]


class Reviews:
    """Answers all review kinds; `decide` is the server's own authorizer."""

    def __init__(self, users: Users, decide: Decide) -> None:
        self._users = users
        self._decide = decide

    def answer(self, resource: Resource, review: Object, asker: User) -> Object:
        """The review as sent, with its status filled in."""
        spec = review.get("spec") or {}
        match resource.kind:
            case "TokenReview":
                answer = self._token(spec)
            case "SelfSubjectReview":
                answer = {"userInfo": asker.info}
            case "SelfSubjectAccessReview":
                answer = self._access(asker, spec)
            case _:
                answer = self._access(_subject(spec), spec)
        return {
            "kind": resource.kind,
            "apiVersion": resource.group_version,
            "metadata": review.get("metadata") or {},
            "spec": spec,
            "status": answer,
        }

    def _token(self, spec: Object) -> Object:
        user = self._users.by_token(spec.get("token") or "")
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": user.info}

    def _access(self, user: User, spec: Object) -> Object:
        reason = self._decide(user, _attributes(spec))
        if reason is None:
            return {"allowed": False}
        return {"allowed": True, "reason": reason} if reason else {"allowed": True}


def _subject(spec: Object) -> User:
    if not spec.get("user") and not spec.get("groups"):
        raise status.bad_request(
            'spec.user: Invalid value: "": at least one of user or group must be specified'
        )
    return User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "")


def _attributes(spec: Object) -> Attributes:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        raise status.bad_request(
            "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        )
    if path is not None:
        return Attributes(path.get("verb") or "", path=path.get("path") or "")
    assert resource is not None
    return Attributes(
        resource.get("verb") or "",
        resource.get("group") or "",
        resource.get("resource") or "",
        resource.get("subresource") or "",
        resource.get("namespace") or "",
        resource.get("name") or "",
    )
