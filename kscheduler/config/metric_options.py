"""Flags about metrics: the rules for them, the label manifest, and the selection they add up to.

--disabled-metrics                  families that are not shown
--show-hidden-metrics-for-version   whether deprecated families are
--allow-metric-labels[-manifest]    `metric,label` → the values that label may have
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import yaml

from kscheduler.config.emulation import BINARY
from kscheduler.errors import ConfigError
from kscheduler.gotext import files
from kscheduler.gotext.json_text import marshal
from kscheduler.gotext.strconv import quote
from kscheduler.gotext.yaml_text import YamlError, yaml_to_json

if TYPE_CHECKING:
    from kscheduler.config.options import Options
    from kscheduler.metrics import Selection

METRIC = "[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = "[a-zA-Z_][a-zA-Z0-9_]*"
KEY_FORMAT = (
    "must have keys with format `metricName,labelName` "
    f"where metricName matches {quote(METRIC)} and labelName matches {quote(LABEL)}"
)
# Characters of a scalar that go-yaml shows in an error.
SHOWN_CHARACTERS = 10


class ManifestError(ConfigError):
    """A manifest that cannot be used; the text begins with the verb that failed."""


def metric_selection(options: Options) -> Selection:
    """Families and label values that the flags select; ManifestError if there is a bad manifest."""
    from kscheduler.metrics import Selection  # not needed to check options

    labels: Mapping[str, str] = {}
    if options.allow_metric_labels is not None:
        labels = options.allow_metric_labels
    elif options.allow_metric_labels_manifest:
        labels = read_manifest(options.allow_metric_labels_manifest)
    allowed: dict[str, dict[str, frozenset[str]]] = {}
    for key, values in labels.items():
        metric, _, label = key.partition(",")
        allowed.setdefault(metric, {})[label] = frozenset(values.split(","))
    return Selection(
        disabled=frozenset(options.disabled_metrics) - {""},
        shows_hidden=bool(options.show_hidden_metrics_for_version),
        allowed_values=allowed,
    )


def metrics_problems(options: Options) -> Iterator[str]:
    """Violated rules, in upstream's order."""
    version, names = options.show_hidden_metrics_for_version, options.disabled_metrics
    labels, manifest = options.allow_metric_labels, options.allow_metric_labels_manifest
    previous = f"{BINARY.numbers[0]}.{BINARY.numbers[1] - 1}"
    if version not in ("", previous):
        yield (
            f"metrics.showHiddenMetricsForVersion: Invalid value: {quote(version)}: must be "
            f"omitted or have the value '{previous}'; only the previous minor version is allowed"
        )
    wrong = next((name for name in names if not re.fullmatch(METRIC, name)), None)
    if wrong is not None:
        yield (
            f"metrics.disabledMetrics: Invalid value: {marshal(names)}: must be fully "
            f"qualified metric names matching {quote(f'^{METRIC}$')}, got {quote(wrong)}"
        )
    yield from _label_problems("metrics.allowListMapping", labels or {})
    if manifest:
        field = f"metrics.allowListMappingManifest: Invalid value: {quote(manifest)}"
        try:
            read = read_manifest(manifest)
        except ManifestError as err:
            yield f"{field}: failed to {err}"
        else:
            for problem in _label_problems("metrics.allowListMappingManifest", read):
                yield f"{field}: invalid allow list mapping in manifest: [{problem}]"
    if labels is not None and manifest:
        said = {
            "showHiddenMetricsForVersion": version,
            "disabledMetrics": names,
            "allowListMapping": dict(sorted(labels.items())),
            "allowListMappingManifest": manifest,
        }
        yield (
            f"metrics: Invalid value: {marshal({k: v for k, v in said.items() if v})}: "
            "cannot specify both allowListMapping and allowListMappingManifest"
        )


def _label_problems(path: str, labels: Mapping[str, str]) -> Iterator[str]:
    if not all(re.fullmatch(f"{METRIC},{LABEL}", key) for key in labels):
        yield f"{path}: Invalid value: {marshal(dict(sorted(labels.items())))}: {KEY_FORMAT}"


def read_manifest(path: str) -> dict[str, str]:
    """The file's `metric,label` → `value,value`, read as go-yaml reads a map[string]string."""
    try:
        text = files.read(path)
    except ConfigError as err:
        raise ManifestError(f"read allow list manifest: {err}") from None
    try:
        yaml_to_json(text)  # for its complaints about the syntax
        loader = yaml.SafeLoader(text)
        try:
            root = loader.get_node() if loader.check_node() else None
        finally:
            loader.dispose()
        return _strings(root)
    except YamlError as err:
        raise ManifestError(f"parse allow list manifest: {err}") from None


def _strings(root: yaml.Node | None) -> dict[str, str]:
    """The root as a mapping of texts, whatever type its scalars have; null is empty."""
    if root is None or root.tag.endswith(":null"):
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise YamlError(f"yaml: unmarshal errors:\n  {_mismatch(root, 'map[string]string')}")
    wrong = [
        _mismatch(node, "string")
        for pair in root.value
        for node in pair
        if not isinstance(node, yaml.ScalarNode)
    ]
    if wrong:
        raise YamlError("\n  ".join(["yaml: unmarshal errors:", *wrong]))
    return {
        key.value: "" if value.tag.endswith(":null") else value.value for key, value in root.value
    }


def _mismatch(node: yaml.Node, wanted: str) -> str:
    tag = node.tag.rpartition(":")[2]
    shown = ""
    if isinstance(node, yaml.ScalarNode):
        text = node.value
        text = text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."
        shown = f" `{text}`"
    return f"line {node.start_mark.line + 1}: cannot unmarshal !!{tag}{shown} into {wanted}"
