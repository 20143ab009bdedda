"""Jobs and CronJobs."""

from __future__ import annotations

from kscheduler.api.meta import ApiObject, ApiStruct, LabelSelector, ObjectMeta
from kscheduler.rest import fields
from kscheduler.rest.fields import FieldError
from kscheduler.rest.tables import AGE, NAME, NONE, Column, at
from kscheduler.sandbox.cron import parse_schedule
from kscheduler.sandbox.kinds.merging import CONDITIONS, TEMPLATED, Field
from kscheduler.sandbox.kinds.printers import (
    job_completions,
    job_duration,
    job_status,
    last_schedule,
    template_columns,
)
from kscheduler.sandbox.kinds.resource import STATUS, Resource, Strategy
from kscheduler.sandbox.kinds.workloads import PodTemplate, default_template, template_errors
from kscheduler.sandbox.metadata import IMMUTABLE
from kscheduler.sandbox.store import Object

_UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
_RESTART_POLICIES = ("OnFailure", "Never")
_COUNTS = (
    "parallelism",
    "completions",
    "backoffLimit",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
)


class _JobSpec(ApiStruct):
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool | None = None
    manual_selector: bool | None = None
    selector: LabelSelector | None = None
    template: PodTemplate | None = None


class _Job(ApiObject):
    spec: _JobSpec = _JobSpec()


class _JobTemplate(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: _JobSpec = _JobSpec()


class _CronJobSpec(ApiStruct):
    schedule: str = ""
    time_zone: str | None = None
    suspend: bool | None = None
    concurrency_policy: str | None = None
    starting_deadline_seconds: int | None = None
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None
    job_template: _JobTemplate = _JobTemplate()


class _CronJob(ApiObject):
    spec: _CronJobSpec = _CronJobSpec()


def _default_job(spec: Object) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    default_template(spec)


def _job_errors(spec: Object, path: str) -> list[FieldError]:
    errors = [
        fields.invalid(f"{path}.{name}", spec[name], "must be greater than or equal to 0")
        for name in _COUNTS
        if spec.get(name, 0) < 0
    ]
    mode = spec["completionMode"]
    if mode not in ("NonIndexed", "Indexed"):
        modes = ("NonIndexed", "Indexed")
        errors.append(fields.not_supported(f"{path}.completionMode", mode, modes))
    elif mode == "Indexed" and "completions" not in spec:
        why = "when completion mode is Indexed"
        errors.append(fields.required(f"{path}.completions", why))
    errors += template_errors(spec.get("template"), f"{path}.template")
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    where = f"{path}.template.spec.restartPolicy"
    if policy == "Always":  # what a template without one gets
        errors.append(fields.required(where, 'valid values: "OnFailure", "Never"'))
    elif policy not in (None, *_RESTART_POLICIES):
        errors.append(fields.not_supported(where, policy, _RESTART_POLICIES))
    return errors


class _JobStrategy(Strategy):
    orphans_by_default = True

    def default(self, item: Object) -> None:
        _default_job(item.setdefault("spec", {}))

    def prepare_for_create(self, item: Object) -> None:
        """Select the Job's pods by its uid, unless it says that it selects them itself."""
        spec, about = item["spec"], item["metadata"]
        if spec.get("manualSelector") or not spec.get("template"):
            return
        inner = spec["template"].setdefault("metadata", {})
        # A selector is generated; that of a Job copied from elsewhere would match its pods there.
        spec["selector"] = {"matchLabels": {_UID_LABELS[0]: about["uid"]}}
        inner["labels"] = {
            **(inner.get("labels") or {}),
            **dict.fromkeys(_NAME_LABELS, about["name"]),
            **dict.fromkeys(_UID_LABELS, about["uid"]),
        }

    def validate(self, item: Object) -> list[FieldError]:
        return _job_errors(item["spec"], "spec")

    def validate_update(self, item: Object, old: Object) -> list[FieldError]:
        return [
            fields.invalid(f"spec.{name}", item["spec"].get(name), IMMUTABLE)
            for name in ("selector", "completionMode", "template")
            if item["spec"].get(name) != old["spec"].get(name)
            and not (name == "template" and old["spec"].get("suspend"))
        ]


class _CronJobStrategy(Strategy):
    def default(self, item: Object) -> None:
        spec = item.setdefault("spec", {})
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        _default_job(spec.setdefault("jobTemplate", {}).setdefault("spec", {}))

    def validate(self, item: Object) -> list[FieldError]:
        spec, errors = item["spec"], []
        if not spec.get("schedule"):
            errors.append(fields.required("spec.schedule"))
        else:
            try:
                parse_schedule(spec["schedule"])
            except ValueError as error:
                errors.append(fields.invalid("spec.schedule", spec["schedule"], str(error)))
        policies = ("Allow", "Forbid", "Replace")
        if spec["concurrencyPolicy"] not in policies:
            value = spec["concurrencyPolicy"]
            errors.append(fields.not_supported("spec.concurrencyPolicy", value, policies))
        return errors + _job_errors(spec["jobTemplate"]["spec"], "spec.jobTemplate.spec")


RESOURCES = (
    Resource(
        "batch",
        "v1",
        "cronjobs",
        "CronJob",
        short_names=("cj",),
        categories=("all",),
        subresources=(STATUS,),
        counts_generation=True,
        strategy=_CronJobStrategy(),
        struct=_CronJob,
        columns=(
            NAME,
            Column("Schedule", at("spec.schedule")),
            Column("Timezone", at("spec.timeZone", NONE)),
            Column("Suspend", lambda cron: str(bool(cron["spec"].get("suspend")))),
            Column("Active", lambda cron: len(at("status.active", ())(cron)), "integer"),
            Column("Last Schedule", last_schedule),
            AGE,
        ),
        merge={
            "CronJobSpec": {"jobTemplate": Field("JobTemplateSpec")},
            "JobTemplateSpec": {"metadata": Field("ObjectMeta"), "spec": Field("JobSpec")},
        },
    ),
    Resource(
        "batch",
        "v1",
        "jobs",
        "Job",
        categories=("all",),
        subresources=(STATUS,),
        field_labels={"status.successful": "status.succeeded"},
        counts_generation=True,
        strategy=_JobStrategy(),
        struct=_Job,
        columns=(
            NAME,
            Column("Status", job_status),
            Column("Completions", job_completions),
            Column("Duration", job_duration),
            AGE,
            *template_columns,
        ),
        merge={"JobSpec": TEMPLATED, "JobStatus": CONDITIONS},
    ),
)
