"""Arguments of PodTopologySpread: constraints for pods that have none of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Self

from kscheduler.api.field_errors import (
    FieldError,
    Named,
    Path,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from kscheduler.config.plugin_args import CoreModel, Gates, PluginArgs, label_name_errors
from kscheduler.config.wire import OMIT_EMPTY, Int32
from kscheduler.gotext.unmarshal import Scalar

ACTIONS = ("DoNotSchedule", "ScheduleAnyway")

InclusionPolicy = Annotated[str, Scalar("string", "v1.NodeInclusionPolicy")]


class LabelSelectorRequirement(CoreModel):
    key: str = ""
    operator: Annotated[str, Scalar("string", "v1.LabelSelectorOperator")] = ""
    values: Annotated[tuple[str, ...], OMIT_EMPTY] = ()


class LabelSelector(CoreModel):
    match_labels: Annotated[Mapping[str, str], OMIT_EMPTY] = {}
    match_expressions: Annotated[tuple[LabelSelectorRequirement, ...], OMIT_EMPTY] = ()


class TopologySpreadConstraint(CoreModel):
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: Annotated[str, Scalar("string", "v1.UnsatisfiableConstraintAction")] = ""
    label_selector: Annotated[LabelSelector | None, OMIT_EMPTY] = None
    min_domains: Annotated[Int32 | None, OMIT_EMPTY] = None
    node_affinity_policy: Annotated[InclusionPolicy | None, OMIT_EMPTY] = None
    node_taints_policy: Annotated[InclusionPolicy | None, OMIT_EMPTY] = None
    match_label_keys: Annotated[tuple[str, ...], OMIT_EMPTY] = ()


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

    def with_defaults(self, gates: Gates) -> Self:
        return self.model_copy(update={"defaulting_type": self.defaulting_type or "System"})

    def errors(self, path: Path, gates: Gates) -> Iterator[FieldError]:
        defaulting = self.defaulting_type
        if defaulting not in ("System", "List"):
            yield unsupported(path / "defaultingType", defaulting, ("System", "List"))
        elif defaulting == "System" and self.default_constraints:
            detail = "when .defaultConstraints are not empty"
            yield invalid(path / "defaultingType", Named(defaulting), detail)
        seen: set[tuple[str, str]] = set()
        for i, constraint in enumerate(self.default_constraints):
            where = (path / "defaultConstraints")[i]
            yield from _constraint_errors(constraint, where)
            key, action = constraint.topology_key, constraint.when_unsatisfiable
            if (key, action) in seen:
                yield duplicate(where, f"{{{key}, {action}}}")
            seen.add((key, action))


def _constraint_errors(constraint: TopologySpreadConstraint, path: Path) -> Iterator[FieldError]:
    if constraint.max_skew <= 0:
        yield invalid(path / "maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    if not constraint.topology_key:
        yield required(path / "topologyKey", "can not be empty")
    else:
        yield from label_name_errors(constraint.topology_key, path / "topologyKey")
    action = constraint.when_unsatisfiable
    if not action:
        yield required(path / "whenUnsatisfiable", "can not be empty")
    elif action not in ACTIONS:
        yield unsupported(path / "whenUnsatisfiable", action, ACTIONS)
    if constraint.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(path / "labelSelector", detail)
