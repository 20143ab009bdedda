"""Clusters to apply manifests to: the sandbox, and a real API server with real controllers.

Both have the same nodes, and no scheduler until one is started. On the real one kwok plays the
kubelets, and a stand-in the program that makes volumes for claims (`disk.example.com`): no cluster
has that of itself.
"""

import asyncio
import contextlib
import json
import sysconfig
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.bench.contestants import OURS
from tests.bench.processes import running
from tests.conformance.rig import Cluster as Rig
from tests.controlplane.binaries import program
from tests.controlplane.plane import ControlPlane
from tests.e2e.api import Api, until
from tests.kit.ports import free_port
from tests.sandbox.manifests.state import CLUSTER, ZONE, Json

SANDBOX, REAL = "sandbox", "kube-apiserver"
SCRIPTS = Path(sysconfig.get_path("scripts"))
START_SECONDS = 120.0
PROVISIONER = "disk.example.com"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
LOOK_SECONDS = 0.2
TOLD_CHARACTERS = 2000
NOT_READY = "node.kubernetes.io/not-ready"


class Kubeconfigs(NamedTuple):
    admin: Path
    scheduler: Path


@asynccontextmanager
async def sandbox_cluster(folder: Path) -> AsyncIterator[Kubeconfigs]:
    """`kscheduler sandbox --server-only`, as a process."""
    path = folder / "kubeconfig"
    flags = ("--server-only", f"--kubeconfig={path}", f"--nodes-file={CLUSTER}")
    command = [str(SCRIPTS / OURS), "sandbox", *flags]
    log = folder / "sandbox.log"
    with log.open("wb") as output, running(command, stdout=output, stderr=output) as process:

        def written() -> bool:
            assert process.poll() is None, log.read_text()
            return path.exists()

        await until(written, "the sandbox has written its kubeconfig", seconds=START_SECONDS)
        await _nodes_ready(path)
        yield Kubeconfigs(path, path)


@asynccontextmanager
async def real_cluster(folder: Path, programs: Path) -> AsyncIterator[Kubeconfigs]:
    """etcd, kube-apiserver, kube-controller-manager and kwok."""
    plane = ControlPlane(folder, controllers=True)
    rig = Rig(plane, programs)
    try:
        await asyncio.to_thread(rig.start_nodes, list(yaml.safe_load_all(CLUSTER.read_text())))
        await _nodes_ready(rig.kubeconfig)
        provisioning = asyncio.create_task(provision(rig.kubeconfig), name="provisioner")
        try:
            yield Kubeconfigs(rig.kubeconfig, folder / "kube-scheduler.kubeconfig")
        finally:
            provisioning.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await provisioning
    finally:
        await asyncio.to_thread(plane.stop)


@asynccontextmanager
async def scheduler(who: str, kubeconfig: Path, folder: Path) -> AsyncIterator[None]:
    """Either scheduler with its default configuration, as the cluster's only one."""
    config = folder / f"{who}.yaml"
    connection = {"kubeconfig": str(kubeconfig), "contentType": "application/json"}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": connection,
        "leaderElection": {"leaderElect": False},
    }
    config.write_text(json.dumps(document))
    path = SCRIPTS / OURS if who == OURS else program(who)
    flags = ["--bind-address=127.0.0.1", f"--secure-port={free_port()}"]
    log = folder / f"{who}.log"
    command = [str(path), f"--config={config}", *flags]
    with log.open("wb") as output, running(command, stdout=output, stderr=output) as process:
        yield
        assert process.poll() is None, log.read_text()[-TOLD_CHARACTERS:]


async def _nodes_ready(kubeconfig: Path) -> None:
    api = Api(kubeconfig)
    try:

        async def all_ready() -> bool:
            taints = [
                taint["key"]
                for node in await api.list("nodes")
                for taint in node["spec"].get("taints", ())
            ]
            return NOT_READY not in taints

        await until(all_ready, "all nodes are ready", seconds=START_SECONDS)
    finally:
        await api.close()


async def provision(kubeconfig: Path) -> None:
    """The stand-in for a CSI driver's provisioner: a volume in the zone of the node that a
    scheduler has selected; volumes that were released are deleted. Until cancelled.
    """
    api = Api(kubeconfig)
    try:
        while True:
            await _provision_once(api)
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        await api.close()


async def _provision_once(api: Api) -> None:
    volumes = {one["metadata"]["name"]: one for one in await api.list("persistentvolumes")}
    for claim in await api.list("persistentvolumeclaims"):
        about, spec = claim["metadata"], claim["spec"]
        node = about.get("annotations", {}).get(SELECTED_NODE)
        name = f"pvc-{about['uid']}"
        if node and spec.get("storageClassName") == "standard" and name not in volumes:
            zone = (await api.get("nodes", node))["metadata"]["labels"][ZONE]
            await api.create("persistentvolumes", _volume(name, claim, zone))
    for name, volume in volumes.items():
        ours = volume["metadata"].get("annotations", {}).get(PROVISIONED_BY) == PROVISIONER
        if ours and volume["status"].get("phase") == "Released":
            await api.delete("persistentvolumes", name)


def _volume(name: str, claim: Json, zone: str) -> Json:
    about, spec = claim["metadata"], claim["spec"]
    expression = {"key": ZONE, "operator": "In", "values": [zone]}
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    reference |= {key: about[key] for key in ("namespace", "name", "uid")}
    return {
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": spec["resources"]["requests"],
            "claimRef": reference,
            "csi": {"driver": PROVISIONER, "volumeHandle": name},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "standard",
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            },
        },
    }
