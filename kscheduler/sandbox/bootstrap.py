"""Bootstrap objects: the content of a new cluster.

Namespaces with their service accounts, the system priority classes, the roles and bindings every
cluster starts with (as far as a scheduler's users need them), and the ConfigMap that tells other
servers how to authenticate clients.
"""

from __future__ import annotations

from collections.abc import Iterator

from kscheduler.sandbox.aggregation.aggregator import PROXY_NAME
from kscheduler.sandbox.controllers.namespaces import ensure_service_account
from kscheduler.sandbox.kinds.scheduling import SYSTEM_PRIORITIES
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import BY_KIND, BY_NAME, NAMESPACES, PRIORITY_CLASSES
from kscheduler.sandbox.store import Object

AUTHENTICATION_CONFIG = "extension-apiserver-authentication"
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_RBAC = "rbac.authorization.k8s.io"
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_CONNECTIONS = ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy")
_SCALED = tuple(
    f"{plural}{part}"
    for plural in ("deployments", "replicasets", "statefulsets")
    for part in ("", "/scale")
)
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_HEALTH = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
_METRICS = ("/metrics", "/metrics/slis", "/healthz", "/healthz/*", "/livez", "/livez/*")
_STATUS = ("/flagz", "/statusz")
SCHEDULER = "system:kube-scheduler"


def _rule(
    verbs: tuple[str, ...], group: str, *resources: str, names: tuple[str, ...] = ()
) -> Object:
    rule: Object = {"verbs": list(verbs), "apiGroups": [group], "resources": list(resources)}
    if names:
        rule["resourceNames"] = list(names)
    return rule


def _paths(*paths: str) -> Object:
    return {"verbs": ["get"], "nonResourceURLs": list(paths)}


CLUSTER_ROLES: dict[str, tuple[Object, ...]] = {
    "cluster-admin": (
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ),
    "system:discovery": (_paths(*_HEALTH, *_DISCOVERY),),
    "system:public-info-viewer": (_paths(*_HEALTH),),
    "system:basic-user": (
        _rule(
            ("create",),
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
        ),
        _rule(("create",), "authentication.k8s.io", "selfsubjectreviews"),
    ),
    "system:monitoring": (_paths(*_METRICS, "/readyz", "/readyz/*", *_STATUS),),
    "system:auth-delegator": (
        _rule(("create",), "authentication.k8s.io", "tokenreviews"),
        _rule(("create",), "authorization.k8s.io", "subjectaccessreviews"),
    ),
    SCHEDULER: (
        _rule(("create", "patch", "update"), "", "events"),
        _rule(("create", "patch", "update"), "events.k8s.io", "events"),
        _rule(("create",), "coordination.k8s.io", "leases"),
        _rule(
            ("get", "list", "update", "watch"),
            "coordination.k8s.io",
            "leases",
            names=("kube-scheduler",),
        ),
        _rule(
            ("create", "delete", "deletecollection", "patch", "update", *_READ),
            "coordination.k8s.io",
            "leasecandidates",
        ),
        _rule(_READ, "", "nodes", "namespaces", "services", "replicationcontrollers"),
        _rule(("delete", *_READ), "", "pods"),
        _rule(("create",), "", "bindings", "pods/binding"),
        _rule(("patch", "update"), "", "pods/status"),
        _rule(("update",), "", "pods/finalizers"),
        _rule(_READ, "apps", "replicasets", "statefulsets"),
        _rule(_READ, "policy", "poddisruptionbudgets"),
        _rule(_READ, "", "persistentvolumeclaims", "persistentvolumes"),
        _rule(
            _READ,
            "storage.k8s.io",
            "csinodes",
            "csidrivers",
            "csistoragecapacities",
            "volumeattachments",
        ),
        _rule(_READ, "resource.k8s.io", "deviceclasses", "resourceslices", "devicetaintrules"),
        _rule(("create", "delete", "patch", "update", *_READ), "resource.k8s.io", "resourceclaims"),
        _rule(("patch", "update", *_READ), "resource.k8s.io", "resourceclaims/status"),
        _rule(("patch", "update"), "resource.k8s.io", "resourceclaims/binding"),
        _rule(_READ, "scheduling.k8s.io", "podgroups", "compositepodgroups"),
        _rule(
            ("patch", "update"),
            "scheduling.k8s.io",
            "podgroups/status",
            "compositepodgroups/status",
        ),
        _rule(("create",), "authentication.k8s.io", "tokenreviews"),
        _rule(("create",), "authorization.k8s.io", "subjectaccessreviews"),
    ),
    "system:volume-scheduler": (
        _rule(("patch", "update", *_READ), "", "persistentvolumeclaims", "persistentvolumes"),
        _rule(_READ, "storage.k8s.io", "storageclasses"),
    ),
}

