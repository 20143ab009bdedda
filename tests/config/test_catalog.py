from kscheduler.config.catalog import DEFAULT_PLUGINS, GATED_PLUGINS, IN_TREE, UNSIGNABLE
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.plugin_args import KINDS


def test_only_known_plugins_are_enabled_configured_or_left_unsigned():
    enabled = {plugin.name for plugin in DEFAULT_PLUGINS} | {p.name for _, p, _ in GATED_PLUGINS}
    assert enabled == set(IN_TREE)
    assert {kind.removesuffix("Args") for kind in KINDS} <= set(IN_TREE)
    assert set(IN_TREE) >= UNSIGNABLE


def test_the_gates_that_add_plugins_exist():
    gates = FeatureGates.defaults()
    states = {gate: gates.enabled(gate) for gate, _, _ in GATED_PLUGINS}
    assert {gate for gate, on in states.items() if on} == {
        "DynamicResourceAllocation",
        "NodeDeclaredFeatures",
    }
