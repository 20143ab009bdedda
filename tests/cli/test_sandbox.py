"""`kscheduler sandbox`: what it places, what it says, and how it ends."""

import asyncio
import base64
import errno
import gc
import json
import os
import pty
import re
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from click.testing import CliRunner

from kscheduler import logs
from kscheduler.cli import sandbox_view
from kscheduler.cli.sandbox import sandbox
from kscheduler.cli.sandbox_cluster import _running
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.queue.scheduling_queue import Pending
from kscheduler.sandbox import ApiServer, Kubelets
from tests.kit.devices import claim_manifest, class_manifest, request
from tests.kit.objects import make_pod_info
from tests.kit.polling import block_until

pytestmark = [
    pytest.mark.slow,
    # uvloop leaves the socket of a TLS handshake that was broken off to the garbage collector: the
    # aggregator's look at a scheduler that ends before it serves.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
    ),
]

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def named(name, **spec):
    return POD | {"metadata": {"name": name}, "spec": POD["spec"] | spec}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the command to its end, in this process; gives exit code and output."""
    monkeypatch.setattr(sandbox_view, "QUIET_SECONDS", 0.2)

    def invoke(*args, stdin=None):
        kubeconfig = f"--kubeconfig={tmp_path / 'kubeconfig'}"
        outcome = CliRunner().invoke(sandbox, [kubeconfig, *args], input=stdin)
        # Here, where its warnings are expected, and not in the middle of another test.
        gc.collect()
        if outcome.exception and not isinstance(outcome.exception, SystemExit):
            raise outcome.exception
        return outcome.exit_code, outcome.output

    yield invoke
    logs.configure(logs.Logging())


@pytest.fixture
def manifest(tmp_path):
    def write(*objects, name="m.yaml"):
        path = tmp_path / name
        path.write_text(yaml.safe_dump_all(objects))
        return str(path)

    return write


class TestOnce:
    @pytest.mark.parametrize(("nodes", "pods"), [(1, 19), (3, 21)])
    def test_the_demo_fits_on_the_nodes_there_are(self, run, nodes, pods):
        code, output = run("--once", f"--nodes={nodes}")
        assert code == 0, output
        assert re.search(r"default/web-\w+-\w+ -> node-", output)
        assert "kube-system/urgent -> node-" in output
        assert output.endswith(f"{pods} pods placed, 0 waiting\n")
        assert "\x1b" not in output

    def test_pods_that_do_not_fit_are_told_with_their_reasons(self, run, manifest):
        resources = {"requests": {"cpu": "1000"}}
        container = {"name": "c", "image": "i", "resources": resources}
        file = manifest(
            named("big", containers=[container]),
            named("small"),
            named("foreign", schedulerName="other"),
            named("gated", schedulingGates=[{"name": "g"}]),
        )
        code, output = run("--once", "--nodes=2", "-f", file)
        assert code == 1
        assert "default/small -> node-" in output
        assert "1 pod placed, 3 waiting\n" in output
        assert "  default/big: 0/2 nodes are available: 2 Insufficient cpu." in output
        assert "  default/foreign: nobody answers to schedulerName other\n" in output
        assert "  default/gated: " in output

    def test_without_nodes_nobody_is_placed(self, run, manifest):
        code, output = run("--once", "--nodes=0", "-f", manifest(POD))
        assert code == 1
        assert "  default/p: no nodes available to schedule pods\n" in output

    def test_time_runs_out(self, run, manifest):
        code, output = run("--once", "--nodes=1", "-f", manifest(POD), "--timeout=0.1")
        assert code == 1
        assert output.endswith("not finished after 0.1 seconds\n")

    def test_nothing_to_do(self, run):
        code, output = run("--once", "--scenario=none", "--nodes=1")
        assert code == 0
        assert output.endswith("0 pods placed, 0 waiting\n")

    def test_it_needs_a_scheduler(self, run):
        code, output = run("--once", "--server-only")
        assert code == 2
        assert "--once needs a scheduler" in output


class TestVolumes:
    def test_a_stateful_set_gets_its_volumes(self, run, manifest):
        claimed = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claimed}}}
        template = {
            "metadata": {"labels": {"app": "db"}},
            "spec": POD["spec"] | {"volumes": [scratch]},
        }
        stateful_set = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "db"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "db"}},
                "template": template,
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claimed}],
            },
        }
        code, output = run("--once", "--nodes=2", "-f", manifest(stateful_set))
        assert code == 0, output
        assert output.endswith("2 pods placed, 0 waiting\n")

    def test_a_class_of_one_s_own_is_the_only_one(self, run, manifest):
        own = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "standard"},
            "provisioner": "kubernetes.io/no-provisioner",
        }
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "standard",
            },
        }
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
        code, output = run("--once", "-f", manifest(own, claim, named("p", volumes=volumes)))
        assert code == 1
        assert "default/p: 0/6 nodes are available: pod has unbound immediate" in output


class TestDevices:
    def test_the_example_workload_gets_its_gpus(self, run):
        # Four on each node make twelve pairs on a NUMA node; ten other GPUs cannot break them all.
        code, output = run("--once", "--gpus=4", "-f", str(EXAMPLES / "gpus.yaml"))
        assert code == 0, output
        assert output.endswith("12 pods placed, 0 waiting\n12 of 96 devices allocated\n")

    def test_the_demo_has_pods_with_gpus(self, run):
        code, output = run("--once", "--gpus=1")
        assert code == 0, output
        for name in ("train-0", "infer-1", "notebook-1", "render"):
            assert f"default/{name} -> node-" in output
        assert output.endswith("31 pods placed, 0 waiting\n6 of 24 devices allocated\n")

    def test_without_devices_nobody_waits_for_nothing(self, run, manifest):
        claim = claim_manifest("c")
        file = manifest(claim, named("p", resourceClaims=[{"name": "g", "resourceClaimName": "c"}]))
        code, output = run("--once", "--nodes=1", "-f", file)
        assert code == 1
        assert "default/p: 0/1 nodes are available: " in output

    def test_a_class_of_one_s_own_takes_the_place_of_the_example(self, run, manifest):
        nothing = class_manifest("gpu.example.com", "false")
        claim = claim_manifest("c", request(of="gpu.example.com"))
        pod = named("p", resourceClaims=[{"name": "g", "resourceClaimName": "c"}])
        code, output = run("--once", "--nodes=1", "--gpus=1", "-f", manifest(nothing, claim, pod))
        assert code == 1
        assert "default/p: 0/1 nodes are available: 1 cannot allocate all claims." in output


class TestManifests:
    def test_workloads_lists_folders_and_standard_input(self, run, manifest, tmp_path):
        template = {"metadata": {"labels": {"app": "a"}}, "spec": POD["spec"]}
        selector = {"matchLabels": {"app": "a"}}
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {"replicas": 2, "selector": selector, "template": template},
        }
        (tmp_path / "folder").mkdir()
        listed = {"apiVersion": "v1", "kind": "List", "items": [named("listed")]}
        manifest(listed, name="folder/list.yaml")
        stdin = yaml.safe_dump(named("typed"))
        code, output = run(
            *("--once", "--nodes=1", "-f", manifest(deployment)),
            *("-f", str(tmp_path / "folder"), "-f", "-"),
            stdin=stdin,
        )
        assert code == 0, output
        placed = {line.split(" -> ")[0] for line in output.splitlines() if " -> " in line}
        assert {"default/listed", "default/typed"} < placed
        assert len(placed) == 4
        assert sum(name.startswith("default/web-") for name in placed) == 2

    @pytest.mark.parametrize(
        ("objects", "why"),
        [
            pytest.param(
                [{"apiVersion": "apps/v1", "kind": "Deploymnt", "metadata": {"name": "d"}}],
                "Error: FILE: Deploymnt d: there is no Deploymnt in apps/v1; "
                "did you mean Deployment?\n",
                id="unknown kind",
            ),
            pytest.param(
                [{"apiVersion": "extensions/v1beta1", "kind": "Widget", "metadata": {"name": "w"}}],
                "Error: nothing is left of what was given\n",
                id="nothing usable",
            ),
            pytest.param(
                [{"apiVersion": "apps/v1", "kind": "Job", "metadata": {"name": "j"}}],
                "Error: FILE: Job j: there is no Job in apps/v1; it is in batch/v1\n",
                id="wrong group",
            ),
            pytest.param(
                [
                    named(
                        "p", containers=[{"name": "c", "image": "i", "resources": {"request": {}}}]
                    )
                ],
                'Error: FILE: Pod p: unknown field "spec.containers[0].resources.request"',
                id="a typo",
            ),
            pytest.param(
                [POD, POD],
                'Error: FILE: Pod p: pods "p" already exists\n',
                id="refused by the server",
            ),
            pytest.param(
                [{"apiVersion": "v1", "kind": "Pod"}], "Error: FILE: Pod: ", id="nothing but a kind"
            ),
        ],
    )
    def test_what_cannot_be_applied_ends_it(self, run, manifest, objects, why):
        file = manifest(*objects)
        code, output = run("--once", "--nodes=1", "-f", file)
        assert code == 1
        assert why.replace("FILE", file) in output
        assert "Traceback" not in output

    def test_a_misspelled_field_ends_it_before_it_begins(self, run, manifest):
        file = manifest(named("p", colour="red"))
        code, output = run("--once", "-f", file)
        assert code == 1
        assert output == (
            f'Error: {file}: Pod p: unknown field "spec.colour"; '
            "--validate=warn creates it and ignores them\n"
        )

    def test_what_cannot_be_read_ends_it_before_it_begins(self, run, tmp_path):
        (tmp_path / "bad.yaml").write_text("a: [")
        code, output = run("--once", "-f", str(tmp_path / "bad.yaml"))
        assert code == 1
        assert "bad.yaml: not YAML" in output
        assert "API server" not in output

    def test_nodes_of_ones_own(self, run, manifest):
        allocatable = {"cpu": "1", "memory": "1Gi", "pods": "10"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "mine"},
            "status": {"allocatable": allocatable, "capacity": allocatable},
        }
        nodes = manifest(node, name="nodes.yaml")
        code, output = run("--once", "--nodes-file", nodes, "-f", manifest(POD))
        assert code == 0, output
        assert "default/p -> mine\n" in output


LABELS = {"app": "a"}


def workload(kind, name="w", *, pods=None, **spec):
    template = {"metadata": {"labels": LABELS}, "spec": POD["spec"] | (pods or {})}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template, **spec},
    }


def placements(output):
    return dict(line.split(" -> ") for line in output.splitlines() if " -> " in line)


class TestWorkloads:
    def test_replicas_are_spread_as_their_owner_is_known(self, run, manifest):
        """Nodes of unequal size: without an owner, all pods would go to the largest one."""
        nodes = []
        for index, cpu in enumerate(("64", "8", "8")):
            room = {"cpu": cpu, "memory": f"{4 * int(cpu)}Gi", "pods": "110"}
            labels = {"kubernetes.io/hostname": f"n{index}"}
            nodes.append(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": f"n{index}", "labels": labels},
                    "status": {"capacity": room, "allocatable": room},
                }
            )
        asks = {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
        pods = {"containers": [POD["spec"]["containers"][0] | asks]}
        service = workload("Deployment", replicas=6, pods=pods)
        files = ("--nodes-file", manifest(*nodes, name="nodes.yaml"), "-f", manifest(service))
        code, output = run("--once", *files)
        assert code == 0, output
        counts = Counter(placements(output).values())
        assert counts == {"n0": 2, "n1": 2, "n2": 2}

    def test_daemons_and_jobs_are_placed(self, run, manifest):
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j"},
            "spec": {
                "completions": 4,
                "parallelism": 2,
                "template": {"spec": POD["spec"] | {"restartPolicy": "Never"}},
            },
        }
        code, output = run("--once", "--nodes=3", "-f", manifest(workload("DaemonSet"), job))
        assert code == 0, output
        placed = placements(output)
        daemons = {node for name, node in placed.items() if name.startswith("default/w-")}
        assert daemons == {"node-0", "node-1", "node-2"}
        assert sum(name.startswith("default/j-") for name in placed) == 4

    @pytest.mark.parametrize(
        ("objects", "why"),
        [
            pytest.param(
                [workload("DaemonSet", pods={"nodeSelector": {"disk": "ssd"}})],
                "DaemonSet default/w: no pods, for no node suits its node selector",
                id="a DaemonSet for no node",
            ),
            pytest.param(
                [workload("Deployment", pods={"priorityClassName": "none"})],
                "Deployment default/w: ",
                id="pods that are refused",
            ),
            pytest.param(
                [workload("StatefulSet", replicas=2, pods={"nodeSelector": {"disk": "ssd"}})],
                "StatefulSet default/w: 1 of 2 pods made; each waits for the one before it",
                id="a StatefulSet that is stuck",
            ),
        ],
    )
    def test_fewer_pods_than_wanted_is_no_success(self, run, manifest, objects, why):
        code, output = run("--once", "--nodes=2", "-f", manifest(*objects))
        assert code == 1, output
        assert why in output

    @pytest.mark.parametrize(("validate", "code"), [("strict", 1), ("warn", 0), ("ignore", 0)])
    def test_unknown_fields(self, run, manifest, validate, code):
        pod = POD | {"spec": POD["spec"] | {"colour": "red"}}
        ended, output = run("--once", "--nodes=1", f"--validate={validate}", "-f", manifest(pod))
        assert ended == code, output
        assert ('unknown field "spec.colour"' in output) == (validate != "ignore")
        assert ("Warning: " in output) == (validate == "warn")

    def test_an_empty_file_is_told(self, run, tmp_path):
        (tmp_path / "empty.yaml").write_text("")
        code, output = run("--once", "-f", str(tmp_path / "empty.yaml"))
        assert code == 1
        assert output.endswith("empty.yaml: there are no objects in it\n")


class TestCopies:
    """What `kubectl get -o yaml` shows of another cluster."""

    def dump(self, *, owner="web-1"):
        about = {
            "uid": "u-{0}",
            "resourceVersion": "77",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }

        def identity(name, namespace="shop"):
            own = {key: value.format(name) for key, value in about.items()}
            return {"name": name, "namespace": namespace, **own}

        room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        ready = [{"type": "Ready", "status": "True"}]
        nodes = [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {k: v for k, v in identity(name).items() if k != "namespace"},
                "status": {"capacity": room, "allocatable": room, "conditions": conditions},
            }
            for name, conditions in (
                ("up", ready),
                ("down", [{"type": "Ready", "status": "Unknown"}]),
            )
        ]
        template = {"metadata": {"labels": LABELS}, "spec": POD["spec"]}
        replica_set = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": identity("web-1"),
            "spec": {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": template},
            "status": {"replicas": 1},
        }
        reference = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": owner,
            "uid": f"u-{owner}",
            "controller": True,
        }
        tolerated = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        bound = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**identity("web-1-a"), "labels": LABELS, "ownerReferences": [reference]},
            "spec": POD["spec"] | {"nodeName": "down", "tolerations": [tolerated]},
            "status": {"phase": "Running"},
        }
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": identity("w")}
        policy = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": identity("v"),
        }
        items = [bound, *nodes, replica_set, widget, policy]
        return {"apiVersion": "v1", "kind": "List", "items": items}

    def test_a_dump_is_taken_as_it_is(self, run, manifest):
        code, output = run("--once", "-f", manifest(self.dump()))
        # One pod is where it was; the other one that its owner wants comes to the node that is up.
        assert code == 0, output
        (name,) = placements(output)
        assert name.startswith("shop/web-1-")
        assert placements(output)[name] == "up"
        assert output.endswith("2 pods placed, 0 waiting\n")
        assert "made namespaces: shop\n" in output
        assert "1 Widget (example.com/v1)" in output
        assert "1 ValidatingWebhookConfiguration" in output

    def test_what_has_lost_its_owner_stays(self, run, manifest):
        code, output = run("--once", "-f", manifest(self.dump(owner="gone")))
        assert "objects owned 1 by a ReplicaSet" in output
        # The ReplicaSet that is there adopts it, by its selector.
        assert code == 0, output
        assert output.endswith("2 pods placed, 0 waiting\n")

    def test_json_works_alike(self, run, tmp_path):
        path = tmp_path / "dump.json"
        path.write_text(json.dumps(self.dump()))
        code, output = run("--once", "--scenario=none", "--nodes-file", str(path))
        assert code == 0, output
        assert output.endswith("2 pods placed, 0 waiting\n")

    def test_a_file_of_nodes_has_nodes(self, run, manifest):
        code, output = run("--once", "--nodes-file", manifest(POD))
        assert code == 1
        assert output.endswith("m.yaml: there are no nodes in it\n")

    def test_a_live_cluster_is_copied_and_only_read(self, run, tmp_path, monkeypatch):
        with LiveCluster() as live:
            live.write_kubeconfig(tmp_path / "live")
            monkeypatch.setenv("KUBECONFIG", str(tmp_path / "live"))
            code, output = run("--once", "--from-cluster")
            assert code == 0, output
            assert "3 nodes, 1 pods; nothing is written there\n" in output
            assert output.endswith("1 pod placed, 0 waiting\n")
            assert {method for method, _ in live.requests} == {"GET"}
            code, output = run("--once", "--from-cluster", "elsewhere")
            assert code == 1
            assert 'context "elsewhere" does not exist; there is "sandbox"' in output

    def test_without_a_kubeconfig_there_is_no_copy(self, run, tmp_path, monkeypatch):
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
        code, output = run("--once", "--from-cluster")
        assert code == 1
        assert "--from-cluster: There is no kubeconfig" in output


class LiveCluster:
    """Another API server, with three nodes and a pod, on a loop of its own."""

    def __enter__(self):
        self.requests = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(self._start())
        return self

    def __exit__(self, *_):
        self._call(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self):
        server = ApiServer()
        await server.start()
        server.hooks.append(lambda one: self.requests.append((one.method, one.path)))
        Kubelets(server.registry).add_nodes(3)
        server.objects.create(named("p", nodeName="node-1"))
        return server

    def write_kubeconfig(self, path):
        self._server.write_kubeconfig(path)


class TestSeed:
    @pytest.mark.slow
    def test_the_output_of_a_run_is_the_same_byte_for_byte(self, manifest):
        asks = {"resources": {"requests": {"cpu": "900"}}}
        large = named("too-large", containers=[POD["spec"]["containers"][0] | asks])
        pods = manifest(workload("Deployment", replicas=40), large)
        arguments = ["--once", "--seed=3", "--nodes=20", "-f", pods]
        program = [sys.executable, "-m", "kscheduler", "sandbox", *arguments]
        runs = [
            subprocess.run(program, capture_output=True, timeout=120, check=False) for _ in range(2)
        ]
        first, second = (one.stdout for one in runs)
        assert first == second
        assert first.decode().startswith("default/w-")
        assert b"40 pods placed, 1 waiting\n  default/too-large: 0/20 nodes" in first
        assert b"API server:" in runs[0].stderr

    def test_it_makes_a_run_repeatable(self, run):
        first, second, other = (
            placements(run("--once", f"--seed={seed}")[1]) for seed in (1, 1, 2)
        )
        assert first == second
        assert first != other


class TestConfig:
    HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

    def test_a_configuration_is_used(self, run, manifest, tmp_path):
        config = tmp_path / "scheduler.yaml"
        config.write_text(self.HEAD + "profiles: [{schedulerName: mine}]\n")
        pods = manifest(named("a", schedulerName="mine"), named("b"))
        code, output = run("--once", "--nodes=1", f"--config={config}", "-f", pods)
        assert code == 1
        assert "default/a -> node-0\n" in output
        assert "default/b: nobody answers to schedulerName default-scheduler" in output

    def test_the_demo_goes_to_the_first_profile(self, run, tmp_path):
        config = tmp_path / "scheduler.yaml"
        config.write_text(self.HEAD + "profiles: [{schedulerName: mine}]\n")
        code, output = run("--once", "--gpus=1", f"--config={config}")
        assert code == 0, output
        assert "0 waiting" in output

    def test_a_configuration_is_checked_before_a_cluster_is_started(self, run, tmp_path):
        config = tmp_path / "scheduler.yaml"
        config.write_text(
            self.HEAD
            + "parallelism: -1\nprofiles: [{plugins: {score: {enabled: [{name: Mine}]}}}]\n"
        )
        code, output = run("--once", f"--config={config}")
        assert code == 1
        complaint, profile, meaning = output.splitlines()
        assert complaint.startswith(f"Error: {config}:3:1: parallelism: Invalid value: -1")
        assert profile.startswith(f"{config}:4:41: ")
        assert meaning == (
            "    no plugin has this name; one of your own is installed, or named by --plugin"
        )

    def test_a_plugin_is_checked_before_a_cluster_is_started(self, run):
        code, output = run("--once", "--plugin=no/such.py:Mine")
        assert code == 1
        assert output == (
            "Error: --plugin no/such.py:Mine: cannot be imported: "
            "FileNotFoundError: no such file: no/such.py\n"
        )


class TestPlaces:
    def test_a_port_in_use_is_told(self, run):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            code, output = run("--once", f"--port={port}")
        assert code == 1
        assert output == f"Error: port {port}: {os.strerror(errno.EADDRINUSE)}\n"

    def test_a_kubeconfig_that_cannot_be_written_is_told(self, tmp_path):
        outcome = CliRunner().invoke(sandbox, ["--once", f"--kubeconfig={tmp_path}/no/where"])
        logs.configure(logs.Logging())
        assert outcome.exit_code == 1
        assert outcome.output == f"Error: {tmp_path}/no/where: No such file or directory\n"

    def test_the_kubeconfig_is_written_for_its_owner_alone(self, run, tmp_path):
        run("--once", "--scenario=none", "--nodes=0")
        path = tmp_path / "kubeconfig"
        assert path.stat().st_mode & 0o777 == 0o600
        written = yaml.safe_load(path.read_text())
        assert written["current-context"]
        assert written["clusters"][0]["cluster"]["server"].startswith("https://127.0.0.1:")

    def test_a_kubeconfig_of_somebody_elses_is_left_alone(self, run, tmp_path, monkeypatch):
        path = tmp_path / "kubeconfig"
        path.symlink_to(tmp_path / "theirs")
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        code, output = run("--once", "--scenario=none", "--nodes=0")
        assert code == 1
        told = "belongs to another user; remove it or choose another name"
        assert output == f"Error: {path}: {told}\n"
        assert not (tmp_path / "theirs").exists()

    def test_a_temporary_folder_that_cannot_be_used_is_told(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
        outcome = CliRunner().invoke(sandbox, ["--once"])
        assert (outcome.exit_code, outcome.output) == (
            1,
            "Error: temporary folder: No such file or directory\n",
        )


def spawn(*args, stdout=subprocess.PIPE):
    program = "import kscheduler.cli as cli; cli.main()"
    return subprocess.Popen(
        [sys.executable, "-c", program, "sandbox", *args],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_well(tmp_path, number):
    process = spawn("--server-only", "--nodes=1", f"--kubeconfig={tmp_path}/kubeconfig")
    for line in process.stdout:
        if line.startswith("Ctrl-C ends it"):
            break
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")


def test_it_says_nothing_that_nobody_asked_for():
    process = spawn("--once", "--nodes=2")
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")


STARTING = """
import os, signal, kscheduler.cli as cli, kscheduler.cli.sandbox as sandbox
def run(options):
    os.kill(os.getpid(), signal.{number})
    raise AssertionError("still there")
