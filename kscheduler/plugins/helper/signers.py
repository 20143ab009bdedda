"""Pieces of a signature that several plugins contribute; equal keys carry equal values."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kscheduler.framework.status import Status, rejected
from kscheduler.state.pod_info import PodInfo


def tolerations(pod: PodInfo) -> Mapping[str, object]:
    ordered = sorted(pod.pod.spec.tolerations, key=lambda t: (t.key, t.value))
    return {"v1.Pod.Spec.Tolerations": msgspec.to_builtins(ordered)}


def requests(pod: PodInfo) -> Mapping[str, object]:
    return {"v1.Pod.Spec.ContainerRequestsAndOverheads()": dict(sorted(pod.spec_requests.items()))}


def volumes(pod: PodInfo) -> Mapping[str, object] | Status:
    """Mounted volumes, without ConfigMaps and Secrets, which only the kubelet reads.

    The claims of ephemeral volumes are made for one pod each, so such a pod equals no other.
    """
    mounted = []
    for volume in pod.pod.spec.volumes:
        if volume.ephemeral is not None:
            return rejected("pods with ephemeral volumes are not signable")
        if volume.config_map is None and volume.secret is None:
            source = msgspec.to_builtins(volume)
            source.pop("name", None)
            mounted.append(source)
    return {"v1.Pod.Spec.Volumes.NonSyntheticSources()": sorted(mounted, key=repr)}
