import pytest

from kscheduler.config.defaults import default_config, merge_plugins
from kscheduler.config.model import (
    ClientConnectionConfiguration,
    LeaderElectionConfiguration,
    Plugin,
    Plugins,
    PluginSet,
)
from kscheduler.gotext.duration import Duration
from kscheduler.plugins import catalog
from kscheduler.plugins.dynamic_resources.args import DynamicResourcesArgs
from kscheduler.plugins.node_resources.args import (
    CPU_AND_MEMORY,
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
)
from kscheduler.plugins.volume_binding.plugin import VolumeBindingArgs

default_plugins = catalog().default_plugins


def plugin_args(config, name, profile=0):
    return next(e.args for e in config.profiles[profile].plugin_config if e.name == name)


def test_nothing_configured_is_one_profile_with_all_default_arguments(gates):
    config = default_config(catalog(), gates)
    (profile,) = config.profiles
    assert profile.scheduler_name == "default-scheduler"
    assert [entry.name for entry in profile.plugin_config] == [
        "DefaultPreemption",
        "DynamicResources",
        "InterPodAffinity",
        "NodeAffinity",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
        "PodTopologySpread",
        "VolumeBinding",
    ]


def test_zeroes_and_empty_strings_count_as_not_given(load):
    config = load("""
leaderElection: {leaseDuration: 0s, renewDeadline: 0s, retryPeriod: 0s, resourceLock: "",
  resourceName: "", resourceNamespace: ""}
clientConnection: {contentType: "", qps: 0, burst: 0}
""")
    assert config.leader_election == LeaderElectionConfiguration()
    assert config.client_connection == ClientConnectionConfiguration()


def test_what_is_given_stays(load):
    config = load("""
leaderElection: {leaderElect: false, leaseDuration: -1s, resourceName: x}
clientConnection: {qps: -1, burst: -1}
parallelism: 0
""")
    assert config.leader_election == LeaderElectionConfiguration(
        leader_elect=False, lease_duration=Duration.of(-1), resource_name="x"
    )
    assert (config.client_connection.qps, config.client_connection.burst) == (-1.0, -1)
    assert config.parallelism == 0


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", (True, True)),
        ("enableProfiling: false", (False, False)),
        ("enableContentionProfiling: false", (True, False)),
        ("enableProfiling: false\nenableContentionProfiling: true", (False, True)),
    ],
)
def test_contention_profiling_follows_profiling(body, expected, load):
    config = load(body)
    assert (config.enable_profiling, config.enable_contention_profiling) == expected


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("profiles: []", ["default-scheduler"]),
        ("profiles: [{}]", ["default-scheduler"]),
        ("profiles: [null]", ["default-scheduler"]),
        ('profiles: [{schedulerName: ""}]', [""]),
        ("profiles: [{}, {schedulerName: b}]", ["", "b"]),
    ],
)
def test_only_a_single_profile_gets_a_name(body, names, load):
    assert [profile.scheduler_name for profile in load(body).profiles] == names


def names_of(plugins):
    return [plugin.name for plugin in plugins]


def test_gates_add_plugins_where_they_belong(gates_with):
    everything = gates_with(
        on=(
            "InPlacePodVerticalScalingSchedulerPreemption",
            "GenericWorkload",
            "TopologyAwareWorkloadScheduling",
        )
    )
    names = names_of(default_plugins(everything))
    assert names[names.index("NodeResourcesFit") - 1] == "DeferredPodScheduling"
    assert names[names.index("DefaultPreemption") - 1] == "DynamicResources"
    assert names[-4:] == [
        "NodeDeclaredFeatures",
        "GangScheduling",
        "TopologyPlacementGenerator",
        "PodGroupPodsCount",
    ]


def test_without_gates_only_the_basic_plugins_run(gates_with):
    bare = gates_with(off=("NodeDeclaredFeatures", "DynamicResourceAllocation"))
    assert default_plugins(bare) == (
        Plugin(name="SchedulingGates"),
        Plugin(name="PrioritySort"),
        Plugin(name="NodeName"),
        Plugin(name="NodeUnschedulable"),
        Plugin(name="TaintToleration", weight=3),
        Plugin(name="NodeAffinity", weight=2),
        Plugin(name="NodePorts"),
        Plugin(name="NodeResourcesFit", weight=1),
        Plugin(name="VolumeRestrictions"),
        Plugin(name="NodeVolumeLimits"),
        Plugin(name="VolumeBinding"),
        Plugin(name="VolumeZone"),
        Plugin(name="PodTopologySpread", weight=2),
        Plugin(name="InterPodAffinity", weight=2),
        Plugin(name="DefaultPreemption"),
        Plugin(name="NodeResourcesBalancedAllocation", weight=1),
        Plugin(name="ImageLocality", weight=1),
        Plugin(name="DefaultBinder"),
    )


