"""The writer of pod statuses: conditions and nominations, beside the loop and never in its way.

One report per pod is kept: a newer one replaces an older one that has not been sent. A pod about
to be bound first settles: what is unsent is dropped and what is under way is awaited, so that no
stale `PodScheduled=False` can land on a pod after its binding. For the same reason nothing is
written about a pod that somebody else has bound meanwhile.

While the lease has run out nothing is sent, and reports wait for its renewal; they end with the
writer, when leadership is lost.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import structs

from kscheduler import logs
from kscheduler.api.core import Pod, PodCondition, PodStatus, with_condition
from kscheduler.client.errors import Withheld
from kscheduler.client.fence import Fence
from kscheduler.errors import KschedulerError

log = logs.logger(__name__)

WRITERS = 8
# How upstream's log shows a nomination that is to be set or cleared.
NOMINATING_MODE_OVERRIDE = 1
# Pods whose status was written and is remembered until the informer delivers it; older ones surely
# have been delivered.
MAX_REMEMBERED = 1024


class StatusReport(msgspec.Struct, frozen=True):
    """A condition to set, if any, and what to do about the nomination: None leaves it, "" clears
    it.
    """

    pod: Pod
    condition: PodCondition | None
    nominated_node: str | None

    def log_values(self) -> dict[str, object]:
        values: dict[str, object] = {"pod": logs.ref(self.pod)}
        if (condition := self.condition) is not None:
            values |= {
                "conditionType": condition.type,
                "conditionStatus": condition.status,
                "conditionReason": condition.reason,
            }
        if self.nominated_node is not None:
            values |= {
                "nominatedNodeName": self.nominated_node,
                "nominatingMode": NOMINATING_MODE_OVERRIDE,
            }
        return values

    def applied_to(self, status: PodStatus) -> PodStatus:
        if self.condition is not None:
            conditions = with_condition(status.conditions, self.condition)
            status = structs.replace(status, conditions=conditions)
        if self.nominated_node is not None:
            status = structs.replace(status, nominated_node_name=self.nominated_node)
        return status


class StatusApi(Protocol):
    async def patch_pod_status(self, pod: Pod, status: PodStatus, /) -> None: ...


class PodLister(Protocol):
    def get(self, key: str, /) -> Pod | None: ...


class StatusWriter:
    """Bounded by the number of pods that wait: one report each, `WRITERS` requests at a time."""

    def __init__(
        self,
        api: StatusApi,
        pods: PodLister,
        *,
        fence: Fence | None = None,
        on_idle: Callable[[], None] = lambda: None,
    ) -> None:
        self._api = api
        self._pods = pods
        self._fence = fence
        self._unsent: OrderedDict[str, StatusReport] = OrderedDict()
        self._under_way: dict[str, asyncio.Future[None]] = {}
        self._work = asyncio.Event()
        self._on_idle = on_idle
        # By uid, the version written to and the status, if the informer has not delivered it yet.
        self._written: OrderedDict[str, tuple[str, PodStatus]] = OrderedDict()

    @property
    def busy(self) -> bool:
        """Whether a report has not been written yet."""
        return bool(self._unsent or self._under_way)

    def report(self, report: StatusReport) -> None:
        self._unsent[report.pod.uid] = report
        self._work.set()

    async def write(self, report: StatusReport) -> None:
        """Write a report at once and wait for it; a failure is only logged."""
        await self.settle(report.pod.uid)
        await self._write(report)
        self._notify_if_idle()

    async def settle(self, uid: str) -> None:
        """Return once nothing will be written about this pod any more."""
        self._unsent.pop(uid, None)
        under_way = self._under_way.get(uid)
        if under_way is not None:
            await asyncio.shield(under_way)
        self._notify_if_idle()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(WRITERS):
                tasks.create_task(self._write_forever(), name=f"status-writer/{number}")

    async def _write_forever(self) -> None:
        while True:
            if self._fence is not None:
                await self._fence.opened()
            report = self._next()
            if report is None:
                self._work.clear()
                await self._work.wait()
            else:
                await self._write(report)
                self._notify_if_idle()

    def _notify_if_idle(self) -> None:
        if not self.busy:
            self._on_idle()

    def _next(self) -> StatusReport | None:
        """Take the oldest report of a pod about which no other is being written just now."""
        for uid in self._unsent:
            if uid not in self._under_way:
                return self._unsent.pop(uid)
        return None

    async def _write(self, report: StatusReport) -> None:
        pod = report.pod
        current = self._pods.get(pod.key)
        if current is None or current.uid != pod.uid or current.spec.node_name:
            return
        if v := log.v(3):
            v.info("Updating pod condition and nominated node name", **report.log_values())
        done = self._under_way[pod.uid] = asyncio.get_running_loop().create_future()
        # The patch is computed against the status that the server has. The informer may not have
        # delivered yet what was written to this very version.
        version = current.metadata.resource_version
        written_to, written = self._written.get(pod.uid, ("", current.status))
        latest = structs.replace(current, status=written) if version == written_to else current
        status = report.applied_to(latest.status)
        try:
            await self._api.patch_pod_status(latest, status)
            self._written[pod.uid] = version, status
            self._written.move_to_end(pod.uid)
            if len(self._written) > MAX_REMEMBERED:
                self._written.popitem(last=False)
        except Withheld:
            # Sent when its turn comes again, unless a newer report has come meanwhile.
            self._unsent.setdefault(pod.uid, report)
        except KschedulerError as error:
            log.unhandled(error, "Error updating pod", pod=logs.ref(pod))
        finally:
            del self._under_way[pod.uid]
            done.set_result(None)
            if self._unsent:
                self._work.set()
