"""The real kubectl and the controllers of the sandbox."""

import asyncio
import re
from pathlib import Path

import pytest
import yaml

from kscheduler.sandbox import ApiServer, ControllerManager, Kubelets
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until
from tests.sandbox.clients.kubectl import Kubectl, lines, needs_kubectl

pytestmark = [needs_kubectl, pytest.mark.slow]
OVERLAY = Path(__file__).parents[3] / "deploy" / "overlays" / "ha"


@pytest.fixture
async def cluster(server):
    """Controllers, two nodes, and a scheduler that deals pods out in turn."""
    kubelets = Kubelets(server.registry, start_seconds=0.01, stop_seconds=0.01, run_seconds=0.01)
    kubelets.add_nodes(2)
    manager = ControllerManager(server.registry)

    async def schedule():
        turn = 0
        while True:
            for pod in server.objects.list("pods", field_selector="spec.nodeName="):
                about = pod["metadata"]
                server.objects.bind(about["name"], f"node-{turn % 2}", about["namespace"])
                turn += 1
            await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(work) for work in (kubelets.run(), manager.run(), schedule())]
    yield server
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_a_deployment_gets_its_pods_rolls_and_rolls_back(kubectl, cluster):
    await kubectl("create", "deployment", "d", "--image=nginx", "--replicas=3")
    told = await kubectl("rollout", "status", "deployment/d", "--timeout=60s")
    assert told.endswith('deployment "d" successfully rolled out')
    heading, row = lines(await kubectl("get", "deploy"))
    assert heading == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert row[:4] == ["d", "3/3", "3", "3"]
    await kubectl("scale", "deployment", "d", "--replicas=5")
    await kubectl("rollout", "status", "deployment/d", "--timeout=60s")
    await kubectl("set", "image", "deployment/d", "nginx=nginx:2")
    await kubectl("rollout", "status", "deployment/d", "--timeout=60s")
    history = lines(await kubectl("rollout", "history", "deployment/d"))
    assert [row[0] for row in history[2:]] == ["1", "2"]
    assert "rolled back" in await kubectl("rollout", "undo", "deployment/d")
    await kubectl("rollout", "status", "deployment/d", "--timeout=60s")
    heading, *rows = lines(await kubectl("get", "rs"))
    assert heading == ["NAME", "DESIRED", "CURRENT", "READY", "AGE"]
    assert sorted(row[1] for row in rows) == ["0", "5"]
    about = await kubectl("describe", "deployment", "d")
    assert "ScalingReplicaSet" in about
    assert re.search(r"Replicas:\s+5 desired \| 5 updated \| 5 total \| 5 available", about)
    await kubectl("delete", "deployment", "d", "--cascade=foreground", "--timeout=60s")
    assert await kubectl("get", "pods,rs", "-o", "name") == ""


async def test_sets_and_jobs_show_their_columns(kubectl, cluster):
    def manifest(kind):
        labels = {"app": kind.lower()}
        pods = {"metadata": {"labels": labels}, "spec": pod_manifest()["spec"]}
        return {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": kind.lower()},
            "spec": {"selector": {"matchLabels": labels}, "template": pods},
        }

    for kind, heading in (
        ("StatefulSet", ["NAME", "READY", "AGE"]),
        ("DaemonSet", ["NAME", "DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE"]),
    ):
        await kubectl("apply", "-f", "-", manifest=manifest(kind))
        await kubectl("rollout", "status", f"{kind}/{kind.lower()}", "--timeout=60s")
        shown = lines(await kubectl("get", kind.lower()))
        assert shown[0][: len(heading)] == heading
        assert "1 " in (await kubectl("rollout", "history", f"{kind}/{kind.lower()}"))
    assert await kubectl("create", "job", "j", "--image=busybox") == "job.batch/j created"
    await kubectl("wait", "--for=condition=complete", "job/j", "--timeout=60s")
    heading, row = lines(await kubectl("get", "jobs"))
    assert heading == ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]
    assert row[:3] == ["j", "Complete", "1/1"]
    await kubectl("create", "cronjob", "c", "--image=busybox", "--schedule=0 0 1 1 *")
    heading, row = lines(await kubectl("get", "cronjobs"))
    assert heading[:3] == ["NAME", "SCHEDULE", "TIMEZONE"]
    assert await kubectl("create", "job", "j2", "--from=cronjob/c") == "job.batch/j2 created"
    await kubectl("wait", "--for=condition=complete", "job/j2", "--timeout=60s")


async def test_it_says_who_one_is_and_what_one_may(kubectl, objects):
    assert "system:masters" in await kubectl("auth", "whoami")
    listed = lines(await kubectl("auth", "can-i", "--list"))
    assert ["*.*", "[]", "[]", "[*]"] in listed
    token = await kubectl("create", "token", "default")
    assert len(token) > 20
    assert await kubectl("create", "quota", "q", "--hard=pods=10") == "resourcequota/q created"
    assert objects.get("resourcequotas", "q")["spec"]["hard"] == {"pods": "10"}


async def test_a_token_lets_its_account_in_and_a_wrong_one_nobody(tmp_path):
    async with ApiServer(tls=True) as server:
        server.write_kubeconfig(tmp_path / "admin")
        token = await Kubectl(tmp_path, tmp_path / "admin")("create", "token", "default")
        for name, value in (("account", token), ("wrong", "no-such-token")):
            config = server.kubeconfig()
            config["users"][0]["user"] = {"token": value}
            (tmp_path / name).write_text(yaml.safe_dump(config))
        account = Kubectl(tmp_path, tmp_path / "account")
        assert "system:serviceaccount:default:default" in await account("auth", "whoami")
        code, _, err = await account.attempt("get", "pods")
        assert code == 1
        assert "cannot list resource" in err
        code, _, err = await Kubectl(tmp_path, tmp_path / "wrong").attempt("get", "pods")
        assert code == 1
        assert "You must be logged in to the server" in err


async def test_top_shows_simulated_usage(kubectl, cluster):
    cluster.objects.create(pod_manifest("p", cpu="1", memory="1Gi"))
    await until(lambda: cluster.objects.get("pods", "p")["status"]["phase"] == "Running")
    heading, row = lines(await kubectl("top", "pods"))
    assert heading[:2] == ["NAME", "CPU(cores)"]
    assert row[0] == "p"
    assert 300 <= int(row[1].removesuffix("m")) <= 900
    assert len(lines(await kubectl("top", "nodes"))) == 3


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (("logs", "p"), "there is no log"),
        (("exec", "p", "--", "ls"), "there is nothing to run a command in"),
        (("port-forward", "p", "18080:80"), "there is no port to forward to"),
    ],
)
async def test_what_only_a_kubelet_can_do_is_refused_with_a_sentence(
    kubectl, cluster, command, what
):
    cluster.objects.create(pod_manifest("p"))
    await until(lambda: cluster.objects.get("pods", "p")["status"]["phase"] == "Running")
    code, _, err = await kubectl.attempt(*command)
    assert code == 1
    assert re.search(rf"the kubelet of node node-\d is simulated: .*{what}", err)


async def test_our_own_manifests_can_be_applied(kubectl, cluster):
    told = await kubectl("apply", "-k", str(OVERLAY))
    assert "deployment.apps/kscheduler created" in told.splitlines()
    assert "networkpolicy.networking.k8s.io/kscheduler created" in told.splitlines()
    namespace = ("--namespace", "kscheduler")
    await kubectl(*namespace, "rollout", "status", "deployment/kscheduler", "--timeout=60s")
    allowed = await kubectl(*namespace, "get", "pdb", "kscheduler")
    assert "ALLOWED DISRUPTIONS" in allowed
