"""Families by name, and which of them anybody gets to see.

A family that is disabled, or hidden because it is deprecated, can be written to like any other; it
is only never printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from kscheduler.metrics.instruments import Counter, Family, Gauge, Histogram, Instrument

Labels = tuple[str, ...]
AnyFamily = Family[Counter] | Family[Gauge] | Family[Histogram]
Series = TypeVar("Series", bound=Instrument)

INTERNAL = "INTERNAL"
ALPHA = "ALPHA"
BETA = "BETA"
STABLE = "STABLE"


class Selection(msgspec.Struct, frozen=True):
    """Values of --disabled-metrics, --show-hidden-metrics-for-version and --allow-metric-labels.

    `allowed_values` is by family and label; all other values of such a label count as one.
    """

    disabled: frozenset[str] = frozenset()
    shows_hidden: bool = False
    allowed_values: Mapping[str, Mapping[str, frozenset[str]]] = msgspec.field(default_factory=dict)


EVERYTHING = Selection()


class Registry:
    """Families of one scheduler; `families` are those that are printed.

    A family is declared where it is used for the first time. Declaring it again gives the same one,
    so that a plugin declares its own in its constructor and all profiles share them.
    """

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        self._selection = selection
        self._declared: dict[str, AnyFamily] = {}
        self.families: dict[str, AnyFamily] = {}
        self._count_families()

    def _count_families(self) -> None:
        self._registered: Family[Counter] | None = None
        self._unexpected: Counter | None = None
        self._registered = self.counters(
            "registered_metrics_total",
            BETA,
            "Families by stability and by the release that deprecated them.",
            ("stability_level", "deprecated_version"),
        )
        disabled = self.counters(
            "disabled_metrics_total", BETA, "Families that were disabled by name."
        )
        disabled.labels().inc(len(self._selection.disabled))
        self._hidden = self.counters(
            "hidden_metrics_total", BETA, "Families that are hidden because they are deprecated."
        ).labels()
        self._unexpected = self.counters(
            "cardinality_enforcement_unexpected_categorizations_total",
            ALPHA,
            "Times a label's value was none of those allowed for it.",
        ).labels()

    def counters(
        self, name: str, stability: str, text: str, labels: Labels = ()
    ) -> Family[Counter]:
        family = Family(name, "counter", _help(stability, text), labels, Counter)
        return self._declare(family, stability)

    def gauges(self, name: str, stability: str, text: str, labels: Labels = ()) -> Family[Gauge]:
        family = Family(name, "gauge", _help(stability, text), labels, Gauge)
        return self._declare(family, stability)

    def histograms(
        self,
        name: str,
        stability: str,
        text: str,
        labels: Labels = (),
        *,
        buckets: tuple[float, ...],
        deprecated: str = "",
    ) -> Family[Histogram]:
        """`deprecated` is the release since which it is, and since which it is hidden."""
        documentation = _help(stability, text, deprecated)
        family = Family(name, "histogram", documentation, labels, lambda: Histogram(buckets))
        return self._declare(family, stability, deprecated)

    def reset(self) -> None:
        """Back to zero wherever there are labels, as DELETE on the metrics path asks for."""
        for family in self.families.values():
            if family.label_names:
                family.reset()

    def _declare(
        self, family: Family[Series], stability: str, deprecated: str = ""
    ) -> Family[Series]:
        known: Any = self._declared.get(family.name)
        if known is not None:
            same = (known.kind, known.label_names) == (family.kind, family.label_names)
            assert same, f"{family.name} is declared twice, differently"
            return known
        declared: Any = family
        self._declared[family.name] = declared
        allowed = self._selection.allowed_values.get(family.name)
        if allowed and self._unexpected is not None:
            family.restrict(allowed, self._unexpected.inc)
        if self._registered is not None:
            self._registered.labels(stability, deprecated).inc()
        if family.name in self._selection.disabled:
            pass
        elif deprecated and not self._selection.shows_hidden:
            self._hidden.inc()
        else:
            self.families[family.name] = declared
        return family


def _help(stability: str, text: str, deprecated: str = "") -> str:
    since = f" (Deprecated since {deprecated})" if deprecated else ""
    return f"[{stability}]{since} {text}"
