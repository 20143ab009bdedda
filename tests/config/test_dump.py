"""What is written can be read, and reads as it was."""

import math

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.config.defaults import default_config, with_defaults
from kscheduler.config.dump import scalar_text, to_json, to_yaml
from kscheduler.config.load import load_config
from kscheduler.config.model import (
    ClientConnectionConfiguration,
    Extender,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    Plugin,
    PluginConfig,
    Plugins,
    PluginSet,
)
from kscheduler.config.plugin_args import RawArgs
from kscheduler.config.profiles import complete
from kscheduler.errors import ConfigError
from kscheduler.gotext.duration import Duration
from kscheduler.gotext.json_text import parse_json
from kscheduler.plugins import catalog
from kscheduler.plugins.dynamic_resources.args import DynamicResourcesArgs
from kscheduler.plugins.node_affinity.args import (
    NodeAffinity,
    NodeAffinityArgs,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from kscheduler.plugins.node_resources.args import (
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
)
from kscheduler.plugins.pod_topology_spread.args import (
    PodTopologySpreadArgs,
    TopologySpreadConstraint,
)


def test_the_written_form_of_the_defaults(gates):
    completed = complete(default_config(catalog(), gates), catalog(), gates=gates)
    text = to_yaml(completed.written)
    assert text.startswith("""\
apiVersion: kubescheduler.config.k8s.io/v1
clientConnection:
  acceptContentTypes: ""
  burst: 100
  contentType: application/vnd.kubernetes.protobuf
  kubeconfig: ""
  qps: 50
enableContentionProfiling: true
enableProfiling: true
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  leaseDuration: 15s
  renewDeadline: 10s
  resourceLock: leases
  resourceName: kube-scheduler
  resourceNamespace: kube-system
  retryPeriod: 2s
parallelism: 16
percentageOfNodesToScore: 0
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 10
profiles:
- pluginConfig:
  - args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: DefaultPreemptionArgs
      minCandidateNodesAbsolute: 100
      minCandidateNodesPercentage: 10
    name: DefaultPreemption
""")
    assert text.endswith("""\
    reserve: {}
    score: {}
  schedulerName: default-scheduler
""")


def test_json_keeps_the_order_of_declaration(gates):
    node = parse_json(to_json(default_config(catalog(), gates)).encode())
    assert [key for key, _ in node.members] == [
        "kind",
        "apiVersion",
        "parallelism",
        "leaderElection",
        "clientConnection",
        "enableProfiling",
        "enableContentionProfiling",
        "percentageOfNodesToScore",
        "podInitialBackoffSeconds",
        "podMaxBackoffSeconds",
        "profiles",
    ]


def test_what_v1_leaves_out_when_empty_is_left_out():
    config = KubeSchedulerConfiguration(extenders=(Extender(url_prefix="http://a"),))
    assert yaml.safe_load(to_yaml(config))["extenders"] == [
        {"urlPrefix": "http://a", "httpTimeout": "0s"}
    ]


def test_what_v1_shows_when_empty_is_shown():
    entries = (
        PluginConfig(name="Mine"),
        PluginConfig(name="DynamicResources", args=DynamicResourcesArgs()),
        PluginConfig(
            name="NodeAffinity",
            args=NodeAffinityArgs(
                added_affinity=NodeAffinity(
                    required_during_scheduling_ignored_during_execution=NodeSelector()
                )
            ),
        ),
    )
    profile = KubeSchedulerProfile(percentage_of_nodes_to_score=0, plugin_config=entries)
    tree = yaml.safe_load(to_yaml(KubeSchedulerConfiguration(profiles=(profile,))))
    meta = {"apiVersion": "kubescheduler.config.k8s.io/v1"}
    assert tree["profiles"][0]["percentageOfNodesToScore"] == 0
    assert [entry["args"] for entry in tree["profiles"][0]["pluginConfig"]] == [
        None,
        {"kind": "DynamicResourcesArgs", **meta, "filterTimeout": None},
        {
            "kind": "NodeAffinityArgs",
            **meta,
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": None}
            },
        },
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [("", '""'), ("yes", '"yes"'), ("n", '"n"'), ("5", '"5"'), ("*", "'*'"), ("a b", "a b"),
     ("2001-01-01", '"2001-01-01"'), (True, "true"), (None, "null"), (1.5, "1.5"), ({}, "{}")],
)  # fmt: skip
def test_strings_that_could_be_something_else_are_quoted(value, text):
    assert scalar_text(value) == text


def test_an_infinite_rate_cannot_be_written_down():
    connection = ClientConnectionConfiguration(qps=math.inf)
    with pytest.raises(ConfigError, match=r"^json: unsupported value: \+Inf$"):
        to_yaml(KubeSchedulerConfiguration(client_connection=connection))


