"""Pieces of a signature that several plugins contribute; equal keys carry equal values."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kscheduler.state.pod_info import PodInfo


def tolerations(pod: PodInfo) -> Mapping[str, object]:
    ordered = sorted(pod.pod.spec.tolerations, key=lambda t: (t.key, t.value))
    return {"v1.Pod.Spec.Tolerations": msgspec.to_builtins(ordered)}


def requests(pod: PodInfo) -> Mapping[str, object]:
    return {"v1.Pod.Spec.ContainerRequestsAndOverheads()": dict(sorted(pod.spec_requests.items()))}
