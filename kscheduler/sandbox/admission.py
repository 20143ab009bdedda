"""Admission: what the cluster adds to or refuses in a request beyond an object's own rules.

Named after the API server's plugins and switched like them. On by default: NamespaceLifecycle,
Priority, DefaultStorageClass, DefaultTolerationSeconds, PodTopologyLabels. Known, but off because
the controllers that would undo their work are not here: StorageObjectInUseProtection (a finalizer
on volumes and claims) and TaintNodesByCondition (a taint on new nodes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kscheduler.rest import status
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.resources import (
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
)
from kscheduler.sandbox.store import Object, Store

DEFAULT_PLUGINS = frozenset(
    {
        "NamespaceLifecycle",
        "Priority",
        "DefaultStorageClass",
        "DefaultTolerationSeconds",
        "PodTopologyLabels",
    }
)
OPTIONAL_PLUGINS = frozenset({"StorageObjectInUseProtection", "TaintNodesByCondition"})
IMMORTAL_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})
TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_TROUBLES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_BEARABLE_SECONDS = 300
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"

Check = Callable[[Store, Object], None]


class Admission:
    """The plugins that are switched on, in the order in which they run."""

    def __init__(self, enable: Iterable[str] = (), disable: Iterable[str] = ()) -> None:
        known = DEFAULT_PLUGINS | OPTIONAL_PLUGINS
        if unknown := {*enable, *disable} - known:
            raise ValueError(f"unknown admission plugins: {', '.join(sorted(unknown))}")
        self.plugins = (DEFAULT_PLUGINS | set(enable)) - set(disable)
        self._on_create: dict[str, list[Check]] = {}
        for plugin, resource_name, check in _CREATE_CHECKS:
            if plugin in self.plugins:
                self._on_create.setdefault(resource_name, []).append(check)

    def on_create(self, store: Store, resource: Resource, item: Object) -> None:
        for check in self._on_create.get(resource.qualified, ()):
            check(store, item)

    def on_update(self, store: Store, resource: Resource, item: Object, old: Object) -> None:
        if resource is not PODS:
            return
        if "Priority" in self.plugins:
            for name in ("priority", "preemptionPolicy"):
                if name in old["spec"]:
                    item["spec"].setdefault(name, old["spec"][name])
        if "DefaultTolerationSeconds" in self.plugins:
            _tolerate_trouble(store, item)

    def check_namespace(self, store: Store, resource: Resource, namespace: str, name: str) -> None:
        """New content needs a namespace that exists and is not on its way out."""
        if "NamespaceLifecycle" not in self.plugins:
            return
        stored = store["namespaces"].get(("", namespace))
        if stored is None:
            raise status.not_found(NAMESPACES, namespace)
        if stored.fields["status.phase"] == "Terminating":
            why = (
                f"unable to create new content in namespace {namespace} "
                "because it is being terminated"
            )
            refusal = status.forbidden(resource, name, why)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            refusal.details = {**(refusal.details or {}), "causes": [cause]}
            raise refusal


def topology_labels(store: Store, node_name: str) -> dict[str, str]:
    """The labels a pod inherits from the node it is bound to."""
    node = store["nodes"].get(("", node_name))
    if node is None:
        return {}
    return {key: node.labels[key] for key in TOPOLOGY_LABELS if key in node.labels}


def _resolve_priority(store: Store, pod: Object) -> None:
    spec = pod["spec"]
    name, value, policy = _priority_class(store, pod)
    if name:
        spec["priorityClassName"] = name
    if spec.setdefault("priority", value) != value:
        raise _forbidden_pod(
            pod,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name",
        )
    if policy and spec.setdefault("preemptionPolicy", policy) != policy:
        raise _forbidden_pod(
            pod,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be "
            f"provided in pod spec; priority admission controller computed {policy} "
            "from the given PriorityClass name",
        )


def _priority_class(store: Store, pod: Object) -> tuple[str, int, str]:
    classes = store[PRIORITY_CLASSES.stored_as]
    wanted = pod["spec"].get("priorityClassName")
    if wanted:
        stored = classes.get(("", wanted))
        if stored is None:
            raise _forbidden_pod(pod, f"no PriorityClass with name {wanted} was found")
        found = stored.decode()
        return wanted, found["value"], found.get("preemptionPolicy", "")
    defaults = [one for one in (s.decode() for s in classes) if one.get("globalDefault")]
    if not defaults:
        return "", 0, "PreemptLowerPriority"
    least = min(defaults, key=lambda one: one["value"])
    return least["metadata"]["name"], least["value"], least.get("preemptionPolicy", "")


def _forbidden_pod(pod: Object, why: str) -> status.StatusError:
    return status.forbidden(PODS, pod["metadata"].get("name", ""), why)


def _one_global_default(store: Store, item: Object) -> None:
    if not item.get("globalDefault"):
        return
    for stored in store[PRIORITY_CLASSES.stored_as]:
        if stored.decode().get("globalDefault"):
            name = stored.key[1]
            why = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise status.forbidden(PRIORITY_CLASSES, item["metadata"].get("name", ""), why)


def _tolerate_trouble(store: Store, pod: Object) -> None:
    """A node's trouble is borne for five minutes, by pods that say nothing else about it."""
    del store
    tolerations = pod["spec"].get("tolerations") or []
    missing = [
        {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": _BEARABLE_SECONDS,
        }
        for key in _TROUBLES
        if not any(
            toleration.get("key", "") in ("", key)
            and toleration.get("effect", "") in ("", "NoExecute")
            for toleration in tolerations
        )
    ]
    if missing:
        pod["spec"]["tolerations"] = [*tolerations, *missing]


