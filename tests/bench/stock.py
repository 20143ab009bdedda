"""What pods and nodes of a workload need beside themselves, where there is no API server."""

from collections.abc import Iterator
from itertools import count, islice
from typing import Any

from kscheduler.api.decode import convert
from kscheduler.api.meta import ApiObject
from kscheduler.client.informers.decoding import Shape
from kscheduler.client.informers.informer import Informer
from kscheduler.client.informers.pace import Gate, Pace
from tests.bench import workloads
from tests.bench.workloads import Json


class Stock:
    """Listers as the daemon has them; this one's pods and nodes need nothing."""

    # Whether a pod takes more with Reserve than its place on the node.
    reserves = False

    def __init__(self, workload: str) -> None:
        self._workload = workload
        self._by_kind: dict[type, Informer[Any]] = {}
        self.serial = count()

    def lister(self, kind: type[ApiObject]) -> Informer[Any]:
        if kind not in self._by_kind:
            shape: Shape[Any] = Shape(kind.__name__, None, lambda item: item.key, _version)
            self._by_kind[kind] = Informer(shape, Pace(Gate()))
        return self._by_kind[kind]

    def put(self, item: Json, kind: type[ApiObject]) -> None:
        made = convert(item, kind)
        self.lister(kind).put(made.key, made)

    def add_node(self, name: str) -> None:
        pass

    def pods(self, number: int) -> Iterator[Json]:
        return islice(workloads.pods(self._workload, "pod"), number)


def _version(item: ApiObject) -> str:
    return item.metadata.resource_version
