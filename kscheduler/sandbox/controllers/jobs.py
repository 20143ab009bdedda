"""Jobs: pods that run to completion.

Mirrors pkg/controller/job: parallelism and completions, indexed completions, backoffLimit with its
growing pause, activeDeadlineSeconds, suspension, and removal after ttlSecondsAfterFinished.
Differs: pods carry no finalizer, so one that is deleted by hand counts only if the Job had counted
it before; podFailurePolicy, successPolicy and backoffLimitPerIndex are not followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from kscheduler.api.timestamps import parse_time
from kscheduler.sandbox.controllers.controller import is_deleting, seconds_since, with_condition
from kscheduler.sandbox.controllers.owned_pods import BURST, PodController, PodRecord, by_age
from kscheduler.sandbox.deletion import DeleteOptions, delete
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.metadata import find_condition, now
from kscheduler.sandbox.resources import JOBS
from kscheduler.sandbox.store import Key, Object

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
FIRST_BACKOFF_SECONDS = 10.0
LONGEST_BACKOFF_SECONDS = 600.0
DEFAULT_BACKOFF_LIMIT = 6


class JobController(PodController):
    """Starts pods of Jobs until enough have succeeded or too many failed."""

    name = "job-controller"
    resource: ClassVar[Resource] = JOBS
    first_backoff_seconds = FIRST_BACKOFF_SECONDS

    def sync(self, key: Key) -> None:
        job = self.find(self.resource, key)
        if job is None:
            return
        state = job.get("status") or {}
        if is_finished(job):
            self._expire(job)
            return
        pods = self.claim(job)
        if is_deleting(job):
            return
        tally = _Tally(job, pods)
        failure = self._failure(job, tally)
        suspended = bool(job["spec"].get("suspend"))
        conditions = list(state.get("conditions") or ())
        end = ""
        if failure is not None:
            end = "Failed"
            for kind in ("FailureTarget", "Failed"):
                conditions = with_condition(conditions, kind, "True", *failure)
        elif tally.is_complete:
            end = "Complete"
            why = ("CompletionsReached", "Reached expected number of succeeded pods")
            for kind in ("SuccessCriteriaMet", "Complete"):
                conditions = with_condition(conditions, kind, "True", *why)
        suspension = find_condition({"conditions": conditions}, "Suspended")
        if not end and suspended and (suspension is None or suspension["status"] != "True"):
            why = ("JobSuspended", "Job suspended")
            conditions = with_condition(conditions, "Suspended", "True", *why)
        elif not end and not suspended and suspension and suspension["status"] == "True":
            why = ("JobResumed", "Job resumed")
            conditions = with_condition(conditions, "Suspended", "False", *why)
        started = state.get("startTime")
        if suspended:
            started = None
        elif started is None:
            started = now()
        if end or suspended:
            for pod in tally.active:
                self.delete_pod(job, pod)
        else:
            self._manage(job, tally)
        if not end and not suspended and "activeDeadlineSeconds" in job["spec"]:
            deadline = job["spec"]["activeDeadlineSeconds"]
            self.mark_later(key, deadline - seconds_since(started) + 0.1)
        after = _Tally(job, self.pods.owned_by(job["metadata"]["uid"]))
        status = after.status(started, conditions)
        if end == "Complete":
            status["completionTime"] = now()
        self.write_status(self.resource, job, status)
        if end:
            what = "Completed" if end == "Complete" else failure[0] if failure else end
            text = "Job completed" if end == "Complete" else failure[1] if failure else end
            self.report(self.resource, job, what, text)

    def _failure(self, job: Object, tally: _Tally) -> tuple[str, str] | None:
        """Reason and message of a Job that cannot succeed any more."""
        spec, state = job["spec"], job.get("status") or {}
        if tally.failed > spec.get("backoffLimit", DEFAULT_BACKOFF_LIMIT):
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        deadline, started = spec.get("activeDeadlineSeconds"), state.get("startTime")
        if deadline is not None and started and seconds_since(started) >= deadline:
            return "DeadlineExceeded", "Job was active longer than specified deadline"
        return None

    def _manage(self, job: Object, tally: _Tally) -> None:
        """Start the pods that are missing, or end those that are too many."""
        spec = job["spec"]
        most = spec.get("parallelism", 1)
        completions = spec.get("completions")
        wanted = most
        if completions is not None:
            wanted = min(most, completions - tally.succeeded)
        elif tally.succeeded:
            wanted = min(most, len(tally.active))  # a work queue: one success ends it
        surplus = len(tally.active) - wanted
        for pod in by_age(tally.active)[::-1][: max(surplus, 0)]:
            self.delete_pod(job, pod)
        missing = -surplus
        if missing <= 0:
            return
        wait = self._backoff(tally)
        if wait > 0:
            self.mark_later(_key(job), wait)
            return
        indexes = tally.free_indexes()
        for _ in range(min(missing, BURST)):
            index = next(indexes, None) if tally.is_indexed else None
            if tally.is_indexed and index is None:
                return
            self._start(job, index)
        if missing > BURST:
            self.mark(_key(job))

    def _backoff(self, tally: _Tally) -> float:
        """Seconds to wait after pods that failed; twice as long for each one more in a row."""
        if not tally.failed_in_a_row:
            return 0.0
        pause = min(
            self.first_backoff_seconds * 2 ** min(tally.failed_in_a_row - 1, 10),
            LONGEST_BACKOFF_SECONDS,
        )
        return pause - seconds_since(tally.last_failure)

    def _start(self, job: Object, index: int | None) -> None:
        def prepare(pod: Object) -> None:
            if index is None:
                return
            about = pod["metadata"]
            name = job["metadata"]["name"]
            about["generateName"] = f"{name}-{index}-"
            marks = {COMPLETION_INDEX: str(index)}
            about["annotations"] = {**(about.get("annotations") or {}), **marks}
            about["labels"] = {**(about.get("labels") or {}), **marks}
            pod["spec"]["hostname"] = f"{name}-{index}"[:63]
            source = f"metadata.annotations['{COMPLETION_INDEX}']"
            for container in pod["spec"].get("containers") or ():
                known = container.setdefault("env", [])
                if not any(one["name"] == "JOB_COMPLETION_INDEX" for one in known):
                    value = {"fieldRef": {"apiVersion": "v1", "fieldPath": source}}
                    known.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": value})

        self.create_pod(job, job["spec"].get("template") or {}, prepare=prepare)

    def _expire(self, job: Object) -> None:
        """Remove a finished Job after its time to live."""
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None or is_deleting(job):
            return
        ended = [
            one["lastTransitionTime"]
            for one in (job.get("status") or {}).get("conditions") or ()
            if one["type"] in ("Complete", "Failed")
        ]
        left = ttl - seconds_since(ended[0])
        if left > 0:
            self.mark_later(_key(job), left)
        else:
            delete(self._registry, JOBS, *_key(job), DeleteOptions(propagation="Background"))


class _Tally:
    """How the pods of a Job fare."""

    def __init__(self, job: Object, pods: list[PodRecord]) -> None:
        spec, state = job["spec"], job.get("status") or {}
        self.is_indexed = spec.get("completionMode") == "Indexed"
        self.completions: int | None = spec.get("completions")
        self.active = [pod for pod in pods if pod.is_active]
        self.ready = sum(pod.is_ready for pod in self.active)
        self.terminating = sum(pod.deleting and pod.phase != "Succeeded" for pod in pods)
        succeeded = [pod for pod in pods if pod.phase == "Succeeded"]
        failed = [pod for pod in pods if pod.phase == "Failed"]
        # Pods that are gone stay counted.
        self.failed = max(len(failed), state.get("failed", 0))
        self.done: set[int] = set(_parse_indexes(state.get("completedIndexes", "")))
        if self.is_indexed:
            self.done |= {index for pod in succeeded if (index := _index(pod)) is not None}
            self.succeeded = len(self.done)
        else:
            self.succeeded = max(len(succeeded), state.get("succeeded", 0))
        last_success = max((pod.created for pod in succeeded), default="")
        self.failed_in_a_row = sum(pod.created >= last_success for pod in failed)
        self.last_failure = max((pod.created for pod in failed), default=None)

    @property
    def is_complete(self) -> bool:
        if self.completions is None:
            return bool(self.succeeded) and not self.active
        return self.succeeded >= self.completions

    def free_indexes(self) -> Iterator[int]:
        taken = self.done | {index for pod in self.active if (index := _index(pod)) is not None}
        return (index for index in range(self.completions or 0) if index not in taken)

    def status(self, started: str | None, conditions: list[Object]) -> Object:
        counts = {
            "active": len(self.active),
            "succeeded": self.succeeded,
            "failed": self.failed,
        }
        status: Object = {part: count for part, count in counts.items() if count}
        status |= {"ready": self.ready, "terminating": self.terminating}
        status["uncountedTerminatedPods"] = {}
        if self.is_indexed and self.done:
            status["completedIndexes"] = _write_indexes(self.done)
        if started:
            status["startTime"] = started
        if conditions:
            status["conditions"] = conditions
        return status


def is_finished(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(
        one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions
    )


def finished_at(job: Object) -> float | None:
    """The moment a Job completed or failed."""
    for one in (job.get("status") or {}).get("conditions") or ():
        if one["type"] in ("Complete", "Failed") and one["status"] == "True":
            return parse_time(one["lastTransitionTime"])
    return None


def _index(pod: PodRecord) -> int | None:
    text = pod.annotations.get(COMPLETION_INDEX, "")
    return int(text) if text.isdigit() else None


def _parse_indexes(text: str) -> Iterator[int]:
    """`1,3-5` as numbers."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _write_indexes(indexes: Iterable[int]) -> str:
    """Numbers as `1,3-5`: two neighbours are listed, three or more a range."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    parts = []
    for run in runs:
        parts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(one) for one in run]
    return ",".join(parts)


def _key(job: Object) -> Key:
    return job["metadata"]["namespace"], job["metadata"]["name"]
