"""Roles and reviews: the groups rbac.authorization, authentication and authorization.k8s.io."""

from __future__ import annotations

from kscheduler.sandbox.kinds.resource import Resource


def path_segment_errors(name: str) -> list[str]:
    """Errors of names that only have to survive in a URL, like `system:kube-scheduler`."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{mark}'" for mark in "/%" if mark in name]


def _role(plural: str, kind: str, *, namespaced: bool) -> Resource:
    return Resource(
        "rbac.authorization.k8s.io",
        "v1",
        plural,
        kind,
        namespaced=namespaced,
        creates_on_update=True,
        name_errors=path_segment_errors,
    )


def _review(group: str, plural: str, kind: str, *, namespaced: bool = False) -> Resource:
    """Reviews are answered and not stored; `access.authorization` fills them in."""
    return Resource(group, "v1", plural, kind, namespaced=namespaced, verbs=("create",))


_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
RESOURCES = (
    _role("clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    _role("clusterroles", "ClusterRole", namespaced=False),
    _role("rolebindings", "RoleBinding", namespaced=True),
    _role("roles", "Role", namespaced=True),
    _review(_AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview"),
    _review(_AUTHENTICATION, "tokenreviews", "TokenReview"),
    _review(
        _AUTHORIZATION, "localsubjectaccessreviews", "LocalSubjectAccessReview", namespaced=True
    ),
    _review(_AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _review(_AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _review(_AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview"),
)
