"""Pods that wait for something to happen, found by who rejected them."""

from collections.abc import Container, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from kscheduler.queue.queued_pod_info import MAX_SHARED_SETS, QueuedPodInfo
from kscheduler.queue.queueing_hints import Rejector

# Where pods are filed that any event may concern.
ANYONE = Rejector("", "")


_BY_ANYONE = (ANYONE,)


@lru_cache(maxsize=MAX_SHARED_SETS)
def _rejectors(profile: str, plugins: frozenset[str]) -> tuple[Rejector, ...]:
    """One tuple for all pods that were rejected alike."""
    return tuple(Rejector(profile, plugin) for plugin in plugins)


class _Filed(NamedTuple):
    """A pod, and what was true of it when it was filed."""

    queued: QueuedPodInfo
    gated: bool
    under: tuple[Rejector, ...]


class UnschedulablePods:
    """Rejected and gated pods by key.

    A pod is filed under each of its rejectors, so that an event which only some plugins wait for
    visits only their pods. Changing a pod's rejectors or gate asks for another `put`.
    """

    def __init__(self, profiles: Container[str]) -> None:
        self._profiles = profiles
        self._pods: dict[str, _Filed] = {}
        self._by_rejector: dict[Rejector, dict[str, QueuedPodInfo]] = {}
        self.gated_count = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, key: str) -> bool:
        return key in self._pods

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (filed.queued for filed in self._pods.values())

    def get(self, key: str) -> QueuedPodInfo | None:
        filed = self._pods.get(key)
        return filed.queued if filed else None

    def put(self, queued: QueuedPodInfo) -> None:
        self.remove(queued.key)
        under = self._filed_under(queued)
        self._pods[queued.key] = _Filed(queued, queued.gated, under)
        self.gated_count += queued.gated
        for rejector in under:
            self._by_rejector.setdefault(rejector, {})[queued.key] = queued

    def remove(self, key: str) -> QueuedPodInfo | None:
        filed = self._pods.pop(key, None)
        if filed is None:
            return None
        self.gated_count -= filed.gated
        for rejector in filed.under:
            pods = self._by_rejector[rejector]
            del pods[key]
            if not pods:
                del self._by_rejector[rejector]
        return filed.queued

    def _filed_under(self, queued: QueuedPodInfo) -> tuple[Rejector, ...]:
        profile = queued.profile
        if profile not in self._profiles or not queued.rejectors:
            return _BY_ANYONE
        return _rejectors(profile, frozenset(queued.rejectors))

    def rejected_by(self, rejectors: Iterable[Rejector]) -> list[QueuedPodInfo]:
        """Each pod once that one of these rejected, and those that nobody in particular did."""
        found: dict[str, QueuedPodInfo] = {}
        for rejector in (ANYONE, *rejectors):
            found.update(self._by_rejector.get(rejector, {}))
        return list(found.values())
