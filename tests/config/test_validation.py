"""Every rule once, with its path and its words; and the order in which they are told."""

import pytest

from kscheduler.api.field_errors import Path, aggregate
from kscheduler.config.validation import validate
from kscheduler.plugins import catalog
from kscheduler.plugins.node_resources.args import NodeResourcesFitArgs, ScoringStrategy

NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
REMOVED = (
    'was invalid in version "v1" '
    '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")'
)

TOP = {
    "parallelism: 0": "parallelism: Invalid value: 0: should be an integer value greater than zero",
    "percentageOfNodesToScore: -1": (
        "percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]"
    ),
    "podInitialBackoffSeconds: 0": (
        "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"
    ),
    "podMaxBackoffSeconds: 0": (
        "podMaxBackoffSeconds: Invalid value: 0: "
        "must be greater than or equal to PodInitialBackoffSeconds"
    ),
    "clientConnection: {burst: -1}": (
        "clientConnection.burst: Invalid value: -1: must be non-negative"
    ),
    "leaderElection: {retryPeriod: -1s}": (
        'leaderElection.retryPeriod: Invalid value: "-1s": must be greater than zero'
    ),
    "leaderElection: {leaseDuration: 90s, renewDeadline: 90s}": (
        'leaderElection.leaseDuration: Invalid value: "1m30s": must be greater than `RenewDeadline`'
    ),
    "leaderElection: {resourceLock: endpoints}": (
        'leaderElection.resourceLock: Invalid value: "endpoints": '
        'resourceLock value must be "leases"'
    ),
    "leaderElection: {leaderElect: false, resourceLock: x, leaseDuration: -1s}": "",
}


@pytest.mark.parametrize(("body", "message"), TOP.items(), ids=TOP)
def test_top_level_rules(body, message, load, gates):
    errors = validate(load(body), catalog(), gates)
    assert (aggregate(errors) if errors else "") == message


PROFILES = {
    'profiles: [{schedulerName: ""}]': "profiles[0].schedulerName: Required value",
    "profiles: [{schedulerName: a}, {schedulerName: a}]": (
        "profiles[1].schedulerName: Duplicate value: {}"
    ),
    "profiles: [{percentageOfNodesToScore: 101}]": (
        "profiles[0].percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"
    ),
    "profiles: [{plugins: {permit: {enabled: [{name: A}, {name: EBSLimits}]}}}]": (
        f'profiles[0].plugins.permit.enabled[1]: Invalid value: "EBSLimits": {REMOVED}'
    ),
    "profiles: [{plugins: {multiPoint: {enabled: [{name: EBSLimits}]}}}]": "",
    "profiles: [{pluginConfig: [{name: GCEPDLimits}]}]": (
        f'profiles[0].pluginConfig[0]: Invalid value: "GCEPDLimits": {REMOVED}'
    ),
    "profiles: [{pluginConfig: [{name: X}, {name: X}]}]": (
        'profiles[0].pluginConfig[1]: Duplicate value: "X"'
    ),
    "profiles: [{plugins: {queueSort: {enabled: [{name: A}, {name: B}]}}}]": (
        "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: "
        "only one queue sort plugin can be enabled"
    ),
    "profiles: [{schedulerName: a}, {schedulerName: b, "
    "plugins: {queueSort: {disabled: [{name: X}]}}}]": (
        'profiles[1].plugins.queueSort: Invalid value: {"Enabled":null,"Disabled":[{"Name":"X",'
        '"Weight":0}]}: must be the same for all profiles'
    ),
}


@pytest.mark.parametrize(("body", "message"), PROFILES.items(), ids=PROFILES)
def test_profile_rules(body, message, load, gates):
    errors = validate(load(body), catalog(), gates)
    assert (aggregate(errors) if errors else "") == message


