"""The scale subresource: how many replicas a workload wants, without the rest of it."""

from __future__ import annotations

from kscheduler.api.decode import convert
from kscheduler.api.labels import compile_selector, selector_from_labels
from kscheduler.api.meta import LabelSelector
from kscheduler.sandbox.store import Object

_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(workload: Object) -> Object:
    about, spec = workload["metadata"], workload["spec"]
    status: Object = {"replicas": (workload.get("status") or {}).get("replicas", 0)}
    if selector := _selector_text(spec.get("selector")):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: about[name] for name in _METADATA if name in about},
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": status,
    }


def with_scale(workload: Object, scale: Object) -> Object:
    """The workload with the replicas a Scale asks for, if it is the version that was seen."""
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version:
        workload["metadata"]["resourceVersion"] = version
    workload["spec"]["replicas"] = (scale.get("spec") or {}).get("replicas", 0)
    return workload


def _selector_text(selector: Object | None) -> str:
    if selector is None:
        return ""
    if "matchLabels" in selector or "matchExpressions" in selector:
        return str(compile_selector(convert(selector, LabelSelector)))
    return str(selector_from_labels(selector))
