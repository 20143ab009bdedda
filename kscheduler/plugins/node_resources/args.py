"""Arguments of NodeResourcesFit and NodeResourcesBalancedAllocation: resources, and how they score.

Mirrors the types, defaults and rules of both in pkg/scheduler/apis/config. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Self

from kscheduler.api.field_errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from kscheduler.config.plugin_args import (
    Gates,
    PluginArgs,
    UtilizationShapePoint,
    label_name_errors,
    shape_errors,
)
from kscheduler.config.wire import OMIT_EMPTY, Int64, Model
from kscheduler.gotext.unmarshal import Scalar

RATIO = "RequestedToCapacityRatio"
STRATEGIES = ("LeastAllocated", "MostAllocated", RATIO)


class ResourceSpec(Model):
    name: str = ""
    weight: Annotated[Int64, OMIT_EMPTY] = 0


CPU_AND_MEMORY = (ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1))


def _weighted(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    """Resources with weight 1 where none is given; cpu and memory if there are none at all."""
    weighted = (r.model_copy(update={"weight": r.weight or 1}) for r in resources)
    return tuple(weighted) or CPU_AND_MEMORY


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

    def errors(self, path: Path) -> Iterator[FieldError]:
        if self.type not in STRATEGIES:
            yield unsupported(path / "type", self.type, STRATEGIES)
        for i, resource in enumerate(self.resources):
            if not 0 < resource.weight <= 100:
                detail = f"resource weight of {resource.name} not in valid range (0, 100]"
                yield invalid((path / "resources")[i] / "weight", resource.weight, detail)
        ratio, where = self.requested_to_capacity_ratio, path / "requestedToCapacityRatio"
        if self.type != RATIO:
            if ratio is not None:
                yield forbidden(where, f"must be nil when type is not {RATIO}")
        elif ratio is None:
            yield required(where, f"must be specified when type is {RATIO}")
        else:
            yield from shape_errors(ratio.shape, where / "shape")


class NodeResourcesFitArgs(PluginArgs):
    validated_with_file: ClassVar[bool] = False

    ignored_resources: Annotated[tuple[str, ...], OMIT_EMPTY] = ()
    ignored_resource_groups: Annotated[tuple[str, ...], OMIT_EMPTY] = ()
    scoring_strategy: Annotated[ScoringStrategy | None, OMIT_EMPTY] = ScoringStrategy(
        type="LeastAllocated", resources=CPU_AND_MEMORY
    )

    def with_defaults(self, gates: Gates) -> Self:
        strategy = self.scoring_strategy or ScoringStrategy(type="LeastAllocated")
        completed = strategy.model_copy(update={"resources": _weighted(strategy.resources)})
        return self.model_copy(update={"scoring_strategy": completed})

    def errors(self, path: Path, gates: Gates) -> Iterator[FieldError]:
        for i, name in enumerate(self.ignored_resources):
            yield from label_name_errors(name, (path / "ignoredResources")[i])
        for i, group in enumerate(self.ignored_resource_groups):
            where = (path / "ignoredResourceGroups")[i]
            if "/" in group:
                yield invalid(where, group, "resource group name can't contain '/'")
            yield from label_name_errors(group, where)
        if self.scoring_strategy is None:
            yield required(path / "scoringStrategy", "ScoringStrategy field is required")
        else:
            yield from self.scoring_strategy.errors(path / "scoringStrategy")


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    resources: Annotated[tuple[ResourceSpec, ...], OMIT_EMPTY] = CPU_AND_MEMORY

    def with_defaults(self, gates: Gates) -> Self:
        return self.model_copy(update={"resources": _weighted(self.resources)})

    def errors(self, path: Path, gates: Gates) -> Iterator[FieldError]:
        seen: set[str] = set()
        for i, resource in enumerate(self.resources):
            where = (path / "resources")[i]
            if resource.name in seen:
                yield duplicate(where / "name", resource.name)
            seen.add(resource.name)
            if resource.weight != 1:
                yield invalid(where / "weight", resource.weight, "must be 1")
