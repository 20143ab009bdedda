"""Authorization: RBAC over the stored roles and bindings, and the reviews that ask it.

Rules are compiled once, and again only after a role or binding changed. Members of system:masters
may do everything. TokenReview and SubjectAccessReview put the server's own questions on behalf of
other servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kscheduler.rest import status
from kscheduler.sandbox.access.users import MASTERS, User, Users
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.store import Object, Store

_GROUP = "rbac.authorization.k8s.io"
_ROLES = f"roles.{_GROUP}"
_CLUSTER_ROLES = f"clusterroles.{_GROUP}"
_BINDINGS = f"rolebindings.{_GROUP}"
_CLUSTER_BINDINGS = f"clusterrolebindings.{_GROUP}"
_ALL = "*"


@dataclass(frozen=True, slots=True)
class Attributes:
    """A verb on a resource or, when there is none, on a path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def __str__(self) -> str:
        if not self.resource:
            return f'{self.verb} path "{self.path}"'
        what = f'{self.verb} resource "{self.full_resource}" in API group "{self.group}"'
        if self.namespace:
            return f'{what} in the namespace "{self.namespace}"'
        return f"{what} at the cluster scope"


@dataclass(frozen=True, slots=True)
class _Subject:
    """A subject of a binding: the identity to compare with, and its text in reasons."""

    identity: tuple[str, str]
    shown: str


@dataclass(frozen=True, slots=True)
class _Grant:
    """The rules of one role for the subjects of one binding, in one namespace or everywhere."""

    subjects: tuple[_Subject, ...]
    rules: tuple[dict[str, Any], ...]
    namespace: str
    reason: str


class Rbac:
    """Answers whether a user may do something, and by which binding."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._grants: list[_Grant] = []
        self._compiled_at = -1

    def allows(self, user: User, wanted: Attributes) -> str | None:
        """The reason why it is allowed, possibly empty; None when it is not."""
        if MASTERS in user.groups:
            return ""
        names = (_ROLES, _CLUSTER_ROLES, _BINDINGS, _CLUSTER_BINDINGS)
        changed_at = max(self._store[name].changed_at for name in names)
        if changed_at > self._compiled_at:
            self._grants = list(self._compile())
            self._compiled_at = changed_at
        identities = {("User", user.name), *(("Group", group) for group in user.groups)}
        for grant in self._grants:
            if grant.namespace and grant.namespace != wanted.namespace:
                continue
            subject = next((one for one in grant.subjects if one.identity in identities), None)
            if subject is not None and any(_covers(r, wanted) for r in grant.rules):
                return f"{grant.reason} to {subject.shown}"
        return None

    def _compile(self) -> Iterator[_Grant]:
        """A grant per binding, cluster-wide ones first; a role that is missing grants nothing."""
        for collection in (_CLUSTER_BINDINGS, _BINDINGS):
            for stored in self._store[collection]:
                namespace, name = stored.key
                binding = stored.decode()
                role = binding.get("roleRef") or {}
                kind = "RoleBinding" if namespace else "ClusterRoleBinding"
                shown = f"{name}/{namespace}" if namespace else name
                reason = (
                    f'RBAC: allowed by {kind} "{shown}" of {role.get("kind")} "{role.get("name")}"'
                )
                if role.get("kind") == "Role":
                    found = self._store[_ROLES].get((namespace, role.get("name", "")))
                else:
                    found = self._store[_CLUSTER_ROLES].get(("", role.get("name", "")))
                rules = tuple(found.decode().get("rules") or ()) if found is not None else ()
                yield _Grant(tuple(_subjects(binding, namespace)), rules, namespace, reason)


def _subjects(binding: Object, namespace: str) -> Iterator[_Subject]:
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind", ""), subject.get("name", "")
        if kind == "ServiceAccount":
            where = subject.get("namespace") or namespace
            account = ("User", f"system:serviceaccount:{where}:{name}")
            yield _Subject(account, f'{kind} "{name}/{where}"')
        else:
            yield _Subject((kind, name), f'{kind} "{name}"')


def _covers(rule: dict[str, Any], wanted: Attributes) -> bool:
    if not _has(rule.get("verbs"), wanted.verb):
        return False
    if not wanted.resource:
        return any(
            wanted.path.startswith(path[:-1]) if path.endswith(_ALL) else path == wanted.path
            for path in rule.get("nonResourceURLs") or ()
        )
    resources, names = rule.get("resources") or (), rule.get("resourceNames") or ()
    any_parent = bool(wanted.subresource) and f"*/{wanted.subresource}" in resources
    return (
        _has(rule.get("apiGroups"), wanted.group)
        and (any_parent or _has(resources, wanted.full_resource))
        and (not names or wanted.name in names)
    )


def _has(values: Any, wanted: str) -> bool:
    return wanted in (values or ()) or _ALL in (values or ())


Decide = Callable[[User, Attributes], str | None]


class Reviews:
    """Answers all review kinds; `decide` is the server's own authorizer."""

    def __init__(self, users: Users, decide: Decide) -> None:
        self._users = users
        self._decide = decide

    def answer(self, resource: Resource, review: Object, asker: User) -> Object:
        """The review as sent, with its status filled in."""
        spec, answer = review.get("spec") or {}, Object()
        match resource.kind:
            case "TokenReview":
                user = self._users.by_token(spec.get("token") or "")
                if user is None:
                    answer = {"user": {}, "error": "invalid bearer token"}
                else:
                    answer = {"authenticated": True, "user": user.info}
            case "SelfSubjectReview":
                answer = {"userInfo": asker.info}
            case "SelfSubjectAccessReview":
                answer = self._access(asker, spec)
            case _:
                name, groups = spec.get("user") or "", tuple(spec.get("groups") or ())
                if not name and not groups:
                    raise status.bad_request(
                        'spec.user: Invalid value: "": '
                        "at least one of user or group must be specified"
                    )
                answer = self._access(User(name, groups, spec.get("uid") or ""), spec)
        return {
            "kind": resource.kind,
            "apiVersion": resource.group_version,
            "metadata": review.get("metadata") or {},
            "spec": spec,
            "status": answer,
        }

    def _access(self, user: User, spec: Object) -> Object:
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if (resource is None) == (path is None):
            raise status.bad_request(
                "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            )
        if path is not None:
            wanted = Attributes(path.get("verb") or "", path=path.get("path") or "")
        else:
            assert resource is not None
            parts = ("verb", "group", "resource", "subresource", "namespace", "name")
            wanted = Attributes(*(resource.get(part) or "" for part in parts))
        reason = self._decide(user, wanted)
        if reason is None:
            return {"allowed": False}
        return {"allowed": True, "reason": reason} if reason else {"allowed": True}
