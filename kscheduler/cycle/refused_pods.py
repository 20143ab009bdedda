"""Refused pods: pods of ours that a kubelet would not run, counted by cause and told to the owner.

A kubelet without room for a pod that was bound to it fails the pod, with a reason such as OutOfcpu.
The watch leaves ended pods out: all it tells is that the pod is gone, and how it was before. So the
API server is asked what became of pods that left their node before they ran:

    bound ──▶ gone from the watch ──GET──▶ Failed, by a kubelet's reason: refused
                                           not found, or anything else: nothing
                                           another pod of this name: its controller was faster

Most pods that go like this were deleted in haste. As long as none turns out to be refused, one of
them is asked about each second; after one that was, all of them. At most MAX_WAITING are kept.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from kscheduler import logs
from kscheduler.api.core import ObjectReference, Pod
from kscheduler.api.decode import DecodeError, decoder_for
from kscheduler.api.meta import ApiObject, ApiStruct, OwnerReference
from kscheduler.api.resources import PODS, Resource
from kscheduler.client.errors import ApiError, Forbidden, NotFound
from kscheduler.metrics import Metrics

log = logs.logger(__name__)

MAX_WAITING = 1000
LOOK_SECONDS = 1.0
# So long after a refusal every pod that left is asked about.
ALERT_SECONDS = 300.0

REASON = "PodRefused"
ACTION = "Admission"

# Reasons by the names that kubelet_admission_rejections_total has for them; a resource's own name
# would be a label value that anybody can make up.
REASONS = frozenset(
    {
        "AppArmor",
        "Evicted",
        "InitContainerRestartPolicyForbidden",
        "InvalidNodeInfo",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "NodeShutdown",
        "OutOfcpu",
        "OutOfephemeral-storage",
        "OutOfmemory",
        "OutOfpods",
        "PodFeatureUnsupported",
        "PodLevelResourcesNotSupported",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "SMTAlignmentError",
        "SupplementalGroupsPolicyNotSupported",
        "SysctlForbidden",
        "TaintToleration",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "UnexpectedPredicateFailureType",
        "UnknownReason",
    }
)
OUT_OF = "OutOf"
OUT_OF_EXTENDED = "OutOfExtendedResources"
OTHER = "Other"
# The pod had been replaced under its name before it could be asked about.
UNKNOWN = "Unknown"
# How the message of every refusal begins, whatever the reason.
REJECTED = "Pod was rejected: "


class EndedStatus(ApiStruct):
    phase: str = ""
    reason: str = ""
    message: str = ""


class EndedPod(ApiObject):
    """A pod, with what its status says about its end."""

    status: EndedStatus = EndedStatus()


class PodReader(Protocol):
    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes: ...


class Recorder(Protocol):
    """Events in the name of one profile."""

    def record(
        self, regarding: ObjectReference, *, type: str, reason: str, action: str, note: str
    ) -> None: ...


_decode = decoder_for(EndedPod)


class RefusedPods:
    """Asks about pods that vanished from their nodes; `run` it as a task while leading."""

    def __init__(
        self,
        client: PodReader,
        recorder: Callable[[str], Recorder],
        metrics: Metrics,
        *,
        look_seconds: float = LOOK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`recorder` is given the name of a profile."""
        self._client = client
        self._recorder = recorder
        self._refused = metrics.kscheduler_refused_pods_total
        self._look_seconds = look_seconds
        self._clock = clock
        # The oldest are forgotten first.
        self._gone: deque[Pod] = deque(maxlen=MAX_WAITING)
        self._any_gone = asyncio.Event()
        self._runs = False
        self._alert_until = -ALERT_SECONDS

    def vanished(self, pod: Pod) -> None:
        """A pod of ours left its node before it ran; this is its last state known."""
        if self._runs:
            self._gone.append(pod)
            self._any_gone.set()

    async def run(self) -> None:
        """Until cancelled, or until the API server says that we may not read pods."""
        self._runs = True
        try:
            while True:
                while not self._gone:
                    self._any_gone.clear()
                    await self._any_gone.wait()
                if await self._ask(self._gone.popleft()):
                    self._alert_until = self._clock() + ALERT_SECONDS
                elif self._clock() > self._alert_until:
                    await asyncio.sleep(self._look_seconds)
        except Forbidden as error:
            log.error(error, "Refused pods are not counted", remedy=error.remedy)
        finally:
            self._runs = False
            self._gone.clear()

    async def _ask(self, pod: Pod) -> bool:
        """Whether the pod was refused; if so, it is counted and told."""
        try:
            ended = _decode(await self._client.get(PODS, pod.name, pod.namespace))
        except NotFound:
            return False
        except Forbidden:
            raise
        except (ApiError, DecodeError) as error:
            log.v(2).info("Cannot read pod that left its node", pod=logs.ref(pod), err=str(error))
            return False
        owner = pod.metadata.controller
        if ended.metadata.uid != pod.uid:
            if owner is not None:
                self._refused.labels(UNKNOWN).inc()
            return False
        cause = _cause(ended.status)
        if cause is None:
            return False
        self._refused.labels(cause).inc()
        log.v(2).info(
            "Pod was refused by its kubelet",
            pod=logs.ref(pod),
            node=pod.spec.node_name,
            reason=ended.status.reason,
        )
        # Refusals of one owner's pods are a series, since neither pod nor node is a part of it.
        told = owner or OwnerReference(PODS.api_version, PODS.kind, pod.name, pod.uid)
        regarding = ObjectReference(
            kind=told.kind,
            namespace=pod.namespace,
            name=told.name,
            uid=told.uid,
            api_version=told.api_version,
        )
        self._recorder(pod.spec.scheduler_name).record(
            regarding,
            type="Warning",
            reason=REASON,
            action=ACTION,
            note=f"Node {pod.spec.node_name} refused pod {pod.key}: {ended.status.reason}: "
            f"{ended.status.message.removeprefix(REJECTED)}",
        )
        return True


def _cause(status: EndedStatus) -> str | None:
    """The label under which a refusal is counted; None if the pod ended in another way."""
    if status.phase != "Failed":
        return None
    if status.reason in REASONS:
        return status.reason
    if status.reason.startswith(OUT_OF):
        return OUT_OF_EXTENDED
    return OTHER if status.message.startswith(REJECTED) else None
