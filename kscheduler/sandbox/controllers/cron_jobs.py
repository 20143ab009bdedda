"""CronJobs: Jobs at the minutes that a schedule names.

Mirrors pkg/controller/cronjob in the small: schedules of five fields or by name (`@hourly`), time
zones, suspension, concurrencyPolicy, startingDeadlineSeconds, the limits of history. Of moments
that were missed, the last one counts.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from kscheduler.api.decode import decoder_for
from kscheduler.api.meta import ApiObject
from kscheduler.api.timestamps import format_time, parse_time
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.controllers.controller import (
    Controller,
    controller_reference,
    is_deleting,
)
from kscheduler.sandbox.controllers.jobs import finished_at, is_finished
from kscheduler.sandbox.cron import Schedule, parse_schedule
from kscheduler.sandbox.deletion import DeleteOptions, delete
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import CRON_JOBS, JOBS
from kscheduler.sandbox.store import Change, Key, Listener, Object

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_decode_metadata = decoder_for(ApiObject)


class CronJobController(Controller):
    """Creates Jobs of CronJobs in time, and removes those that nobody asks about any more."""

    name = "cronjob-controller"

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self._jobs: defaultdict[str, dict[Key, None]] = defaultdict(dict)  # by uid of the CronJob

    def listeners(self) -> Iterable[tuple[Resource, Listener]]:
        return (
            (JOBS, self._job_changed),
            (CRON_JOBS, lambda change: self.mark(change.stored.key)),
        )

    def _job_changed(self, change: Change) -> None:
        owner = _decode_metadata(change.stored.body).metadata.controller
        if owner is None or owner.kind != "CronJob":
            return
        if change.type == "DELETED":
            self._jobs[owner.uid].pop(change.stored.key, None)
        else:
            self._jobs[owner.uid][change.stored.key] = None
        self.mark((change.stored.key[0], owner.name))

    def sync(self, key: Key) -> None:
        cron = self.find(CRON_JOBS, key)
        if cron is None or is_deleting(cron):
            return
        spec, state = cron["spec"], dict(cron.get("status") or {})
        jobs = [
            job
            for one in list(self._jobs.get(cron["metadata"]["uid"], ()))
            if (job := self.find(JOBS, one)) is not None
        ]
        active = [job for job in jobs if not is_finished(job)]
        self._remove_old(spec, jobs)
        try:
            schedule = parse_schedule(spec.get("schedule", ""))
            zone: tzinfo = ZoneInfo(spec["timeZone"]) if spec.get("timeZone") else UTC
        except (ValueError, KeyError, OSError) as error:
            message = f"unparseable schedule: {spec.get('schedule')} : {error}"
            self.report(CRON_JOBS, cron, "FailedSchedule", message)
            return
        since = state.get("lastScheduleTime") or cron["metadata"]["creationTimestamp"]
        due = _last_due(schedule, zone, parse_time(since), time.time())
        if due is not None and not spec.get("suspend"):
            deadline = spec.get("startingDeadlineSeconds")
            late = deadline is not None and time.time() - due > deadline
            policy = spec.get("concurrencyPolicy", "Allow")
            if not late and not (policy == "Forbid" and active):
                if policy == "Replace":
                    for job in active:
                        self._remove(job)
                    active = []
                started = self._start(cron, due)
                if started is not None:
                    active.append(started)
            state["lastScheduleTime"] = format_time(due)
        state["active"] = [
            {
                "kind": "Job",
                "apiVersion": JOBS.group_version,
                "namespace": key[0],
                "name": job["metadata"]["name"],
                "uid": job["metadata"]["uid"],
                "resourceVersion": job["metadata"]["resourceVersion"],
            }
            for job in active
        ]
        if not active:
            del state["active"]
        ended = [
            job["status"]["completionTime"]
            for job in jobs
            if (job.get("status") or {}).get("completionTime")
        ]
        if ended:
            state["lastSuccessfulTime"] = max([*ended, state.get("lastSuccessfulTime", "")])
        self.write_status(CRON_JOBS, cron, state)
        next_one = schedule.next_after(datetime.fromtimestamp(time.time(), zone))
        if next_one is not None and not spec.get("suspend"):
            self.mark_later(key, next_one.timestamp() - time.time() + 0.05)

    def _start(self, cron: Object, due: float) -> Object | None:
        about, template = cron["metadata"], cron["spec"].get("jobTemplate") or {}
        inner = template.get("metadata") or {}
        moment = format_time(due)
        job = {
            "metadata": {
                "name": f"{about['name']}-{int(due) // 60}",
                "labels": inner.get("labels") or {},
                "annotations": {**(inner.get("annotations") or {}), SCHEDULED_AT: moment},
                "ownerReferences": [controller_reference(CRON_JOBS, cron)],
            },
            "spec": template.get("spec") or {},
        }
        try:
            stored = self._registry.create(JOBS, about["namespace"], job)
        except StatusError as error:
            if error.reason == "AlreadyExists":
                return None
            self.report(CRON_JOBS, cron, "FailedCreate", f"Error creating job: {error}")
            raise
        self.report(CRON_JOBS, cron, "SuccessfulCreate", f"Created job {stored.key[1]}")
        return stored.decode()

    def _remove_old(self, spec: Object, jobs: list[Object]) -> None:
        for kind, limit in (
            ("Complete", spec.get("successfulJobsHistoryLimit", 3)),
            ("Failed", spec.get("failedJobsHistoryLimit", 1)),
        ):
            ended = [
                job
                for job in jobs
                if any(
                    one["type"] == kind and one["status"] == "True"
                    for one in (job.get("status") or {}).get("conditions") or ()
                )
            ]
            ended.sort(key=lambda job: finished_at(job) or 0.0)
            for job in ended[: max(len(ended) - limit, 0)]:
                self._remove(job)

    def _remove(self, job: Object) -> None:
        about = job["metadata"]
        options = DeleteOptions(uid=about["uid"], propagation="Background")
        delete(self._registry, JOBS, about["namespace"], about["name"], options)


def _last_due(schedule: Schedule, zone: tzinfo, since: float, now: float) -> float | None:
    """The last moment of the schedule after `since` and up to `now`.

    Looked for in the last hour, then in the last two days, then in all that time: so the number of
    moments that are gone through stays small, however often they come and long it was.
    """
    for seconds in (3600.0, 2 * 86400.0, now):
        due = None
        at = schedule.next_after(datetime.fromtimestamp(max(since, now - seconds), zone))
        while at is not None and at.timestamp() <= now:
            due = at.timestamp()
            at = schedule.next_after(at)
        if due is not None:
            return due
    return None
