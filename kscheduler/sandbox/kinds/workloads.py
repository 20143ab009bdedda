"""Workloads and services: stored and defaulted; nothing here makes pods out of them."""

from __future__ import annotations

from typing import Any

from kscheduler.sandbox import fields
from kscheduler.sandbox.fields import FieldError
from kscheduler.sandbox.kinds.affinity_validation import selector_errors
from kscheduler.sandbox.kinds.pod_defaults import default_pod_spec
from kscheduler.sandbox.kinds.volumes import default_claim
from kscheduler.sandbox.metadata import IMMUTABLE
from kscheduler.sandbox.store import Object
from kscheduler.sandbox.strategy import Strategy

_ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}


def _default_template(spec: dict[str, Any]) -> None:
    if template := spec.get("template"):
        default_pod_spec(template.setdefault("spec", {}))


def _default_scaled(workload: Object) -> None:
    spec = workload.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _default_template(spec)


def _default_replication_controller(controller: Object) -> None:
    _default_scaled(controller)
    labels = ((controller["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        controller["spec"].setdefault("selector", dict(labels))
        controller["metadata"].setdefault("labels", dict(labels))


def _default_deployment(deployment: Object) -> None:
    _default_scaled(deployment)
    spec = deployment["spec"]
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", dict(_ROLLING))
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


def _default_stateful_set(workload: Object) -> None:
    _default_scaled(workload)
    spec = workload["spec"]
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    for template in spec.get("volumeClaimTemplates") or ():
        template |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        default_claim(template)


def _default_daemon_set(workload: Object) -> None:
    spec = workload.setdefault("spec", {})
    spec.setdefault("revisionHistoryLimit", 10)
    rolling = {"maxUnavailable": 1, "maxSurge": 0}
    spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": rolling})
    _default_template(spec)


def _selector_errors(workload: Object) -> list[FieldError]:
    spec = workload["spec"]
    selector = spec.get("selector")
    if selector is None:
        return [fields.required("spec.selector")]
    errors = list(selector_errors(selector, "spec.selector"))
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        detail = "`selector` does not match template `labels`"
        errors.append(fields.invalid("spec.template.metadata.labels", labels, detail))
    return errors


def _selector_kept(workload: Object, old: Object) -> list[FieldError]:
    wanted, had = workload["spec"].get("selector"), old["spec"].get("selector")
    return [] if wanted == had else [fields.invalid("spec.selector", wanted, IMMUTABLE)]


def _default_service(service: Object) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("type", "ClusterIP")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def _apps(default: Any) -> Strategy:
    return Strategy(
        default=default,
        validate=_selector_errors,
        validate_update=_selector_kept,
        initial_status=dict,
    )


STRATEGIES: dict[str, Strategy] = {
    "deployments.apps": _apps(_default_deployment),
    "replicasets.apps": _apps(_default_scaled),
    "statefulsets.apps": _apps(_default_stateful_set),
    "daemonsets.apps": _apps(_default_daemon_set),
    "replicationcontrollers": Strategy(default=_default_replication_controller),
    "services": Strategy(default=_default_service, initial_status=lambda: {"loadBalancer": {}}),
}
