"""A pod on its way through the queue: what happened to it so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kscheduler.state.pod_info import PodInfo


@dataclass(slots=True, eq=False)
class QueuedPod:
    """Times are seconds since the epoch; None where the thing has not happened."""

    pod: PodInfo
    # When it was added, or came back from its last attempt.
    timestamp: float
    # When it first became eligible for an attempt; time spent gated does not count.
    initial_attempt_timestamp: float | None = None
    attempts: int = 0
    # Attempts that ended in a rejection, ever; in an error, since the last rejection.
    unschedulable_count: int = 0
    consecutive_errors_count: int = 0
    backoff_expiration: float | None = None
    # Who rejected it last time. The next attempt keeps them until it fails in turn.
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    # The PreEnqueue plugin that keeps it out of the active queue.
    gating_plugin: str = ""
    was_flushed_from_unschedulable: bool = False
    flush_timestamp: float | None = None
    # Pods with equal signatures can share one decision; None cannot.
    signature: bytes | None = None

    @property
    def key(self) -> str:
        return self.pod.key

    @property
    def uid(self) -> str:
        return self.pod.uid

    @property
    def profile(self) -> str:
        return self.pod.pod.spec.scheduler_name

    @property
    def gated(self) -> bool:
        return bool(self.gating_plugin)

    @property
    def rejectors(self) -> set[str]:
        return self.unschedulable_plugins | self.pending_plugins

    def returned(self, now: float) -> None:
        """Counts the attempt that just failed."""
        if self.unschedulable_plugins or self.pending_plugins:
            self.unschedulable_count += 1
            self.consecutive_errors_count = 0
        else:
            self.consecutive_errors_count += 1
        self.timestamp = now
        self.backoff_expiration = None
        self.was_flushed_from_unschedulable = False
        self.flush_timestamp = None
