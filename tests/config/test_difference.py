"""Differences in what configurations do."""

import pytest

from kscheduler.config.difference import differences
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.load import load_config
from kscheduler.plugins import catalog

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def difference(old, new):
    loaded = [
        load_config((HEAD + text).encode(), catalog(), gates=FeatureGates.defaults())
        for text in (old, new)
    ]
    return list(differences(*loaded, catalog()))


def profile(text):
    return f"profiles: [{{{text}}}]"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("", "", id="nothing said"),
        pytest.param("", "parallelism: 16", id="a default spelled out"),
        pytest.param("", profile("schedulerName: default-scheduler"), id="the default profile"),
    ],
)
def test_no_difference(old, new):
    assert difference(old, new) == []


def test_fields_are_told_with_their_paths():
    assert difference("parallelism: 4", "leaderElection: {leaseDuration: 20s}") == [
        "parallelism: 4 → 16",
        "leaderElection.leaseDuration: 15s → 20s",
    ]


def test_extenders_come_and_go():
    (line,) = difference("", "extenders: [{urlPrefix: http://x}]")
    assert line.startswith("extenders: nothing → [{")
    assert "http://x" in line


@pytest.mark.parametrize(
    ("plugins", "want"),
    [
        pytest.param(
            "multiPoint: {disabled: [{name: ImageLocality}]}",
            ["ImageLocality: off (was on at score)"],
            id="off",
        ),
        pytest.param(
            "score: {disabled: [{name: TaintToleration}]}",
            ["TaintToleration: off at score"],
            id="off at one point",
        ),
        pytest.param(
            "multiPoint: {enabled: [{name: TaintToleration, weight: 7}]}",
            ["TaintToleration: weight 3 → 7"],
            id="weight",
        ),
    ],
)
def test_plugins_are_compared_where_they_run(plugins, want):
    head, *lines = difference("", profile(f"plugins: {{{plugins}}}"))
    assert head == "profile default-scheduler:"
    assert lines == [f"  {line}" for line in want]


def test_another_order_is_told_where_it_matters():
    plugins = "plugins: {filter: {enabled: [{name: TaintToleration}]}}"
    _, line = difference("", profile(plugins))
    assert line.startswith("  filter: plugins run in another order: TaintToleration, NodeName")


def test_a_plugin_that_was_off_is_on():
    old = profile("plugins: {multiPoint: {disabled: [{name: ImageLocality}]}}")
    assert difference(old, "") == [
        "profile default-scheduler:",
        "  ImageLocality: on at score, weight 1",
    ]


def test_arguments_are_compared_field_by_field():
    args = (
        "pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]"
    )
    assert difference("", profile(args))[1:] == [
        "  NodeResourcesFit args.scoringStrategy.type: LeastAllocated → MostAllocated"
    ]


def test_profiles_are_told_apart_by_name():
    two = "profiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 5}]"
    assert difference("profiles: [{schedulerName: b}, {schedulerName: c}]", two) == [
        "profile b:",
        "  percentageOfNodesToScore: nothing → 5",
        "profile c: removed",
        "profile a: added",
    ]
