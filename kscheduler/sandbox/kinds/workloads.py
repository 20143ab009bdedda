"""Workloads of the group apps, and services."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from kscheduler.api.core import PodSpec
from kscheduler.api.meta import (
    EMPTY,
    ApiObject,
    ApiStruct,
    IntOrString,
    LabelSelector,
    ObjectMeta,
)
from kscheduler.api.validation import dns_label_errors
from kscheduler.rest import fields
from kscheduler.rest.fields import FieldError
from kscheduler.rest.tables import AGE, NAME, NONE, Column, at, count
from kscheduler.sandbox.kinds.affinity_validation import selector_errors
from kscheduler.sandbox.kinds.merging import ATOMIC, CONDITIONS, TEMPLATED, Field, keyed
from kscheduler.sandbox.kinds.pod_validation import pod_errors
from kscheduler.sandbox.kinds.pods import default_pod_spec
from kscheduler.sandbox.kinds.printers import (
    controller_name,
    node_selector,
    ready_of_replicas,
    service_ports,
    template_columns,
)
from kscheduler.sandbox.kinds.resource import SCALE, STATUS, Resource, Strategy
from kscheduler.sandbox.kinds.storage import default_claim
from kscheduler.sandbox.metadata import IMMUTABLE, label_errors
from kscheduler.sandbox.store import Object


class PodTemplate(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class _RollingUpdate(ApiStruct):
    max_surge: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    partition: int | None = None


class _UpdateStrategy(ApiStruct):
    type: str = ""
    rolling_update: _RollingUpdate | None = None


class _Ordinals(ApiStruct):
    start: int = 0


class _ClaimTemplateSpec(ApiStruct):
    access_modes: tuple[str, ...] = ()


class _ClaimTemplate(ApiObject):
    spec: _ClaimTemplateSpec = _ClaimTemplateSpec()


class _WorkloadSpec(ApiStruct):
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplate | None = None
    min_ready_seconds: int | None = None
    revision_history_limit: int | None = None
    progress_deadline_seconds: int | None = None
    paused: bool | None = None
    strategy: _UpdateStrategy | None = None
    update_strategy: _UpdateStrategy | None = None
    pod_management_policy: str | None = None
    service_name: str | None = None
    ordinals: _Ordinals | None = None
    volume_claim_templates: tuple[_ClaimTemplate, ...] = ()


class Workload(ApiObject):
    """The fields of workloads that controllers read, for their types."""

    spec: _WorkloadSpec = _WorkloadSpec()


class _ControllerSpec(ApiStruct):
    replicas: int | None = None
    selector: Mapping[str, str] = EMPTY
    template: PodTemplate | None = None
    min_ready_seconds: int | None = None


class _Controller(ApiObject):
    spec: _ControllerSpec = _ControllerSpec()


def default_template(spec: dict[str, Any]) -> None:
    if template := spec.get("template"):
        default_pod_spec(template.setdefault("spec", {}))


def template_errors(template: Object | None, path: str = "spec.template") -> list[FieldError]:
    """Errors of a pod template, as of a pod."""
    if template is None:
        return [fields.required(path)]
    about = template.get("metadata") or {}
    errors = label_errors(about.get("labels") or {}, f"{path}.labels")
    return errors + [
        dataclasses.replace(error, path=f"{path}.{error.path}")
        for error in pod_errors({"metadata": about, "spec": template["spec"]})
    ]


def _negative_errors(spec: dict[str, Any], *names: str) -> list[FieldError]:
    return [
        fields.invalid(f"spec.{name}", spec[name], "must be greater than or equal to 0")
        for name in names
        if spec.get(name, 0) < 0
    ]


def _share_errors(rolling: dict[str, Any], path: str) -> list[FieldError]:
    errors = []
    for name in ("maxSurge", "maxUnavailable"):
        value = rolling.get(name, 0)
        if isinstance(value, int):
            if value < 0:
                why = "must be greater than or equal to 0"
                errors.append(fields.invalid(f"{path}.{name}", value, why))
        elif not (value.endswith("%") and value[:-1].isdigit()):
            why = "a valid percent string must be a numeric string followed by an ending '%'"
            why += " (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            errors.append(fields.invalid(f"{path}.{name}", value, why))
    return errors


class _WorkloadStrategy(Strategy):
    """ReplicaSets, and the base of the other kinds of apps/v1."""

    def default(self, item: Object) -> None:
        spec = item.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        default_template(spec)

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
        if not wanted and not selector.get("matchExpressions"):
            detail = f"empty selector is invalid for {item.get('kind', 'workload').lower()}"
            errors.append(fields.invalid("spec.selector", selector, detail))
        rolling = [spec.get(name) or {} for name in ("strategy", "updateStrategy")]
        for name, strategy in zip(("strategy", "updateStrategy"), rolling, strict=True):
            errors += _share_errors(
                strategy.get("rollingUpdate") or {}, f"spec.{name}.rollingUpdate"
            )
        errors += _negative_errors(
            spec, "replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
        )
        errors += self.template_errors(spec.get("template"))
        policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy", "Always")
        if policy != "Always":
            path = "spec.template.spec.restartPolicy"
            errors.append(fields.not_supported(path, policy, ("Always",)))
        return errors

    def template_errors(self, template: Object | None) -> list[FieldError]:
        return template_errors(template)

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


_RETENTION = {"whenDeleted": "Retain", "whenScaled": "Retain"}


class _StatefulSetStrategy(_WorkloadStrategy):
    def default(self, item: Object) -> None:
        super().default(item)
        spec = item["spec"]
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
        spec.setdefault("podManagementPolicy", "OrderedReady")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("updateStrategy", rolling)
        spec.setdefault("persistentVolumeClaimRetentionPolicy", dict(_RETENTION))
        for template in spec.get("volumeClaimTemplates") or ():
            template |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
            default_claim(template)

    def template_errors(self, template: Object | None) -> list[FieldError]:
        """Errors of labels alone, as upstream: a template mounts volumes of claims that its pods
        get when they are made, and only then are complete.
        """
        if template is None:
            return [fields.required("spec.template")]
        labels = (template.get("metadata") or {}).get("labels") or {}
        return label_errors(labels, "spec.template.labels")


class _DaemonSetStrategy(_WorkloadStrategy):
    def default(self, item: Object) -> None:
        spec = item.setdefault("spec", {})
        rolling = {"maxUnavailable": 1, "maxSurge": 0}
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": rolling})
        default_template(spec)


class _ReplicationControllerStrategy(Strategy):
    orphans_by_default = True

    def default(self, item: Object) -> None:
        spec = item.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        default_template(spec)
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        if labels:
            spec.setdefault("selector", dict(labels))
            item["metadata"].setdefault("labels", dict(labels))

    def validate(self, item: Object) -> list[FieldError]:
        spec = item["spec"]
        errors = _negative_errors(spec, "replicas", "minReadySeconds")
        if not spec.get("selector"):
            errors.append(fields.required("spec.selector"))
        return errors + template_errors(spec.get("template"))


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
        columns=(
            NAME,
            count("Desired", "spec.replicas"),
            count("Current", "status.replicas"),
            count("Ready", "status.readyReplicas"),
            AGE,
            *template_columns,
        ),
        struct=_Controller,
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
        columns=(
            NAME,
            count("Desired", "status.desiredNumberScheduled"),
            count("Current", "status.currentNumberScheduled"),
            count("Ready", "status.numberReady"),
            count("Up-to-date", "status.updatedNumberScheduled"),
            count("Available", "status.numberAvailable"),
            Column("Node Selector", node_selector),
            AGE,
            *template_columns,
        ),
        struct=Workload,
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
        struct=Workload,
        columns=(
            NAME,
            Column("Ready", ready_of_replicas),
            count("Up-to-date", "status.updatedReplicas"),
            count("Available", "status.availableReplicas"),
            AGE,
            *template_columns,
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
        struct=Workload,
        columns=(
            NAME,
            count("Desired", "spec.replicas"),
            count("Current", "status.replicas"),
            count("Ready", "status.readyReplicas"),
            AGE,
            *template_columns,
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
        struct=Workload,
        columns=(NAME, Column("Ready", ready_of_replicas), AGE, *template_columns[:2]),
        merge={"StatefulSetSpec": TEMPLATED, "StatefulSetStatus": CONDITIONS},
    ),
    Resource(
        "apps",
        "v1",
        "controllerrevisions",
        "ControllerRevision",
        columns=(
            NAME,
            Column("Controller", controller_name),
            count("Revision", "revision"),
            AGE,
        ),
    ),
)
