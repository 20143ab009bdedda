"""Taints and the tolerations that answer them.

A pod may have thousands of tolerations, and each node a list of taints of its own. Long lists of
tolerations are therefore looked up, not gone through: the index of the list that was asked about
last is kept, since one decision asks about all taints of the cluster in turn.
"""

import re
from collections.abc import Collection, Iterable, Sequence

from kscheduler.api.core import Taint, Toleration
from kscheduler.api.labels import parse_int

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

# Effects that keep a pod off a node, as opposed to making the node less attractive.
HARD_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)

# Lists of tolerations up to this length are gone through.
SHORT = 16

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
    taint: Taint, tolerations: Sequence[Toleration], *, numeric_operators: bool = False
) -> bool:
    if len(tolerations) > SHORT:
        return _index_of(tolerations).answers(taint, numeric_operators=numeric_operators)
    return any(
        tolerates(toleration, taint, numeric_operators=numeric_operators)
        for toleration in tolerations
    )


def find_untolerated(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
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


class _Index:
    """Tolerations by what they compare. An empty effect or key stands for any."""

    __slots__ = ("_equal", "_exists", "_highest_below", "_lowest_above", "tolerations")

    def __init__(self, tolerations: Sequence[Toleration]) -> None:
        self.tolerations = tolerations
        self._exists: set[tuple[str, str]] = set()
        self._equal: set[tuple[str, str, str]] = set()
        # Of several bounds the easiest to meet decides: for Gt the lowest, for Lt the highest.
        self._lowest_above: dict[tuple[str, str], int] = {}
        self._highest_below: dict[tuple[str, str], int] = {}
        for one in tolerations:
            where = one.effect, one.key
            match one.operator:
                case "" | "Equal":
                    self._equal.add((*where, one.value))
                case "Exists":
                    self._exists.add(where)
                case "Gt" | "Lt":
                    self._add_bound(one, where)

    def _add_bound(self, one: Toleration, where: tuple[str, str]) -> None:
        bound = _canonical_int(one.value)
        if bound is None:
            return
        if one.operator == "Gt":
            self._lowest_above[where] = min(bound, self._lowest_above.get(where, bound))
        else:
            self._highest_below[where] = max(bound, self._highest_below.get(where, bound))

    def answers(self, taint: Taint, *, numeric_operators: bool) -> bool:
        """Whether one of them tolerates the taint; see `tolerates`."""
        places = [(effect, key) for effect in (taint.effect, "") for key in (taint.key, "")]
        if any(at in self._exists or (*at, taint.value) in self._equal for at in places):
            return True
        if not numeric_operators or not (self._lowest_above or self._highest_below):
            return False
        actual = _canonical_int(taint.value)
        if actual is None:
            return False
        return any(
            actual > self._lowest_above.get(at, actual)
            or actual < self._highest_below.get(at, actual)
            for at in places
        )


# The last one; a list rather than a global, so that taking and replacing it is one step each.
_last_index = [_Index(())]


def _index_of(tolerations: Sequence[Toleration]) -> _Index:
    index = _last_index[0]
    if index.tolerations is not tolerations:
        index = _last_index[0] = _Index(tolerations)
    return index


def _compares(toleration: Toleration, taint: Taint) -> bool:
    bound, actual = _canonical_int(toleration.value), _canonical_int(taint.value)
    if bound is None or actual is None:
        return False
    return actual > bound if toleration.operator == "Gt" else actual < bound


def _canonical_int(text: str) -> int | None:
    """Stricter than elsewhere: no plus sign, no leading zeros, no -0."""
    return parse_int(text) if _CANONICAL_INTEGER.fullmatch(text) else None
