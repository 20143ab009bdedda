"""Events that may help a pod which waits for claims or devices.

A claim that changes concerns the pods that name it, and no others, unless it gives devices back:
`pods_concerned` spares thousands of waiting pods the question.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kscheduler import logs
from kscheduler.api.core import Pod
from kscheduler.api.resource import ResourceClaim
from kscheduler.dra.claims import ClaimTracker
from kscheduler.errors import KschedulerError
from kscheduler.framework.cluster_event import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    NODE,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    TARGET_POD,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.framework.listers import FollowedLister
from kscheduler.plugins.dynamic_resources.claims import claim_keys, claims_of
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

_BY_CLAIM = "resource claim"


class ClaimEvents:
    """Registrations of the plugin and the hints behind them."""

    def __init__(
        self, tracker: ClaimTracker, pods: FollowedLister[Pod], *, accept_group: bool
    ) -> None:
        self._tracker = tracker
        self._pods = pods
        self._accept_group = accept_group
        pods.add_index(_BY_CLAIM, claim_keys)

    def registrations(self) -> Sequence[EventWithHint]:
        changed = Action.ADD | Action.UPDATE
        node = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        generated = Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM
        return [
            EventWithHint(ClusterEvent(NODE, node)),
            EventWithHint(
                ClusterEvent(RESOURCE_CLAIM, changed | Action.DELETE),
                self.claim_changed,
                self.pods_concerned,
            ),
            EventWithHint(ClusterEvent(TARGET_POD, generated), self.pod_changed),
            EventWithHint(ClusterEvent(DEVICE_CLASS, changed)),
            EventWithHint(ClusterEvent(RESOURCE_SLICE, changed)),
            # To upstream, a rule that changes is a change of slices.
            EventWithHint(ClusterEvent(DEVICE_TAINT_RULE, Action.UPDATE | Action.DELETE)),
        ]

    def pods_concerned(
        self, old: ResourceClaim | None, new: ResourceClaim | None
    ) -> Collection[str] | None:
        """Keys of the pods that name the claim; None if it may have given devices back."""
        claim = old if new is None else new
        was_allocated = old is not None and old.status.allocation is not None
        is_allocated = new is not None and new.status.allocation is not None
        if claim is None or (was_allocated and not is_allocated):
            return None
        return [pod.key for pod in self._pods.by_index(_BY_CLAIM, claim.key)]

    def claim_changed(
        self, pod: PodInfo, old: ResourceClaim | None, new: ResourceClaim | None
    ) -> Hint:
        if new is None:
            freed = old is None or old.status.allocation is not None
            return Hint.QUEUE if freed else Hint.SKIP
        try:
            claims = claims_of(pod.pod, self._tracker, accept_group=self._accept_group)
        except KschedulerError as error:
            if v := log.v(6):
                v.info(
                    "pod is not schedulable after resource claim change",
                    pod=logs.ref(pod.pod),
                    claim=logs.ref(new),
                    reason=str(error),
                )
            return Hint.SKIP
        refs = {"pod": logs.ref(pod.pod), "claim": logs.ref(new)}
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            log.v(6).info("claim with structured parameters got deallocated", **refs)
            return Hint.QUEUE
        if all(claim.uid != new.uid for claim in claims):
            log.v(6).info("unrelated claim got modified", **refs)
            return Hint.SKIP
        if old is None:
            log.v(5).info("claim for pod got created", **refs)
            return Hint.QUEUE
        if old.status == new.status:
            log.v(6).info("claim for pod got modified where the pod doesn't care", **refs)
            return Hint.SKIP
        log.v(5).info("status of claim for pod got updated", **refs)
        return Hint.QUEUE

    def pod_changed(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
        try:
            claims_of(new.pod, self._tracker, accept_group=self._accept_group)
        except KschedulerError:
            log.v(6).info("pod is not schedulable after being updated", pod=logs.ref(pod.pod))
            return Hint.SKIP
        log.v(5).info("pod got updated and is schedulable", pod=logs.ref(pod.pod))
        return Hint.QUEUE
