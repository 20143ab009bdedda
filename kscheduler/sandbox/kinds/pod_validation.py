"""Pod validation: the mistakes that matter to scheduling or that people make, in upstream's words.

Mirrors the pod part of pkg/apis/core/validation. Not checked: security contexts, probes,
lifecycle hooks, environment, DNS, and the inside of volume sources.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from kscheduler.api.resource_names import is_extended, is_hugepages, is_native
from kscheduler.api.validation import (
    dns_label_errors,
    dns_subdomain_errors,
    label_key_errors,
    label_value_errors,
)
from kscheduler.rest import fields
from kscheduler.rest.fields import FieldError
from kscheduler.sandbox.kinds.affinity_validation import affinity_errors, spread_errors
from kscheduler.sandbox.kinds.pod_claim_validation import (
    claim_errors,
    claim_status_errors,
    claim_use_errors,
    extended_claim_status_errors,
)
from kscheduler.sandbox.kinds.quantities import over_limit_errors, resource_list_errors
from kscheduler.sandbox.metadata import IMMUTABLE, label_errors
from kscheduler.sandbox.store import Object

Spec = dict[str, Any]

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
PORT_RANGE = "must be between 1 and 65535, inclusive"


def pod_errors(pod: Object) -> list[FieldError]:
    """Errors of a new pod or an updated one, in upstream's order."""
    spec = pod["spec"]
    return [
        *_volume_errors(spec),
        *claim_errors(spec),
        *_container_list_errors(spec),
        *_policy_errors(spec),
        *label_errors(spec.get("nodeSelector") or {}, "spec.nodeSelector"),
        *affinity_errors(spec.get("affinity") or {}, "spec.affinity"),
        *_gate_errors(spec),
        *spread_errors(spec),
        *_name_errors(spec),
        *toleration_errors(spec.get("tolerations") or (), "spec.tolerations"),
        *resource_list_errors(spec.get("overhead") or {}, "spec.overhead"),
    ]


def _policy_errors(spec: Spec) -> Iterator[FieldError]:
    yield from _one_of(spec, "restartPolicy", _RESTART_POLICIES)
    yield from _one_of(spec, "dnsPolicy", _DNS_POLICIES)
    if "preemptionPolicy" in spec:
        yield from _one_of(spec, "preemptionPolicy", _PREEMPTION_POLICIES)
    grace = spec["terminationGracePeriodSeconds"]
    if grace < 0:
        path = "spec.terminationGracePeriodSeconds"
        yield fields.invalid(path, grace, "must be greater than or equal to 0")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        detail = "must be between 1 and 2147483647, inclusive"
        yield fields.invalid("spec.activeDeadlineSeconds", deadline, detail)


def _one_of(spec: Spec, name: str, allowed: tuple[str, ...]) -> Iterator[FieldError]:
    if spec[name] not in allowed:
        yield fields.not_supported(f"spec.{name}", spec[name], allowed)


def _name_errors(spec: Spec) -> Iterator[FieldError]:
    for name, rule in (
        ("serviceAccountName", dns_subdomain_errors),
        ("nodeName", dns_subdomain_errors),
        ("priorityClassName", dns_subdomain_errors),
        ("hostname", dns_label_errors),
        ("subdomain", dns_label_errors),
    ):
        if value := spec.get(name):
            yield from (fields.invalid(f"spec.{name}", value, why) for why in rule(value))


def _gate_errors(spec: Spec) -> Iterator[FieldError]:
    gates = [gate.get("name", "") for gate in spec.get("schedulingGates") or ()]
    for position, name in enumerate(gates):
        path = f"spec.schedulingGates[{position}]"
        yield from (fields.invalid(path, name, why) for why in label_key_errors(name))
        if name in gates[:position]:
            yield fields.duplicate(path, name)
    if gates and spec.get("nodeName"):
        detail = "cannot be set until all schedulingGates have been cleared"
        yield fields.forbidden("spec.nodeName", detail)


