"""From configuration to frameworks: who is made, with what, and where it runs."""

import io
from types import SimpleNamespace as Plugin

import pytest

from kscheduler import logs
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.load import load_config
from kscheduler.config.profiles import complete
from kscheduler.errors import ConfigError
from kscheduler.extension_points import METHOD_OF_POINT
from kscheduler.plugins import catalog
from kscheduler.runtime.out_of_tree.registration import register
from kscheduler.runtime.profile import build_frameworks

IN_TREE = catalog().points_of
GATES = FeatureGates.defaults()
HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def standing_in(name):
    """A factory of plugins that have every method the in-tree plugin of that name has."""

    def make(args, handle):
        methods = {
            method: lambda *_: None
            for point, method in METHOD_OF_POINT.items()
            if point in IN_TREE[name]
        }
        return Plugin(name=name, args=args, handle=handle, **methods)

    return make


REGISTRY = {name: standing_in(name) for name in IN_TREE}


class Outside:
    name = "Outside"

    def __init__(self, args, handle):
        self.args = args

    def filter_node(self, cycle, pod, node):
        return None

    def score(self, cycle, pod, nodes):
        return [0] * len(nodes)


def build(handle, yaml="", registry=REGISTRY, outside=None):
    config = load_config((HEADER + yaml).encode(), catalog(), gates=GATES)
    others = register(outside or {}, (), (), IN_TREE)
    completed = complete(config, catalog().including(others.values()), gates=GATES)
    return build_frameworks(completed, {**registry, **others}, lambda name: handle)


def names(framework, point):
    return [plugin.name for plugin in framework.plugins_at[point]]


def test_the_default_profile(handle):
    (framework,) = build(handle).values()
    assert framework.profile_name == "default-scheduler"
    assert names(framework, "preEnqueue")[:1] == ["SchedulingGates"]
    assert names(framework, "filter")[:3] == ["NodeName", "NodeUnschedulable", "TaintToleration"]
    assert names(framework, "bind") == ["DefaultBinder"]
    assert framework.has_filter_plugins
    assert framework.has_score_plugins
    assert framework.has_post_filter_plugins


def test_the_series_of_evaluations_are_there_before_the_first_pod(handle, metrics, recorded):
    build(handle)
    family = metrics.plugin_evaluation_total.collect()
    shown = sorted(
        (tuple(sorted(sample.labels.items())), sample.value) for sample in family.samples
    )
    want = recorded["values_at_start"]["scheduler_plugin_evaluation_total"]
    assert shown == sorted((tuple(sorted(labels.items())), value) for labels, value in want)


def test_a_plugin_is_made_once_per_profile_and_gets_its_arguments(handle):
    yaml = "profiles: [{schedulerName: a}]\n"
    (framework,) = build(handle, yaml).values()
    fit = {plugin for some in framework.plugins_at.values() for plugin in map(id, some)}
    plugins = {plugin.name: plugin for plugin in framework.plugins}
    assert len(fit) == len(plugins)
    assert type(plugins["NodeResourcesFit"].args).__name__ == "NodeResourcesFitArgs"
    assert plugins["NodeName"].args is None
    assert plugins["NodeName"].handle.framework() is framework


def test_profiles_know_their_name_and_their_share_of_nodes(handle):
    yaml = """
profiles:
- schedulerName: a
- schedulerName: b
  percentageOfNodesToScore: 7
"""
    frameworks = build(handle, yaml)
    assert {name: f.percentage_of_nodes_to_score for name, f in frameworks.items()} == {
        "a": None,
        "b": 7,
    }


def test_a_plugin_that_scores_may_be_enabled_elsewhere_only(handle):
    yaml = """
profiles:
- schedulerName: a
  plugins:
    multiPoint: {disabled: [{name: NodeAffinity}]}
    filter: {enabled: [{name: NodeAffinity}]}
"""
    (framework,) = build(handle, yaml).values()
    assert names(framework, "filter")[-1] == "NodeAffinity"
    assert "NodeAffinity" not in names(framework, "score")


def _raise(self, args, handle):
    raise ZeroDivisionError("division by zero")


OUTSIDE_ON = """
profiles:
- schedulerName: a
  plugins:
    multiPoint:
      enabled: [{name: Outside, weight: 5}]
"""


def test_a_plugin_from_outside_runs_where_its_methods_say(handle):
    (framework,) = build(handle, OUTSIDE_ON, outside={"Outside": Outside}).values()
    assert names(framework, "filter")[-1] == "Outside"
    assert names(framework, "score")[-1] == "Outside"
    assert "Outside" not in names(framework, "preFilter")


@pytest.mark.parametrize(
    ("yaml", "outside", "message"),
    [
        pytest.param(
            OUTSIDE_ON,
            {"Outside": type("Broken", (Outside,), {"__init__": _raise})},
            "initializing profiles: creating profile for scheduler name a: "
            'initializing plugin "Outside": ZeroDivisionError: division by zero',
            id="a constructor that raises",
        ),
        pytest.param(
            OUTSIDE_ON,
            {"Outside": type("Renamed", (Outside,), {"name": "Other"})},
            "plugins['Outside']: class Renamed calls itself Other",
            id="a plugin under another name",
        ),
        pytest.param(
            OUTSIDE_ON,
            {"Outside": lambda *_: None},
            "plugins['Outside']: must be a class, not function",
            id="no class",
        ),
    ],
)
def test_start_up_errors(yaml, outside, message, handle):
    with pytest.raises(ConfigError) as caught:
        build(handle, yaml, outside=outside)
    assert str(caught.value) == message


def test_a_plugin_that_is_configured_but_not_built_in_is_left_out(handle):
    registry = {name: factory for name, factory in REGISTRY.items() if name != "NodeName"}
    (framework,) = build(handle, registry=registry).values()
    assert names(framework, "filter")[:2] == ["NodeUnschedulable", "TaintToleration"]


def test_closing_a_framework_closes_its_plugins(make_framework):
    closed = []
    plugin = Plugin(name="A", filter=lambda *_: [], close=lambda: closed.append("A"))
    make_framework(plugin, Plugin(name="B", filter=lambda *_: [])).close()
    assert closed == ["A"]


def test_that_extenders_disable_signatures_is_logged_once(handle):
    written = io.BytesIO()
    handle.extenders = [Plugin()]  # As good as any that is not empty.
    yaml = "extenders: [{urlPrefix: 'http://127.0.0.1:1', filterVerb: filter}]\n"
    logs.configure(logs.Logging(), stderr=written)
    try:
        build(handle, yaml)
    finally:
        logs.configure(logs.Logging())
    assert written.getvalue().count(b"because it has extenders configured") == 1