def test_arguments_of_the_queue_sort_plugin_must_agree(load, gates):
    profile = """
- schedulerName: {name}
  plugins: {{queueSort: {{enabled: [{{name: Mine}}]}}}}
  pluginConfig: [{{name: Mine, args: {args}}}]
"""
    first = profile.format(name="a", args="{x: 1}")
    second = profile.format(name="b", args='{z: "<"}')
    (error,) = validate(load(f"profiles:{first}{second}"), catalog(), gates)
    assert str(error) == (
        'profiles[1].pluginConfig.args: Invalid value: {"z":"\\u003c"}: '
        "queueSort must be the same for all profiles"
    )


EXTENDERS = {
    "[{prioritizeVerb: p}]": (
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it"
    ),
    "[{bindVerb: b}, {bindVerb: b}]": (
        'extenders: Invalid value: "found 2 extenders implementing bind": '
        "only one extender can implement bind"
    ),
    "[{managedResources: [{name: foo}]}]": (
        'extenders[0].managedResources[0].name: Invalid value: "foo": '
        "is an invalid extended resource name"
    ),
    "[{managedResources: [{name: e.com/a}]}, {managedResources: [{name: e.com/a}]}]": (
        'extenders[1].managedResources[0].name: Invalid value: "e.com/a": '
        "duplicate extender managed resource name"
    ),
    "[{managedResources: [{name: e.com/<b>}]}]": (
        'extenders[0].managedResources[0].name: Invalid value: "e.com/\\u003cb\\u003e": '
        f"{NAME_RULE}"
    ),
}


@pytest.mark.parametrize(("extenders", "message"), EXTENDERS.items(), ids=EXTENDERS)
def test_extender_rules(extenders, message, load, gates):
    assert aggregate(validate(load(f"extenders: {extenders}"), catalog(), gates)) == message


def entry(name: str, args: str) -> str:
    return f"profiles:\n- pluginConfig:\n  - name: {name}\n    args: {args}\n"


ARGS = {
    "preemption out of range": (
        "DefaultPreemption",
        "{minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}",
        "[@.minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100], "
        "@.minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)]",
    ),
    "preemption off altogether": (
        "DefaultPreemption",
        "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
        "[@.minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as "
        "minCandidateNodesAbsolute, @.minCandidateNodesAbsolute: Invalid value: 0: cannot be zero "
        "at the same time as minCandidateNodesPercentage]",
    ),
    "affinity weight": (
        "InterPodAffinity",
        "{hardPodAffinityWeight: -1}",
        "@.hardPodAffinityWeight: Invalid value: -1: not in valid range [0, 100]",
    ),
    "balanced resources": (
        "NodeResourcesBalancedAllocation",
        "{resources: [{name: cpu}, {name: cpu, weight: 2}]}",
        '[@.resources[1].name: Duplicate value: "cpu", '
        "@.resources[1].weight: Invalid value: 2: must be 1]",
    ),
    "spreading by system and by list": (
        "PodTopologySpread",
        "{defaultConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]}",
        '@.defaultingType: Invalid value: "System": when .defaultConstraints are not empty',
    ),
    "spreading by something else": (
        "PodTopologySpread",
        "{defaultingType: Foo}",
        '@.defaultingType: Unsupported value: "Foo": supported values: "System", "List"',
    ),
    "spread constraint with nothing": (
        "PodTopologySpread",
        "{defaultingType: List, defaultConstraints: [{}]}",
        "[@.defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf), "
        "@.defaultConstraints[0].topologyKey: Required value: can not be empty, "
        "@.defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty]",
    ),
    "spread constraint with too much": (
        "PodTopologySpread",
        "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a b, "
        "whenUnsatisfiable: x, labelSelector: {}}]}",
        f'[@.defaultConstraints[0].topologyKey: Invalid value: "a b": {NAME_RULE}, '
        '@.defaultConstraints[0].whenUnsatisfiable: Unsupported value: "x": supported values: '
        '"DoNotSchedule", "ScheduleAnyway", @.defaultConstraints[0].labelSelector: Forbidden: '
        "constraint must not define a selector, as they deduced for each pod]",
    ),
    "volume binding": (
        "VolumeBinding",
        "{bindTimeoutSeconds: -1, shape: [{utilization: 5, score: 11}, {utilization: 5}]}",
        "[@.bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a "
        "negative value, @.shape[1].utilization: Invalid value: 5: values must be sorted in "
        "increasing order, @.shape[0].score: Invalid value: 11: not in valid range [0, 10]]",
    ),
    "device timeouts": (
        "DynamicResources",
        "{filterTimeout: -1s, bindingTimeout: 999ms}",
        '[@.filterTimeout: Invalid value: "-1s": must be zero or positive, '
        '@.bindingTimeout: Invalid value: "999ms": must be at least 1 second]',
    ),
    "fit is checked later": ("NodeResourcesFit", "{scoringStrategy: {type: Foo}}", ""),
    "raw arguments are nobody's business": ("Mine", "{a: 1}", ""),
}


