"""What `deploy/` holds, given to a real API server, and the rights it gives away."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.binaries import program
from tests.controlplane.plane import ControlPlane
from tests.e2e.api import until
from tests.e2e.identity import DEPLOYED, NAMESPACE
from tests.kit.polling import block_until

DEPLOY = DEPLOYED.parents[1]
MONITORING = "monitoring.coreos.com"
CUSTOM = (("servicemonitors", "ServiceMonitor"), ("prometheusrules", "PrometheusRule"))
READER = "kscheduler-metrics-reader"


@pytest.fixture(scope="module")
def own_plane(control_plane, tmp_path_factory) -> Iterator[ControlPlane]:
    """To itself: namespaces cannot be deleted again where nobody finalizes them."""
    plane = ControlPlane(tmp_path_factory.mktemp("deploy"))
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


def kubectl(plane: ControlPlane, *arguments: str, given: str = "") -> str:
    command = [program("kubectl"), "--kubeconfig", plane.folder / "kubeconfig", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def custom_resource(plural: str, kind: str) -> dict:
    """As much of the Prometheus operator as the API server has to know."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": anything},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{MONITORING}"},
        "spec": {
            "group": MONITORING,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [version],
        },
    }


def wait_until_served(plane: ControlPlane, names: set[str]) -> None:
    """That a kind is established is known before it can be found."""
    command = ("api-resources", f"--api-group={MONITORING}", "-o", "name")
    block_until(lambda: names <= {*kubectl(plane, *command).split()}, f"{names} are served")


@pytest.mark.parametrize("overlay", ["single", "ha"])
def test_an_overlay_is_accepted(own_plane, overlay):
    told = kubectl(own_plane, "apply", "-k", str(DEPLOY / "overlays" / overlay))

    assert "deployment.apps/kscheduler" in told
    listed = kubectl(own_plane, "get", "deployment,service,networkpolicy", "-n", NAMESPACE)
    assert listed.count("kscheduler") >= 3


def test_monitoring_is_accepted_where_its_operator_is(own_plane):
    kubectl(own_plane, "apply", "-k", str(DEPLOY / "overlays" / "single"))
    for plural, kind in CUSTOM:
        kubectl(own_plane, "apply", "-f", "-", given=json.dumps(custom_resource(plural, kind)))
    wait_until_served(own_plane, {f"{plural}.{MONITORING}" for plural, _ in CUSTOM})

    told = kubectl(own_plane, "apply", "-k", str(DEPLOY / "monitoring"))

    assert told.count("created") == 3


def test_the_example_asks_for_the_scheduler_that_is_deployed(own_plane):
    example = DEPLOY / "example-pod.yaml"
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "default"},
    }
    kubectl(own_plane, "apply", "-f", "-", given=json.dumps(account))
    kubectl(own_plane, "apply", "-f", str(example))

    name = kubectl(own_plane, "get", "pod", "example", "-o", "jsonpath={.spec.schedulerName}")

    assert name in (Path(DEPLOY) / "base" / "scheduler.yaml").read_text()


async def test_whoever_is_bound_to_the_readers_role_may_see_metrics(cluster):
    """The role that deploy/ has for Prometheus."""
    account = f"{cluster.namespace}-prometheus"
    await cluster.api.create("serviceaccounts", {"metadata": {"name": account}}, cluster.namespace)
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{cluster.namespace}:{account}",
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    }
    binding = {
        "metadata": {"name": account},
        "roleRef": {
            "kind": "ClusterRole",
            "name": READER,
            "apiGroup": "rbac.authorization.k8s.io",
        },
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": cluster.namespace}],
    }

    async def may() -> bool:
        where = "apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool((await cluster.api.send("POST", where, review))["status"]["allowed"])

    assert not await may()
    await cluster.api.create("clusterrolebindings", binding)
    try:
        await until(may, "the reader may see metrics")
    finally:
        await cluster.api.delete("clusterrolebindings", account)
