"""Which plugins run where, and which profiles cannot be built."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.config.defaults import merge_plugins
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.model import KubeSchedulerProfile, Plugin, Plugins, PluginSet
from kscheduler.config.profiles import complete, expand
from kscheduler.errors import ConfigError
from kscheduler.extension_points import Point
from kscheduler.plugins import catalog

IN_TREE = catalog().points_of
CATALOG = catalog().including(
    [
        SimpleNamespace(name="OtherSort", points=frozenset((Point.QUEUE_SORT,)), signs=True),
        SimpleNamespace(name="Everywhere", points=frozenset(Point), signs=True),
    ]
)


def plugin_set(enabled=(), disabled=()):
    return PluginSet(
        enabled=tuple(Plugin(name=n) if isinstance(n, str) else n for n in enabled),
        disabled=tuple(Plugin(name=n) for n in disabled),
    )


def effective(gates, **points):
    custom = Plugins(**points)
    merged = merge_plugins(custom, CATALOG.default_plugins(gates))
    profile = KubeSchedulerProfile(scheduler_name="a", plugins=merged)
    return expand(profile, CATALOG.points_of)


def test_the_default_plugins_at_their_points(gates):
    plugins = effective(gates)
    filters = (
        "NodeName NodeUnschedulable TaintToleration NodeAffinity NodePorts NodeResourcesFit "
        "VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread "
        "InterPodAffinity DynamicResources NodeDeclaredFeatures"
    )
    assert {point: " ".join(plugins[point]) for point in Point} == {
        "preFilter": filters,
        "filter": filters,
        "postFilter": "DynamicResources DefaultPreemption",
        "reserve": "VolumeBinding DynamicResources",
        "preScore": "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding "
        "PodTopologySpread InterPodAffinity NodeResourcesBalancedAllocation",
        "score": "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread "
        "InterPodAffinity DynamicResources NodeResourcesBalancedAllocation ImageLocality",
        "preBind": "VolumeBinding DynamicResources",
        "bind": "DefaultBinder",
        "postBind": "",
        "permit": "",
        "preEnqueue": "SchedulingGates DynamicResources DefaultPreemption",
        "queueSort": "PrioritySort",
        "placementGenerate": "",
        "placementScore": "NodeResourcesFit",
        "podGroupPostFilter": "DynamicResources DefaultPreemption",
    }
    assert plugins.score_weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    assert plugins.placement_score_weights == {"NodeResourcesFit": 1}


def test_a_point_puts_its_overrides_first_and_its_own_plugins_last(gates):
    plugins = effective(
        gates,
        multi_point=plugin_set(
            disabled=["*"],
            enabled=["PrioritySort", "DefaultBinder", "NodeName", "NodePorts", "VolumeZone"],
        ),
        filter=plugin_set(enabled=["Everywhere", "VolumeZone", "NodePorts"]),
    )
    assert plugins[Point.FILTER] == ("VolumeZone", "NodePorts", "NodeName", "Everywhere")
    assert plugins[Point.PRE_FILTER] == ("NodeName", "NodePorts", "VolumeZone")


def test_disabling_at_a_point_leaves_the_others_alone(gates):
    plugins = effective(gates, score=plugin_set(disabled=["ImageLocality"]))
    assert "ImageLocality" not in plugins[Point.SCORE]
    assert "NodeResourcesFit" in plugins[Point.SCORE]


def test_a_star_at_a_point_leaves_only_what_is_enabled_there(gates):
    plugins = effective(gates, filter=plugin_set(enabled=["NodePorts"], disabled=["*"]))
    assert plugins[Point.FILTER] == ("NodePorts",)
    assert len(plugins[Point.PRE_FILTER]) > 1


def test_the_weight_at_the_point_beats_that_of_multi_point(gates):
    weighted = Plugin(name="NodeResourcesFit", weight=9)
    plugins = effective(gates, score=plugin_set(enabled=[weighted, "ImageLocality"]))
    assert plugins.score_weights["NodeResourcesFit"] == 9
    assert plugins.score_weights["ImageLocality"] == 1
    assert plugins.placement_score_weights["NodeResourcesFit"] == 1


REFUSED = {
    "unknown at a point": (
        {"score": plugin_set(enabled=["Nope"])},
        'ScorePlugin "Nope" does not exist',
    ),
    "unknown everywhere": (
        {"multi_point": plugin_set(enabled=["Nope"])},
        'PreFilterPlugin "Nope" does not exist',
    ),
    "at the wrong point": (
        {"pod_group_post_filter": plugin_set(enabled=["NodeName"])},
        'plugin "NodeName" does not extend PodGroupPostFilterPlugin plugin',
    ),
    "twice at a point": (
        {"score": plugin_set(enabled=["ImageLocality", "ImageLocality"])},
        'plugin "ImageLocality" already registered as "ScorePlugin"',
    ),
    "twice everywhere": (
        {"multi_point": plugin_set(enabled=["ImageLocality", "ImageLocality"])},
        'plugin "ImageLocality" already registered as "ScorePlugin"',
    ),
    "no order": (
        {"queue_sort": plugin_set(disabled=["*"])},
        'only one queue sort plugin required for profile with scheduler name "a", but got 0',
    ),
    "two orders": (
        {"queue_sort": plugin_set(enabled=["OtherSort"])},
        'only one queue sort plugin required for profile with scheduler name "a", but got 2',
    ),
    "no binder": (
        {"bind": plugin_set(disabled=["DefaultBinder"])},
        'at least one bind plugin is needed for profile with scheduler name "a"',
    ),
    "two generators": (
        {"placement_generate": plugin_set(enabled=["TopologyPlacementGenerator", "Everywhere"])},
        'at most one placement generate plugin is allowed for profile with scheduler name "a"',
    ),
    "a total below zero": (
        {"score": plugin_set(enabled=[Plugin(name="ImageLocality", weight=-1), "NodeAffinity"])},
        "score plugins: total score of Score plugins could overflow",
    ),
    "a total of placements below zero": (
        {
            "placement_score": plugin_set(
                enabled=[Plugin(name="PodGroupPodsCount", weight=-1), "NodeResourcesFit"]
            )
        },
        "placement score plugins: total score of Score plugins could overflow",
    ),
}


@pytest.mark.parametrize(("points", "message"), REFUSED.values(), ids=REFUSED)
def test_profiles_that_cannot_be_built(points, message, gates):
    with pytest.raises(ConfigError) as caught:
        effective(gates, **points)
    assert str(caught.value) == message


def test_a_negative_weight_that_comes_last_passes(gates):
    last = Plugin(name="ImageLocality", weight=-5)
    moved = plugin_set(enabled=[last], disabled=["ImageLocality"])
    assert effective(gates, multi_point=moved).score_weights["ImageLocality"] == -5


BUILDS = {
    "the profile is named": (
        "profiles: [{schedulerName: a, plugins: {score: {enabled: [{name: Nope}]}}}]",
        "initializing profiles: creating profile for scheduler name a: "
        'ScorePlugin "Nope" does not exist',
    ),
    "different orders": (
        """
