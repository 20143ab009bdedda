"""Which metrics are shown, and which values their labels may have."""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.config.label_manifest import read_manifest
from kscheduler.config.options import Options
from kscheduler.metrics import Selection


def metric_selection(options: Options) -> Selection:
    return Selection(
        disabled=frozenset(options.disabled_metrics) - {""},
        shows_hidden=bool(options.show_hidden_metrics_for_version),
        allowed_values=_allowed_values(_label_texts(options)),
    )


def _label_texts(options: Options) -> Mapping[str, str]:
    if options.allow_metric_labels is not None:
        return options.allow_metric_labels
    manifest = options.allow_metric_labels_manifest
    return read_manifest(manifest) if manifest else {}


def _allowed_values(texts: Mapping[str, str]) -> dict[str, dict[str, frozenset[str]]]:
    """`metric,label` → `value,value`, taken apart."""
    allowed: dict[str, dict[str, frozenset[str]]] = {}
    for key, values in texts.items():
        metric, _, label = key.partition(",")
        allowed.setdefault(metric, {})[label] = frozenset(values.split(","))
    return allowed
