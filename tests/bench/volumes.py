"""Pods with one bound volume each, on nodes whose driver attaches some volumes and no more."""

from collections.abc import Iterator
from itertools import islice

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.storage import CSINode
from tests.bench import workloads
from tests.bench.stock import Stock
from tests.bench.workloads import Json

CSI = "csi-volume"
DRIVER = "ebs.csi.aws.com"
ATTACHABLE = 39


class VolumeStock(Stock):
    def add_node(self, name: str) -> None:
        driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": ATTACHABLE}}
        self.put({"metadata": {"name": name}, "spec": {"drivers": [driver]}}, CSINode)

    def pods(self, number: int) -> Iterator[Json]:
        """Each like no other, with a claim of its own."""
        return map(self._pod, islice(self.serial, number))

    def _pod(self, serial: int) -> Json:
        name = f"stateful-{serial}"
        about = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
        modes, size = ["ReadWriteOnce"], {"storage": "1Gi"}
        claim_ref = {"namespace": workloads.NAMESPACE, "name": name, "uid": about["uid"]}
        source = {"csi": {"driver": DRIVER, "volumeHandle": name}, "claimRef": claim_ref}
        volume = {"accessModes": modes, "capacity": size, **source}
        self.put(
            {"metadata": about, "spec": volume, "status": {"phase": "Bound"}}, PersistentVolume
        )
        bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        wanted = {"accessModes": modes, "resources": {"requests": size}, "volumeName": name}
        claim = {"metadata": {**about, "namespace": workloads.NAMESPACE, **bound}, "spec": wanted}
        self.put(claim, PersistentVolumeClaim)
        mounted = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        return workloads.pod(name, volumes=[mounted])
