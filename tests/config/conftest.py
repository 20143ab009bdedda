from collections.abc import Callable

import pytest

from kscheduler.config.load import load_config
from kscheduler.config.model import KubeSchedulerConfiguration
from kscheduler.plugins import catalog

ON_BY_DEFAULT = {
    "DRADeviceBindingConditions",
    "DRAResourceClaimDeviceStatus",
    "DRASchedulerFilterTimeout",
    "DynamicResourceAllocation",
    "NodeDeclaredFeatures",
    "OpportunisticBatching",
    "StorageCapacityScoring",
}
HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class FixedGates:
    """Gates of a test: what is on by default, plus and minus the named ones."""

    def __init__(self, on: tuple[str, ...] = (), off: tuple[str, ...] = ()) -> None:
        self._on = (ON_BY_DEFAULT | set(on)) - set(off)

    def enabled(self, name: str) -> bool:
        return name in self._on


@pytest.fixture(scope="session")
def gates() -> FixedGates:
    return FixedGates()


@pytest.fixture(scope="session")
def gates_with() -> Callable[..., FixedGates]:
    return FixedGates


@pytest.fixture(scope="session")
def load(gates) -> Callable[..., KubeSchedulerConfiguration]:
    """Loads the body of a file, under the usual two lines that say what it is."""

    def loaded(body: str, given=gates) -> KubeSchedulerConfiguration:
        return load_config((HEADER + body).encode(), catalog(), gates=given)

    return loaded
