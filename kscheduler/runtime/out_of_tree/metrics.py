"""Metrics of plugins from outside, in the daemon's own registry and under the plugin's own name."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from kscheduler.errors import ConfigError
from kscheduler.metrics import ALPHA, Counter, Gauge, Histogram, Metrics
from kscheduler.metrics.instruments import Family

S = TypeVar("S", Counter, Gauge, Histogram)

_VALID = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^a-zA-Z0-9]+")

SECONDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)


class PluginMetrics:
    """`counter`, `gauge` and `histogram` give families: `.labels("a").inc()`.

    Names start with the plugin's, so that nobody's metrics are mistaken for others':
    `node_load_` for a plugin called NodeLoad. Profiles that run the same plugin share them.
    """

    def __init__(self, plugin: str, metrics: Metrics) -> None:
        self._plugin = plugin
        self._metrics = metrics
        self.prefix = f"{snake_case(plugin)}_"

    def counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Family[Counter]:
        if not name.endswith("_total"):
            raise self._refused(name, "the name of a counter ends in _total")
        known = self._known(name, "counter", labels)
        return known or self._metrics.counters(name, ALPHA, text, labels)

    def gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Family[Gauge]:
        known = self._known(name, "gauge", labels)
        return known or self._metrics.gauges(name, ALPHA, text, labels)

    def histogram(
        self,
        name: str,
        text: str,
        labels: tuple[str, ...] = (),
        *,
        buckets: tuple[float, ...] = SECONDS,
    ) -> Family[Histogram]:
        known = self._known(name, "histogram", labels)
        return known or self._metrics.histograms(name, ALPHA, text, labels, buckets=buckets)

    def _known(self, name: str, kind: str, labels: tuple[str, ...]) -> Any:
        """The family of that name, if it is the same in all respects."""
        if not name.startswith(self.prefix) or name == self.prefix:
            raise self._refused(name, f'it must start with "{self.prefix}"')
        for word in (name, *labels):
            if not _VALID.fullmatch(word):
                raise self._refused(name, f"{word!r} is no name")
        known = self._metrics.families.get(name)
        if known is not None and (known.kind, known.label_names) != (kind, labels):
            raise self._refused(name, "it exists already with another kind or other labels")
        return known

    def _refused(self, name: str, reason: str) -> ConfigError:
        return ConfigError(f"plugin {self._plugin}: metric {name}: {reason}")


def snake_case(name: str) -> str:
    return "_".join(word for word in _WORDS.split(name) if word).lower()