NAMES = st.text("abcXYZ019-_. :'\"é\n#", max_size=8)
DURATIONS = st.integers(1, 2**62).map(Duration)
INT32 = st.integers(-(2**31), 2**31 - 1)
POSITIVE = st.integers(1, 2**31 - 1)

PLUGIN_NAMES = NAMES | st.sampled_from([*catalog().in_tree, "*"])
PLUGIN_SETS = st.builds(
    PluginSet,
    enabled=st.lists(
        st.builds(Plugin, name=PLUGIN_NAMES, weight=INT32), max_size=4, unique_by=lambda p: p.name
    ).map(tuple),
    disabled=st.lists(st.builds(Plugin, name=PLUGIN_NAMES), max_size=3).map(tuple),
)
REQUIREMENTS = st.builds(
    NodeSelectorRequirement,
    key=NAMES,
    operator=NAMES,
    values=st.none() | st.lists(NAMES, min_size=1, max_size=2).map(tuple),
)
TERMS = st.builds(NodeSelectorTerm, match_expressions=st.lists(REQUIREMENTS, max_size=2).map(tuple))
AFFINITY = st.builds(
    NodeAffinity,
    required_during_scheduling_ignored_during_execution=st.none()
    | st.builds(
        NodeSelector, node_selector_terms=st.none() | st.lists(TERMS, max_size=2).map(tuple)
    ),
)
STRATEGIES = st.builds(
    ScoringStrategy,
    type=NAMES,
    resources=st.lists(
        st.builds(ResourceSpec, name=NAMES, weight=POSITIVE), min_size=1, max_size=2
    ).map(tuple),
)
CONSTRAINTS = st.builds(
    TopologySpreadConstraint,
    max_skew=INT32,
    topology_key=NAMES,
    when_unsatisfiable=NAMES,
    min_domains=st.none() | INT32,
)
ENTRIES = st.one_of(
    st.builds(
        PluginConfig,
        name=st.just("NodeResourcesFit"),
        args=st.builds(NodeResourcesFitArgs, scoring_strategy=STRATEGIES),
    ),
    st.builds(
        PluginConfig,
        name=st.just("NodeAffinity"),
        args=st.builds(NodeAffinityArgs, added_affinity=AFFINITY),
    ),
    st.builds(
        PluginConfig,
        name=st.just("PodTopologySpread"),
        args=st.builds(
            PodTopologySpreadArgs, default_constraints=st.lists(CONSTRAINTS, max_size=2).map(tuple)
        ),
    ),
    st.builds(
        PluginConfig,
        name=st.just("DynamicResources"),
        args=st.builds(DynamicResourcesArgs, filter_timeout=DURATIONS, binding_timeout=DURATIONS),
    ),
    st.just(PluginConfig(name="Mine", args=RawArgs(text='{"a":[1,"x",null,1.5]}'))),
)
PROFILES = st.builds(
    KubeSchedulerProfile,
    scheduler_name=NAMES,
    percentage_of_nodes_to_score=st.none() | INT32,
    plugins=st.builds(Plugins, multi_point=PLUGIN_SETS, score=PLUGIN_SETS),
    plugin_config=st.lists(ENTRIES, max_size=3, unique_by=lambda e: e.name).map(tuple),
)
EXTENDERS = st.builds(
    Extender,
    url_prefix=NAMES,
    weight=st.integers(-(2**63), 2**63 - 1),
    http_timeout=DURATIONS,
    tls_config=st.none() | st.builds(ExtenderTLSConfig, ca_data=st.binary(max_size=9)),
    managed_resources=st.lists(st.builds(ExtenderManagedResource, name=NAMES), max_size=2).map(
        tuple
    ),
    ignorable=st.booleans(),
)
CONFIGS = st.builds(
    KubeSchedulerConfiguration,
    parallelism=INT32,
    leader_election=st.builds(
        LeaderElectionConfiguration, leader_elect=st.booleans(), lease_duration=DURATIONS
    ),
    client_connection=st.builds(
        ClientConnectionConfiguration,
        kubeconfig=NAMES,
        qps=st.floats(width=32, allow_nan=False, allow_infinity=False),
    ),
    enable_contention_profiling=st.booleans(),
    profiles=st.lists(PROFILES, max_size=2).map(tuple),
    extenders=st.lists(EXTENDERS, max_size=2).map(tuple),
    delay_cache_until_active=st.booleans(),
)


@settings(max_examples=40, deadline=None)
@given(config=CONFIGS)
def test_a_dumped_configuration_loads_as_itself(config, gates):
    completed = with_defaults(config, catalog(), gates)
    for text in (to_yaml(completed), to_json(completed)):
        again = load_config(text.encode(), catalog(), gates=gates)
        assert again == completed
        assert to_yaml(again) == to_yaml(completed)
