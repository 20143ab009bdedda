"""What a new cluster contains before anybody has done anything."""

from __future__ import annotations

from kscheduler.sandbox.access.bootstrap_roles import bootstrap_objects
from kscheduler.sandbox.housekeeping import ensure_service_account
from kscheduler.sandbox.kinds.small_kinds import SYSTEM_PRIORITIES
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import BY_KIND, BY_NAME, NAMESPACES, PRIORITY_CLASSES

_RBAC = "rbac.authorization.k8s.io/v1"
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
AUTHENTICATION_CONFIG = "extension-apiserver-authentication"


def create_initial_objects(registry: Registry, client_ca: bytes = b"") -> None:
    """Namespaces, system priorities, roles, and where to learn about client certificates."""
    for name in _NAMESPACES:
        registry.create(NAMESPACES, "", {"metadata": {"name": name}})
        ensure_service_account(registry, name)
    for name, value in SYSTEM_PRIORITIES.items():
        registry.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})
    for item in bootstrap_objects():
        resource = BY_KIND[_RBAC, item["kind"]]
        registry.create(resource, item["metadata"].get("namespace", ""), item)
    config = {"metadata": {"name": AUTHENTICATION_CONFIG}, "data": _authentication(client_ca)}
    registry.create(BY_NAME["configmaps"], "kube-system", config)


def _authentication(client_ca: bytes) -> dict[str, str]:
    """How components recognise who comes to them with a certificate or through a front proxy."""
    if not client_ca:
        return {}
    authority = client_ca.decode()
    return {
        "client-ca-file": authority,
        "requestheader-client-ca-file": authority,
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }
