"""Dumps of cache and queue in the log, and where they disagree with the informers.

Mirrors pkg/scheduler/backend/cache/debugger. Differs: a record per node and per so many pods, since
a line that is too long for the log is lost.
"""

from __future__ import annotations

from kscheduler import logs
from kscheduler.app.scheduler import Scheduler
from kscheduler.slices import Slices
from kscheduler.state import cache_dump

log = logs.logger(__name__)

# Pods per record: writing it takes 2 ms.
PODS_PER_RECORD = 500


async def dump(scheduler: Scheduler) -> None:
    """Logs everything, in slices: a later slice shows the state as it is by then."""
    slices = Slices()
    compare(scheduler)
    nominated = scheduler.queue.nominator.pods_for_node
    for node in cache_dump.dump(scheduler.cache):
        log.info("Dump of cached NodeInfo", nodes=node.text(nominated(node.name)))
        if slices.due():
            await slices.rest()
    pending = scheduler.queue.pending()
    pods = pending.pods
    for start in range(0, max(len(pods), 1), PODS_PER_RECORD):
        part = pods[start : start + PODS_PER_RECORD]
        text = "".join(f"{cache_dump.pod_text(queued.pod)}\n" for queued in part)
        log.info("Dump of scheduling queue", summary=pending.summary, pods=text)
        if slices.due():
            await slices.rest()


def compare(scheduler: Scheduler) -> None:
    """Logs nodes and pods that cache and queue miss, or have beyond those of the informers.

    In one piece, since both sides must be those of one moment.
    """
    informers, cache = scheduler.informers, scheduler.cache
    log.v(3).info("Cache comparer started")
    actual = [node.name for node in informers.nodes.items()]
    missed, redundant = cache_dump.mismatch(actual, cache.node_names)
    if missed or redundant:
        log.info("Cache mismatch", missedNodes=missed, redundantNodes=redundant)
    known = [pod.uid for pod in cache.pods]
    known += [queued.uid for queued in scheduler.queue.pending().pods]
    missed, redundant = cache_dump.mismatch([pod.uid for pod in informers.pods.items()], known)
    if missed or redundant:
        log.info("Cache mismatch", missedPods=missed, redundantPods=redundant)
    log.v(3).info("Cache comparer finished")
