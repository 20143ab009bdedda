"""Pods: how the API server prepares one for the scheduler, and what may still change after that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from kscheduler.api.quantity import Amount, nano_value, parse
from kscheduler.api.resource_names import is_pod_level
from kscheduler.rest.fields import FieldError
from kscheduler.rest.tables import AGE, NAME, NONE, Column, at
from kscheduler.sandbox.kinds.merging import (
    ATOMIC,
    CONDITIONS,
    Field,
    Shape,
    keyed,
    keyed_for_apply,
)
from kscheduler.sandbox.kinds.pod_validation import pod_errors, pod_status_errors, pod_update_errors
from kscheduler.sandbox.kinds.printers import (
    pod_ip,
    pod_status,
    readiness_gates,
    ready_containers,
    restarts,
)
from kscheduler.sandbox.kinds.quantities import canonicalise, canonicalise_requirements
from kscheduler.sandbox.kinds.resource import STATUS, Resource, Strategy, Subresource
from kscheduler.sandbox.kinds.storage import default_claim_spec
from kscheduler.sandbox.metadata import set_condition
from kscheduler.sandbox.store import Object

_SPEC_AFFINITIES = ("podAffinity", "podAntiAffinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_KEPT_STATUSES = (
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
    "qosClass",
    "observedGeneration",
)


def _merge_label_keys(spec: dict[str, Any], labels: dict[str, str]) -> None:
    """Write matchLabelKeys and mismatchLabelKeys out as expressions of the selectors."""
    affinity = spec.get("affinity") or {}
    terms = list(spec.get("topologySpreadConstraints") or ())
    for kind in _SPEC_AFFINITIES:
        rules = affinity.get(kind) or {}
        terms += [weighted["podAffinityTerm"] for weighted in rules.get(_PREFERRED) or ()]
        terms += rules.get(_REQUIRED) or ()
    for term in terms:
        selector = term.get("labelSelector")
        if selector is None:  # matches nothing, whatever is added
            continue
        for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            added = [
                {"key": key, "operator": operator, "values": [labels[key]]}
                for key in term.get(keys) or ()
                if key in labels
            ]
            if added:
                selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


def _default_pod_level_requests(spec: dict[str, Any]) -> None:
    """Pod-level limits without requests: ask for what the containers ask, else for the limit."""
    resources = spec.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return
    requests = dict(resources.get("requests") or {})
    for name, amount in _container_totals(spec).items():
        if name in ("cpu", "memory") and name not in requests:
            requests[name] = str(amount)
    for name, limit in limits.items():
        if is_pod_level(name):
            requests.setdefault(name, limit)
    resources["requests"] = requests


def _container_totals(spec: dict[str, Any]) -> dict[str, Amount]:
    running: dict[str, Amount] = {}
    starting: dict[str, Amount] = {}
    for container in spec.get("containers") or ():
        _add(running, container)
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            _add(running, container)
        else:
            for name, quantity in (container["resources"].get("requests") or {}).items():
                starting[name] = max(starting.get(name, Amount(0)), parse(quantity))
    return {
        name: max(running.get(name, Amount(0)), starting.get(name, Amount(0)))
        for name in {*running, *starting}
    }


def _add(total: dict[str, Amount], container: dict[str, Any]) -> None:
    for name, quantity in (container["resources"].get("requests") or {}).items():
        total[name] = total.get(name, Amount(0)) + parse(quantity)


def _only_resources(pod: Object, old: Object) -> None:
    """pods/resize: nothing but the containers' and the pod's resources may change."""
    spec = pod["spec"]
    pod["metadata"] = {**old["metadata"], "resourceVersion": pod["metadata"]["resourceVersion"]}
    pod["spec"] = dict(old["spec"])
    for part in ("containers", "initContainers"):
        wanted = {one["name"]: one for one in spec.get(part) or ()}
        if part in old["spec"]:
            pod["spec"][part] = [
                one | {name: new[name] for name in ("resources", "resizePolicy") if name in new}
                for one in old["spec"][part]
                for new in (wanted.get(one["name"], one),)
            ]
    if "resources" in spec:
        pod["spec"]["resources"] = spec["resources"]


def _only_ephemeral_containers(pod: Object, old: Object) -> None:
    added = pod["spec"].get("ephemeralContainers")
    pod["spec"] = dict(old["spec"])
    if added:
        pod["spec"]["ephemeralContainers"] = added


_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
_FILE_SOURCES = ("configMap", "secret", "downwardAPI", "projected")
_FILE_MODE = 0o644


def default_pod_spec(spec: dict[str, Any]) -> None:
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec["schedulerName"] = spec.get("schedulerName") or "default-scheduler"
    canonicalise(spec.get("overhead"))
    canonicalise_requirements(spec.get("resources"))
    for container in containers(spec):
        _default_container(container)
    for container in spec.get("ephemeralContainers") or ():
        canonicalise_requirements(container.get("resources"))
    for volume in spec.get("volumes") or ():
        if set(volume) <= {"name"}:
            volume["emptyDir"] = {}
        for name in _FILE_SOURCES:
            if name in volume:
                volume[name].setdefault("defaultMode", _FILE_MODE)
        if template := (volume.get("ephemeral") or {}).get("volumeClaimTemplate"):
            default_claim_spec(template.setdefault("spec", {}))


def containers(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Init containers first, as they run."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _default_container(container: dict[str, Any]) -> None:
    if not container.get("imagePullPolicy"):
        latest = _image_tag(container.get("image", "")) == "latest"
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    canonicalise_requirements(container.setdefault("resources", {}))
    for port in container.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
    for name in _PROBES:
        if name in container:
            probe = container[name]
            for field, value in _PROBE_DEFAULTS.items():
                probe[field] = probe.get(field) or value
            if http := probe.get("httpGet"):
                http.setdefault("path", "/")
                http.setdefault("scheme", "HTTP")


def _image_tag(image: str) -> str:
    last = image.split("@")[0].rsplit("/", 1)[-1]
    _, colon, tag = last.partition(":")
    if colon:
        return tag
    return "" if "@" in image else "latest"


_COMPUTE = ("cpu", "memory")


def qos_class(spec: dict[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort; figures of the pod itself outrank its containers'."""
    pod_level = spec.get("resources") or {}
    if pod_level.get("requests") or pod_level.get("limits"):
        return _of(pod_level)
    classes = {_of(container.get("resources") or {}) for container in containers(spec)}
    return classes.pop() if len(classes) == 1 else "Burstable"


