"""Servers that cannot be reached or refuse, and objects that no server would let in."""

import json

import pytest

from kscheduler.app.startup import setup
from kscheduler.cli.command_line import parse
from kscheduler.errors import ConfigError
from kscheduler.sandbox import ApiServer, User
from tests.integration.cluster import SCHEDULER, Cluster, Running, pod
from tests.kit.manifests import node_manifest
from tests.kit.polling import until

pytestmark = pytest.mark.slow

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


async def started(arguments):
    options, _ = parse(arguments)
    async with setup(options, options.gates()):
        pass


async def test_kubeconfig_that_does_not_exist_is_named(cluster):
    arguments = cluster.arguments(clientConnection={"kubeconfig": "/nowhere/kubeconfig"})
    with pytest.raises(ConfigError, match=r"/nowhere/kubeconfig.*no such file"):
        await started(arguments)


async def test_kubeconfig_that_is_none_is_refused(cluster, tmp_path):
    (tmp_path / "kubeconfig").write_text("- what\n- is this\n")
    arguments = cluster.arguments(clientConnection={"kubeconfig": str(tmp_path / "kubeconfig")})
    with pytest.raises(ConfigError, match="kubeconfig"):
        await started(arguments)


async def test_server_that_comes_up_late_is_waited_for(cluster, log):
    cluster.create(node_manifest("n1"), pod("p1"))
    await cluster.api.stop_listening()
    async with cluster.scheduler(ready=False) as running:
        await until(lambda: running.daemon)
        await until(lambda: log.having("cannot be reached", "connection refused"))
        (line,) = log.having("cannot be reached", "connection refused")
        assert "check that the API server runs" in line
        await cluster.api.listen()
        await until(lambda: cluster.place("p1") == "n1")
        assert len(log.having("cannot be reached")) == 1
        assert len(log.having("can be reached again")) == 1


async def test_certificate_of_another_authority_is_told_and_tried_again(tmp_path, log):
    async with ApiServer(tls=True) as api, ApiServer(tls=True) as impostor:
        cluster = Cluster(api, tmp_path)
        cluster.create(node_manifest("n1"), pod("p1"))
        path = tmp_path / "wrong"
        trusted = impostor.kubeconfig(SCHEDULER)
        trusted["clusters"][0]["cluster"]["server"] = api.url
        path.write_text(json.dumps(trusted))
        arguments = cluster.arguments(clientConnection={"kubeconfig": str(path)})
        running = Running(arguments)
        try:
            await until(lambda: log.having("Failed to watch", "*v1.Pod", "x509"))
            (line, *_) = log.having("Failed to watch", "*v1.Pod", "x509")
            assert "certificate signed by unknown authority" in line
            assert "check the certificate authority" in line
            assert not running.task.done()
        finally:
            await running.kill()


async def test_forbidden_collection_is_named_with_its_remedy_and_waited_for(tmp_path, log):
    nobody = User("nobody").authenticated()
    async with ApiServer(anonymous=nobody) as api:
        cluster = Cluster(api, tmp_path)
        cluster.create(node_manifest("n1"), pod("p1"))
        async with cluster.scheduler(ready=False):
            await until(lambda: log.having("Failed to watch", "*v1.Node"))
            (line, *_) = log.having("Failed to watch", "*v1.Node")
            assert 'nodes is forbidden: User \\"nobody\\" cannot list resource \\"nodes\\"' in line
            assert "grant the scheduler's user the rights of system:kube-scheduler" in line
            allow(api, nobody)
            await until(lambda: cluster.place("p1") == "n1")


def allow(api, user):
    for role in ("system:kube-scheduler", "system:volume-scheduler"):
        api.objects.create(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"{user.name}-{role}"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": role,
                },
                "subjects": [
                    {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user.name}
                ],
            }
        )


@pytest.mark.parametrize("streams", [True, False], ids=["streamed list", "paged list"])
async def test_objects_that_cannot_be_read_are_skipped(tmp_path, log, streams):
    async with ApiServer(anonymous=SCHEDULER, streams_lists=streams) as api:
        cluster = Cluster(api, tmp_path)
        broken = pod("broken")
        broken["spec"]["containers"] = "none to speak of"
        odd = node_manifest("odd")
        odd["status"]["allocatable"] = ["plenty"]
        cluster.store("pods", broken)
        cluster.store("nodes", odd)
        cluster.create(node_manifest("n1"), pod("before"))
        async with cluster.scheduler():
            cluster.store("pods", {**broken, "metadata": {"name": "later", "namespace": "default"}})
            cluster.create(pod("after"))
            await until(lambda: cluster.place("before") and cluster.place("after"))
            told = "Undecodable object skipped"
            assert log.having(told, "*v1.Pod", "default/broken")
            assert log.having(told, "*v1.Pod", "default/later")
            assert log.having(told, "*v1.Node", "odd")