profiles:
- schedulerName: a
- schedulerName: b
  plugins: {multiPoint: {disabled: [{name: PrioritySort}], enabled: [{name: OtherSort}]}}
""",
        'initializing profiles: different queue sort plugins for profile "b": "OtherSort", '
        'first: "PrioritySort"',
    ),
    "different arguments of the order": (
        """
profiles:
- schedulerName: a
- schedulerName: b
  pluginConfig: [{name: PrioritySort, args: {}}]
""",
        'initializing profiles: different queue sort plugin args for profile "b"',
    ),
    "the same name twice": (
        "profiles: [{schedulerName: a}, {schedulerName: a}]",
        'initializing profiles: duplicate profile with scheduler name "a"',
    ),
    "no name": (
        'profiles: [{schedulerName: ""}]',
        "initializing profiles: scheduler name is needed",
    ),
    "arguments twice": (
        "profiles: [{schedulerName: a, pluginConfig: [{name: X}, {name: X}]}]",
        "initializing profiles: creating profile for scheduler name a: "
        "repeated config for plugin X",
    ),
    "arguments the plugin refuses": (
        """
profiles:
- schedulerName: a
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Foo}}}]
""",
        "initializing profiles: creating profile for scheduler name a: "
        'initializing plugin "NodeResourcesFit": scoringStrategy.type: Unsupported value: "Foo": '
        'supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"',
    ),
    "arguments nobody defaulted": (
        """
profiles:
- schedulerName: a
  plugins:
    multiPoint: {disabled: [{name: DefaultPreemption}]}
    podGroupPostFilter: {enabled: [{name: DefaultPreemption}]}