def _inherit_topology(store: Store, pod: Object) -> None:
    if node_name := pod["spec"].get("nodeName"):
        labels = topology_labels(store, node_name)
        if labels:
            pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **labels}


def _choose_storage_class(store: Store, claim: Object) -> None:
    spec = claim.setdefault("spec", {})
    legacy = "volume.beta.kubernetes.io/storage-class"
    if "storageClassName" in spec or legacy in (claim["metadata"].get("annotations") or {}):
        return
    classes = [stored.decode()["metadata"] for stored in store[STORAGE_CLASSES.stored_as]]
    defaults = [
        about for about in classes if about.get("annotations", {}).get(_DEFAULT_CLASS) == "true"
    ]
    if defaults:
        newest = max(defaults, key=lambda about: (about["creationTimestamp"], about["name"]))
        spec["storageClassName"] = newest["name"]


def _protected(finalizer: str) -> Check:
    def protect(store: Store, item: Object) -> None:
        del store
        finalizers = item["metadata"].setdefault("finalizers", [])
        if finalizer not in finalizers:
            finalizers.append(finalizer)

    return protect


def _taint_not_ready(store: Store, node: Object) -> None:
    del store
    taints = node.setdefault("spec", {}).setdefault("taints", [])
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    if not_ready not in taints:
        taints.append(not_ready)


_CREATE_CHECKS: tuple[tuple[str, str, Check], ...] = (
    ("Priority", PODS.qualified, _resolve_priority),
    ("Priority", PRIORITY_CLASSES.qualified, _one_global_default),
    ("DefaultTolerationSeconds", PODS.qualified, _tolerate_trouble),
    ("PodTopologyLabels", PODS.qualified, _inherit_topology),
    ("DefaultStorageClass", "persistentvolumeclaims", _choose_storage_class),
    (
        "StorageObjectInUseProtection",
        "persistentvolumeclaims",
        _protected("kubernetes.io/pvc-protection"),
    ),
    (
        "StorageObjectInUseProtection",
        "persistentvolumes",
        _protected("kubernetes.io/pv-protection"),
    ),
    ("TaintNodesByCondition", NODES.qualified, _taint_not_ready),
)