def merged(gates, **multi_point):
    custom = Plugins(multi_point=PluginSet(**multi_point))
    return merge_plugins(custom, default_plugins(gates)).multi_point


def test_a_default_enabled_again_is_replaced_in_place_weight_and_all(gates):
    plugins = merged(gates, enabled=(Plugin(name="TaintToleration"), Plugin(name="Mine")))
    defaults = names_of(default_plugins(gates))
    assert names_of(plugins.enabled) == [*defaults, "Mine"]
    assert plugins.enabled[defaults.index("TaintToleration")].weight == 0


def test_disabled_and_enabled_moves_to_the_end(gates):
    plugins = merged(
        gates,
        enabled=(Plugin(name="TaintToleration", weight=7),),
        disabled=(Plugin(name="TaintToleration", weight=9),),
    )
    assert plugins.enabled[-1] == Plugin(name="TaintToleration", weight=7)
    assert plugins.disabled == (Plugin(name="TaintToleration"),)
    assert len(plugins.enabled) == len(default_plugins(gates))


def test_a_star_leaves_only_what_is_enabled(gates):
    plugins = merged(gates, enabled=(Plugin(name="NodeName"),), disabled=(Plugin(name="*"),))
    assert names_of(plugins.enabled) == ["NodeName"]


def test_of_a_default_enabled_twice_the_last_copy_replaces_it(gates):
    twice = (Plugin(name="NodeName", weight=1), Plugin(name="NodeName", weight=2))
    plugins = merged(gates, enabled=twice)
    index = names_of(default_plugins(gates)).index("NodeName")
    assert plugins.enabled[index].weight == 2
    assert plugins.enabled[-1].weight == 1


def test_points_have_no_defaults_of_their_own(gates):
    score = PluginSet(enabled=(Plugin(name="ImageLocality"),), disabled=(Plugin(name="*"),))
    plugins = merge_plugins(Plugins(score=score), default_plugins(gates))
    assert plugins.score == score
    assert plugins.filter == PluginSet()


def test_arguments_follow_the_enabled_plugins_except_at_pod_group_post_filter(load):
    config = load("""
profiles:
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: NodeResourcesFit}]
    score: {enabled: [{name: InterPodAffinity}]}
    podGroupPostFilter: {enabled: [{name: DefaultPreemption}]}
""")
    names = [entry.name for entry in config.profiles[0].plugin_config]
    assert names == ["InterPodAffinity", "NodeResourcesFit"]


def fit(strategy: str) -> str:
    args = f"{{scoringStrategy: {strategy}}}"
    return f"profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args: {args}\n"


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("null", ("LeastAllocated", CPU_AND_MEMORY)),
        ("{}", ("", CPU_AND_MEMORY)),
        ("{type: MostAllocated, resources: []}", ("MostAllocated", CPU_AND_MEMORY)),
        ("{resources: [{name: cpu}]}", ("", (ResourceSpec(name="cpu", weight=1),))),
    ],
)
def test_a_scoring_strategy_gets_resources_and_weights_but_no_type(strategy, expected, load):
    args = plugin_args(load(fit(strategy)), "NodeResourcesFit")
    kind, resources = expected
    assert args == NodeResourcesFitArgs(
        scoring_strategy=ScoringStrategy(type=kind, resources=resources)
    )


def test_gates_decide_the_shape_and_the_timeouts(load, gates_with):
    off = gates_with(off=("StorageCapacityScoring", "DRASchedulerFilterTimeout"))
    config = load("", off)
    assert plugin_args(config, "VolumeBinding") == VolumeBindingArgs(shape=None)
    assert plugin_args(config, "DynamicResources") == DynamicResourcesArgs(
        filter_timeout=None, binding_timeout=Duration.of(600)
    )
    status_off = gates_with(off=("DRAResourceClaimDeviceStatus",))
    args = plugin_args(load("", status_off), "DynamicResources")
    assert args == DynamicResourcesArgs(filter_timeout=Duration.of(10))
