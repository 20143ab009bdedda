"""API servers for cases: the embedded one in this process, or a real one, with what a cluster has
besides for volumes and devices.

On the embedded server that is its own controllers; beside a real one a kube-controller-manager runs
those that make, bind and release claims, and a provisioner is played here.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

from kscheduler.app.daemon import Daemon
from kscheduler.sandbox import ApiServer
from kscheduler.sandbox.controllers.resource_claims import ResourceClaimController
from kscheduler.sandbox.controllers.volumes import VolumeControllers
from tests.conformance.programs import PROGRAMS
from tests.controlplane.binaries import cache_folder
from tests.controlplane.plane import ControlPlane
from tests.e2e.api import Api, RefusedError
from tests.integration.cluster import SCHEDULER, Cluster, Running
from tests.kit.manifests import ZONE, Json
from tests.kit.polling import until
from tests.kit.ports import free_port
from tests.what_if.random_claims import CSI_DRIVER, NAMESPACE
from tests.what_if.random_clusters import CLASSES

BUDGETS = "poddisruptionbudgets"
# Names by which the embedded server knows resources of groups.
QUALIFIED = {
    BUDGETS: f"{BUDGETS}.policy",
    "storageclasses": "storageclasses.storage.k8s.io",
    "csinodes": "csinodes.storage.k8s.io",
    **{
        name: f"{name}.resource.k8s.io"
        for name in ("deviceclasses", "resourceslices", "resourceclaims", "resourceclaimtemplates")
    },
}
NAMESPACED = (
    "pods",
    BUDGETS,
    "persistentvolumeclaims",
    "resourceclaims",
    "resourceclaimtemplates",
)
CONTROLLERS = (
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "resourceclaim-controller",
)
KUBE_CONTROLLER_MANAGER = "kube-controller-manager"
PROVISION_SECONDS = 0.05
SELECTED_NODE = "volume.kubernetes.io/selected-node"


class Server(Protocol):
    """An API server, as far as cases need one."""

    async def create(self, resource: str, item: Json) -> Json:
        """The object as it was made."""

    async def delete(self, resource: str, name: str) -> None: ...
    async def clear(self, resource: str) -> None: ...
    async def pods(self) -> dict[str, Json]: ...


class EmbeddedServer:
    """The sandbox's server; what is deleted there is gone at once."""

    def __init__(self, api: ApiServer) -> None:
        self._objects = api.objects

    async def create(self, resource: str, item: Json) -> Json:
        made: Json = self._objects.create(item)
        if resource == BUDGETS:
            name, status = item["metadata"]["name"], {"status": item["status"]}
            self._objects.update(
                QUALIFIED[BUDGETS], name, lambda one: one.update(status), subresource="status"
            )
        return made

    async def delete(self, resource: str, name: str) -> None:
        self._objects.delete(resource, name, NAMESPACE)

    async def clear(self, resource: str) -> None:
        resource = QUALIFIED.get(resource, resource)
        for item in self._objects.list(resource):
            metadata = item["metadata"]
            self._objects.delete(resource, metadata["name"], metadata.get("namespace", ""))

    async def pods(self) -> dict[str, Json]:
        return {one["metadata"]["name"]: one for one in self._objects.list("pods")}


