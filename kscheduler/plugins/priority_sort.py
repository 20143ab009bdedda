"""PrioritySort: higher priority first, then whoever has waited longer.

Mirrors pkg/scheduler/framework/plugins/queuesort. Differs: nothing.
"""

from __future__ import annotations

from kscheduler.framework.declaration import plugin
from kscheduler.framework.in_tree import QueuedEntity


@plugin()
class PrioritySort:
    name = "PrioritySort"

    def sort_key(self, queued: QueuedEntity) -> tuple[int, float]:
        return (-queued.pod.priority, queued.timestamp)