def _of(resources: dict[str, Any]) -> str:
    requests = resources.get("requests") or {}
    limits = resources.get("limits") or {}
    amounts = [
        (nano_value(requests.get(name, "0")), nano_value(limits.get(name, "0")))
        for name in _COMPUTE
    ]
    if not requests and not limits:
        return "BestEffort"
    if any(asked != limit for asked, limit in amounts):
        return "Burstable"
    set_ones = sum(asked > 0 for asked, _ in amounts)
    return {0: "BestEffort", len(_COMPUTE): "Guaranteed"}.get(set_ones, "Burstable")


class _PodStrategy(Strategy):
    """Strategy of pods; templates in workloads only get `default_pod_spec`."""

    parts: ClassVar = {"resize": _only_resources, "ephemeralcontainers": _only_ephemeral_containers}

    def default(self, pod: Object) -> None:
        """Fill in a pod; the requests-from-limits rule holds for pods only, not for templates."""
        spec = pod.setdefault("spec", {})
        default_pod_spec(spec)
        spec.setdefault("enableServiceLinks", True)
        if spec["terminationGracePeriodSeconds"] < 0:
            spec["terminationGracePeriodSeconds"] = 1
        for container in containers(spec):
            resources = container["resources"]
            if limits := resources.get("limits"):
                resources["requests"] = {**limits, **(resources.get("requests") or {})}
            if spec.get("hostNetwork"):
                for port in container.get("ports") or ():
                    port["hostPort"] = port.get("hostPort") or port.get("containerPort")
        # Resources that kubelets say pods and their containers have.
        state = pod.get("status") or {}
        lists = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        for part in (state, *(one for name in lists for one in state.get(name) or ())):
            canonicalise(part.get("allocatedResources"))
            canonicalise_requirements(part.get("resources"))

    def prepare_for_create(self, pod: Object) -> None:
        spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
        if spec.get("schedulingGates"):
            set_condition(
                pod["status"],
                "PodScheduled",
                "False",
                reason="SchedulingGated",
                message="Scheduling is blocked due to non-empty scheduling gates",
            )
        _merge_label_keys(spec, labels)
        _default_pod_level_requests(spec)
        pod["status"]["qosClass"] = qos_class(spec)

    def prepare_for_status_update(self, pod: Object, old: Object) -> None:
        state, before = pod.setdefault("status", {}), old.get("status") or {}
        if "ownerReferences" in old["metadata"]:
            pod["metadata"]["ownerReferences"] = old["metadata"]["ownerReferences"]
        for name in _KEPT_STATUSES:
            if name in before:
                state.setdefault(name, before[name])
        observed = {
            one["type"]: one.get("observedGeneration") for one in before.get("conditions") or ()
        }
        for condition in state.get("conditions") or ():
            condition.setdefault("lastProbeTime", None)
            condition.setdefault("lastTransitionTime", None)
            if observed.get(condition["type"]) and not condition.get("observedGeneration"):
                condition["observedGeneration"] = observed[condition["type"]]
        if address := state.get("podIP"):
            if not any(one.get("ip") == address for one in state.get("podIPs") or ()):
                state["podIPs"] = [{"ip": address}]
        elif state.get("podIPs"):
            state["podIP"] = state["podIPs"][0]["ip"]

    def validate(self, pod: Object) -> list[FieldError]:
        return pod_errors(pod)

    def validate_update(self, pod: Object, old: Object) -> list[FieldError]:
        return pod_update_errors(pod, old)

    def validate_status_update(self, pod: Object, old: Object) -> list[FieldError]:
        return pod_status_errors(pod, old)

    def initial_status(self) -> Object:
        return {"phase": "Pending"}

    def grace_seconds(self, pod: Object, asked: int | None) -> int:
        """Bound pods get their grace period; others have nothing to shut down."""
        period = asked
        if period is None:
            period = pod["spec"].get("terminationGracePeriodSeconds", 0)
        finished = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if not pod["spec"].get("nodeName") or finished:
            return 0
        return 1 if period < 0 else period


