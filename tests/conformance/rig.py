"""A cluster for Kubernetes' own tests: a control plane, its controllers, four nodes, a scheduler.

The nodes are objects that kwok keeps alive, in two zones. It runs every pod that is bound to one of
them, and ends those that are deleted; `stages.yaml` says how. On each runs what the tests expect of
a node's own pods. Both schedulers get the same configuration, all of it at its default: they are
the cluster's default scheduler, and stand for election.
"""

import json
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.contestants import OURS
from tests.controlplane.binaries import program
from tests.controlplane.plane import ControlPlane, ControlPlaneError
from tests.kit.manifests import ZONE, Json, node_manifest, pod_manifest
from tests.kit.ports import free_port

STAGES = Path(__file__).parent / "stages.yaml"
CONTROLLERS = "kube-controller-manager"
USER = "kube-scheduler"
LEASE = "kube-scheduler"
NODES = 4
# The tests wait a minute for them wherever they look whether the cluster is healthy.
NODE_DAEMONS = ("kube-proxy", "fluentd-elasticsearch", "node-problem-detector")
# Nobody asks these nodes for logs, so they need no server.
KWOK_FLAGS = ("--manage-all-nodes", "--node-lease-duration-seconds=40", "--server-address=")


class Cluster:
    """One that is ready for tests; `folder` has a kubeconfig of its administrator and all logs."""

    def __init__(self, plane: ControlPlane, programs: Path) -> None:
        self._plane = plane
        self._programs = programs
        self.folder = plane.folder
        self.kubeconfig = plane.folder / "kubeconfig"

    def start(self, scheduler: str) -> None:
        self.start_nodes([*map(node, range(NODES)), *map(daemon_set, NODE_DAEMONS)])
        self._start_scheduler(scheduler)
        running = " ".join([str(NODES)] * len(NODE_DAEMONS))
        self._plane.wait(scheduler, lambda: self._daemons_running() == running)

    def start_nodes(self, objects: list[Json]) -> None:
        """The control plane, its controllers, and kwok for the nodes among these objects."""
        self._plane.start()
        self._run(CONTROLLERS, *self._controller_flags())
        self._run("kwok", f"--kubeconfig={self.kubeconfig}", f"--config={STAGES}", *KWOK_FLAGS)
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self._kubectl("create", "--filename=-", given=given)

    def check(self) -> None:
        """Raises if any of its programs has ended."""
        self._plane.check()

    def _run(self, name: str, *flags: str) -> None:
        self._plane.run(name, self._programs / name, *flags)

    def _controller_flags(self) -> list[str]:
        here = self.folder
        return [
            f"--kubeconfig={here / f'{CONTROLLERS}.kubeconfig'}",
            f"--root-ca-file={here / 'ca.crt'}",
            f"--service-account-private-key-file={here / 'service-accounts.key'}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            f"--cert-dir={here / CONTROLLERS}",
        ]

    def _start_scheduler(self, who: str) -> None:
        config = self.folder / "scheduler.yaml"
        config.write_text(json.dumps(configuration(self.folder / f"{USER}.kubeconfig")))
        path = Path(sysconfig.get_path("scripts")) / OURS if who == OURS else program(who)
        flags = (f"--config={config}", "--bind-address=127.0.0.1", "-v=4")
        self._plane.run(who, path, *flags, f"--secure-port={free_port()}")
        self._plane.wait(who, lambda: self._holder_of_lease() != "")

    def _holder_of_lease(self) -> str:
        asked = ("get", "lease", LEASE, "--namespace=kube-system", "--ignore-not-found")
        return self._kubectl(*asked, "--output=jsonpath={.spec.holderIdentity}")

    def _daemons_running(self) -> str:
        """How many of each, which takes controllers, kwok and the scheduler."""
        asked = ("get", "daemonsets", "--namespace=kube-system")
        return self._kubectl(*asked, "--output=jsonpath={.items[*].status.numberReady}")

    def _kubectl(self, *arguments: str, given: str = "") -> str:
        command = [program("kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done.stdout


@contextmanager
def cluster(scheduler: str, programs: Path) -> Iterator[Cluster]:
    """Gone with all its files and processes when it is left."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        plane = ControlPlane(Path(folder), controllers=True)
        made = Cluster(plane, programs)
        try:
            made.start(scheduler)
            yield made
        finally:
            plane.stop()


def node(number: int) -> Json:
    name = f"node-{number}"
    made = node_manifest(name, labels={ZONE: f"zone-{number % 2}", "kubernetes.io/os": "linux"})
    status = made["status"]
    status["capacity"]["ephemeral-storage"] = "100Gi"
    status["addresses"] = [
        {"type": "InternalIP", "address": f"10.1.0.{number + 1}"},
        {"type": "Hostname", "address": name},
    ]
    # Whether it is ready is for kwok to say.
    del status["conditions"]
    return made


def daemon_set(name: str) -> Json:
    labels = {"app": name}
    pod = pod_manifest(priorityClassName="system-node-critical")
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
        },
    }


def configuration(kubeconfig: Path) -> Json:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
    }
