"""Quality of service: how well a pod's requests and limits protect it."""

from __future__ import annotations

from typing import Any

from kscheduler.api.quantity import nano_value
from kscheduler.sandbox.kinds.pod_defaults import containers

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
