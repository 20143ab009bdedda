"""Arguments of NodeAffinity: an affinity that all pods of a profile get on top of their own.

Rules mirror component-helpers/scheduling/corev1/nodeaffinity as far as it parses. Unlike the checks
of pods in `kscheduler.api`, these tell a list that was left out from one that is empty, because the
text shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from kscheduler.api.field_errors import FieldError, Path, invalid, unsupported
from kscheduler.api.labels import parse_int
from kscheduler.api.validation import label_key_errors, label_value_errors
from kscheduler.config.plugin_args import CoreModel, Gates, PluginArgs
from kscheduler.config.wire import OMIT_EMPTY, Int32
from kscheduler.gotext.unmarshal import Scalar

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
FIELD_OPERATORS = ("In", "NotIn")


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


class NodeAffinityArgs(PluginArgs):
    wrong_type: ClassVar[str] = "args are not of type {want}, got {got}"

    added_affinity: Annotated[NodeAffinity | None, OMIT_EMPTY] = None

    def errors(self, path: Path, gates: Gates) -> Iterator[FieldError]:
        affinity, path = self.added_affinity, path / "addedAffinity"
        if affinity is None:
            return
        required = affinity.required_during_scheduling_ignored_during_execution
        terms_path = path / "requiredDuringSchedulingIgnoredDuringExecution" / "nodeSelectorTerms"
        for i, term in enumerate((required and required.node_selector_terms) or ()):
            yield from _term_errors(term, terms_path[i])
        preferred_path = path / "preferredDuringSchedulingIgnoredDuringExecution"
        for i, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
            if weighted.weight:  # without weight a term is not even parsed
                yield from _term_errors(weighted.preference, preferred_path[i])


def _term_errors(term: NodeSelectorTerm, path: Path) -> Iterator[FieldError]:
    for i, requirement in enumerate(term.match_expressions):
        yield from _expression_errors(requirement, (path / "matchExpressions")[i])
    for i, requirement in enumerate(term.match_fields):
        where = (path / "matchFields")[i]
        if requirement.operator not in FIELD_OPERATORS:
            yield unsupported(where / "operator", requirement.operator, FIELD_OPERATORS)
        elif len(requirement.values or ()) != 1:
            yield invalid(where / "values", requirement.values, "must have one element")


def _expression_errors(requirement: NodeSelectorRequirement, path: Path) -> Iterator[FieldError]:
    if requirement.operator not in OPERATORS:
        yield unsupported(path / "operator", requirement.operator, OPERATORS)
        return
    if complaints := label_key_errors(requirement.key):
        yield invalid(path / "key", requirement.key, "; ".join(complaints))
    # Whether the operator takes this number of values, and values of this form.
    values, values_path = requirement.values, path / "values"
    match requirement.operator:
        case "In" | "NotIn" if not values:
            detail = "for 'in', 'notin' operators, values set can't be empty"
            yield invalid(values_path, values, detail)
        case "Exists" | "DoesNotExist" if values:
            detail = "values set must be empty for exists and does not exist"
            yield invalid(values_path, values, detail)
        case "Gt" | "Lt":
            if len(values or ()) != 1:
                detail = "for 'Gt', 'Lt' operators, exactly one value is required"
                yield invalid(values_path, values, detail)
            for i, value in enumerate(values or ()):
                if parse_int(value) is None:
                    detail = "for 'Gt', 'Lt' operators, the value must be an integer"
                    yield invalid(values_path[i], value, detail)
    for i, value in enumerate(values or ()):
        if complaints := label_value_errors(value):
            yield invalid(values_path[i][requirement.key], value, "; ".join(complaints))
