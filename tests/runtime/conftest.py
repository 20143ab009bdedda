"""Clusters of a few nodes, and frameworks of plugins that are whatever has the methods."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from kscheduler.api.core import Container, Node, Pod, PodSpec, PodStatus, ResourceRequirements
from kscheduler.api.meta import ObjectMeta
from kscheduler.extension_points import METHOD_OF_POINT
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.listers import FixedListers
from kscheduler.metrics import Metrics
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.state.cache import Cache
from kscheduler.state.pod_info import PodInfo
from tests.kit.clusters import FixedNominator

PROFILE = "default-scheduler"


@pytest.fixture(scope="session")
def make_pod():
    def make(name="p", *, priority=0, nominated="", labels=None, requests=None, node=""):
        return PodInfo(
            Pod(
                metadata=ObjectMeta(
                    name=name, namespace="default", uid=f"uid-{name}", labels=labels or {}
                ),
                spec=PodSpec(
                    scheduler_name=PROFILE,
                    priority=priority,
                    node_name=node,
                    containers=(
                        Container(resources=ResourceRequirements(requests=requests or {})),
                    ),
                ),
                status=PodStatus(nominated_node_name=nominated),
            )
        )

    return make


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
        cluster = Cache()
        api_nodes = {name: Node(metadata=ObjectMeta(name=name, uid=name)) for name in names}
        for node in api_nodes.values():
            cluster.add_node(node)
        for name in gone:
            cluster.remove_node(api_nodes[name])
        return cluster.snapshot()

    return make


@pytest.fixture
def nodes(make_nodes):
    return make_nodes("n0", "n1", "n2")


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def handle(metrics):
    return RuntimeHandle(
        gates=SimpleNamespace(enabled={"OpportunisticBatching"}.__contains__),
        listers=FixedListers(),
        snapshot=lambda: None,
        nominator=FixedNominator(),
        activate=lambda pods: None,
        client=None,
        recorder=None,
        metrics=metrics,
        profile_name=PROFILE,
    )


@pytest.fixture
def make_framework(handle):
    """Every plugin runs wherever it has something to say, in the order given; weights are 1."""

    def make(*plugins, weights=None, promised=None):
        by_time = SimpleNamespace(name="ByTime", sort_key=lambda queued: queued.timestamp)
        everyone = (*plugins, by_time)
        plugins_at = {
            point: [plugin for plugin in everyone if hasattr(plugin, method)]
            for point, method in METHOD_OF_POINT.items()
        }
        weight_of = {plugin.name: 1 for plugin in plugins} | (weights or {})
        own = replace(handle, nominator=FixedNominator(promised), framework=lambda: framework)
        framework = Framework(own, plugins_at, weights=weight_of)
        return framework

    return make


@pytest.fixture(scope="session")
def recorded():
    """What kube-scheduler's own metrics look like."""
    cases = Path(__file__).parent.parent / "parity/cases"
    return json.loads((cases / "metrics.json").read_text())