def _volume_errors(spec: Spec) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, volume in enumerate(spec.get("volumes") or ()):
        path = f"spec.volumes[{position}]"
        name = volume.get("name", "")
        yield from _label_name_errors(f"{path}.name", name)
        if name in seen:
            yield fields.duplicate(f"{path}.name", name)
        seen.add(name)
        claim = volume.get("persistentVolumeClaim")
        if claim is not None and not claim.get("claimName"):
            yield fields.required(f"{path}.persistentVolumeClaim.claimName")


def _container_list_errors(spec: Spec) -> Iterator[FieldError]:
    if not spec.get("containers"):
        yield fields.required("spec.containers")
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    claims = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen: set[str] = set()
    for part in ("containers", "initContainers"):
        host_ports: set[str] = set()  # per list: init containers end before the others start
        for position, container in enumerate(spec.get(part) or ()):
            path = f"spec.{part}[{position}]"
            yield from _container_errors(container, path, volumes, claims)
            for number, port in enumerate(container.get("ports") or ()):
                if port.get("hostPort"):
                    address = f"{port['protocol']}/{port.get('hostIP', '')}/{port['hostPort']}"
                    if address in host_ports:
                        yield fields.duplicate(f"{path}.ports[{number}].hostPort", address)
                    host_ports.add(address)
            name = container.get("name", "")
            if name in seen:
                yield fields.duplicate(f"{path}.name", name)
            seen.add(name)


def _container_errors(
    container: Spec, path: str, volumes: set[Any], claims: set[Any]
) -> Iterator[FieldError]:
    yield from _label_name_errors(f"{path}.name", container.get("name", ""))
    if not container.get("image"):
        yield fields.required(f"{path}.image")
    if container["imagePullPolicy"] not in _PULL_POLICIES:
        value = container["imagePullPolicy"]
        yield fields.not_supported(f"{path}.imagePullPolicy", value, _PULL_POLICIES)
    for position, port in enumerate(container.get("ports") or ()):
        where = f"{path}.ports[{position}]"
        number, host_port = port.get("containerPort"), port.get("hostPort")
        if not number:
            yield fields.required(f"{where}.containerPort")
        elif not 0 < number < 65536:
            yield fields.invalid(f"{where}.containerPort", number, PORT_RANGE)
        if host_port and not 0 < host_port < 65536:
            yield fields.invalid(f"{where}.hostPort", host_port, PORT_RANGE)
        if port["protocol"] not in _PROTOCOLS:
            yield fields.not_supported(f"{where}.protocol", port["protocol"], _PROTOCOLS)
    for position, mount in enumerate(container.get("volumeMounts") or ()):
        if mount.get("name") not in volumes:
            yield fields.not_found(f"{path}.volumeMounts[{position}].name", mount.get("name"))
    yield from resource_errors(container["resources"], f"{path}.resources")
    yield from claim_use_errors(
        container["resources"].get("claims") or (), f"{path}.resources.claims", claims
    )


def resource_errors(resources: Spec, path: str) -> Iterator[FieldError]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for part, listed in (("limits", limits), ("requests", requests)):
        for name in listed:
            where = f"{path}.{part}[{name}]"
            yield from (fields.invalid(where, name, why) for why in label_key_errors(name))
            if "/" not in name:
                if name not in _STANDARD_RESOURCES and not is_hugepages(name):
                    yield fields.invalid(where, name, "must be a standard resource for containers")
            elif not is_native(name) and not is_extended(name):
                detail = "doesn't follow extended resource name standard"
                yield fields.invalid(where, name, detail)
        yield from resource_list_errors(listed, f"{path}.{part}")
    yield from over_limit_errors(requests, limits, path)
    named = {*limits, *requests}
    if any(map(is_hugepages, named)) and not named & {"cpu", "memory"}:
        yield fields.forbidden(path, "HugePages require cpu or memory")


