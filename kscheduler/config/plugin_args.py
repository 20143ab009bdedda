"""Arguments of the in-tree plugins: every `<Plugin>Args` kind of kubescheduler.config.k8s.io/v1.

Defaults that depend on feature gates are not here but in `defaults`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from kscheduler.config.wire import OMIT_EMPTY, Int32, Int64, Model
from kscheduler.gotext.duration import Duration
from kscheduler.gotext.json_text import parse_json, plain
from kscheduler.gotext.unmarshal import Scalar


class PluginArgs(Model):
    """Typed arguments; the class name is the kind."""

    has_type_meta: ClassVar[bool] = True


class RawArgs(Model):
    """Arguments of a plugin without a kind of its own: unchecked JSON for the plugin to read."""

    text: str

    @property
    def value(self) -> object:
        return plain(parse_json(self.text.encode()))


class CoreModel(Model):
    """A type of the core API, which upstream's internal configuration uses as it is."""

    core_type: ClassVar[bool] = True


class NodeSelectorRequirement(CoreModel):
    key: str = ""
    operator: Annotated[str, Scalar("string", "v1.NodeSelectorOperator")] = ""
    values: Annotated[tuple[str, ...] | None, OMIT_EMPTY] = None


class NodeSelectorTerm(CoreModel):
    match_expressions: Annotated[tuple[NodeSelectorRequirement, ...], OMIT_EMPTY] = ()
    match_fields: Annotated[tuple[NodeSelectorRequirement, ...], OMIT_EMPTY] = ()


class NodeSelector(CoreModel):
    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class PreferredSchedulingTerm(CoreModel):
    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(CoreModel):
    required_during_scheduling_ignored_during_execution: Annotated[
        NodeSelector | None, OMIT_EMPTY
    ] = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredSchedulingTerm, ...], OMIT_EMPTY
    ] = ()


class LabelSelectorRequirement(CoreModel):
    key: str = ""
    operator: Annotated[str, Scalar("string", "v1.LabelSelectorOperator")] = ""
    values: Annotated[tuple[str, ...], OMIT_EMPTY] = ()


class LabelSelector(CoreModel):
    match_labels: Annotated[Mapping[str, str], OMIT_EMPTY] = {}
    match_expressions: Annotated[tuple[LabelSelectorRequirement, ...], OMIT_EMPTY] = ()


InclusionPolicy = Annotated[str, Scalar("string", "v1.NodeInclusionPolicy")]


class TopologySpreadConstraint(CoreModel):
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: Annotated[str, Scalar("string", "v1.UnsatisfiableConstraintAction")] = ""
    label_selector: Annotated[LabelSelector | None, OMIT_EMPTY] = None
    min_domains: Annotated[Int32 | None, OMIT_EMPTY] = None
    node_affinity_policy: Annotated[InclusionPolicy | None, OMIT_EMPTY] = None
    node_taints_policy: Annotated[InclusionPolicy | None, OMIT_EMPTY] = None
    match_label_keys: Annotated[tuple[str, ...], OMIT_EMPTY] = ()


class UtilizationShapePoint(Model):
    utilization: Int32 = 0
    score: Int32 = 0


class ResourceSpec(Model):
    name: str = ""
    weight: Annotated[Int64, OMIT_EMPTY] = 0


CPU_AND_MEMORY = (ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1))


class RequestedToCapacityRatioParam(Model):
    shape: Annotated[tuple[UtilizationShapePoint, ...], OMIT_EMPTY] = ()


class ScoringStrategy(Model):
    # Not defaulted: a strategy that is given must say which one it is.
    type: Annotated[
        str,
        Scalar("string", "v1.ScoringStrategyType", "config.ScoringStrategyType"),
        OMIT_EMPTY,
    ] = ""
    resources: Annotated[tuple[ResourceSpec, ...], OMIT_EMPTY] = ()
    requested_to_capacity_ratio: Annotated[RequestedToCapacityRatioParam | None, OMIT_EMPTY] = None


class DefaultPreemptionArgs(PluginArgs):
    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class InterPodAffinityArgs(PluginArgs):
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeResourcesFitArgs(PluginArgs):
    ignored_resources: Annotated[tuple[str, ...], OMIT_EMPTY] = ()
    ignored_resource_groups: Annotated[tuple[str, ...], OMIT_EMPTY] = ()
    scoring_strategy: Annotated[ScoringStrategy | None, OMIT_EMPTY] = ScoringStrategy(
        type="LeastAllocated", resources=CPU_AND_MEMORY
    )


class PodTopologySpreadArgs(PluginArgs):
    default_constraints: Annotated[tuple[TopologySpreadConstraint, ...], OMIT_EMPTY] = ()
    defaulting_type: Annotated[
        str,
        Scalar(
            "string",
            "v1.PodTopologySpreadConstraintsDefaulting",
            "config.PodTopologySpreadConstraintsDefaulting",
        ),
        OMIT_EMPTY,
    ] = "System"


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    resources: Annotated[tuple[ResourceSpec, ...], OMIT_EMPTY] = CPU_AND_MEMORY


class VolumeBindingArgs(PluginArgs):
    bind_timeout_seconds: Int64 = 600
    shape: Annotated[tuple[UtilizationShapePoint, ...] | None, OMIT_EMPTY] = None


class NodeAffinityArgs(PluginArgs):
    added_affinity: Annotated[NodeAffinity | None, OMIT_EMPTY] = None


class DynamicResourcesArgs(PluginArgs):
    filter_timeout: Duration | None = None
    binding_timeout: Annotated[Duration | None, OMIT_EMPTY] = None


KINDS: Mapping[str, type[PluginArgs]] = {
    kind.__name__: kind
    for kind in (
        DefaultPreemptionArgs,
        InterPodAffinityArgs,
        NodeResourcesBalancedAllocationArgs,
        NodeResourcesFitArgs,
        PodTopologySpreadArgs,
        VolumeBindingArgs,
        NodeAffinityArgs,
        DynamicResourcesArgs,
    )
}
