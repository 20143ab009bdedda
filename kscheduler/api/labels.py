"""Label selectors that answer: does this set of labels match?

A `Selector` is interned: two selectors with the same requirements are the same object, so it can
be a dictionary key, and an index keyed by selectors is keyed by meaning. `k=v` and `k in (v)`
are one requirement.

Mirrors apimachinery/pkg/labels and LabelSelectorAsSelector. Differs: a selector prints its
requirements in one spelling only.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Self
from weakref import WeakValueDictionary

from kscheduler.api import field_errors
from kscheduler.api.meta import LabelSelector, LabelSelectorRequirement
from kscheduler.api.quantity import MAX_INT64, MIN_INT64
from kscheduler.api.validation import label_key_errors, label_value_errors
from kscheduler.caches import BoundedCache, size_of
from kscheduler.errors import KschedulerError
from kscheduler.logs import quote

_INTEGER = re.compile(r"[+-]?[0-9]{1,400}")


class SelectorError(KschedulerError, ValueError):
    """Raised for a selector that cannot be understood; the wording is upstream's."""


class Operator(Enum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER_THAN = "Gt"
    LESS_THAN = "Lt"


_LABEL_SELECTOR_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
_MATCHES_ABSENT = (Operator.NOT_IN, Operator.DOES_NOT_EXIST)


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one label must be."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    @property
    def needs_key(self) -> bool:
        """Whether labels without this key can never match."""
        return self.operator not in _MATCHES_ABSENT

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if value is None:
            return self.operator in _MATCHES_ABSENT
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return True
            case Operator.DOES_NOT_EXIST:
                return False
            case Operator.GREATER_THAN | Operator.LESS_THAN:
                return self._compares(value)

    def _compares(self, value: str) -> bool:
        actual = parse_int(value)
        (bound,) = map(parse_int, self.values)
        if actual is None or bound is None:
            return False
        return actual > bound if self.operator is Operator.GREATER_THAN else actual < bound

    def __str__(self) -> str:
        values = ",".join(sorted(self.values))
        match self.operator:
            case Operator.IN:
                return (
                    f"{self.key} in ({values})" if len(self.values) > 1 else f"{self.key}={values}"
                )
            case Operator.NOT_IN:
                several = len(self.values) > 1
                return f"{self.key} notin ({values})" if several else f"{self.key}!={values}"
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.GREATER_THAN:
                return f"{self.key}>{values}"
            case Operator.LESS_THAN:
                return f"{self.key}<{values}"


def _sort_key(item: Requirement) -> tuple[str, str, list[str]]:
    return item.key, item.operator.value, sorted(item.values)


class Selector:
    """All of its requirements must hold; equal selectors are one object."""

    __slots__ = ("__weakref__", "matches_nothing", "requirements")

    requirements: tuple[Requirement, ...]
    matches_nothing: bool

    _known: ClassVar[WeakValueDictionary[tuple[Requirement, ...], Self]] = WeakValueDictionary()

    def __new__(cls, requirements: Iterable[Requirement] = ()) -> Self:
        ordered = tuple(sorted(set(requirements), key=_sort_key))
        known = cls._known.get(ordered)
        if known is None:
            known = object.__new__(cls)
            known.requirements = ordered
            known.matches_nothing = False
            cls._known[ordered] = known
        return known

    @property
    def matches_everything(self) -> bool:
        return not self.requirements and not self.matches_nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.matches_nothing:
            return False
        # A plain loop: measured 40 % cheaper than all() over a generator, and this runs per pod.
        for requirement in self.requirements:  # noqa: SIM110
            if not requirement.matches(labels):
                return False
        return True

    def keys(self) -> tuple[str, ...]:
        """The label keys it looks at, each once."""
        return tuple(dict.fromkeys(requirement.key for requirement in self.requirements))

    def __iter__(self) -> Iterator[Requirement]:
        return iter(self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return "NOTHING" if self.matches_nothing else f"Selector({str(self)!r})"


def _nothing() -> Selector:
    selector: Selector = object.__new__(Selector)
    selector.requirements = ()
    selector.matches_nothing = True
    return selector


EVERYTHING = Selector()
NOTHING = _nothing()


def compile_selector(selector: LabelSelector | None) -> Selector:
    """No selector matches nothing; one without requirements matches everything."""
    if selector is None:
        return NOTHING
    key = tuple(selector.match_labels.items()), selector.match_expressions
    compiled = _compiled.get(key)
    if compiled is None:
        compiled = _compile(*key)
        _compiled.put(key, compiled, 2 * size_of(key, _compiled.largest))
    return compiled


def _compile(
    match_labels: tuple[tuple[str, str], ...], expressions: tuple[LabelSelectorRequirement, ...]
) -> Selector:
    requirements = [requirement(key, Operator.IN, (value,)) for key, value in match_labels]
    for expression in expressions:
        operator = _LABEL_SELECTOR_OPERATORS.get(expression.operator)
        if operator is None:
            shown = quote(expression.operator)
            raise SelectorError(f"{shown} is not a valid label selector operator")
        requirements.append(requirement(expression.key, operator, expression.values))
    return Selector(requirements)


_compiled: BoundedCache[
    tuple[tuple[tuple[str, str], ...], tuple[LabelSelectorRequirement, ...]], Selector
] = BoundedCache("selectors", 2 << 20)
CACHES = (_compiled,)


def selector_from_labels(labels: Mapping[str, str] | None) -> Selector:
    """Equality with each label; nothing is validated, and no labels match everything."""
    return Selector(
        Requirement(key, Operator.IN, frozenset((value,))) for key, value in (labels or {}).items()
    )


def requirement(
    key: str, operator: Operator, values: tuple[str, ...] = (), path: str = ""
) -> Requirement:
    """A validated requirement, or a SelectorError naming everything wrong with it."""
    errors = requirement_errors(key, operator, values, path)
    if errors:
        raise SelectorError(field_errors.aggregate(errors))
    return Requirement(key, operator, frozenset(values))


def requirement_errors(
    key: str, operator: Operator, values: tuple[str, ...], path: str = ""
) -> list[str]:
    errors = []
    if complaints := label_key_errors(key):
        errors.append(
            field_errors.invalid(field_errors.child(path, "key"), key, "; ".join(complaints))
        )
    values_path = field_errors.child(path, "values")
    errors += _arity_errors(operator, values, values_path)
    for position, value in enumerate(values):
        if complaints := label_value_errors(value):
            where = field_errors.index(field_errors.index(values_path, position), key)
            errors.append(field_errors.invalid(where, value, "; ".join(complaints)))
    return errors


def _arity_errors(operator: Operator, values: tuple[str, ...], path: str) -> list[str]:
    match operator:
        case Operator.IN | Operator.NOT_IN if not values:
            detail = "for 'in', 'notin' operators, values set can't be empty"
            return [field_errors.invalid(path, values, detail)]
        case Operator.EXISTS | Operator.DOES_NOT_EXIST if values:
            detail = "values set must be empty for exists and does not exist"
            return [field_errors.invalid(path, values, detail)]
        case Operator.GREATER_THAN | Operator.LESS_THAN:
            return _bound_errors(values, path)
    return []


def _bound_errors(values: tuple[str, ...], path: str) -> list[str]:
    errors = []
    if len(values) != 1:
        detail = "for 'Gt', 'Lt' operators, exactly one value is required"
        errors.append(field_errors.invalid(path, values, detail))
    for position, value in enumerate(values):
        if parse_int(value) is None:
            where = field_errors.index(path, position)
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            errors.append(field_errors.invalid(where, value, detail))
    return errors


def parse_int(text: str) -> int | None:
    """A base-10 signed 64-bit integer, leading zeros allowed; anything else is None."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if MIN_INT64 <= number <= MAX_INT64 else None
