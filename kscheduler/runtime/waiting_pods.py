"""Pods that have a node but wait for permission to be bound to it.

Each Permit plugin that asked for it holds the pod until it allows or rejects it, or until its time
is up. The first decision wins; a later one has no effect and returns False. Deciding is synchronous
and takes the time as an argument; only `decision` waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress

from kscheduler.framework.status import Code, Status
from kscheduler.gotext.duration import Duration
from kscheduler.state.pod_info import PodInfo

SUCCESS = Status(Code.SUCCESS)


class WaitingPod:
    """One pod, and per plugin that holds it how long it may do so."""

    def __init__(self, pod: PodInfo, timeouts: Mapping[str, float], now: float) -> None:
        self.pod = pod
        self._timeouts = dict(timeouts)
        self._since = now
        self._decision: Status | None = None
        self._decided = asyncio.Event()

    @property
    def pending_plugins(self) -> Collection[str]:
        return self._timeouts.keys()

    def allow(self, plugin: str) -> None:
        """The pod may go once every plugin has said so."""
        self._timeouts.pop(plugin, None)
        if not self._timeouts:
            self._decide(SUCCESS)

    def reject(self, plugin: str, message: str) -> bool:
        """Send the pod back as unschedulable; False if the decision had already been made."""
        return self._decide(Status(Code.UNSCHEDULABLE, (message,), plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """Send the pod back for another try soon: a pod of higher priority needs its place."""
        return self.fail(plugin, message)

    def fail(self, plugin: str, message: str) -> bool:
        """Send the pod back for another try soon: the plugin could not decide."""
        return self._decide(Status(Code.ERROR, (message,), plugin))

    def expire(self, now: float) -> Status | None:
        """The decision, if there is one by now: running out of time is one."""
        if self._decision is None:
            plugin, timeout = self._most_urgent()
            if now >= self._since + timeout:
                waited = Duration.of(timeout)
                self.reject(
                    plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}"
                )
        return self._decision

    async def decision(self, clock: Callable[[], float]) -> Status:
        while (decision := self.expire(clock())) is None:
            _, timeout = self._most_urgent()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._since + timeout - clock()):
                    await self._decided.wait()
        return decision

    async def decided(self) -> None:
        """Returns when there is a decision."""
        await self._decided.wait()

    def _most_urgent(self) -> tuple[str, float]:
        return min(self._timeouts.items(), key=lambda entry: entry[1])

    def _decide(self, status: Status) -> bool:
        if self._decision is not None:
            return False
        self._decision = status
        self._decided.set()
        return True


class WaitingPods:
    """By uid; shared by all profiles."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def add(self, pod: PodInfo, timeouts: Mapping[str, float], now: float) -> WaitingPod:
        waiting = self._pods[pod.uid] = WaitingPod(pod, timeouts, now)
        return waiting

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def reject(self, uid: str) -> bool:
        """For a pod that is going away; False if it did not wait or was decided already."""
        waiting = self._pods.get(uid)
        return waiting is not None and waiting.reject("", "removed")

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)
