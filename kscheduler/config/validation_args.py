"""The rules for plugin arguments, kind by kind.

Mirrors pkg/scheduler/apis/config/validation/validation_pluginargs.go. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import singledispatch

from kscheduler.api.validation import label_key_errors
from kscheduler.config.catalog import Gates
from kscheduler.config.defaults import binding_conditions
from kscheduler.config.field_errors import (
    FieldError,
    Named,
    Path,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from kscheduler.config.internal_json import internal_json
from kscheduler.config.plugin_args import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    ScoringStrategy,
    TopologySpreadConstraint,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from kscheduler.config.validation_affinity import node_affinity_errors
from kscheduler.gotext.duration import Duration

STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
RATIO = "RequestedToCapacityRatio"
ACTIONS = ("DoNotSchedule", "ScheduleAnyway")

Errors = Iterator[FieldError]


@singledispatch
def args_errors(args: PluginArgs, path: Path, gates: Gates) -> Errors:
    """What is wrong with a plugin's arguments."""
    raise AssertionError(f"no rules for {type(args).__name__}")


@args_errors.register
def _(args: DefaultPreemptionArgs, path: Path, gates: Gates) -> Errors:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    percentage_path = path / "minCandidateNodesPercentage"
    absolute_path = path / "minCandidateNodesAbsolute"
    if not 0 <= percentage <= 100:
        yield invalid(percentage_path, percentage, "not in valid range [0, 100]")
    if absolute < 0:
        yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
    if percentage == absolute == 0:
        text = "cannot be zero at the same time as minCandidateNodes"
        yield invalid(percentage_path, percentage, f"{text}Absolute")
        yield invalid(absolute_path, absolute, f"{text}Percentage")


@args_errors.register
def _(args: InterPodAffinityArgs, path: Path, gates: Gates) -> Errors:
    weight = args.hard_pod_affinity_weight
    if not 0 <= weight <= 100:
        yield invalid(path / "hardPodAffinityWeight", weight, "not in valid range [0, 100]")


@args_errors.register
def _(args: NodeAffinityArgs, path: Path, gates: Gates) -> Errors:
    if args.added_affinity is not None:
        yield from node_affinity_errors(args.added_affinity, path / "addedAffinity")


@args_errors.register
def _(args: NodeResourcesBalancedAllocationArgs, path: Path, gates: Gates) -> Errors:
    seen: set[str] = set()
    for i, resource in enumerate(args.resources):
        where = (path / "resources")[i]
        if resource.name in seen:
            yield duplicate(where / "name", resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            yield invalid(where / "weight", resource.weight, "must be 1")


@args_errors.register
def _(args: PodTopologySpreadArgs, path: Path, gates: Gates) -> Errors:
    defaulting = args.defaulting_type
    if defaulting not in ("System", "List"):
        yield unsupported(path / "defaultingType", defaulting, ("System", "List"))
    elif defaulting == "System" and args.default_constraints:
        detail = "when .defaultConstraints are not empty"
        yield invalid(path / "defaultingType", Named(defaulting), detail)
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(args.default_constraints):
        where = (path / "defaultConstraints")[i]
        yield from _constraint_errors(constraint, where)
        key, action = constraint.topology_key, constraint.when_unsatisfiable
        if (key, action) in seen:
            yield duplicate(where, f"{{{key}, {action}}}")
        seen.add((key, action))


def _constraint_errors(constraint: TopologySpreadConstraint, path: Path) -> Errors:
    if constraint.max_skew <= 0:
        yield invalid(path / "maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    if not constraint.topology_key:
        yield required(path / "topologyKey", "can not be empty")
    else:
        yield from _label_name_errors(constraint.topology_key, path / "topologyKey")
    action = constraint.when_unsatisfiable
    if not action:
        yield required(path / "whenUnsatisfiable", "can not be empty")
    elif action not in ACTIONS:
        yield unsupported(path / "whenUnsatisfiable", action, ACTIONS)
    if constraint.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(path / "labelSelector", detail)


@args_errors.register
def _(args: VolumeBindingArgs, path: Path, gates: Gates) -> Errors:
    timeout = args.bind_timeout_seconds
    if timeout < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        yield invalid(path / "bindTimeoutSeconds", timeout, detail)
    if gates.enabled("StorageCapacityScoring"):
        yield from _shape_errors(args.shape or (), path / "shape")
    elif args.shape is not None:
        detail = (
            "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        )
        yield invalid(path / "shape", internal_json(args.shape), detail)


@args_errors.register
def _(args: DynamicResourcesArgs, path: Path, gates: Gates) -> Errors:
    filtering, binding = args.filter_timeout, args.binding_timeout
    if filtering is not None:
        if not gates.enabled("DRASchedulerFilterTimeout"):
            detail = "DRASchedulingFilterTimeout feature gate is disabled"
            yield forbidden(path / "filterTimeout", detail)
        elif filtering < 0:
            yield invalid(path / "filterTimeout", filtering, "must be zero or positive")
    if binding is not None:
        if not binding_conditions(gates):
            detail = (
                "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus "
                "feature gate is disabled"
            )
            yield forbidden(path / "bindingTimeout", detail)
        elif binding < Duration.of(1):
            yield invalid(path / "bindingTimeout", binding, "must be at least 1 second")


@args_errors.register
def _(args: NodeResourcesFitArgs, path: Path, gates: Gates) -> Errors:
    return fit_errors(args, path)


def fit_errors(args: NodeResourcesFitArgs, path: Path) -> Errors:
    for i, name in enumerate(args.ignored_resources):
        yield from _label_name_errors(name, (path / "ignoredResources")[i])
    for i, group in enumerate(args.ignored_resource_groups):
        where = (path / "ignoredResourceGroups")[i]
        if "/" in group:
            yield invalid(where, group, "resource group name can't contain '/'")
        yield from _label_name_errors(group, where)
    if args.scoring_strategy is None:
        yield required(path / "scoringStrategy", "ScoringStrategy field is required")
    else:
        yield from _strategy_errors(args.scoring_strategy, path / "scoringStrategy")


def _strategy_errors(strategy: ScoringStrategy, path: Path) -> Errors:
    if strategy.type not in STRATEGIES:
        yield unsupported(path / "type", strategy.type, STRATEGIES)
    yield from _weight_errors(strategy.resources, path / "resources")
    ratio, where = strategy.requested_to_capacity_ratio, path / "requestedToCapacityRatio"
    if strategy.type != RATIO:
        if ratio is not None:
            yield forbidden(where, f"must be nil when type is not {RATIO}")
    elif ratio is None:
        yield required(where, f"must be specified when type is {RATIO}")
    else:
        yield from _shape_errors(ratio.shape, where / "shape")


def _weight_errors(resources: Sequence[ResourceSpec], path: Path) -> Errors:
    for i, resource in enumerate(resources):
        if not 0 < resource.weight <= 100:
            detail = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield invalid(path[i] / "weight", resource.weight, detail)


def _shape_errors(shape: Sequence[UtilizationShapePoint], path: Path) -> Errors:
    if not shape:
        yield required(path, "at least one point must be specified")
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            detail = "values must be sorted in increasing order"
            yield invalid(path[i] / "utilization", shape[i].utilization, detail)
            break
    for i, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            detail = "not in valid range [0, 100]"
            yield invalid(path[i] / "utilization", point.utilization, detail)
        if not 0 <= point.score <= 10:
            yield invalid(path[i] / "score", point.score, "not in valid range [0, 10]")


def _label_name_errors(name: str, path: Path) -> Errors:
    return (invalid(path, name, message) for message in label_key_errors(name))
