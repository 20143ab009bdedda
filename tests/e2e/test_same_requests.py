"""kube-scheduler and kscheduler ask the same of an API server, as its audit log tells.

The same little history for each, in a control plane of its own: pods that fit, one that never will,
one that another must make room for.
"""

import json
from collections import Counter

import pytest

from tests.controlplane.binaries import MissingProgramError, program
from tests.controlplane.plane import ControlPlane
from tests.e2e.api import Api, until
from tests.e2e.cluster import Cluster
from tests.e2e.identity import PROGRAM_VARIABLE
from tests.kit.manifests import node_manifest, pod_manifest

OURS, THEIRS = "kscheduler", "kube-scheduler"
USER = "system:kube-scheduler"
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
"""
# Told for as long as it lasts, or depends on how long that is.
RENEWALS = ("leases.coordination.k8s.io", "")
# Whom to believe on the port; where kube-scheduler drops its last event, ours still sends it.
DIFFERENT = ("configmaps", "tokenreviews.authentication.k8s.io", "events")


@pytest.mark.usefixtures("control_plane")
async def test_the_same_history_takes_the_same_requests(tmp_path, monkeypatch):
    try:
        theirs = program(THEIRS)
    except MissingProgramError as error:
        pytest.skip(f"kube-scheduler: {error}")
    asked = {OURS: await history(tmp_path / OURS)}
    monkeypatch.setenv(PROGRAM_VARIABLE, str(theirs))
    asked[THEIRS] = await history(tmp_path / THEIRS)

    assert comparable(asked[OURS]) == comparable(asked[THEIRS])
    assert set(asked[OURS]) - set(asked[THEIRS]) <= {("create", "events", 201)}


async def history(folder):
    """What a scheduler asked for while it happened."""
    folder.mkdir()
    policy, log = folder / "policy.yaml", folder / "audit.log"
    policy.write_text(POLICY)
    plane = ControlPlane(
        folder / "plane",
        extra_flags=(f"--audit-policy-file={policy}", f"--audit-log-path={log}"),
    )
    try:
        plane.start()
        api = Api(plane.folder / "kubeconfig")
        kubeconfig = plane.folder / f"{THEIRS}.kubeconfig"
        await play(Cluster(api, "history", folder, kubeconfig, plane.folder))
    finally:
        plane.stop()
    return requests_in(log)


async def play(cluster):
    api = cluster.api
    try:
        await api.create("namespaces", {"metadata": {"name": cluster.namespace}})
        for name, value in (("low", 10), ("high", 1000)):
            await api.create("priorityclasses", {"metadata": {"name": name}, "value": value})
        await cluster.create_nodes(node_manifest("n1", cpu="4"), node_manifest("n2", cpu="4"))
        await (await cluster.launch_daemon()).says("Successfully acquired lease")
        await cluster.create_pods(pod_manifest("too-big", cpu="100"))
        await cluster.refusal_of("too-big")
        names = [f"p{number}" for number in range(8)]
        await cluster.create_pods(
            *(pod_manifest(name, cpu="1", priorityClassName="low") for name in names)
        )
        await cluster.nodes_of(*names)
        await cluster.create_pods(pod_manifest("vip", cpu="1", priorityClassName="high"))
        for name in await until(lambda: victims(cluster), "a pod makes room"):
            await cluster.delete_pod(name)
        await cluster.node_of("vip")
        await cluster.events("vip", "Scheduled")
    finally:
        await cluster.end_daemons()
        await api.close()


async def victims(cluster):
    pods = await cluster.api.list("pods", cluster.namespace)
    return [p["metadata"]["name"] for p in pods if "deletionTimestamp" in p["metadata"]]


def requests_in(log):
    """How often what was asked for, and with which success."""
    counts = Counter()
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["user"]["username"] == USER:
            code = event["responseStatus"]["code"]
            counts[event["verb"], resource_of(event.get("objectRef", {})), code] += 1
    return counts


def resource_of(reference):
    parts = (reference.get("resource", ""), reference.get("subresource", ""))
    name = "/".join(part for part in parts if part)
    return f"{name}.{reference['apiGroup']}" if "apiGroup" in reference else name


def comparable(counts):
    """Numbers where they are the same by nature, and the mere fact elsewhere."""
    return {
        request: 1 if request[1] in RENEWALS else count
        for request, count in counts.items()
        if request[1] not in DIFFERENT
    }
