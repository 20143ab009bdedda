"""Jobs run pods to completion, and CronJobs make Jobs in time."""

import time
from datetime import UTC, datetime

import pytest

from kscheduler.api.timestamps import format_time
from kscheduler.sandbox import StatusError
from kscheduler.sandbox.cron import parse_schedule
from kscheduler.sandbox.kubelets.kubelet import EXIT_CODE_ANNOTATION
from tests.kit.polling import until
from tests.sandbox.controllers.workloads import job, template

JOBS = "jobs.batch"
FAILING = template(
    restartPolicy="Never", labels={"app": "work"}, annotations={EXIT_CODE_ANNOTATION: "1"}
)


def conditions(cluster, name="work"):
    return {
        one["type"]: one["reason"]
        for one in cluster.status(JOBS, name).get("conditions") or ()
        if one["status"] == "True"
    }


async def test_it_completes_with_as_many_pods_as_asked_for(cluster):
    most = []
    cluster.server.store["pods"].listen(
        lambda _: most.append(
            sum(pod["status"]["phase"] in ("Pending", "Running") for pod in cluster.pods(""))
        )
    )
    cluster.objects.create(job(completions=5, parallelism=2))
    await until(lambda: "Complete" in conditions(cluster))
    state = cluster.status(JOBS, "work")
    assert state["succeeded"] == 5
    assert "active" not in state
    assert state["completionTime"] >= state["startTime"]
    assert max(most) == 2
    names = cluster.names("job-name=work")
    assert len(names) == 5
    assert all(name.startswith("work-") for name in names)


async def test_it_gives_up_beyond_its_backoff_limit(cluster):
    cluster.objects.create(job(pods=FAILING, backoffLimit=1))
    await until(lambda: conditions(cluster).get("Failed") == "BackoffLimitExceeded")
    assert cluster.status(JOBS, "work")["failed"] == 2


async def test_indexed_pods_carry_their_index(cluster):
    cluster.objects.create(job(completions=3, parallelism=3, completionMode="Indexed"))
    await until(lambda: "Complete" in conditions(cluster))
    assert cluster.status(JOBS, "work")["completedIndexes"] == "0-2"
    index = "batch.kubernetes.io/job-completion-index"
    found = sorted(pod["metadata"]["labels"][index] for pod in cluster.pods(""))
    assert found == ["0", "1", "2"]


async def test_it_can_be_suspended(cluster):
    cluster.objects.create(job(suspend=True))
    await until(lambda: "Suspended" in conditions(cluster))
    assert cluster.pods("") == []
    cluster.objects.update(JOBS, "work", lambda item: item["spec"].update(suspend=False))
    await until(lambda: "Complete" in conditions(cluster))


async def test_a_deadline_ends_it(cluster):
    cluster.places_pods = False
    cluster.objects.create(job(activeDeadlineSeconds=1))
    await until(lambda: conditions(cluster).get("Failed") == "DeadlineExceeded")
    await until(lambda: cluster.pods("") == [])


async def test_it_goes_after_its_time_to_live(cluster):
    cluster.objects.create(job(ttlSecondsAfterFinished=0))
    await until(lambda: cluster.objects.find(JOBS, "work") is None)
    await until(lambda: cluster.objects.list("pods") == [])


def test_a_job_needs_a_restart_policy(server):
    with pytest.raises(StatusError, match=r"restartPolicy: Required value: valid values"):
        server.objects.create(job(pods=template()))


def cron(**spec):
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job()["spec"]}, **spec},
    }


async def test_a_cron_job_makes_a_job_of_the_minute_that_is_due(cluster):
    cluster.objects.create(cron(suspend=True))
    now = time.time()
    since = format_time(now - 300)
    cluster.objects.update(
        "cronjobs.batch",
        "tick",
        lambda item: item.update(status={"lastScheduleTime": since}),
        subresource="status",
    )
    cluster.objects.update(
        "cronjobs.batch", "tick", lambda item: item["spec"].update(suspend=False)
    )
    await until(lambda: cluster.objects.list(JOBS))
    made = cluster.objects.list(JOBS)[0]
    minute = int(made["metadata"]["name"].removeprefix("tick-"))
    assert 0 <= now // 60 - minute <= 1
    name = made["metadata"]["name"]
    await until(lambda: "Complete" in conditions(cluster, name))
    await until(lambda: cluster.status("cronjobs.batch", "tick").get("lastSuccessfulTime"))
    cluster.objects.delete("cronjobs.batch", "tick")
    await until(lambda: cluster.objects.list(JOBS) == [] and cluster.objects.list("pods") == [])


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("*/15 * * * *", "2026-01-01T00:07", "2026-01-01T00:15"),
        ("0 0 1 * *", "2026-01-01T00:00", "2026-02-01T00:00"),
        ("@hourly", "2026-01-01T05:59", "2026-01-01T06:00"),
        ("30 4 * * mon-fri", "2026-01-02T04:30", "2026-01-05T04:30"),
        ("0 12 1,15 * 5", "2026-01-02T13:00", "2026-01-09T12:00"),
        ("5-10/5 0 29 feb *", "2026-01-01T00:00", "2028-02-29T00:05"),
    ],
)
def test_schedules(schedule, after, expected):
    moment = datetime.fromisoformat(after).replace(tzinfo=UTC)
    found = parse_schedule(schedule).next_after(moment)
    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@pytest.mark.parametrize("schedule", ["", "* * * *", "60 * * * *", "a * * * *", "*/0 * * * *"])
def test_what_is_no_schedule_is_refused(server, schedule):
    with pytest.raises(StatusError, match=r"spec\.schedule"):
        server.objects.create(cron(schedule=schedule))