@pytest.mark.parametrize(("name", "args", "message"), ARGS.values(), ids=ARGS)
def test_argument_rules(name, args, message, load, gates):
    errors = validate(load(entry(name, args)), catalog(), gates)
    expected = message.replace("@", "profiles[0].pluginConfig[0].args")
    assert (aggregate(errors) if errors else "") == expected


def test_arguments_of_features_that_are_off_are_forbidden(load, gates_with):
    gates = gates_with(
        off=("StorageCapacityScoring", "DRASchedulerFilterTimeout", "DRADeviceBindingConditions")
    )
    body = """
profiles:
- pluginConfig:
  - {name: VolumeBinding, args: {shape: []}}
  - {name: DynamicResources, args: {filterTimeout: 1s, bindingTimeout: 1s}}
"""
    at = "profiles[0].pluginConfig"
    assert [str(error) for error in validate(load(body, gates), catalog(), gates)] == [
        f"{at}[0].args.shape: Invalid value: []: unexpected field `shape`, remove it or turn on "
        "the feature gate StorageCapacityScoring",
        f"{at}[1].args.filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is "
        "disabled",
        f"{at}[1].args.bindingTimeout: Forbidden: DRADeviceBindingConditions or "
        "DRAResourceClaimDeviceStatus feature gate is disabled",
    ]


