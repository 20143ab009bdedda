"""Pods with one bound volume each, on nodes whose driver attaches some volumes and no more."""

from itertools import count
from typing import Any

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.decode import convert
from kscheduler.api.meta import ApiObject
from kscheduler.api.storage import CSINode
from kscheduler.client.informers.decoding import Shape
from kscheduler.client.informers.informer import Informer
from kscheduler.client.informers.pace import Gate, Pace
from tests.bench import workloads
from tests.bench.workloads import Json

CSI = "csi-volume"
DRIVER = "ebs.csi.aws.com"
ATTACHABLE = 39


class Stock:
    """Listers as the daemon has them, and the objects that pods and nodes of this workload need."""

    def __init__(self) -> None:
        self._by_kind: dict[type, Informer[Any]] = {}
        self._serial = count()

    def lister(self, kind: type[ApiObject]) -> Informer[Any]:
        if kind not in self._by_kind:
            shape: Shape[Any] = Shape(kind.__name__, None, lambda item: item.key, _version)
            self._by_kind[kind] = Informer(shape, Pace(Gate()))
        return self._by_kind[kind]

    def add_driver(self, node: str) -> None:
        driver = {"name": DRIVER, "nodeID": node, "allocatable": {"count": ATTACHABLE}}
        self._put({"metadata": {"name": node}, "spec": {"drivers": [driver]}}, CSINode)

    def pod(self) -> Json:
        """One like no other, with a claim of its own."""
        name = f"stateful-{next(self._serial)}"
        about = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
        modes, size = ["ReadWriteOnce"], {"storage": "1Gi"}
        claim_ref = {"namespace": workloads.NAMESPACE, "name": name, "uid": about["uid"]}
        source = {"csi": {"driver": DRIVER, "volumeHandle": name}, "claimRef": claim_ref}
        volume = {"accessModes": modes, "capacity": size, **source}
        self._put(
            {"metadata": about, "spec": volume, "status": {"phase": "Bound"}}, PersistentVolume
        )
        bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        wanted = {"accessModes": modes, "resources": {"requests": size}, "volumeName": name}
        claim = {"metadata": {**about, "namespace": workloads.NAMESPACE, **bound}, "spec": wanted}
        self._put(claim, PersistentVolumeClaim)
        mounted = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        return workloads.pod(name, volumes=[mounted])

    def _put(self, item: Json, kind: type[ApiObject]) -> None:
        made = convert(item, kind)
        self.lister(kind).put(made.key, made)


def _version(item: ApiObject) -> str:
    return item.metadata.resource_version