def toleration_errors(tolerations: Any, path: str) -> Iterator[FieldError]:
    for position, toleration in enumerate(tolerations):
        where = f"{path}[{position}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            yield from (fields.invalid(f"{where}.key", key, why) for why in label_key_errors(key))
        elif operator != "Exists":
            detail = (
                "operator must be Exists when `key` is empty, "
                'which means "match all values and all keys"'
            )
            yield fields.invalid(f"{where}.operator", operator, detail)
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield fields.invalid(f"{where}.effect", effect, detail)
        match operator:
            case "" | "Equal":
                if why := label_value_errors(value):
                    yield fields.invalid(f"{where}.operator", value, ";".join(why))
            case "Exists":
                if value:
                    detail = "value must be empty when `operator` is 'Exists'"
                    yield fields.invalid(f"{where}.operator", value, detail)
            case "Lt" | "Gt":
                if not value.removeprefix("-").isdigit():
                    yield fields.invalid(f"{where}.value", value, "must be a valid decimal integer")
            case _:
                yield fields.not_supported(f"{where}.operator", operator, ("Equal", "Exists"))
        if effect and effect not in _EFFECTS:
            yield fields.not_supported(f"{where}.effect", effect, _EFFECTS)


def _label_name_errors(path: str, name: str) -> Iterator[FieldError]:
    if not name:
        yield fields.required(path)
        return
    yield from (fields.invalid(path, name, why) for why in dns_label_errors(name))


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


def pod_update_errors(pod: Object, old: Object) -> list[FieldError]:
    spec, before = pod["spec"], old["spec"]
    for part in ("containers", "initContainers"):
        if len(spec.get(part) or ()) != len(before.get(part) or ()):
            detail = "pod updates may not add or remove containers"
            return [fields.forbidden(f"spec.{part}", detail)]
    errors = _changeable_errors(spec, before)
    rest = _without_changeable(spec, before)
    if before.get("schedulingGates"):
        errors += _selector_errors(rest, before)
        _accept_node_choice(rest, before)
    if rest != before:
        changed = sorted(name for name in {*rest, *before} if rest.get(name) != before.get(name))
        detail = f"pod updates may not change fields other than {_CHANGEABLE}\n"
        errors.append(fields.forbidden("spec", detail + "".join(f"  {n}\n" for n in changed)))
    return errors


def pod_status_errors(pod: Object, old: Object) -> list[FieldError]:
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
    errors += claim_status_errors(state.get("resourceClaimStatuses") or (), pod["spec"])
    extended = state.get("extendedResourceClaimStatus")
    if extended is not None:
        errors += extended_claim_status_errors(extended, pod["spec"])
    return errors


def _changeable_errors(spec: Spec, before: Spec) -> list[FieldError]:
    """Errors of the fields that may change in one direction: a deadline, tolerations, gates."""
    errors = []
    path = "spec.activeDeadlineSeconds"
    wanted, had = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if wanted is None and had is not None:
        detail = "must not update from a positive integer to nil value"
        errors.append(fields.invalid(path, None, detail))
    elif wanted is not None and had is not None and had < wanted:
        detail = "must be less than or equal to previous value"
        errors.append(fields.invalid(path, wanted, detail))
    tolerations = spec.get("tolerations") or ()
    kept = [_without_seconds(one) for one in tolerations]
    if any(_without_seconds(one) not in kept for one in before.get("tolerations") or ()):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        errors.append(fields.forbidden("spec.tolerations", detail))
    else:
        errors += toleration_errors(tolerations, "spec.tolerations")
    known = {gate["name"] for gate in before.get("schedulingGates") or ()}
    for position, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate["name"] not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
            errors.append(fields.forbidden(f"spec.schedulingGates[{position}].name", detail))
    return errors


def _without_seconds(toleration: Spec) -> Spec:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


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
        if any(
            rule not in (new.get(part) or ())
            for part in ("matchExpressions", "matchFields")
            for rule in old.get(part) or ()
        )
    ]


def _required_terms(spec: Spec) -> list[Spec]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []


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
