"""DefaultBinder: writes the binding to the API server.

Mirrors pkg/scheduler/framework/plugins/defaultbinder. Differs: nothing.
"""

from __future__ import annotations

from kscheduler import logs
from kscheduler.errors import KschedulerError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.handle import Handle
from kscheduler.framework.status import Status, failed
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__, "Bind.DefaultBinder")


@plugin()
class DefaultBinder:
    name = "DefaultBinder"

    def __init__(self, args: object, handle: Handle) -> None:
        self._client = handle.client

    async def bind(self, cycle: CycleState, pod: PodInfo, node: str) -> Status | None:
        log.v(3).info("Attempting to bind pod to node", pod=logs.ref(pod.pod), node=node)
        try:
            await self._client.bind(pod.pod, node)
        except KschedulerError as error:
            return failed(error)
        return None