sandbox.run = run
cli.main()
"""


@pytest.mark.usefixtures("hang_up_counts")
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_before_the_cluster_is_up_leaves_nothing(tmp_path, monkeypatch, number):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    program = [sys.executable, "-c", STARTING.format(number=number), "sandbox"]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode != 0
    assert "still there" not in ended.stderr
    assert os.listdir(tmp_path) == []


def started(process):
    """The kubeconfig that it says it has written."""
    path = ""
    for line in process.stdout:
        if line.startswith("kubectl:"):
            path = line.split()[3]
        if line.startswith("Ctrl-C ends it"):
            break
    return path


@pytest.mark.usefixtures("hang_up_counts")
def test_sandboxes_side_by_side_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with spawn("--server-only", "--nodes=1") as one, spawn("--server-only", "--nodes=1") as other:
        try:
            configs = [
                yaml.safe_load(Path(started(process)).read_text()) for process in (one, other)
            ]
            assert len({one["clusters"][0]["cluster"]["server"] for one in configs}) == 2
            assert len(os.listdir(tmp_path)) == 2
            one.send_signal(signal.SIGTERM)
            other.send_signal(signal.SIGHUP)
            assert [process.wait(timeout=120) for process in (one, other)] == [0, 0]
        finally:
            one.kill()
            other.kill()
    assert os.listdir(tmp_path) == []


def trusting(config):
    """A context that believes the server of a kubeconfig."""
    authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"])
    return ssl.create_default_context(cadata=authority.decode())


@pytest.mark.usefixtures("hang_up_counts")
def test_decisions_can_be_read_through_the_api_server(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with spawn("--nodes=2") as process:
        try:
            config = yaml.safe_load(Path(started(process)).read_text())
            server = config["clusters"][0]["cluster"]["server"]
            url = f"{server}/apis/kscheduler.dev/v1alpha1/decisions"
            token = config["users"][0]["user"]["token"]
            context = trusting(config)

            def outcomes(token=token):
                bearer = {"Authorization": f"Bearer {token}"} if token else {}
                request = urllib.request.Request(url, headers=bearer)
                try:
                    with urllib.request.urlopen(request, timeout=10, context=context) as answer:
                        items = json.load(answer)["items"]
                except urllib.error.HTTPError as error:
                    if error.code not in (404, 503):
                        raise
                    return {}
                return {item["metadata"]["name"]: item["outcome"] for item in items}

            block_until(lambda: "urgent" in outcomes(), "the last pod's decision can be read")
            assert set(outcomes().values()) == {"Scheduled"}
            for wrong, code in (("made-up", 401), ("", 403)):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    outcomes(wrong)
                assert refused.value.code == code
                refused.value.close()
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=120) == 0
        finally:
            process.kill()


def test_on_a_terminal_there_is_a_board(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    ours, theirs = pty.openpty()
    with spawn("--nodes=2", stdout=theirs) as process:
        os.close(theirs)
        try:
            shown = read_until(ours, "20 pods placed")
            (folder,) = tmp_path.iterdir()
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert {file.name for file in folder.iterdir()} == {
                "kubeconfig",
                "log",
                "serving.crt",
                "serving.key",
            }
            process.send_signal(signal.SIGINT)
            shown += read_until(ours, "pods placed, ")
            assert process.stderr.read() == ""
        finally:
            process.kill()
            os.close(ours)
    for text in ("NODES", "node-1", "DECISIONS", "WAITING", "log: ", "A workload"):
        assert text in shown
    assert os.listdir(tmp_path) == []


def read_until(terminal, text):
    """What the terminal shows up to this text."""
    shown = ""
    deadline = time.monotonic() + 120
    while text not in shown and time.monotonic() < deadline:
        try:
            shown += os.read(terminal, 65536).decode(errors="replace")
        except OSError:
            break
    assert text in shown, shown[-3000:]
    return shown


def view_of(*unschedulable):
    """A view of a scheduler with nothing to do, and these pods in its queue."""
    pending = Pending((), (), unschedulable)
    scheduler = SimpleNamespace(
        informers=SimpleNamespace(pods=SimpleNamespace(add_handler=lambda handler: None)),
        in_sync=True,
        cache=SimpleNamespace(node_count=1, assumed_pod_count=0),
        queue=SimpleNamespace(pending=lambda: pending, in_flight=()),
    )
    return sandbox_view.View(scheduler, sandbox_view.Lines.NEVER)


async def test_time_in_which_the_process_stood_still_is_not_quiet(monkeypatch):
    monkeypatch.setattr(sandbox_view, "QUIET_SECONDS", 0.1)
    settling = asyncio.create_task(view_of().settled(asyncio.Event()))
    await asyncio.sleep(0)
    time.sleep(0.3)  # noqa: ASYNC251 - that is what it is about
    # News that came meanwhile are read a turn or two later.
    for _ in range(3):
        await asyncio.sleep(0)
    assert not settling.done()
    await asyncio.wait_for(settling, 30)


async def test_it_is_not_over_before_a_refused_pod_says_why(monkeypatch):
    monkeypatch.setattr(sandbox_view, "QUIET_SECONDS", 0.0)
    queued = QueuedPodInfo(make_pod_info("p"), timestamp=0.0, attempts=1)
    settling = asyncio.create_task(view_of(queued).settled(asyncio.Event()))
    for _ in range(10 * sandbox_view.QUIET_CHECKS):
        await asyncio.sleep(0)
    assert not settling.done()
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    queued.pod = make_pod_info("p", status={"conditions": [refused]})
    await asyncio.wait_for(settling, 30)


async def test_work_that_fails_ends_what_it_belongs_to():
    async def fails():
        await asyncio.sleep(0)
        raise ValueError("boom")

    with pytest.raises(ExceptionGroup) as raised:
        async with _running(fails(), "fails"):
            await asyncio.Event().wait()
    assert raised.group_contains(ValueError, match="boom")
