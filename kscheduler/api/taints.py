"""Taints and the tolerations that answer them."""

import re
from collections.abc import Collection, Iterable

from kscheduler.api.core import Taint, Toleration
from kscheduler.api.labels import parse_int

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

# Effects that keep a pod off a node, as opposed to making the node less attractive.
HARD_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)

_CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


def tolerates(toleration: Toleration, taint: Taint, *, numeric_operators: bool = False) -> bool:
    """`numeric_operators` lets Gt and Lt compare (gate TaintTolerationComparisonOperators)."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Gt" | "Lt":
            return numeric_operators and _compares(toleration, taint)
        case _:
            return False


def is_tolerated(
    taint: Taint, tolerations: Iterable[Toleration], *, numeric_operators: bool = False
) -> bool:
    return any(
        tolerates(toleration, taint, numeric_operators=numeric_operators)
        for toleration in tolerations
    )


def taint_text(taint: Taint) -> str:
    """As kubectl writes it: `key=value:effect`."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def find_untolerated(
    taints: Iterable[Taint],
    tolerations: Collection[Toleration],
    effects: Collection[str] = HARD_EFFECTS,
    *,
    numeric_operators: bool = False,
) -> Taint | None:
    """The first taint with one of these effects that no toleration answers."""
    for taint in taints:
        if taint.effect in effects and not is_tolerated(
            taint, tolerations, numeric_operators=numeric_operators
        ):
            return taint
    return None


class TolerationIndex:
    """Tolerations in sets, for many taints: a taint costs the same however many there are."""

    __slots__ = ("_equal", "_exists", "_greatest", "_least")

    def __init__(
        self, tolerations: Iterable[Toleration], *, numeric_operators: bool = False
    ) -> None:
        # Under keys and effects as they are written, where "" is any.
        self._exists: set[tuple[str, str]] = set()
        self._equal: set[tuple[str, str, str]] = set()
        # Of the bounds of Gt the least tolerates most, of those of Lt the greatest.
        self._least: dict[tuple[str, str], int] = {}
        self._greatest: dict[tuple[str, str], int] = {}
        for one in tolerations:
            under = (one.key, one.effect)
            match one.operator:
                case "" | "Equal":
                    self._equal.add((*under, one.value))
                case "Exists":
                    self._exists.add(under)
                case "Gt" | "Lt" if numeric_operators:
                    bound = _canonical_int(one.value)
                    if bound is None:
                        continue
                    if one.operator == "Gt":
                        self._least[under] = min(bound, self._least.get(under, bound))
                    else:
                        self._greatest[under] = max(bound, self._greatest.get(under, bound))

    def tolerates(self, taint: Taint) -> bool:
        for key in (taint.key, ""):
            for effect in (taint.effect, ""):
                if (key, effect) in self._exists or (key, effect, taint.value) in self._equal:
                    return True
        return bool(self._least or self._greatest) and self._compares(taint)

    def first_untolerated(
        self, taints: Iterable[Taint], effects: Collection[str] = HARD_EFFECTS
    ) -> Taint | None:
        """The first taint with one of these effects that no toleration answers."""
        for taint in taints:
            if taint.effect in effects and not self.tolerates(taint):
                return taint
        return None

    def _compares(self, taint: Taint) -> bool:
        actual = _canonical_int(taint.value)
        if actual is None:
            return False
        pairs = [(key, effect) for key in (taint.key, "") for effect in (taint.effect, "")]
        return any(
            actual > self._least.get(pair, actual) or actual < self._greatest.get(pair, actual)
            for pair in pairs
        )


def _compares(toleration: Toleration, taint: Taint) -> bool:
    bound, actual = _canonical_int(toleration.value), _canonical_int(taint.value)
    if bound is None or actual is None:
        return False
    return actual > bound if toleration.operator == "Gt" else actual < bound


def _canonical_int(text: str) -> int | None:
    """Stricter than elsewhere: no plus sign, no leading zeros, no -0."""
    return parse_int(text) if _CANONICAL_INTEGER.fullmatch(text) else None