_FIELD_LABELS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_CONTAINER: Shape = {
    "env": keyed("name"),
    "ports": keyed("containerPort", "protocol", protocol="TCP"),
    "resources": Field("ResourceRequirements"),
    "volumeDevices": keyed("devicePath"),
    "volumeMounts": keyed("mountPath"),
}
RESOURCES = (
    Resource(
        "",
        "v1",
        "pods",
        "Pod",
        short_names=("po",),
        categories=("all",),
        subresources=(
            Subresource("binding", ("create",), "Binding"),
            Subresource("eviction", ("create",), "Eviction", "policy", "v1"),
            Subresource("ephemeralcontainers"),
            Subresource("resize"),
            STATUS,
        ),
        field_labels={name: name for name in _FIELD_LABELS},
        counts_generation=True,
        returns_deleted=True,
        strategy=_PodStrategy(),
        columns=(
            NAME,
            Column("Ready", ready_containers),
            Column("Status", pod_status),
            Column("Restarts", restarts),
            AGE,
            Column("IP", pod_ip, wide=True),
            Column("Node", at("spec.nodeName", NONE), wide=True),
            Column("Nominated Node", at("status.nominatedNodeName", NONE), wide=True),
            Column("Readiness Gates", readiness_gates, wide=True),
        ),
        merge={
            "PodTemplateSpec": {"metadata": Field("ObjectMeta"), "spec": Field("PodSpec")},
            "PodSpec": {
                "containers": keyed("name", type="Container"),
                "ephemeralContainers": keyed("name", type="EphemeralContainer"),
                "evictionResponders": keyed("name"),
                "hostAliases": keyed("ip"),
                "imagePullSecrets": keyed("name"),
                "initContainers": keyed("name", type="Container"),
                "nodeSelector": ATOMIC,
                "resourceClaims": keyed("name", retains_keys=True),
                "resources": Field("ResourceRequirements"),
                "schedulingGates": keyed("name"),
                "topologySpreadConstraints": keyed("topologyKey", "whenUnsatisfiable"),
                "volumes": keyed("name", retains_keys=True),
            },
            "Container": _CONTAINER,
            "EphemeralContainer": _CONTAINER,
            "ResourceRequirements": {"claims": keyed_for_apply("name")},
            "PodStatus": CONDITIONS
            | {
                "hostIPs": Field(merge_key="ip"),
                "nodeAllocatableResourceClaimStatuses": keyed("resourceClaimName"),
                "podIPs": keyed("ip"),
                "resourceClaimStatuses": keyed("name", retains_keys=True),
            },
        },
    ),
    Resource("", "v1", "bindings", "Binding", verbs=("create",)),
)
