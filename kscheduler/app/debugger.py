"""Cache and queue told in the log, and where they disagree with the API server's last word.

Mirrors pkg/scheduler/backend/cache/debugger. Differs: a record per node and per so many pods, since
a line that is too long for the log is lost.
"""

from __future__ import annotations

from kscheduler import logs
from kscheduler.app.scheduler import Scheduler
from kscheduler.state.cache_dump import dump, mismatch, pod_text

log = logs.logger(__name__)

PODS_TOLD_AT_ONCE = 500


def tell(scheduler: Scheduler) -> None:
    _compare(scheduler)
    _tell_nodes(scheduler)
    _tell_queue(scheduler)


def _compare(scheduler: Scheduler) -> None:
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


def _tell_nodes(scheduler: Scheduler) -> None:
    nominated = scheduler.queue.nominator.pods_for_node
    for node in dump(scheduler.cache):
        log.info("Dump of cached NodeInfo", nodes=node.text(nominated(node.name)))


def _tell_queue(scheduler: Scheduler) -> None:
    pending = scheduler.queue.pending()
    pods = pending.pods
    for start in range(0, max(len(pods), 1), PODS_TOLD_AT_ONCE):
        part = pods[start : start + PODS_TOLD_AT_ONCE]
        text = "".join(f"{pod_text(queued.pod)}\n" for queued in part)
        log.info("Dump of scheduling queue", summary=pending.summary, pods=text)