# What `admin`, `edit` and `view` grant of the kinds that are stored here; each of them has what the
# next one has.
AGGREGATED: dict[str, tuple[Object, ...]] = {
    "admin": (
        _rule(("create",), "authorization.k8s.io", "localsubjectaccessreviews"),
        _rule((*_WRITE, *_READ), _RBAC, "roles", "rolebindings"),
    ),
    "edit": (
        _rule(_READ, "", "secrets", *_CONNECTIONS),
        _rule(("impersonate",), "", "serviceaccounts"),
        _rule(_WRITE, "", "pods", *_CONNECTIONS),
        _rule(("create",), "", "pods/eviction", "serviceaccounts/token"),
        _rule(_WRITE, "", "replicationcontrollers", "replicationcontrollers/scale", "services"),
        _rule(_WRITE, "", "serviceaccounts", "configmaps", "secrets", "events"),
        _rule(_WRITE, "", "persistentvolumeclaims"),
        _rule(_WRITE, "apps", "daemonsets", *_SCALED),
        _rule(_WRITE, "batch", "jobs", "cronjobs"),
        _rule(_WRITE, "policy", "poddisruptionbudgets"),
        _rule(_WRITE, "networking.k8s.io", "ingresses", "networkpolicies"),
        _rule(_WRITE, "resource.k8s.io", "resourceclaims", "resourceclaimtemplates"),
        _rule((*_WRITE, *_READ), "coordination.k8s.io", "leases"),
    ),
    "view": (
        _rule(_READ, "", "pods", "pods/status", "pods/log", "bindings", "events", "namespaces"),
        _rule(_READ, "", "replicationcontrollers", "replicationcontrollers/scale"),
        _rule(_READ, "", "serviceaccounts", "services", "endpoints", "configmaps"),
        _rule(_READ, "", "persistentvolumeclaims", "limitranges", "resourcequotas"),
        _rule(_READ, "apps", "controllerrevisions", "daemonsets", *_SCALED),
        _rule(_READ, "batch", "jobs", "cronjobs"),
        _rule(_READ, "discovery.k8s.io", "endpointslices"),
        _rule(_READ, "policy", "poddisruptionbudgets"),
        _rule(_READ, "networking.k8s.io", "ingresses", "networkpolicies"),
        _rule(_READ, "resource.k8s.io", "resourceclaims", "resourceclaimtemplates"),
    ),
}
# Whose rules become part of which: `view` of `edit`, and that of `admin`.
_PART_OF = {"view": "edit", "edit": "admin"}

_USER, _GROUP = "User", "Group"
_AUTHENTICATED = (_GROUP, "system:authenticated")
CLUSTER_ROLE_BINDINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "cluster-admin": ((_GROUP, "system:masters"),),
    "system:discovery": (_AUTHENTICATED,),
    "system:basic-user": (_AUTHENTICATED,),
    "system:public-info-viewer": (_AUTHENTICATED, (_GROUP, "system:unauthenticated")),
    "system:monitoring": ((_GROUP, "system:monitoring"),),
    SCHEDULER: ((_USER, SCHEDULER),),
    "system:volume-scheduler": ((_USER, SCHEDULER),),
}

# In kube-system, each bound to the scheduler.
ROLES: dict[str, tuple[Object, ...]] = {
    "extension-apiserver-authentication-reader": (
        _rule(_READ, "", "configmaps", names=(AUTHENTICATION_CONFIG,)),
    ),
    "system::leader-locking-kube-scheduler": (
        _rule(("create", "update", *_READ), "coordination.k8s.io", "leases", "leasecandidates"),
    ),
}


def create_initial_objects(registry: Registry, *, client_ca: bytes, proxy_ca: bytes) -> None:
    """Create everything. The authorities, in PEM, are those of client certificates (none without
    TLS) and of the front proxy's.
    """
    for name in _NAMESPACES:
        registry.create(NAMESPACES, "", {"metadata": {"name": name}})
        ensure_service_account(registry, name)
    for name, value in SYSTEM_PRIORITIES.items():
        registry.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})
    for item in _rbac_objects():
        resource = BY_KIND[f"{_RBAC}/v1", item["kind"]]
        registry.create(resource, item["metadata"].get("namespace", ""), item)
    authentication = {
        "requestheader-client-ca-file": proxy_ca.decode(),
        "requestheader-allowed-names": f'["{PROXY_NAME}"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }
    if client_ca:
        authentication["client-ca-file"] = client_ca.decode()
    config = {"metadata": {"name": AUTHENTICATION_CONFIG}, "data": authentication}
    registry.create(BY_NAME["configmaps"], "kube-system", config)


def _rbac_objects() -> Iterator[Object]:
    """Roles before the bindings that name them."""
    for name, rules in CLUSTER_ROLES.items():
        yield {"kind": "ClusterRole", "metadata": _about(name), "rules": list(rules)}
    yield from _aggregated_roles()
    for name, subjects in CLUSTER_ROLE_BINDINGS.items():
        yield _binding("ClusterRoleBinding", "ClusterRole", name, subjects, _about(name))
    for name, rules in ROLES.items():
        about = _about(name) | {"namespace": "kube-system"}
        yield {"kind": "Role", "metadata": about, "rules": list(rules)}
        yield _binding("RoleBinding", "Role", name, ((_USER, SCHEDULER),), about)


def _aggregated_roles() -> Iterator[Object]:
    """Roles without rules, which a controller fills, and those that have them."""
    for name, rules in AGGREGATED.items():
        about = _about(name)
        if name in _PART_OF:
            about["labels"][_aggregates_to(_PART_OF[name])] = "true"
        selector = {"matchLabels": {_aggregates_to(name): "true"}}
        yield {
            "kind": "ClusterRole",
            "metadata": about,
            "aggregationRule": {"clusterRoleSelectors": [selector]},
            "rules": [],
        }
        about = _about(f"system:aggregate-to-{name}")
        about["labels"][_aggregates_to(name)] = "true"
        yield {"kind": "ClusterRole", "metadata": about, "rules": list(rules)}


def _aggregates_to(name: str) -> str:
    return f"{_RBAC}/aggregate-to-{name}"


def _binding(
    kind: str, role_kind: str, name: str, subjects: tuple[tuple[str, str], ...], about: Object
) -> Object:
    return {
        "kind": kind,
        "metadata": dict(about),
        "roleRef": {"apiGroup": _RBAC, "kind": role_kind, "name": name},
        "subjects": [
            {"apiGroup": _RBAC, "kind": subject, "name": subject_name}
            for subject, subject_name in subjects
        ],
    }


def _about(name: str) -> Object:
    return {"name": name, "labels": dict(_LABELS)}