def with_affinity(kind, required):
    return pod("bad", affinity={kind: {REQUIRED: required}})


def with_request(text):
    return pod("bad", cpu=text)


IMPOSSIBLE = {"matchExpressions": [{"key": "a", "operator": "Resembles", "values": ["b"]}]}
HOST = "kubernetes.io/hostname"
INADMISSIBLE = [
    pytest.param(with_request("lots"), id="quantity"),
    pytest.param(
        with_affinity("nodeAffinity", {"nodeSelectorTerms": [IMPOSSIBLE]}), id="node affinity"
    ),
    pytest.param(
        with_affinity("podAffinity", [{"labelSelector": IMPOSSIBLE, "topologyKey": HOST}]),
        id="pod affinity",
    ),
    pytest.param(
        with_affinity("podAntiAffinity", [{"labelSelector": IMPOSSIBLE, "topologyKey": HOST}]),
        id="pod anti-affinity",
    ),
    pytest.param(
        pod(
            "bad",
            topologySpreadConstraints=[
                {
                    "maxSkew": 1,
                    "topologyKey": HOST,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": IMPOSSIBLE,
                }
            ],
        ),
        id="spread selector",
    ),
]


@pytest.mark.parametrize("bad", INADMISSIBLE)
async def test_pod_that_makes_no_sense_fails_alone(cluster, bad):
    cluster.create(node_manifest("n1"))
    async with cluster.scheduler():
        cluster.store(
            "pods", {**bad, "spec": {**bad["spec"], "schedulerName": "default-scheduler"}}
        )
        cluster.create(pod("good"))
        await until(lambda: cluster.place("good") == "n1")
        await until(lambda: conditions_sent(cluster, "bad") and cluster.events("bad"))
        cluster.create(pod("another"))
        await until(lambda: cluster.place("another") == "n1")
    assert cluster.place("bad") is None
    reason, message = cluster.events("bad")[0]
    assert reason == "FailedScheduling"
    assert conditions_sent(cluster, "bad")[0] == message


def conditions_sent(cluster, name):
    """What was written about a pod, though the server may refuse to touch such an object."""
    bodies = [json.loads(one.body) for one in cluster.sent if one.path.endswith(f"/{name}/status")]
    return [body["status"]["conditions"][0]["message"] for body in bodies]


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(pod("odd", ports=[{"hostPort": 99_999_999}]), id="port out of range"),
        pytest.param(pod("odd", ports=[{"hostPort": -1, "protocol": "PIGEON"}]), id="protocol"),
        pytest.param(pod("odd", priority=2**40), id="priority out of range"),
        pytest.param(
            pod("odd", tolerations=[{"operator": "Sometimes", "key": "a"}]), id="toleration"
        ),
        pytest.param(pod("odd", nodeSelector={"not a key!": "n1"}), id="label key"),
    ],
)
async def test_pod_that_makes_little_sense_does_no_harm(cluster, odd):
    cluster.create(node_manifest("n1"))
    async with cluster.scheduler():
        cluster.store(
            "pods", {**odd, "spec": {**odd["spec"], "schedulerName": "default-scheduler"}}
        )
        cluster.create(pod("good"))
        await until(lambda: cluster.place("good") == "n1")
        await until(lambda: cluster.place("odd") or cluster.complaint("odd"))


async def test_node_that_makes_no_sense_does_no_harm(cluster):
    odd = node_manifest("odd", taints=[{"key": "a", "effect": "Discourage"}])
    odd["status"]["allocatable"] = {"cpu": "some", "memory": "-5", "pods": "1e99"}
    cluster.store("nodes", odd)
    cluster.create(node_manifest("n1"))
    async with cluster.scheduler():
        cluster.create(*(pod(f"p{number}") for number in range(5)))
        await until(lambda: not cluster.waiting())
    assert set(cluster.places().values()) <= {"n1", "odd"}
