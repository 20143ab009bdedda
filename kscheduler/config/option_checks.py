"""What can be wrong with options before anything is started, in upstream's words and order."""

import re
from collections.abc import Iterator, Mapping, Sequence

from kscheduler import logs
from kscheduler.config.emulation import BINARY
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.label_manifest import ManifestError, read_manifest
from kscheduler.config.options import Options
from kscheduler.gotext.json_text import marshal
from kscheduler.gotext.strconv import quote

log = logs.logger(__name__)

METRIC = "[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = "[a-zA-Z_][a-zA-Z0-9_]*"
KEY_FORMAT = (
    "must have keys with format `metricName,labelName` "
    f"where metricName matches {quote(METRIC)} and labelName matches {quote(LABEL)}"
)
MAX_PORT = 65535


def logging_problems(options: Options, gates: FeatureGates) -> list[str]:
    """Told before logging works, hence apart from all others."""
    text, json = options.log_text_info_buffer_size, options.log_json_info_buffer_size
    return [
        *_flush_problems(options),
        *_format_problems(options, gates),
        *_routing_problems("text", gates, split=options.log_text_split_stream, size=text.value),
        *_routing_problems("json", gates, split=options.log_json_split_stream, size=json.value),
    ]


def _flush_problems(options: Options) -> Iterator[str]:
    if options.log_flush_frequency <= 0:
        shown = quote(str(options.log_flush_frequency))
        yield f"flushFrequency: Invalid value: {shown}: Must be greater than zero"


def _format_problems(options: Options, gates: FeatureGates) -> Iterator[str]:
    shown = options.logging_format
    if shown not in ("text", "json"):
        yield f"format: Invalid value: {quote(shown)}: Unsupported log format"
    elif shown == "json" and not gates.enabled("LoggingBetaOptions"):
        yield "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature"
    if options.vmodule and shown not in ("", "text"):
        yield "vmodule: Forbidden: Only supported for text log format"


def _routing_problems(
    format_: str, gates: FeatureGates, *, split: bool, size: int
) -> Iterator[str]:
    if gates.enabled("LoggingAlphaOptions"):
        return
    for name, used in (("splitStream", split), ("infoBufferSize", size != 0)):
        if used:
            yield f"options.{format_}.{name}: Forbidden: Feature LoggingAlphaOptions is disabled"


def problems(
    options: Options, gates: FeatureGates, default_config: Sequence[str] = ()
) -> list[str]:
    """All that is wrong; `default_config` is what validation finds in the default configuration."""
    return [
        *gates.validate(),
        *default_config,
        *serving_problems(options),
        *request_header_problems(options, gates),
        *metrics_problems(options),
        *plugin_problems(options),
    ]


def plugin_problems(options: Options) -> Iterator[str]:
    for name in ("plugin_timeout", "plugin_wait_timeout", "plugin_max_failures"):
        value = getattr(options, name)
        if value < 0:
            yield f"--{name.replace('_', '-')} {value} must not be negative"


def serving_problems(options: Options) -> Iterator[str]:
    port = options.secure_port
    if port > MAX_PORT:
        yield (
            f"--secure-port {port} must be between 1 and 65535, inclusive. "
            "It cannot be turned off with 0"
        )
    elif port < 0:
        yield (
            f"--secure-port {port} must be between 0 and 65535, inclusive. "
            "0 for turning off secure port"
        )


def request_header_problems(options: Options, gates: FeatureGates) -> Iterator[str]:
    users = options.requestheader_username_headers
    groups = options.requestheader_group_headers
    extras = options.requestheader_extra_headers_prefix
    uids = options.requestheader_uid_headers
    yield from _blank("requestheader-username-headers", users)
    yield from _blank("requestheader-group-headers", groups)
    yield from _blank("requestheader-extra-headers-prefix", extras)
    yield from _blank("requestheader-allowed-names", options.requestheader_allowed_names)
    _warn_without("requestheader-username-headers", users, "X-Remote-User header")
    _warn_without("requestheader-group-headers", groups, "X-Remote-Group header")
    _warn_without("requestheader-extra-headers-prefix", extras, "X-Remote-Extra- header prefix")
    if not gates.enabled("RemoteRequestHeaderUID"):
        if uids:
            yield (
                "--requestheader-uid-headers requires the "
                '"RemoteRequestHeaderUID" feature to be enabled'
            )
        return
    yield from _blank("requestheader-uid-headers", uids)
    if complaint := _without("requestheader-uid-headers", uids, "X-Remote-Uid header"):
        yield complaint


def _blank(flag: str, names: Sequence[str]) -> Iterator[str]:
    if any(not name.strip() for name in names):
        yield f"empty value in {quote(flag)}"


def _without(flag: str, names: Sequence[str], standard: str) -> str:
    name = standard.split()[0].lower()
    if not names or name in map(str.lower, names):
        return ""
    return (
        f"--{flag} is set without specifying the standard {standard} "
        "- API aggregation will not work"
    )


def _warn_without(flag: str, names: Sequence[str], standard: str) -> None:
    if complaint := _without(flag, names, standard):
        log.text_warning(complaint)


def metrics_problems(options: Options) -> Iterator[str]:
    yield from _hidden_version_problems(options.show_hidden_metrics_for_version)
    yield from _disabled_problems(options.disabled_metrics)
    labels, manifest = options.allow_metric_labels, options.allow_metric_labels_manifest
    yield from _label_problems("metrics.allowListMapping", labels or {})
    yield from _manifest_problems(manifest)
    if labels is not None and manifest:
        yield (
            f"metrics: Invalid value: {_metrics_options(options)}: "
            "cannot specify both allowListMapping and allowListMappingManifest"
        )


def _hidden_version_problems(version: str) -> Iterator[str]:
    previous = f"{BINARY.numbers[0]}.{BINARY.numbers[1] - 1}"
    if version not in ("", previous):
        yield (
            f"metrics.showHiddenMetricsForVersion: Invalid value: {quote(version)}: must be "
            f"omitted or have the value '{previous}'; only the previous minor version is allowed"
        )


def _disabled_problems(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if not re.fullmatch(METRIC, name):
            yield (
                f"metrics.disabledMetrics: Invalid value: {marshal(names)}: must be fully "
                f"qualified metric names matching {quote(f'^{METRIC}$')}, got {quote(name)}"
            )
            return


def _label_problems(path: str, labels: Mapping[str, str]) -> Iterator[str]:
    if not all(re.fullmatch(f"{METRIC},{LABEL}", key) for key in labels):
        yield f"{path}: Invalid value: {_sorted_json(labels)}: {KEY_FORMAT}"


def _manifest_problems(path: str) -> Iterator[str]:
    field = f"metrics.allowListMappingManifest: Invalid value: {quote(path)}"
    if not path:
        return
    try:
        labels = read_manifest(path)
    except ManifestError as err:
        yield f"{field}: failed to {err}"
        return
    for problem in _label_problems("metrics.allowListMappingManifest", labels):
        yield f"{field}: invalid allow list mapping in manifest: [{problem}]"


def _metrics_options(options: Options) -> str:
    """All metrics flags that say something, as one JSON object."""
    said = {
        "showHiddenMetricsForVersion": options.show_hidden_metrics_for_version,
        "disabledMetrics": options.disabled_metrics,
        "allowListMapping": dict(sorted((options.allow_metric_labels or {}).items())),
        "allowListMappingManifest": options.allow_metric_labels_manifest,
    }
    return marshal({name: value for name, value in said.items() if value})


def _sorted_json(labels: Mapping[str, str]) -> str:
    return marshal(dict(sorted(labels.items())))
