"""Pod defaults: what the API server fills in, for pods and for pod templates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kscheduler.sandbox.kinds.quantities import canonicalise, canonicalise_requirements
from kscheduler.sandbox.kinds.volumes import default_claim_spec
from kscheduler.sandbox.store import Object

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
_FILE_SOURCES = ("configMap", "secret", "downwardAPI", "projected")
_FILE_MODE = 0o644


def default_pod(pod: Object) -> None:
    """Fill in a pod; the requests-from-limits rule holds for pods only, not for templates."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in containers(spec):
        _default_requests(container["resources"])
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                port["hostPort"] = port.get("hostPort") or port.get("containerPort")
    _canonicalise_status(pod.get("status") or {})


def _canonicalise_status(status: dict[str, Any]) -> None:
    """Resources that kubelets say pods and their containers have."""
    lists = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    for part in (status, *(one for name in lists for one in status.get(name) or ())):
        canonicalise(part.get("allocatedResources"))
        canonicalise_requirements(part.get("resources"))


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
        _default_volume(volume)


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
            _default_probe(container[name])


def _image_tag(image: str) -> str:
    last = image.split("@")[0].rsplit("/", 1)[-1]
    _, colon, tag = last.partition(":")
    if colon:
        return tag
    return "" if "@" in image else "latest"


def _default_probe(probe: dict[str, Any]) -> None:
    for name, value in _PROBE_DEFAULTS.items():
        probe[name] = probe.get(name) or value
    if http := probe.get("httpGet"):
        http.setdefault("path", "/")
        http.setdefault("scheme", "HTTP")


def _default_volume(volume: dict[str, Any]) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for name in _FILE_SOURCES:
        if name in volume:
            volume[name].setdefault("defaultMode", _FILE_MODE)
    if template := (volume.get("ephemeral") or {}).get("volumeClaimTemplate"):
        default_claim_spec(template.setdefault("spec", {}))


def _default_requests(resources: dict[str, Any]) -> None:
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
