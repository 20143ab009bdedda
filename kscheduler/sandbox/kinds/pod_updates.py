"""What may change in a pod once it exists: little, and a bit more while it is gated."""

from __future__ import annotations

import copy
from typing import Any

from kscheduler.api.validation import dns_subdomain_errors
from kscheduler.sandbox import fields
from kscheduler.sandbox.fields import FieldError
from kscheduler.sandbox.kinds.pod_validation import toleration_errors
from kscheduler.sandbox.metadata import IMMUTABLE
from kscheduler.sandbox.store import Object

Spec = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_CHANGEABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` "
        "(allow it to be set to 1 if it was previously negative)",
    )
)


def update_errors(pod: Object, old: Object) -> list[FieldError]:
    spec, before = pod["spec"], old["spec"]
    for part in ("containers", "initContainers"):
        if len(spec.get(part) or ()) != len(before.get(part) or ()):
            detail = "pod updates may not add or remove containers"
            return [fields.forbidden(f"spec.{part}", detail)]
    errors = _deadline_errors(spec, before)
    errors += _added_tolerations_errors(spec, before)
    errors += _gate_errors(spec, before)
    rest = _without_changeable(spec, before)
    if before.get("schedulingGates"):
        errors += _selector_errors(rest, before)
        _accept_node_choice(rest, before)
    if rest != before:
        changed = sorted(name for name in {*rest, *before} if rest.get(name) != before.get(name))
        detail = f"pod updates may not change fields other than {_CHANGEABLE}\n"
        errors.append(fields.forbidden("spec", detail + "".join(f"  {n}\n" for n in changed)))
    return errors


def status_errors(pod: Object, old: Object) -> list[FieldError]:
    state, before = pod.get("status") or {}, old.get("status") or {}
    errors = []
    nominated = state.get("nominatedNodeName", "")
    path = "status.nominatedNodeName"
    if nominated and nominated != before.get("nominatedNodeName", ""):
        errors += [fields.invalid(path, nominated, why) for why in dns_subdomain_errors(nominated)]
        if old["spec"].get("nodeName"):
            detail = "may not be set on pods that are already bound to a node"
            errors.append(fields.forbidden(path, detail))
    if state.get("qosClass") != before.get("qosClass"):
        errors.append(fields.invalid("status.qosClass", state.get("qosClass"), IMMUTABLE))
    return errors


def _deadline_errors(spec: Spec, before: Spec) -> list[FieldError]:
    path = "spec.activeDeadlineSeconds"
    wanted, had = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if wanted is None and had is not None:
        detail = "must not update from a positive integer to nil value"
        return [fields.invalid(path, None, detail)]
    if wanted is not None and had is not None and had < wanted:
        return [fields.invalid(path, wanted, "must be less than or equal to previous value")]
    return []


def _added_tolerations_errors(spec: Spec, before: Spec) -> list[FieldError]:
    path = "spec.tolerations"
    wanted = [_without_seconds(one) for one in spec.get("tolerations") or ()]
    if any(_without_seconds(one) not in wanted for one in before.get("tolerations") or ()):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        return [fields.forbidden(path, detail)]
    return list(toleration_errors(spec.get("tolerations") or (), path))


def _without_seconds(toleration: Spec) -> Spec:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _gate_errors(spec: Spec, before: Spec) -> list[FieldError]:
    known = {gate["name"] for gate in before.get("schedulingGates") or ()}
    return [
        fields.forbidden(
            f"spec.schedulingGates[{position}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for position, gate in enumerate(spec.get("schedulingGates") or ())
        if gate["name"] not in known
    ]


def _without_changeable(spec: Spec, before: Spec) -> Spec:
    """The new spec with everything that may change set back."""
    rest = copy.deepcopy(spec)
    for part in ("containers", "initContainers"):
        for container, was in zip(rest.get(part) or (), before.get(part) or (), strict=True):
            container["image"] = was["image"]
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        rest.pop(name, None)
        if name in before:
            rest[name] = before[name]
    return rest


def _selector_errors(rest: Spec, before: Spec) -> list[FieldError]:
    """A gated pod may become pickier about nodes, not less picky."""
    wanted, had = rest.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(wanted.get(key) != value for key, value in had.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        return [fields.invalid("spec.nodeSelector", wanted, detail)]
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    old_terms, new_terms = _required_terms(before), _required_terms(rest)
    if old_terms and len(old_terms) != len(new_terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [fields.invalid(path, new_terms, detail)]
    return [
        fields.invalid(
            f"{path}[{position}]", new, "only additions are allowed (no mutations or deletions)"
        )
        for position, (new, old) in enumerate(zip(new_terms, old_terms, strict=False))
        if not _only_adds(new, old)
    ]


def _required_terms(spec: Spec) -> list[Spec]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []


def _only_adds(new: Spec, old: Spec) -> bool:
    return all(
        all(rule in (new.get(part) or ()) for rule in old.get(part) or ())
        for part in ("matchExpressions", "matchFields")
    )


def _accept_node_choice(rest: Spec, before: Spec) -> None:
    """Set back what was checked above, so that only forbidden changes remain."""
    rest.pop("nodeSelector", None)
    if "nodeSelector" in before:
        rest["nodeSelector"] = before["nodeSelector"]
    affinity = dict(rest.pop("affinity", {}))
    affinity.pop("nodeAffinity", None)
    was = before.get("affinity") or {}
    if "nodeAffinity" in was:
        affinity["nodeAffinity"] = was["nodeAffinity"]
    if affinity or "affinity" in before:
        rest["affinity"] = affinity
