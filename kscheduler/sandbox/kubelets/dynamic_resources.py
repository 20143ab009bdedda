"""Dynamic resources of a pod, as a kubelet prepares them before the pod's containers start.

Mirrors the checks of pkg/kubelet/cm/dra; every driver is there and succeeds. A scheduler that binds
a pod without reserving its claims is seen here: the pod never starts.
"""

from __future__ import annotations

from kscheduler.api.core import Pod, PodResourceClaim
from kscheduler.api.decode import decoder_for
from kscheduler.api.resource import ResourceClaim
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import BY_NAME

_CLAIMS = BY_NAME["resourceclaims.resource.k8s.io"]
_decode_claim = decoder_for(ResourceClaim)


class PrepareError(Exception):
    """Raised when a pod may not use a claim, or cannot yet; the text is a kubelet's."""


def check_claims(registry: Registry, pod: Pod) -> None:
    """Raises PrepareError unless all claims of a pod are reserved for it, and so allocated."""
    names = [_claim_name(pod, podclaim) for podclaim in pod.spec.resource_claims]
    if (extended := pod.status.extended_resource_claim_status) is not None:
        names.append(extended.resource_claim_name)
    for name in filter(None, names):
        try:
            claim = _decode_claim(registry.get(_CLAIMS, pod.namespace, name).body)
        except StatusError as error:
            raise PrepareError(f"fetch ResourceClaim {name}: {error}") from error
        consumers = claim.status.reserved_for
        if not any(one.resource == "pods" and one.uid == pod.uid for one in consumers):
            why = f"is not allowed to use ResourceClaim {name} ({claim.uid})"
            raise PrepareError(f"pod {pod.name} ({pod.uid}) {why}")


def _claim_name(pod: Pod, podclaim: PodResourceClaim) -> str:
    """The name of a claim as the pod's spec or its status has it; empty: none is needed."""
    if podclaim.resource_claim_name is not None:
        return podclaim.resource_claim_name
    for status in pod.status.resource_claim_statuses:
        if status.name == podclaim.name:
            return status.resource_claim_name or ""
    raise PrepareError(f'pod "{pod.namespace}/{pod.name}": ResourceClaim not created yet')
