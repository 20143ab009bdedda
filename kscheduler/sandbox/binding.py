"""Binding: the one write a scheduler cares about most, and everything that can refuse it."""

from __future__ import annotations

from typing import Any

from kscheduler.api.validation import dns_subdomain_errors
from kscheduler.sandbox import fields, status
from kscheduler.sandbox.admission import topology_labels
from kscheduler.sandbox.fields import FieldError
from kscheduler.sandbox.metadata import set_condition
from kscheduler.sandbox.registry import Registry, wrong_uid
from kscheduler.sandbox.resources import PODS
from kscheduler.sandbox.store import Key, Object


def bind(
    registry: Registry,
    namespace: str,
    name: str,
    binding: Object,
    *,
    copies_topology: bool = True,
    dry_run: bool = False,
) -> None:
    """Assign a pod to a node for good. Raises what the API server would answer."""
    about = binding.get("metadata") or {}
    if about.get("name", name) != name:
        raise status.bad_request("name in URL does not match name in Binding object")
    target = binding.get("target") or {}
    if errors := _target_errors(target):
        listed = ", ".join(map(str, errors))
        raise status.StatusError(500, "", listed if len(errors) == 1 else f"[{listed}]")
    key = (namespace, name)
    stored = registry.get(PODS, namespace, name)
    pod = stored.decode()
    _check_identity(key, about, pod)
    if why := _refusal(pod):
        raise status.conflict(PODS, name, why, kind="pods/binding")
    labels = dict(about.get("labels") or {})
    if copies_topology:
        labels |= topology_labels(registry.store, target["name"])
    if not dry_run:
        registry.replace(PODS, key, _assigned(pod, target["name"], about, labels))


def _assigned(pod: Object, node: str, about: dict[str, Any], labels: dict[str, str]) -> Object:
    pod["spec"]["nodeName"] = node
    metadata = pod["metadata"]
    for part, added in (("annotations", about.get("annotations")), ("labels", labels)):
        if added:
            metadata[part] = {**(metadata.get(part) or {}), **added}
    state = pod["status"]
    state.pop("nominatedNodeName", None)
    set_condition(state, "PodScheduled", "True")
    return pod


def _target_errors(target: dict[str, Any]) -> list[FieldError]:
    kind, name = target.get("kind") or "", target.get("name") or ""
    errors = []
    if kind not in ("", "Node"):
        errors.append(fields.not_supported("target.kind", kind, ("Node", "<empty>")))
    if not name:
        errors.append(fields.required("target.name"))
    elif kind in ("", "Node"):
        errors += [fields.invalid("target.name", name, why) for why in dns_subdomain_errors(name)]
    return errors


def _check_identity(key: Key, about: dict[str, Any], pod: Object) -> None:
    found = pod["metadata"]
    wanted = about.get("uid")
    if wanted and wanted != found["uid"]:
        raise status.conflict(PODS, key[1], wrong_uid(PODS, key, wanted, found["uid"]))
    version = about.get("resourceVersion")
    if version and version != found["resourceVersion"]:
        why = (
            f"StorageError: invalid object, Code: 4, Key: /registry/pods/{'/'.join(key)}, "
            "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: ResourceVersion in "
            f"precondition: {version}, ResourceVersion in object meta: {found['resourceVersion']}"
        )
        raise status.conflict(PODS, key[1], why)


def _refusal(pod: Object) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if node := spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{node}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""
