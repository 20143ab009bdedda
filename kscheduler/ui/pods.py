"""Questions about pods, and why pods wait alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kscheduler.api.explanation import PendingPod, PlacementReview, PlacementReviewSpec
from kscheduler.api.pod_questions import Manifest, reasons_in


def review_of(pod: Manifest, **spec: Any) -> PlacementReview:
    """A review of one pod; `spec` are further fields of its spec."""
    raw = (msgspec.Raw(msgspec.json.encode(pod)),)
    return PlacementReview(spec=PlacementReviewSpec(pods=raw, **spec))


def reason_of(pod: PendingPod) -> str:
    """Why it waits, in words that other pods may share."""
    if pod.queue == "Gated":
        gates = ", ".join(pod.scheduling_gates)
        return f"held by its scheduling gates: {gates}" if gates else f"held by {pod.gating_plugin}"
    if reasons := reasons_in(pod.message):
        return ", ".join(reasons)
    plugins = (*pod.unschedulable_plugins, *pod.pending_plugins)
    return ", ".join(plugins) if plugins else {"Active": "not tried yet"}.get(pod.queue, pod.queue)


def by_reason(pods: Sequence[PendingPod]) -> dict[str, list[PendingPod]]:
    """Pods that wait for the same reason, most first; of a reason, the oldest first."""
    found: dict[str, list[PendingPod]] = {}
    for pod in sorted(pods, key=lambda one: one.metadata.creation_timestamp or ""):
        found.setdefault(reason_of(pod), []).append(pod)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))
