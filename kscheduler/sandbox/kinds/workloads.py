"""Workloads and services: stored and defaulted; no controller here makes pods out of them."""

from __future__ import annotations

from typing import Any

from kscheduler.api.validation import dns_label_errors
from kscheduler.rest import fields
from kscheduler.rest.fields import FieldError
from kscheduler.rest.tables import AGE, NAME, NONE, Column, at, count
from kscheduler.sandbox.kinds.affinity_validation import selector_errors
from kscheduler.sandbox.kinds.merging import ATOMIC, CONDITIONS, TEMPLATED, Field, keyed
from kscheduler.sandbox.kinds.pods import default_pod_spec
from kscheduler.sandbox.kinds.printers import ready_of_replicas, service_ports
from kscheduler.sandbox.kinds.resource import SCALE, STATUS, Resource, Strategy
from kscheduler.sandbox.kinds.storage import default_claim
from kscheduler.sandbox.metadata import IMMUTABLE
from kscheduler.sandbox.store import Object


def _default_template(spec: dict[str, Any]) -> None:
    if template := spec.get("template"):
        default_pod_spec(template.setdefault("spec", {}))


class _WorkloadStrategy(Strategy):
    """ReplicaSets, and the base of the other kinds of apps/v1."""

    def default(self, item: Object) -> None:
        spec = item.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        _default_template(spec)

    def validate(self, item: Object) -> list[FieldError]:
        spec = item["spec"]
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

    def validate_update(self, item: Object, old: Object) -> list[FieldError]:
        wanted, had = item["spec"].get("selector"), old["spec"].get("selector")
        return [] if wanted == had else [fields.invalid("spec.selector", wanted, IMMUTABLE)]


class _DeploymentStrategy(_WorkloadStrategy):
    def default(self, item: Object) -> None:
        super().default(item)
        spec = item["spec"]
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        strategy = spec.setdefault("strategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")


class _StatefulSetStrategy(_WorkloadStrategy):
    def default(self, item: Object) -> None:
        super().default(item)
        spec = item["spec"]
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
        spec.setdefault("podManagementPolicy", "OrderedReady")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("updateStrategy", rolling)
        for template in spec.get("volumeClaimTemplates") or ():
            template |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
            default_claim(template)


class _DaemonSetStrategy(_WorkloadStrategy):
    def default(self, item: Object) -> None:
        spec = item.setdefault("spec", {})
        rolling = {"maxUnavailable": 1, "maxSurge": 0}
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": rolling})
        _default_template(spec)


class _ReplicationControllerStrategy(Strategy):
    def default(self, item: Object) -> None:
        spec = item.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        _default_template(spec)
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        if labels:
            spec.setdefault("selector", dict(labels))
            item["metadata"].setdefault("labels", dict(labels))


class _ServiceStrategy(Strategy):
    def default(self, item: Object) -> None:
        spec = item.setdefault("spec", {})
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("type", "ClusterIP")
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))

    def initial_status(self) -> Object:
        return {"loadBalancer": {}}


CORE_RESOURCES = (
    Resource(
        "",
        "v1",
        "services",
        "Service",
        short_names=("svc",),
        categories=("all",),
        subresources=(STATUS,),
        field_labels={"spec.clusterIP": "spec.clusterIP", "spec.type": "spec.type"},
        creates_on_update=True,
        returns_deleted=True,
        strategy=_ServiceStrategy(),
        columns=(
            NAME,
            Column("Type", at("spec.type")),
            Column("Cluster-IP", at("spec.clusterIP", NONE)),
            Column("External-IP", lambda service: NONE),
            Column("Port(s)", service_ports),
            AGE,
        ),
        merge={
            "ServiceSpec": {
                "ports": keyed("port", "protocol", protocol="TCP"),
                "selector": ATOMIC,
            },
            "ServiceStatus": CONDITIONS,
        },
        name_errors=dns_label_errors,
    ),
    Resource(
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        short_names=("rc",),
        categories=("all",),
        subresources=(SCALE, STATUS),
        field_labels={"status.replicas": "status.replicas"},
        counts_generation=True,
        strategy=_ReplicationControllerStrategy(),
        merge={
            "ReplicationControllerSpec": TEMPLATED,
            "ReplicationControllerStatus": CONDITIONS,
        },
    ),
)
DISCOVERY_RESOURCES = (Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),)
RESOURCES = (
    Resource(
        "apps",
        "v1",
        "daemonsets",
        "DaemonSet",
        short_names=("ds",),
        categories=("all",),
        subresources=(STATUS,),
        counts_generation=True,
        strategy=_DaemonSetStrategy(),
        merge={"DaemonSetSpec": TEMPLATED, "DaemonSetStatus": CONDITIONS},
    ),
    Resource(
        "apps",
        "v1",
        "deployments",
        "Deployment",
        short_names=("deploy",),
        categories=("all",),
        subresources=(SCALE, STATUS),
        counts_generation=True,
        strategy=_DeploymentStrategy(),
        columns=(
            NAME,
            Column("Ready", ready_of_replicas),
            count("Up-to-date", "status.updatedReplicas"),
            count("Available", "status.availableReplicas"),
            AGE,
        ),
        merge={
            "DeploymentSpec": TEMPLATED | {"strategy": Field(retains_keys=True)},
            "DeploymentStatus": CONDITIONS,
        },
    ),
    Resource(
        "apps",
        "v1",
        "replicasets",
        "ReplicaSet",
        short_names=("rs",),
        categories=("all",),
        subresources=(SCALE, STATUS),
        field_labels={"status.replicas": "status.replicas"},
        counts_generation=True,
        strategy=_WorkloadStrategy(),
        columns=(
            NAME,
            count("Desired", "spec.replicas"),
            count("Current", "status.replicas"),
            count("Ready", "status.readyReplicas"),
            AGE,
        ),
        merge={"ReplicaSetSpec": TEMPLATED, "ReplicaSetStatus": CONDITIONS},
    ),
    Resource(
        "apps",
        "v1",
        "statefulsets",
        "StatefulSet",
        short_names=("sts",),
        categories=("all",),
        subresources=(SCALE, STATUS),
        counts_generation=True,
        strategy=_StatefulSetStrategy(),
        columns=(NAME, Column("Ready", ready_of_replicas), AGE),
        merge={"StatefulSetSpec": TEMPLATED, "StatefulSetStatus": CONDITIONS},
    ),
)
