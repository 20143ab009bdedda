"""Manifests as pods of a review: templates, replicas, and what cannot be placed."""

import click
import pytest

from kscheduler.api.pod_questions import LAST_APPLIED, fresh, limited_to
from kscheduler.cli.reviewed_pods import pods_of

SPEC = {"containers": [{"name": "c", "image": "i"}]}


def workload(kind, template=None, **spec):
    inner = {"template": {"metadata": {"labels": {"app": "a"}}, "spec": template or SPEC}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "a", "namespace": "shop"},
        "spec": inner | spec,
    }


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "shop", "labels": {"app": "a"}},
    "spec": SPEC,
}
CRON_JOB = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "a", "namespace": "shop"},
    "spec": {"jobTemplate": {"spec": workload("Job", parallelism=2)["spec"]}},
}


@pytest.mark.parametrize(
    ("manifest", "replicas"),
    [
        pytest.param(POD, 1, id="pod"),
        pytest.param(workload("Deployment", replicas=3), 3, id="deployment"),
        pytest.param(workload("Deployment"), 1, id="deployment that does not say how many"),
        pytest.param(workload("Deployment", replicas=0), 0, id="deployment scaled to zero"),
        pytest.param(workload("ReplicaSet", replicas=2), 2, id="replica set"),
        pytest.param(workload("StatefulSet", replicas=2), 2, id="stateful set"),
        pytest.param(workload("Job", parallelism=4), 4, id="job"),
        pytest.param(workload("Job", parallelism=4, completions=2), 2, id="job with less to do"),
        pytest.param(CRON_JOB, 2, id="cron job"),
    ],
)
def test_a_workload_is_its_template_so_many_times(manifest, replicas):
    (found,), _ = pods_of([manifest], None)
    assert (found.manifest, found.replicas) == (POD, replicas)
    (found,), _ = pods_of([manifest], 7)
    assert found.replicas == 7


@pytest.mark.parametrize(
    ("manifest", "complaint"),
    [
        (workload("DaemonSet"), "DaemonSet a: a DaemonSet has a pod on each node"),
        (workload("Service"), "Service a: only pods can be placed"),
        (workload("Deployment", template="x", replicas=1), "Deployment a: it has no spec"),
        (workload("Deployment", replicas="many"), "Deployment a: the number of its pods is not"),
        (workload("Deployment", replicas=-1), "Deployment a: the number of its pods is not"),
        (workload("CronJob"), "CronJob a: it has no jobTemplate"),
    ],
)
def test_what_cannot_be_placed_is_told_by_name(manifest, complaint):
    with pytest.raises(click.ClickException) as error:
        pods_of([manifest], None)
    assert error.value.message.startswith(complaint)
    assert error.value.exit_code == 2


def test_what_cannot_be_placed_is_left_out_beside_what_can():
    manifests = [workload("Service"), workload("DaemonSet"), POD, workload("ConfigMap")]
    pods, left_out = pods_of(manifests, None)
    assert [one.manifest for one in pods] == [POD]
    assert left_out == [
        "Left out, as it has no number of replicas: DaemonSet a.",
        "Left out, as it has no pods to place: Service a, ConfigMap a.",
    ]


def test_claims_that_would_be_made_with_the_pods_are_left_out_and_told():
    volumes = [{"name": "data"}, {"name": "tmp", "emptyDir": {}}]
    templates = [{"metadata": {"name": "data"}, "spec": {}}]
    manifest = workload("StatefulSet", SPEC | {"volumes": volumes}, volumeClaimTemplates=templates)
    (found,), _ = pods_of([manifest], None)
    assert found.manifest["spec"]["volumes"] == [{"name": "tmp", "emptyDir": {}}]
    assert found.note == (
        "StatefulSet a: volumes of its volumeClaimTemplates are left out of account."
    )


def test_a_pod_of_the_cluster_is_asked_about_as_if_it_were_new():
    metadata = POD["metadata"] | {
        "uid": "u",
        "managedFields": [{}],
        "annotations": {LAST_APPLIED: "{}", "kept": "yes"},
    }
    stored = POD | {
        "metadata": metadata,
        "spec": SPEC | {"nodeName": "n1"},
        "status": {"phase": "Running"},
    }
    kept = POD["metadata"] | {"annotations": {"kept": "yes"}}
    assert fresh(stored) == POD | {"metadata": kept}


def test_the_wish_for_one_node_is_added_to_every_alternative():
    wish = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    path = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    limited = limited_to(POD, "n1")
    required = limited
    for part in path:
        required = required[part]
    assert required == {"nodeSelectorTerms": [{"matchFields": [wish]}]}
    zones = [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, {"matchFields": [wish]}]
    affinity = {"nodeAffinity": {path[-1]: {"nodeSelectorTerms": zones}}}
    limited = limited_to(POD | {"spec": SPEC | {"affinity": affinity}}, "n1")
    terms = limited["spec"]["affinity"]["nodeAffinity"][path[-1]]["nodeSelectorTerms"]
    assert terms == [zones[0] | {"matchFields": [wish]}, {"matchFields": [wish, wish]}]
    assert len(zones[1]["matchFields"]) == 1