class RealServer:
    """A kube-apiserver."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def create(self, resource: str, item: Json) -> Json:
        namespace = item["metadata"].get("namespace", "")
        made = await self._api.create(resource, item, namespace)
        if resource == BUDGETS:
            name, status = item["metadata"]["name"], {"status": item["status"]}
            await self._api.patch(resource, name, status, namespace, "status")
        return made

    async def delete(self, resource: str, name: str) -> None:
        await self._api.delete(resource, name, NAMESPACE)

    async def clear(self, resource: str) -> None:
        await self._api.delete_all(resource, NAMESPACE if resource in NAMESPACED else "")

    async def pods(self) -> dict[str, Json]:
        return {one["metadata"]["name"]: one for one in await self._api.list("pods", NAMESPACE)}


@asynccontextmanager
async def embedded(folder: Path, *, claims: bool = False) -> AsyncIterator[tuple[Server, Daemon]]:
    async with ApiServer(anonymous=SCHEDULER) as api:
        cluster = Cluster(api, folder)
        for name, body in CLASSES.items():
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            cluster.create({**kind, "metadata": {"name": name}, **body})
        tasks = []
        if claims:
            controllers = (VolumeControllers(api.registry), ResourceClaimController(api.registry))
            tasks = [asyncio.create_task(one.run()) for one in controllers]
        try:
            async with cluster.scheduler() as running:
                assert running.daemon is not None
                yield EmbeddedServer(api), running.daemon
        finally:
            await _ended(tasks)


@asynccontextmanager
async def real(folder: Path, *, claims: bool = False) -> AsyncIterator[tuple[Server, Daemon]]:
    plane = ControlPlane(folder / "plane")
    await asyncio.to_thread(plane.start)
    api = Api(plane.folder / "kubeconfig")
    running, tasks = None, []
    try:
        if claims:
            program = cache_folder(PROGRAMS.folder) / KUBE_CONTROLLER_MANAGER
            await asyncio.to_thread(
                plane.run, KUBE_CONTROLLER_MANAGER, program, *_controller_flags(plane.folder)
            )
            tasks = [asyncio.create_task(_provision(api))]
        for name, body in CLASSES.items():
            await api.create("priorityclasses", {"metadata": {"name": name}, **body})
        config = folder / "scheduler.yaml"
        kubeconfig = plane.folder / "kube-scheduler.kubeconfig"
        config.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            f"clientConnection: {{kubeconfig: {kubeconfig}, qps: -1}}\n"
            "leaderElection: {leaderElect: false}\n"
        )
        running = Running(["--config", str(config), "--secure-port", "0"])
        await until(lambda: running.synced)
        yield RealServer(api), running.daemon
    finally:
        await _ended(tasks)
        if running is not None:
            await running.kill()
        await api.close()
        await asyncio.to_thread(plane.stop)


def _controller_flags(folder: Path) -> list[str]:
    return [
        f"--kubeconfig={folder / f'{KUBE_CONTROLLER_MANAGER}.kubeconfig'}",
        f"--root-ca-file={folder / 'ca.crt'}",
        f"--service-account-private-key-file={folder / 'service-accounts.key'}",
        f"--controllers={','.join(CONTROLLERS)}",
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={free_port()}",
        f"--cert-dir={folder / KUBE_CONTROLLER_MANAGER}",
    ]


async def _provision(api: Api) -> None:
    """A provisioner of volumes that can be reached from the zone of the selected node, and an
    attacher of them.
    """
    while True:
        for claim in await api.list("persistentvolumeclaims", NAMESPACE):
            metadata, spec = claim["metadata"], claim["spec"]
            selected = metadata.get("annotations", {}).get(SELECTED_NODE)
            if selected and not spec.get("volumeName"):
                node = await api.find("nodes", selected)
                zone = {} if node is None else node["metadata"]["labels"]
                await _create_once(api, _provisioned(claim, zone.get(ZONE, "")))
        for attachment in await api.list("volumeattachments"):
            if not attachment.get("status", {}).get("attached"):
                name, attached = attachment["metadata"]["name"], {"status": {"attached": True}}
                with suppress(RefusedError):  # It may be gone by now.
                    await api.patch("volumeattachments", name, attached, subresource="status")
        await asyncio.sleep(PROVISION_SECONDS)


def _provisioned(claim: Json, zone: str) -> Json:
    metadata, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{metadata['uid']}"
    volume: Json = {
        "accessModes": spec["accessModes"],
        "capacity": spec["resources"]["requests"],
        "storageClassName": spec["storageClassName"],
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": CSI_DRIVER, "volumeHandle": name},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            **{part: metadata[part] for part in ("namespace", "name", "uid")},
        },
    }
    if zone:
        there = {"key": ZONE, "operator": "In", "values": [zone]}
        terms = [{"matchExpressions": [there]}]
        volume["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    about = {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": CSI_DRIVER}}
    return {"metadata": about, "spec": volume}


async def _create_once(api: Api, volume: Json) -> None:
    try:
        await api.create("persistentvolumes", volume)
    except RefusedError as error:
        if error.code != 409:
            raise


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
