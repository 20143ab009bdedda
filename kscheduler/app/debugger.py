"""Cache and queue told in the log, and where they disagree with the API server's last word.

Mirrors pkg/scheduler/backend/cache/debugger. Differs: a record per node and per so many pods, since
a line that is too long for the log is lost.
"""

from __future__ import annotations

from kscheduler import logs
from kscheduler.app.scheduler import Scheduler
from kscheduler.slices import Slices
from kscheduler.state.cache_dump import dump, mismatch, pod_text

log = logs.logger(__name__)

# A record of so many is 2 ms of work.
PODS_TOLD_AT_ONCE = 500


async def tell(scheduler: Scheduler) -> None:
    """One look at everything, in slices: what comes later is told as it is by then."""
    slices = Slices()
    _compare(scheduler)
    nominated = scheduler.queue.nominator.pods_for_node
    for node in dump(scheduler.cache):
        log.info("Dump of cached NodeInfo", nodes=node.text(nominated(node.name)))
        if slices.due():
            await slices.rest()
    pending = scheduler.queue.pending()
    pods = pending.pods
    for start in range(0, max(len(pods), 1), PODS_TOLD_AT_ONCE):
        part = pods[start : start + PODS_TOLD_AT_ONCE]
        text = "".join(f"{pod_text(queued.pod)}\n" for queued in part)
        log.info("Dump of scheduling queue", summary=pending.summary, pods=text)
        if slices.due():
            await slices.rest()


def _compare(scheduler: Scheduler) -> None:
    """In one piece, since both sides must be those of one moment."""
    following, cache = scheduler.following, scheduler.cache
    log.v(3).info("Cache comparer started")
    actual = [node.name for node in following.nodes.items()]
    missed, redundant = mismatch(actual, cache.node_names)
    if missed or redundant:
        log.info("Cache mismatch", missedNodes=missed, redundantNodes=redundant)
    known = [pod.uid for pod in cache.pods]
    known += [queued.uid for queued in scheduler.queue.pending().pods]
    missed, redundant = mismatch([pod.uid for pod in following.pods.items()], known)
    if missed or redundant:
        log.info("Cache mismatch", missedPods=missed, redundantPods=redundant)
    log.v(3).info("Cache comparer finished")
