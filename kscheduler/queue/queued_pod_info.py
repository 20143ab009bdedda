"""QueuedPodInfo: a pod on its way through the queue, with the history of its attempts."""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from kscheduler.state.pod_info import PodInfo

# Sets of plugin names that are remembered; few combinations occur.
MAX_SHARED_SETS = 1024


@lru_cache(maxsize=MAX_SHARED_SETS)
def shared_names(names: frozenset[str]) -> frozenset[str]:
    """One set for all equal ones: the first that was given."""
    return names


class QueuedPodInfo(msgspec.Struct, eq=False):
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
    # No attempt before this, whatever happens: deciding on the pod takes too long.
    not_before: float = 0.0
    # The plugins that rejected it last time, kept until the next attempt fails in turn. Frozen, so
    # that thousands of pods with the same rejectors can share one set (see `shared_names`).
    unschedulable_plugins: Set[str] = frozenset()
    pending_plugins: Set[str] = frozenset()
    # The PreEnqueue plugin that keeps it out of the active queue.
    gating_plugin: str = ""
    was_flushed_from_unschedulable: bool = False
    flush_timestamp: float | None = None
    # On the way to the next attempt: when it entered the backoff queue, and the active one; and the
    # event that ended its wait for one.
    backoff_since: float | None = None
    active_since: float | None = None
    woken_by: str = ""
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
    def rejectors(self) -> Set[str]:
        if not self.pending_plugins:
            return self.unschedulable_plugins
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
        self.backoff_since = self.active_since = None
        self.woken_by = ""

    def waited(self, now: float) -> tuple[float, float, float]:
        """Seconds since the last attempt as unschedulable (or gated), backing off and active."""
        active = now if self.active_since is None else self.active_since
        backoff = active if self.backoff_since is None else min(self.backoff_since, active)
        return max(0.0, backoff - self.timestamp), active - backoff, max(0.0, now - active)