""",
        "initializing profiles: creating profile for scheduler name a: initializing plugin "
        '"DefaultPreemption": got args of type <nil>, want *DefaultPreemptionArgs',
    ),
}


@pytest.mark.parametrize(("body", "message"), BUILDS.values(), ids=BUILDS)
def test_configurations_that_cannot_be_completed(body, message, load, gates):
    with pytest.raises(ConfigError) as caught:
        complete(load(body), CATALOG, gates=gates)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("generic_workload", "disabled", "want"),
    [(True, "GangScheduling", 2), (True, "NodeName", 0), (False, "GangScheduling", 0)],
)
def test_workloads_without_gang_scheduling_are_warned_of_per_profile(
    generic_workload, disabled, want, load, capfd
):
    gates = FeatureGates.defaults().apply({"GenericWorkload": generic_workload})
    plugins = f"{{multiPoint: {{disabled: [{{name: {disabled}}}]}}}}"
    profiles = "".join(f"- {{schedulerName: {name}, plugins: {plugins}}}\n" for name in "ab")
    complete(load(f"profiles:\n{profiles}", gates), CATALOG, gates=gates)
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("E")]
    told = (
        '"GenericWorkload is enabled, but GangScheduling plugin is not set. '
        'Gang scheduling using PodGroups may not work as expected."'
    )
    assert [line.partition("] ")[2] for line in lines] == [told] * want


def test_what_is_written_leaves_out_arguments_of_plugins_that_do_not_run(load, gates):
    config = load("""
profiles:
- plugins: {multiPoint: {disabled: [{name: NodeAffinity}, {name: NodeResourcesFit}]}}
  pluginConfig:
  - {name: VolumeBinding}
  - {name: NodeAffinity}
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: Foo}}}
  - {name: Mine, args: {a: 1}}
  - {name: ImageLocality, args: {b: 1}}
  - {name: PrioritySort}
""")
    completed = complete(config, CATALOG, gates=gates)
    assert [e.name for e in completed.written.profiles[0].plugin_config] == [
        "DefaultPreemption",
        "DynamicResources",
        "ImageLocality",
        "InterPodAffinity",
        "NodeResourcesBalancedAllocation",
        "PodTopologySpread",
        "VolumeBinding",
    ]
    assert completed.config == config


NAMES = st.sampled_from([*IN_TREE, "*"])
SETS = st.builds(
    plugin_set,
    enabled=st.lists(st.sampled_from(sorted(IN_TREE)), unique=True, max_size=6),
    disabled=st.lists(NAMES, unique=True, max_size=4),
)


@given(multi_point=SETS, score=SETS)
def test_expansion_keeps_its_promises(multi_point, score, gates):
    scorers = tuple(p for p in score.enabled if Point.SCORE in IN_TREE[p.name])
    score = PluginSet(enabled=scorers, disabled=score.disabled)
    custom = Plugins(multi_point=multi_point, score=score)
    merged = merge_plugins(custom, CATALOG.default_plugins(gates))
    profile = KubeSchedulerProfile(scheduler_name="a", plugins=merged)
    spread = [plugin.name for plugin in merged.multi_point.enabled]
    if not {"PrioritySort", "DefaultBinder"} <= set(spread):
        with pytest.raises(ConfigError, match=r"queue sort plugin|bind plugin"):
            expand(profile, IN_TREE)
        return
    plugins = expand(profile, IN_TREE)
    for point in Point:
        names = plugins[point]
        assert len(set(names)) == len(names)
        assert all(point in IN_TREE[name] for name in names)
        if point is not Point.SCORE:
            assert list(names) == [name for name in spread if point in IN_TREE[name]]
    chosen = {plugin.name for plugin in scorers}
    disabled = {plugin.name for plugin in score.disabled}
    assert chosen <= set(plugins[Point.SCORE])
    for name in set(plugins[Point.SCORE]) - chosen:
        assert name in spread
        assert not {name, "*"} & disabled
    assert set(plugins[Point.SCORE]) <= set(plugins.score_weights)
    assert all(plugins.score_weights.values())


@given(custom=SETS)
def test_merging_keeps_every_choice_of_the_user(custom, gates):
    by_default = CATALOG.default_plugins(gates)
    merged = merge_plugins(Plugins(multi_point=custom), by_default).multi_point
    names = [plugin.name for plugin in merged.enabled]
    wanted = [plugin.name for plugin in custom.enabled]
    disabled = {plugin.name for plugin in custom.disabled}
    defaults = [plugin.name for plugin in by_default]
    kept = [] if "*" in disabled else [name for name in defaults if name not in disabled]
    assert names == kept + [name for name in wanted if name not in kept]
    assert merged.disabled == custom.disabled
