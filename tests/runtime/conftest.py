"""Clusters of a few nodes, and frameworks of plugins that are whatever has the methods."""

import json
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from kscheduler.framework.cycle_state import CycleState
from kscheduler.metrics import Metrics
from tests.kit.clusters import FixedNominator, make_handle, snapshot_of
from tests.kit.clusters import make_framework as kit_framework
from tests.kit.objects import make_node, make_pod_info

PROFILE = "default-scheduler"


@pytest.fixture(scope="session")
def make_pod():
    return make_pod_info


@pytest.fixture
def pod(make_pod):
    return make_pod()


@pytest.fixture
def cycle():
    return CycleState()


@pytest.fixture(scope="session")
def make_nodes():
    """A snapshot of nodes with these names, except those gone again; row i is the i-th of them."""

    @cache
    def make(*names, gone=()):
        nodes = {name: make_node(name, allocatable={}) for name in names}
        return snapshot_of(nodes.values(), gone=[nodes[name] for name in gone])

    return make


@pytest.fixture
def nodes(make_nodes):
    return make_nodes("n0", "n1", "n2")


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def handle(metrics):
    return make_handle(gates={"OpportunisticBatching"}, metrics=metrics)


@pytest.fixture
def make_framework(handle):
    """Every plugin runs wherever it has something to say, in the order given; weights are 1."""

    def make(*plugins, weights=None, nominated_pods=None):
        own = replace(handle, nominator=FixedNominator(nominated_pods), framework=lambda: framework)
        framework = kit_framework(own, plugins, weights=weights)
        return framework

    return make


@pytest.fixture(scope="session")
def recorded():
    """What kube-scheduler's own metrics look like."""
    cases = Path(__file__).parent.parent / "parity/cases"
    return json.loads((cases / "metrics.json").read_text())
