"""Pods with devices, one claim each or an extended resource, in process."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from kscheduler.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from tests.bench import devices
from tests.bench.devices import Inventory
from tests.bench.stock import Stock
from tests.bench.workloads import Json

DEVICES = 8
SELECTED = [{"cel": {"expression": devices.SELECTOR}}]


@dataclass(frozen=True)
class Kind:
    """What nodes have, and what a claim asks for; without one, a pod asks for a resource."""

    inventory: Inventory
    spec: Json | None = None
    # What the class asks beside the driver.
    condition: str = ""

    @property
    def pods_per_node(self) -> int:
        return len(self.inventory.results)


KINDS = {
    "claim": Kind(devices.two_models(DEVICES), devices.exactly()),
    "claim-selector": Kind(devices.two_models(DEVICES), devices.exactly(selectors=SELECTED)),
    "claim-match": Kind(devices.matched(DEVICES), devices.matching(DEVICES // devices.PCI_ROOTS)),
    "extended-resource": Kind(devices.two_models(DEVICES)),
    "partitionable": Kind(devices.halves(), devices.exactly(2)),
    "backtracking": Kind(devices.one_too_large(), devices.exactly(7)),
    "consumable": Kind(devices.shareable(), devices.distinct_shares(), devices.MULTIPLE),
}


class DeviceStock(Stock):
    reserves = True

    def __init__(self, workload: str) -> None:
        super().__init__(workload)
        self._kind = KINDS[workload]
        offered = {} if self._kind.spec else {"extendedResourceName": devices.EXTENDED_RESOURCE}
        of_class = devices.device_class(condition=self._kind.condition, **offered)
        self.put(of_class, DeviceClass)

    def add_node(self, name: str) -> None:
        for one in self._kind.inventory.slices(name):
            self.put(one, ResourceSlice)

    def pods(self, number: int) -> Iterator[Json]:
        return map(self._pod, islice(self.serial, number))

    def _pod(self, serial: int) -> Json:
        name = f"pod-{serial}"
        if self._kind.spec is None:
            return devices.with_extended_resource(name, devices.EXTENDED_RESOURCE)
        claim = f"claim-{serial}"
        about = {"uid": f"uid-{claim}", "resourceVersion": "1"}
        self.put(devices.claim(claim, self._kind.spec, **about), ResourceClaim)
        return devices.with_claim(name, resourceClaimName=claim)
