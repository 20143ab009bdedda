"""The registry of in-tree plugins against the catalog that configuration goes by."""

from types import SimpleNamespace

import pytest

from kscheduler import plugins
from kscheduler.config.defaults import default_config
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.profiles import complete
from kscheduler.extension_points import METHOD_OF_POINT, points_of
from kscheduler.framework.listers import FixedListers
from kscheduler.metrics import Metrics
from kscheduler.plugins import catalog
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.profile import build_frameworks
from kscheduler.state.cache import Cache

CATALOG = plugins.catalog()


@pytest.fixture(scope="module")
def built():
    """Every in-tree plugin of the default profile, made with its default arguments."""
    gates = FeatureGates.defaults()

    def handle_for(profile):
        return RuntimeHandle(
            gates=gates,
            listers=FixedListers(),
            snapshot=Cache().snapshot,
            nominator=SimpleNamespace(nodes=(), pods_for_node=lambda node: []),
            activate=lambda pods: None,
            client=None,
            recorder=None,
            metrics=Metrics(),
        )

    completed = complete(default_config(CATALOG, gates), catalog(), gates=gates)
    [framework] = build_frameworks(completed, plugins.factories(), handle_for).values()
    return {plugin.name: plugin for plugin in framework.plugins}


def test_every_plugin_is_here_or_said_to_be_missing():
    assert plugins.factories().keys() | plugins.not_built().keys() == CATALOG.in_tree.keys()
    assert not plugins.factories().keys() & plugins.not_built().keys()
    assert all(plugins.not_built().values())


def test_plugins_go_by_the_name_they_are_registered_under(built):
    by_default = {plugin.name for plugin in CATALOG.default_plugins(FeatureGates.defaults())}
    assert built.keys() == by_default - plugins.not_built().keys()


def test_plugins_run_nowhere_that_upstreams_do_not(built):
    for name, plugin in built.items():
        allowed = {point.value for point in CATALOG.points_of[name]}
        assert points_of(plugin) <= allowed, name


def test_plugins_run_wherever_upstreams_do_and_there_is_something_to_say(built):
    """Upstream's PreFilter of these only says Skip, which ours have no need of."""
    silent = {
        "NodeName": {"preFilter"},
        "NodeUnschedulable": {"preFilter"},
        "NodeDeclaredFeatures": {"preFilter"},
        "TaintToleration": {"preFilter"},
    }
    for name, plugin in built.items():
        wanted = {point.value for point in CATALOG.points_of[name]} & METHOD_OF_POINT.keys()
        missing = wanted - points_of(plugin)
        assert missing <= silent.get(name, set()), name
