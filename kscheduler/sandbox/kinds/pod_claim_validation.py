"""Validation of what pods say about device claims, in their spec and in their status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kscheduler.api.validation import dns_label_errors, dns_subdomain_errors
from kscheduler.rest import fields
from kscheduler.rest.fields import FieldError

Spec = dict[str, Any]

_CLAIM_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")


def claim_errors(spec: Spec) -> Iterator[FieldError]:
    """Errors of the claims a pod names, or has made from templates."""
    seen: set[str] = set()
    for position, claim in enumerate(spec.get("resourceClaims") or ()):
        path = f"spec.resourceClaims[{position}]"
        name = claim.get("name", "")
        if not name:
            yield fields.required(f"{path}.name")
        elif name in seen:
            yield fields.duplicate(f"{path}.name", name)
        else:
            yield from (fields.invalid(f"{path}.name", name, why) for why in dns_label_errors(name))
        seen.add(name)
        sources = [source for source in _CLAIM_SOURCES if source in claim]
        # The claim as Go prints it: its own names of the fields, and those that are not set, too.
        shown = {"Name": name}
        shown |= {f"{one[0].upper()}{one[1:]}": claim.get(one) for one in _CLAIM_SOURCES}
        if len(sources) > 1:
            detail = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            )
            yield fields.invalid(path, shown, detail)
        elif not sources:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield fields.invalid(path, shown, detail)
        for source in sources:
            for why in dns_subdomain_errors(claim[source]):
                yield fields.invalid(f"{path}.{source}", claim[source], why)


def claim_use_errors(uses: Any, path: str, claims: set[Any]) -> Iterator[FieldError]:
    """Errors of the claims a container uses, whole or by request; no part of one twice."""
    whole, parts = set[str](), set[str]()
    for position, use in enumerate(uses):
        where, name, request = f"{path}[{position}]", use.get("name", ""), use.get("request", "")
        if not name:
            yield fields.required(where)
            continue
        part = f"{name}/{request}"
        if name in whole:
            yield fields.duplicate(where, name)
        elif request:
            for why in dns_label_errors(request):
                yield fields.invalid(f"{where}.request", request, why)
            if part in parts:
                yield fields.duplicate(where, part)
            parts.add(part)
        else:
            overlaps = [one for one in parts if one.startswith(f"{name}/")]
            yield from (fields.duplicate(where, name) for _ in overlaps)
            whole.add(name)
        if name not in claims:
            listed = f": {', '.join(sorted(claims))}" if claims else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{listed}"
            yield FieldError("FieldValueNotFound", where, name, detail)


def claim_status_errors(statuses: Any, spec: Spec) -> Iterator[FieldError]:
    """Errors of the names of generated claims."""
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen = set[str]()
    for position, status in enumerate(statuses):
        path, name = f"status.resourceClaimStatuses[{position}]", status.get("name", "")
        if name not in known:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            yield fields.invalid(f"{path}.name", name, detail)
        if name in seen:
            yield fields.duplicate(f"{path}.name", name)
        seen.add(name)
        if (claim := status.get("resourceClaimName")) is not None:
            for why in dns_subdomain_errors(claim):
                yield fields.invalid(f"{path}.resourceClaimName", claim, why)


def extended_claim_status_errors(status: Spec, spec: Spec) -> Iterator[FieldError]:
    """Errors of the claim that stands behind a pod's extended resources."""
    path = "status.extendedResourceClaimStatus"
    parts = (*(spec.get("initContainers") or ()), *spec["containers"])
    requests = {one["name"]: (one.get("resources") or {}).get("requests") or {} for one in parts}
    mappings = status.get("requestMappings") or ()
    if not mappings:
        detail = "at least one request mapping is required"
        yield fields.required(f"{path}.requestMappings", detail)
    seen = set[tuple[str, str, str]]()
    for position, mapping in enumerate(mappings):
        where = f"{path}.requestMappings[{position}]"
        names = ("containerName", "resourceName", "requestName")
        container, resource, request = (mapping.get(name, "") for name in names)
        if container not in requests:
            detail = (
                "must match the name of an entry in spec.initContainers.name or "
                "spec.containers.name"
            )
            yield fields.invalid(f"{where}.containerName", container, detail)
        elif resource not in requests[container]:
            detail = (
                "must match the extended resource name of an entry in "
                "spec.initContainers.resources.requests or spec.containers.resources.requests"
            )
            yield fields.invalid(f"{where}.resourceName", resource, detail)
        for why in dns_label_errors(request):
            yield fields.invalid(f"{path}.requestName", request, why)
        if (container, resource, request) in seen:
            for name in names:
                yield fields.duplicate(f"{where}.{name}", mapping.get(name, ""))
        seen.add((container, resource, request))
    claim = status.get("resourceClaimName", "")
    if not claim:
        yield fields.required(f"{path}.resourceClaimName")
    else:
        for why in dns_subdomain_errors(claim):
            yield fields.invalid(f"{path}.resourceClaimName", claim, why)
