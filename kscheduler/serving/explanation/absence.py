"""Why there is no decision about a pod, in a sentence that says what to do."""

from __future__ import annotations

from kscheduler.api.core import Pod
from kscheduler.api.explanation import PendingPod
from kscheduler.decisions.decision_log import DecisionLog

KEEP_MORE = "a larger --decision-log-bytes keeps more of them"


def absent_decision(
    pod: Pod | None,
    namespace: str,
    pending: PendingPod | None,
    log: DecisionLog,
    profiles: frozenset[str],
) -> str:
    """The sentence for a pod that the log does not have.

    `pod` is None where the scheduler does not know it: it may be terminated, or not exist.
    """
    if pending is not None:
        return f"it has not been decided on yet: {_lower(pending.summary)}"
    count = "1 decision has" if log.evictions == 1 else f"{log.evictions} decisions have"
    fell_out = f"{count} fallen out of the log"
    if pod is None:
        told = f"{unknown_pod(namespace)}, and has no decision about one of that name"
        if log.evictions:
            return f"{told}; {fell_out}, and {KEEP_MORE}"
        return told
    wanted = pod.spec.scheduler_name
    if wanted not in profiles:
        return f'it is not scheduled here but by the scheduler "{wanted}"'
    if not pod.spec.node_name:
        return "the pod is not in the queue: it was created or deleted just now; try again"
    if log.evictions:
        return (
            f"the pod is on {pod.spec.node_name}, but its decision is no longer there: "
            f"{fell_out}, or it was bound before this instance began to schedule; {KEEP_MORE}"
        )
    return (
        f"the pod is on {pod.spec.node_name}, and was bound there before this instance began to "
        "schedule, or by somebody else: decisions are kept in memory by the instance that made "
        "them"
    )


def unknown_pod(namespace: str) -> str:
    return f'the scheduler knows no such pod in namespace "{namespace}"'


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")