REQUIREMENTS = {
    "{key: a, operator: Foo}": (
        '.operator: Unsupported value: "Foo": supported values: '
        '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
    ),
    "{key: a, operator: In}": (
        ".values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    ),
    "{key: a, operator: NotIn, values: []}": (
        ".values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    ),
    "{key: a, operator: Exists, values: [b]}": (
        '.values: Invalid value: ["b"]: values set must be empty for exists and does not exist'
    ),
    "{key: a, operator: Gt, values: ['1', '2']}": (
        ".values: Invalid value: [\"1\",\"2\"]: for 'Gt', 'Lt' operators, exactly one value is "
        "required"
    ),
    "{key: a, operator: Lt, values: [x]}": (
        ".values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"
    ),
    "{key: 'a b', operator: Exists}": f'.key: Invalid value: "a b": {NAME_RULE}',
}


@pytest.mark.parametrize(("requirement", "message"), REQUIREMENTS.items(), ids=REQUIREMENTS)
def test_node_affinity_rules(requirement, message, load, gates):
    term = f"{{nodeSelectorTerms: [{{}}, {{matchExpressions: [{requirement}]}}]}}"
    affinity = f"{{requiredDuringSchedulingIgnoredDuringExecution: {term}}}"
    errors = validate(
        load(entry("NodeAffinity", f"{{addedAffinity: {affinity}}}")), catalog(), gates
    )
    path = "profiles[0].pluginConfig[0].args.addedAffinity"
    path += ".requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]"
    assert aggregate(errors) == f"{path}.matchExpressions[0]{message}"


def test_preferences_without_weight_are_not_looked_at(load, gates):
    terms = """[{weight: 0, preference: {matchFields: [{operator: Gt}]}},
        {weight: 1, preference: {matchFields: [{operator: Gt}, {operator: In}]}}]"""
    affinity = f"{{preferredDuringSchedulingIgnoredDuringExecution: {terms}}}"
    errors = validate(
        load(entry("NodeAffinity", f"{{addedAffinity: {affinity}}}")), catalog(), gates
    )
    path = "profiles[0].pluginConfig[0].args.addedAffinity"
    path += ".preferredDuringSchedulingIgnoredDuringExecution[1].matchFields"
    assert [str(error) for error in errors] == [
        f'{path}[0].operator: Unsupported value: "Gt": supported values: "In", "NotIn"',
        f"{path}[1].values: Invalid value: null: must have one element",
    ]


FIT = {
    "ignored": (
        NodeResourcesFitArgs(ignored_resources=("a b",), ignored_resource_groups=("a/b",)),
        [
            f'ignoredResources[0]: Invalid value: "a b": {NAME_RULE}',
            'ignoredResourceGroups[0]: Invalid value: "a/b": '
            "resource group name can't contain '/'",
        ],
    ),
    "no strategy": (
        NodeResourcesFitArgs(scoring_strategy=None),
        ["scoringStrategy: Required value: ScoringStrategy field is required"],
    ),
    "no type": (
        NodeResourcesFitArgs(scoring_strategy=ScoringStrategy()),
        [
            'scoringStrategy.type: Unsupported value: "": supported values: "LeastAllocated", '
            '"MostAllocated", "RequestedToCapacityRatio"'
        ],
    ),
    "ratio without shape": (
        NodeResourcesFitArgs.model_validate(
            {
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "requestedToCapacityRatio": {},
                }
            }
        ),
        [
            "scoringStrategy.requestedToCapacityRatio.shape: Required value: "
            "at least one point must be specified"
        ],
    ),
    "weights": (
        NodeResourcesFitArgs.model_validate(
            {
                "scoringStrategy": {
                    "type": "MostAllocated",
                    "resources": [{"name": "cpu", "weight": 101}],
                    "requestedToCapacityRatio": {},
                }
            }
        ),
        [
            "scoringStrategy.resources[0].weight: Invalid value: 101: "
            "resource weight of cpu not in valid range (0, 100]",
            "scoringStrategy.requestedToCapacityRatio: Forbidden: "
            "must be nil when type is not RequestedToCapacityRatio",
        ],
    ),
}


@pytest.mark.parametrize(("args", "messages"), FIT.values(), ids=FIT)
def test_fit_arguments_are_checked_without_a_path_before_them(args, messages, gates):
    assert [str(error) for error in args.errors(Path(), gates)] == messages


def test_errors_come_in_order_and_none_twice(load, gates):
    config = load("""
extenders: [{prioritizeVerb: p}, {managedResources: [{name: foo}, {name: foo}]}]
podInitialBackoffSeconds: -1
percentageOfNodesToScore: 200
profiles: [{schedulerName: a, percentageOfNodesToScore: 300}]
parallelism: -1
leaderElection: {resourceLock: x, renewDeadline: 15s}
clientConnection: {burst: -3}
""")
    paths = [error.path for error in validate(config, catalog(), gates)]
    assert paths == [
        "clientConnection.burst",
        "leaderElection.leaseDuration",
        "leaderElection.resourceLock",
        "parallelism",
        "profiles[0].percentageOfNodesToScore",
        "percentageOfNodesToScore",
        "podInitialBackoffSeconds",
        "extenders[0].weight",
        "extenders[1].managedResources[0].name",
        "extenders[1].managedResources[1].name",
        "extenders[1].managedResources[1].name",
    ]


def test_what_is_said_twice_is_said_once(load, gates):
    (error,) = validate(load("parallelism: 0"), catalog(), gates)
    other = validate(load("podMaxBackoffSeconds: 0"), catalog(), gates)
    assert aggregate([error, error]) == str(error)
    assert aggregate([error, *other, error]) == f"[{error}, {other[0]}]"
